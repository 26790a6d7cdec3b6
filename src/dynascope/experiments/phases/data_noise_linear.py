"""spring-block Figure 1(a): How noise in data and labels bends linear networks.

By itself, since it bends them by little: the 60 runs of the whole diagram leave open whether it does.
"""

from functools import partial

from dynascope.experiments.claims import Claim
from dynascope.experiments.phases import phase_judges as judges
from dynascope.experiments.phases.phase_diagrams import Config
from dynascope.experiments.phases.phase_rows import draw_change, phase_row

EXPERIMENT = phase_row(
    Config("FIG. 1(a)", "data_noise", (0.0, 0.8), slopes=(1.0,), seeds=120),
    claims=(
        Claim(
            "fig-1a-noise-1",
            "so does it for slope 1: the strongest noise leaves a more convex curve than the weakest",
            partial(judges.falls, slopes=slice(-1, None)),
            settles_at="paper",
            why=("fig-1a-noise-linear, of the least nonlinear layers separate less and curves bend more",),
        ),
    ),
    draw=draw_change,
    adapted="slope 1, the weakest and the strongest noise; 120 runs, not 10: it bends linear networks by little",
)
