"""spring-block Figure S8(a): Phase diagram of networks on Fashion-MNIST: noise in data and labels."""

from dynascope.experiments.phases.phase_diagrams import DATA_NOISES, PART, Config, phase_diagram

EXPERIMENT = phase_diagram(
    Config("FIG. S8(a)", "data_noise", DATA_NOISES, data="fashion", seeds=60, apart="best"),
    laptop={**PART, "values": (0.0, 0.2, 0.4, 0.6)},
    adapted="60 runs, not 10: noise bends linear networks by little, and several noises are nearly as accurate",
)
