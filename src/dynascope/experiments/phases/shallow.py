"""spring-block Figure S6(a): Phase diagram of networks: learning rate, 6 layers."""

from dynascope.experiments.phases.phase_diagrams import COARSER, RATES, Config, phase_diagram

EXPERIMENT = phase_diagram(
    Config("FIG. S6(a)", "learning_rate", RATES, epochs=200, depth=5, seeds=20),
    laptop={**COARSER, "values": (3e-4, 1e-3, 3e-3, 1e-2)},
    adapted="20 runs, not 10: several rates are nearly as accurate",
)
