"""spring-block Figure 1(a): Phase diagram of networks: noise in data and labels."""

from dynascope.experiments.phases.phase_diagrams import COARSE, DATA_NOISES, Config, phase_diagram

EXPERIMENT = phase_diagram(
    Config("FIG. 1(a)", "data_noise", DATA_NOISES, thorough=True, seeds=60, apart="linear"),
    laptop={**COARSE, "values": (0.0, 0.1, 0.2, 0.4, 0.6)},
    adapted="60 runs, not 10: noise bends linear networks by little",
)
