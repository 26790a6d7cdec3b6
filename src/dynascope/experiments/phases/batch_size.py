"""spring-block Figure 1(d): Phase diagram of networks: batch size."""

from dynascope.experiments.phases.phase_diagrams import BATCH_SIZES, COARSE, Config, phase_diagram

EXPERIMENT = phase_diagram(
    Config("FIG. 1(d)", "batch_size", BATCH_SIZES, seeds=40, thorough=True, shared=1),
    laptop={**COARSE, "values": (240, 160, 96, 32, 12, 6), "learning_rate": 0.002},
    adapted="40 runs, not 10: in linear networks the change is small",
)
