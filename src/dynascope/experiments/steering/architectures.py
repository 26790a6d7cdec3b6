"""dynascope docs/steer.md: Convolutions, residual networks and transformers that steer their dropout.

Their layers are not all linear maps, so that they go by their doubts, not by a bend. CIFAR-10 has been judged before,
with other laws, and what fixed dropouts show there was seen when this one was made.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, above
from dynascope.experiments.steering import mlps
from dynascope.experiments.steering.arms import PLAIN, RANDOM, STEERED, UNLABELLED, Config
from dynascope.experiments.steering.mlps import LAPTOP, SMOKE, never_worse
from dynascope.statistics.errors import over_trials


def _beats_defaults(seen: xr.Dataset, *, arm: str) -> Judgement:
    """Steered networks against each customary value, for each kind of network, in the mean of its tasks."""
    arms = list(seen["arm"].values)
    names = arms[arms.index(PLAIN) + 1 : arms.index(RANDOM)]
    beyond = seen["accuracy"].sel(arm=arm) - seen["accuracy"].sel(arm=names)
    gain = over_trials(beyond.mean(("data", "wrong")).transpose("network", "arm", "trial").values)
    told = "; ".join(
        f"{network}: " + ", ".join(f"{arm} {each:+.4f}" for arm, each in zip(names, row, strict=True))
        for network, row in zip(seen["network"].values, np.asarray(gain.mean), strict=True)
    )
    return above(gain, 0.0, note=f"gain over {told}")


_SHORT = {"epochs": 2, "samples": 15, "probe": 8, "unlabelled": 8, "every": 4, "times": 3}
_FEW = {"grid": (0.0, 0.5), "customary": (0.5,)}
_KINDS = ("cnn", "resnet", "transformer")
EXPERIMENT = replace(
    mlps.EXPERIMENT,
    config=Config(data=("cifar10",), wrong=(0.0, 0.2), networks=_KINDS, seeds=5, epochs=40),
    claims=tuple(
        Claim(
            f"steer-others-{name}{suffix}", f"{statement}{how}", partial(judge, arm=arm), kind="own", settles_at="paper"
        )
        for arm, suffix, how in ((STEERED, "", ""), (UNLABELLED, "-beside", ", with inputs beside to look at"))
        for name, statement, judge in (
            (
                "default",
                "convolutions, residual networks, transformers: one steered run is better than each customary dropout",
                _beats_defaults,
            ),
            ("harmless", "in no task it is worse than without noise by more than a standard error", never_worse),
        )
    ),
    smoke={**SMOKE, "networks": ("cnn",), "width": 12, "wrong": (0.0,), **_SHORT, **_FEW},
    laptop={**LAPTOP, "networks": ("resnet", "transformer"), "wrong": (0.0, 0.2)},
)
