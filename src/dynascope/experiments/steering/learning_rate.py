"""dynascope docs/steer.md: Multilayer perceptrons that steer their learning rate, beside what people do."""

from dataclasses import replace

from dynascope.experiments.claims import Claim
from dynascope.experiments.steering import mlps
from dynascope.experiments.steering.arms import Config
from dynascope.experiments.steering.mlps import LAPTOP, SMOKE, beats_the_grid, never_worse

_FEW = {"grid": (0.32, 1.0, 3.2)}
EXPERIMENT = replace(
    mlps.EXPERIMENT,
    config=Config(
        networks=("mlp-7",),
        seeds=8,
        knob="learning_rate",
        grid=(0.1, 0.18, 0.32, 0.56, 1.0, 1.8, 3.2, 5.6, 10.0),
        plain=1.0,
        customary=(0.32, 3.2),
    ),
    claims=(
        Claim(
            "steer-rate-grid",
            "the learning rate, steered, beats the one of nine that a validation set chooses, at a ninth of the cost",
            beats_the_grid,
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "steer-rate-harmless",
            "in no task it is worse than the rate that it begins with by more than a standard error",
            never_worse,
            kind="own",
            settles_at="paper",
        ),
    ),
    smoke={**SMOKE, **_FEW},
    laptop={**LAPTOP, **_FEW, "networks": ("mlp-7",)},
)
