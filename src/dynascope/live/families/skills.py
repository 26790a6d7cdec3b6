"""The multilinear model under sliders: skills, the scaling law of the loss, and emergence."""

import numpy as np

from dynascope.live.families.description import Drawn, Family, Picture, Range, Values, arguments
from dynascope.models.multilinear import Multilinear
from dynascope.models.multilinear.extended import scaled_skill

_COUNT, _STEPS, _TIMES, _INITIAL = 1000, 3000, 101, 0.01
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
        _EMERGENCE.title: _emergence(model, values),
    }


def _emergence(model: Multilinear, values: Values) -> Drawn:
    """Skills whose functions are smaller by the rate factor, until the last is learned: gradient flow, closed form."""
    factor, target, rate = values["rate_factor"], values["target"], values["learning_rate"]
    steps = np.linspace(0.0, _last_step(model, factor), _TIMES)
    begin = np.sqrt(_INITIAL / factor)
    skills = [scaled_skill(factor, frequency=float(each), target=target) for each in model.frequency(_RANKS)]
    flows = [each.solve(steps, begin, [begin], learning_rate=rate, accuracy=1e-5) for each in skills]
    found = [each["strength"].values / target for each in flows]
    closed = model.emergence("time", _RANKS, steps, calibration=factor) / target
    return Drawn(*({"x": steps, **dict(zip(_NAMES, each, strict=True))} for each in (found, closed)))


def _last_step(model: Multilinear, factor: float) -> int:
    return int(1.2 * float(model.emergence_point("time", _RANKS[-1], 0.99, calibration=factor)))


def _lines(values: Values) -> str:
    own = arguments(values, "skill_exponent", "target", "learning_rate")
    return (
        "import numpy as np\nfrom dynascope import Multilinear\n"
        "from dynascope.models.multilinear.extended import scaled_skill\n\n"
        f"model = Multilinear({_COUNT}, initial={_INITIAL:g}, {own})\n"
        f"steps = np.unique(np.geomspace(1, {_STEPS}, {_TIMES}).astype(int))\n"
        f'run = model.simulate({_STEPS}, 0, 1, save_points=steps, precision="float32")\n'
        'print(run["strength"].isel(time=-1).values)\n'
        "times = np.geomspace(1, 1e6, 100)\n"
        'print(model.loss(time=times)[-1], model.scaling_law("time", times)[-1])\n'
        f"factor, target = {values['rate_factor']:g}, {values['target']:g}\n"
        'print(model.emergence_point("time", [1, 2, 3, 4], calibration=factor))\n'
        "skill, begin = scaled_skill(factor, frequency=float(model.frequency(1)), target=target), "
        f"np.sqrt({_INITIAL:g} / factor)\n"
        f"flow = skill.solve(np.linspace(0, {_last_step(_model(values), values['rate_factor'])}, {_TIMES}), "
        f"begin, [begin], "
        f"learning_rate={values['learning_rate']:g}, accuracy=1e-5)\n"
        'print(flow["strength"].values[-1])'
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
