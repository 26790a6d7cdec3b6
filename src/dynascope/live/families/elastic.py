"""Local elasticity under sliders: logits of three classes, and how far the classes are apart."""

import numpy as np

from dynascope.live.families.description import Drawn, Family, Picture, Range, Values
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.strengths import PowerLaw

_DURATION, _TIMES, _SAMPLES, _TRIALS = 20.0, 25, 20, 20
_START = np.array([[0.6, 0.1, 0.0], [0.0, 1.0, 0.2], [0.1, 0.0, 0.3]])  # (class, feature)
_CLASSES = ("class 1", "class 2", "class 3")
_LOGITS = Picture("own logit of each class", "time", "mean logit", _CLASSES)
_SEPARATION = Picture("separation of the classes", "time", "log(tr Σw/tr Σb), low is apart", ("D",))


def _model(values: Values) -> LocallyElastic:
    strength = PowerLaw(values["intra"], values["decay"])
    return LocallyElastic(3, 3, strength, values["inter"], "logits", noise=values["noise"])


def _solve(values: Values) -> dict[str, Drawn]:
    model, times = _model(values), np.linspace(0.0, _DURATION, _TIMES)
    run = model.simulate(_DURATION, None, _SAMPLES, _TRIALS, save_points=_TIMES, start=_START, progress=False)
    means = run["class_mean"].transpose("trial", "time", "class", "feature").values
    path = model.mean_path(times, _START)  # (time, class, feature)
    own = {name: (means[:, :, k, k].mean(0), path[:, k, k]) for k, name in enumerate(_CLASSES)}
    points = run["point"].transpose("trial", "time", "class", "sample", "feature").values
    with np.errstate(divide="ignore"):  # without noise nothing spreads
        apart = np.log(points.var(3).sum(-1).mean(-1) / means.var(2).sum(-1))[:, 1:].mean(0)
        law = np.log(_within(values, times)[1:] / _between(model, times, path)[1:])
    return {
        _LOGITS.title: Drawn(
            {"x": times, **{name: each[0] for name, each in own.items()}},
            {"x": times, **{name: each[1] for name, each in own.items()}},
        ),
        _SEPARATION.title: Drawn({"x": times[1:], "D": apart}, {"x": times[1:], "D": law}),
    }


def _within(values: Values, times: np.ndarray) -> np.ndarray:
    """Expected tr Σw: samples move about the mean of their class as Brownian motions do, in three features."""
    return np.asarray(3 * (1 - 1 / _SAMPLES) * values["noise"] ** 2 * times)


def _between(model: LocallyElastic, times: np.ndarray, path: np.ndarray) -> np.ndarray:
    """Expected tr Σb: that of the mean path, and what the noise of the class means adds."""
    spread = model.covariance(times, _SAMPLES).reshape(len(times), 3, 3, 3, 3)  # (time, class, feature, class, feature)
    own, all_pairs = np.einsum("tkfkf->t", spread), np.einsum("tkflf->t", spread)
    return np.asarray(path.var(1).sum(-1) + own / 3 - all_pairs / 9)


def _lines(values: Values) -> str:
    return (
        "import numpy as np\nfrom dynascope import LocallyElastic, PowerLaw\n\n"
        f"strength = PowerLaw({values['intra']:g}, {values['decay']:g})\n"
        f'model = LocallyElastic(3, 3, strength, {values["inter"]:g}, "logits", noise={values["noise"]:g})\n'
        f"start = np.array({_START.tolist()})\n"
        f"run = model.simulate({_DURATION:g}, None, {_SAMPLES}, {_TRIALS}, save_points={_TIMES}, start=start)\n"
        'print(run["class_mean"].mean("trial").isel(time=-1).values)\n'
        f"print(model.mean_path(np.linspace(0, {_DURATION:g}, {_TIMES}), start)[-1])\n"
        "print(model.separation_verdict().reason)"
    )


FAMILY = Family(
    "local elasticity",
    {
        "intra": Range(0.0, 2.0, 0.05, 0.8),
        "decay": Range(0.0, 1.5, 0.05, 0.5),
        "inter": Range(-0.3, 0.5, 0.02, -0.04),
        "noise": Range(0.0, 0.5, 0.01, 0.1),
    },
    (_LOGITS, _SEPARATION),
    _solve,
    _lines,
)
