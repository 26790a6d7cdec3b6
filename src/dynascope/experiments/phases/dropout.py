"""spring-block Figure 1(c): Phase diagram of networks: dropout."""

from dynascope.experiments.phases.phase_diagrams import DIGITS, DROPOUTS, Config, evenly, phase_diagram

EXPERIMENT = phase_diagram(
    Config("FIG. 1(c)", "dropout", DROPOUTS, thorough=True, shared=1, seeds=30),
    laptop={**DIGITS, "values": (0.0, 0.02, *evenly(0.3, 7)[1:]), "seeds": 6},
    adapted="30 runs, not 10: several dropouts are nearly as accurate",
)
