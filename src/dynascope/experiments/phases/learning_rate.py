"""spring-block Figure 1(b): Phase diagram of networks: learning rate."""

from dynascope.experiments.phases.phase_diagrams import COARSE, RATES, Config, phase_diagram

EXPERIMENT = phase_diagram(
    Config("FIG. 1(b)", "learning_rate", RATES, epochs=200, thorough=True, seeds=30),
    laptop={**COARSE, "values": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)},
    adapted="30 runs, not 10: several rates are nearly as accurate",
)
