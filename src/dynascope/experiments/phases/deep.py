"""spring-block Figure S6(b): Phase diagram of networks: learning rate, 12 layers."""

from dynascope.experiments.phases.phase_diagrams import COARSER, RATES, Config, phase_diagram

EXPERIMENT = phase_diagram(
    Config("FIG. S6(b)", "learning_rate", RATES, epochs=200, depth=11, seeds=20, apart="best"),
    laptop={**COARSER, "values": (3e-4, 1e-3, 3e-3, 1e-2)},
    adapted="20 runs, not 10: several rates are nearly as accurate",
)
