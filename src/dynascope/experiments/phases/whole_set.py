"""spring-block Figure S11: Phase diagram of networks on all of MNIST: dropout."""

from dynascope.experiments.phases.phase_diagrams import PART, Config, evenly, phase_diagram

EXPERIMENT = phase_diagram(
    Config("FIG. S11", "dropout", evenly(0.3, 6), samples=0, first_layer=1),
    laptop={**PART, "values": (0.0, 0.1, 0.2, 0.3), "samples": 128, "epochs": 10},
    adapted="6 dropouts",
)
