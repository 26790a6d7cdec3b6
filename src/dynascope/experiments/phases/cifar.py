"""spring-block Figure S9: Phase diagram of networks on CIFAR-10: dropout."""

from dynascope.experiments.phases.phase_diagrams import DROPOUTS, PART, Config, phase_diagram

EXPERIMENT = phase_diagram(
    Config("FIG. S9", "dropout", DROPOUTS, data="cifar10", first_layer=1, seeds=60),
    laptop={**PART, "values": (0.0, 0.05, 0.1, 0.2, 0.3)},
    adapted="60 runs, not 10: accuracies vary between them",
)
