"""The multilinear model under sliders: skills, the scaling law of the loss, and emergence."""

import numpy as np

from dynascope.live.families.description import Drawn, Family, Picture, Range, Values, arguments
from dynascope.models.multilinear import Multilinear

_COUNT, _STEPS, _TIMES, _INITIAL = 1000, 3000, 61, 0.01
_RANKS = np.array([1, 2, 3, 4])
_NAMES = tuple(f"skill {rank}" for rank in _RANKS)
_SKILLS = Picture("strength of the first skills", "step", "strength over target", _NAMES)
_LAW = Picture("loss, and its scaling law", "step", "loss", ("loss", "scaling law"), log="xy")
_EMERGENCE = Picture("emergence in a network that has to find the skills", "step", "strength over target", _NAMES)


def _model(values: Values) -> Multilinear:
    return Multilinear(_COUNT, values["skill_exponent"], values["target"], _INITIAL, values["learning_rate"])


def _solve(values: Values) -> dict[str, Drawn]:
    model, target = _model(values), values["target"]
    saves = np.unique(np.geomspace(1, _STEPS, _TIMES).astype(int))
    run = model.simulate(_STEPS, 0, 1, save_points=saves, track=_RANKS, precision="float32", progress=False)
    run = run.isel(trial=0)
    times, long = np.linspace(1.0, _STEPS, 200), np.geomspace(1.0, 1e6, 100)
    found = run["strength"].transpose("skill", "time").values / target
    closed = model.strength(_RANKS, time=times) / target
    later = times / values["rate_factor"]
    emerged = model.emergence("time", _RANKS, later, calibration=values["rate_factor"]) / target
    losses = {"loss": model.loss(time=long), "scaling law": model.scaling_law("time", long)}
    return {
        _SKILLS.title: Drawn(
            {"x": saves, **dict(zip(_NAMES, found, strict=True))},
            {"x": times, **dict(zip(_NAMES, closed, strict=True))},
        ),
        _LAW.title: Drawn(
            {"x": saves, "loss": run["loss"].values, "scaling law": np.full(len(saves), np.nan)},
            {"x": long, **{name: np.maximum(each, 1e-6) for name, each in losses.items()}},
        ),
        _EMERGENCE.title: Drawn(
            {"x": np.zeros(0), **{name: np.zeros(0) for name in _NAMES}},
            {"x": later, **dict(zip(_NAMES, emerged, strict=True))},
        ),
    }


def _lines(values: Values) -> str:
    own = arguments(values, "skill_exponent", "target", "learning_rate")
    return (
        "import numpy as np\nfrom dynascope import Multilinear\n\n"
        f"model = Multilinear({_COUNT}, initial={_INITIAL:g}, {own})\n"
        f"steps = np.unique(np.geomspace(1, {_STEPS}, {_TIMES}).astype(int))\n"
        f'run = model.simulate({_STEPS}, 0, 1, save_points=steps, precision="float32")\n'
        'print(run["strength"].isel(time=-1).values)\n'
        "times = np.geomspace(1, 1e6, 100)\n"
        'print(model.loss(time=times)[-1], model.scaling_law("time", times)[-1])\n'
        f'print(model.emergence_point("time", [1, 2, 3, 4], calibration={values["rate_factor"]:g}))'
    )


FAMILY = Family(
    "skills of a multilinear model",
    {
        "skill_exponent": Range(0.2, 1.5, 0.05, 0.6),
        "target": Range(0.5, 5.0, 0.5, 1.0),
        "learning_rate": Range(0.01, 0.15, 0.01, 0.1),
        "rate_factor": Range(0.01, 1.0, 0.01, 0.05),
    },
    (_SKILLS, _LAW, _EMERGENCE),
    _solve,
    _lines,
)
