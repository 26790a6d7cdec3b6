"""A linear network of two layers under sliders: singular modes that are learned in stages."""

import numpy as np

from dynascope.live.families.description import Drawn, Family, Picture, Range, Values
from dynascope.models.linear_modes import TwoLayerLinear, balanced_weights

_DURATION, _TIMES, _MODES = 30.0, 101, 4
_NAMES = tuple(f"mode {k}" for k in range(1, _MODES + 1))
_STAGES = Picture("strength of each mode, over its singular value", "time", "share that is learned", _NAMES)
_LOSS = Picture("loss", "time", "loss", ("loss",), log="y")


def _model(values: Values) -> TwoLayerLinear:
    correlation = np.diag(values["largest"] * values["ratio"] ** np.arange(_MODES))
    weights = balanced_weights(_MODES, _MODES, _MODES, scale=10 ** values["log10_scale"], seed=0)
    return TwoLayerLinear(correlation, *weights)


def _solve(values: Values) -> dict[str, Drawn]:
    network, times = _model(values), np.linspace(0.0, _DURATION, _TIMES)
    stages, losses = [], []
    for run in (network.solve_numerically(times, accuracy=1e-6), network.solve(times)):
        shares = (run["strength"] / run["singular_value"]).transpose("mode", "time").values
        stages.append({"x": times, **dict(zip(_NAMES, shares, strict=True))})
        losses.append({"x": times, "loss": np.maximum(run["loss"].values, 1e-6)})
    return {_STAGES.title: Drawn(*stages), _LOSS.title: Drawn(*losses)}


def _lines(values: Values) -> str:
    return (
        "import numpy as np\nfrom dynascope import TwoLayerLinear\n"
        "from dynascope.models.linear_modes import balanced_weights\n\n"
        f"correlation = np.diag({values['largest']:g} * {values['ratio']:g} ** np.arange({_MODES}))\n"
        f"weights = balanced_weights({_MODES}, {_MODES}, {_MODES}, scale=10**{values['log10_scale']:g}, seed=0)\n"
        "network = TwoLayerLinear(correlation, *weights)\n"
        f"times = np.linspace(0, {_DURATION:g}, {_TIMES})\n"
        'print(network.solve(times)["strength"].isel(time=-1).values)\n'
        'print(network.solve_numerically(times, accuracy=1e-6)["strength"].isel(time=-1).values)'
    )


FAMILY = Family(
    "linear network of two layers",
    {
        "largest": Range(0.5, 3.0, 0.1, 2.0),
        "ratio": Range(0.2, 0.95, 0.05, 0.5),
        "log10_scale": Range(-4.0, 0.0, 0.1, -2.0),
    },
    (_STAGES, _LOSS),
    _solve,
    _lines,
)
