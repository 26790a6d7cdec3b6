"""dynascope docs/steer.md: Convolutions, residual networks and transformers that steer their dropout.

Their layers are not all linear maps, so that they go by their doubts, not by a bend. CIFAR-10 has been judged before,
with other laws, and what fixed dropouts show there was seen when this one was made.
"""

from dataclasses import replace
from functools import partial

import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, above
from dynascope.experiments.steering import mlps
from dynascope.experiments.steering.arms import PLAIN, RANDOM, STEERED, UNLABELLED, Config
from dynascope.experiments.steering.mlps import LAPTOP, SMOKE, never_worse
from dynascope.statistics.errors import over_trials


def _beyond_defaults(seen: xr.Dataset, arm: str) -> xr.DataArray:
    """What steered networks gain over each customary value, (network, arm, trial), in the mean of a network's tasks."""
    arms = list(seen["arm"].values)
    names = arms[arms.index(PLAIN) + 1 : arms.index(RANDOM)]
    beyond = seen["accuracy"].sel(arm=arm) - seen["accuracy"].sel(arm=names)
    return beyond.mean(("data", "wrong")).transpose("network", "arm", "trial")


def _gains(row: xr.DataArray) -> str:
    return ", ".join(f"{name} {float(each):+.4f}" for name, each in zip(row["arm"].values, row, strict=True))


def _beats_defaults(seen: xr.Dataset, *, arm: str) -> Judgement:
    """Each customary value for each kind of network."""
    beyond = _beyond_defaults(seen, arm)
    told = "; ".join(f"{row['network'].item()}: {_gains(row)}" for row in beyond.mean("trial"))
    return above(over_trials(beyond), 0.0, note=f"gain over {told}")


def _beats_one_for_all(seen: xr.Dataset, *, arm: str) -> Judgement:
    """Each customary value, taken for all kinds of networks alike, as one does who does not know which suits which."""
    beyond = _beyond_defaults(seen, arm).mean("network")
    return above(over_trials(beyond), 0.0, note=f"gain over {_gains(beyond.mean('trial'))}")


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
            (
                "one-default",
                "in the mean of them it is better than either customary dropout, taken for all alike",
                _beats_one_for_all,
            ),
            ("harmless", "in no task it is worse than without noise by more than a standard error", never_worse),
        )
    ),
    smoke={**SMOKE, "networks": ("cnn",), "width": 12, "wrong": (0.0,), **_SHORT, **_FEW},
    laptop={**LAPTOP, "networks": ("resnet", "transformer"), "wrong": (0.0, 0.2)},
)
