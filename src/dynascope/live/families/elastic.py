"""Local elasticity under sliders: logits of the classes, and how far these are apart; over a run that was recorded."""

from functools import partial
from pathlib import Path

import numpy as np

from dynascope.imitation import class_means, imitate
from dynascope.live.families.description import Drawn, Family, Fitted, Picture, Range, Values, beyond
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.path_fit import drifts, power_law
from dynascope.models.elastic.strengths import PowerLaw
from dynascope.monitor.tables import short

_DURATION, _TIMES, _SAMPLES, _TRIALS = 20.0, 25, 20, 20
_START = np.array([[0.6, 0.1, 0.0], [0.0, 1.0, 0.2], [0.1, 0.0, 0.3]])  # (class, feature)
_MOST = 10  # classes of a run that are told apart
_POINTS, _DOTS, _RESAMPLES = 200, 40, 20  # times that are imitated, and drawn; for intervals, which are not shown
_CLASSES = tuple(f"class {k}" for k in range(1, _MOST + 1))
_LOGITS = Picture("own logit of each class", "time", "mean logit", _CLASSES)
_SEPARATION = Picture("separation of the classes", "time", "log(tr Σw/tr Σb), low is apart", ("D",))
_SLIDERS = {
    "intra": Range(0.0, 5.0, 0.05, 0.8),
    "decay": Range(0.0, 4.0, 0.05, 0.5),
    "inter": Range(-1.0, 1.0, 0.02, -0.04),
    "noise": Range(0.0, 1.0, 0.01, 0.1),
}


def _model(values: Values, start: np.ndarray) -> LocallyElastic:
    classes, features = start.shape
    intra, inter = (PowerLaw(values[name], values["decay"]) for name in ("intra", "inter"))
    return LocallyElastic(classes, features, intra, inter, "logits", noise=values["noise"])


def _solve(values: Values, start: np.ndarray = _START) -> dict[str, Drawn]:
    model, times = _model(values, start), np.linspace(0.0, _DURATION, _TIMES)
    run = model.simulate(_DURATION, None, _SAMPLES, _TRIALS, save_points=_TIMES, start=start, progress=False)
    means = run["class_mean"].transpose("trial", "time", "class", "feature").values
    path = model.mean_path(times, start)  # (time, class, feature)
    points = run["point"].transpose("trial", "time", "class", "sample", "feature").values
    with np.errstate(divide="ignore"):  # without noise nothing spreads
        apart = np.log(points.var(3).sum(-1).mean(-1) / means.var(2).sum(-1))[:, 1:].mean(0)
        law = np.log(_within(values, times, start.shape[1])[1:] / _between(model, times, path)[1:])
    return {
        _LOGITS.title: Drawn(_own(times, means.mean(0)), _own(times, path)),
        _SEPARATION.title: Drawn({"x": times[1:], "D": apart}, {"x": times[1:], "D": law}),
    }


def _own(times: np.ndarray, means: np.ndarray) -> dict[str, np.ndarray]:
    """Columns of the own logit of each class, of means over (time, class, feature)."""
    return {"x": times, **{name: means[:, k, k] for k, name in enumerate(_CLASSES[: means.shape[1]])}}


def _within(values: Values, times: np.ndarray, features: int) -> np.ndarray:
    """Expected tr Σw: samples move about the mean of their class as Brownian motions do, in every feature."""
    return np.asarray(features * (1 - 1 / _SAMPLES) * values["noise"] ** 2 * times)


def _between(model: LocallyElastic, times: np.ndarray, path: np.ndarray) -> np.ndarray:
    """Expected tr Σb: that of the mean path, and what the noise of the class means adds."""
    classes, features = path.shape[1:]
    spread = model.covariance(times, _SAMPLES).reshape(len(times), classes, features, classes, features)
    own, all_pairs = np.einsum("tkfkf->t", spread), np.einsum("tkflf->t", spread)
    return np.asarray(path.var(1).sum(-1) + own / classes - all_pairs / classes**2)


def _lines(values: Values, shape: tuple[int, int] = (3, 3), begin: str = f"start = np.array({_START.tolist()})") -> str:
    strengths = ", ".join(f"PowerLaw({values[name]:g}, {values['decay']:g})" for name in ("intra", "inter"))
    return (
        "import numpy as np\nfrom dynascope import LocallyElastic, PowerLaw\n\n"
        f"{begin}\n"
        f'model = LocallyElastic({shape[0]}, {shape[1]}, {strengths}, "logits", noise={values["noise"]:g})\n'
        f"run = model.simulate({_DURATION:g}, None, {_SAMPLES}, {_TRIALS}, save_points={_TIMES}, start=start)\n"
        'print(run["class_mean"].mean("trial").isel(time=-1).values)\n'
        f"print(model.mean_path(np.linspace(0, {_DURATION:g}, {_TIMES}), start)[-1])\n"
        "print(model.separation_verdict().reason)"
    )


def fit(folder: Path) -> Fitted:
    """Imitate a run from its mean logits of each class; power laws that explain its path go into the sliders."""
    means = class_means(folder)
    classes, features = means.sizes["class"], means.sizes["feature"]
    if not classes <= min(features, _MOST):
        raise ValueError(
            f"imitation is shown for 2 to {_MOST} classes with a logit each, got {classes} with {features}"
        )
    every = -(-means.sizes["time"] // _POINTS)
    found = imitate(means.isel(time=slice(None, None, every)), resamples=_RESAMPLES)
    begun = float(found["reference_time"])
    late = found.sel(time=slice(begun, None))
    steps, recorded = late["time"].values, late["network_mean"].values  # (time, class, feature)
    imitated, few = late["imitated_mean"].sel(equation="ode").values, -(-len(steps) // _DOTS)
    unit = (steps[-1] - begun) / _DURATION  # steps
    times = (steps - begun) / unit
    scales, decay = power_law(times, recorded, drifts("logits", classes, features)[0])
    kicks = late["imitated_spread"].values[1]  # all that noise did to class means in the first interval
    noise = float(np.sqrt(_SAMPLES * np.mean(kicks**2) / times[1]))
    values = {"intra": float(scales[0]), "decay": decay, "inter": float(scales[1]), "noise": noise}
    parts = ", ".join(f"{name} {short(value)}" for name, value in values.items())
    begin = (
        "from dynascope.imitation import class_means, imitate\n\n"
        f"recorded = class_means({str(folder)!r}).isel(time=slice(None, None, {every}))\n"
        f"found = imitate(recorded, resamples={_RESAMPLES})\n"
        f'start = found["network_mean"].sel(time=found["reference_time"]).values'
    )
    return Fitted(
        values,
        f"imitated from step {begun:g} on, one unit of time being {short(unit)} steps: {parts}"
        f"{beyond(_SLIDERS, values)}; {found['verdict'].item()}",
        partial(_solve, start=recorded[0]),
        partial(_lines, shape=(classes, features), begin=begin),
        {_LOGITS.title: Drawn(_own(times[::few], recorded[::few]), _own(times, imitated))},
    )


FAMILY = Family("local elasticity", _SLIDERS, (_LOGITS, _SEPARATION), _solve, _lines, fit)
