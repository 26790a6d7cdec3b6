"""dynascope docs/steer.md: Multilayer perceptrons that steer their weight decay, beside what people do."""

from dataclasses import replace

from dynascope.experiments.claims import Claim
from dynascope.experiments.steering import mlps
from dynascope.experiments.steering.arms import Config
from dynascope.experiments.steering.mlps import LAPTOP, SMOKE, beats_the_grid, never_worse

_FEW = {"grid": (1e-5, 1e-4, 1e-2)}
EXPERIMENT = replace(
    mlps.EXPERIMENT,
    config=Config(
        networks=("mlp-7",),
        seeds=8,
        knob="weight_decay",
        grid=(1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1),
        plain=1e-5,
        customary=(1e-4, 1e-2),
    ),
    claims=(
        Claim(
            "steer-decay-grid",
            "the weight decay, steered, beats the one of nine that a validation set chooses, at a ninth of the cost",
            beats_the_grid,
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "steer-decay-harmless",
            "in no task it is worse than next to none by more than a standard error",
            never_worse,
            kind="own",
            settles_at="paper",
        ),
    ),
    smoke={**SMOKE, **_FEW},
    laptop={**LAPTOP, **_FEW, "networks": ("mlp-7",)},
)
