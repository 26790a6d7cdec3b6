"""spring-block Figure S10(a): Phase diagram of networks on CIFAR-10: learning rate, 12 layers."""

from dynascope.experiments.phases.phase_diagrams import PART, RATES, Config, phase_diagram

EXPERIMENT = phase_diagram(
    Config(
        "FIG. S10(a)",
        "learning_rate",
        RATES,
        data="cifar10",
        epochs=200,
        depth=11,
        first_layer=1,
        best="concave",
    ),
    laptop={**PART, "values": (3e-4, 1e-3, 3e-3, 1e-2)},
)
