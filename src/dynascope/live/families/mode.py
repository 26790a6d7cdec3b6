"""One mode of a deep linear network under sliders: how it is learned, where its noise peaks, where it settles."""

import numpy as np

from dynascope.live.families.description import Drawn, Family, Picture, Range, Values, arguments
from dynascope.models.mode_equation import ModeEquation

_DURATION, _DT, _TRIALS, _PAIRS, _START = 12.0, 0.02, 200, 75, 0.02
_BINS, _WIDEST = 40, 1.25  # amplitudes that are shown end there, in singular values
_PATH = Picture("amplitude of the mode", "time", "amplitude w", ("mean",))
_DRIFT = Picture("drift", "amplitude w", "dw/dt", ("drift",))
_DIFFUSION = Picture("diffusion, which peaks before the mode is learned", "amplitude w", "D(w)", ("diffusion",))
_DENSITY = Picture("density where it settles", "amplitude w", "density", ("density",))


def _model(values: Values) -> ModeEquation:
    return ModeEquation(int(values["depth"]), values["singular_value"], values["temperature"], values["label_noise"])


def _step(values: Values) -> float:
    """A fifth of the time in which a learned mode comes back, rounded; the equation allows a whole one."""
    back = values["depth"] * values["singular_value"] ** (2 - 2 / values["depth"])
    return float(f"{min(_DT, 0.2 / back):.2g}")


def _saves(values: Values) -> np.ndarray:
    """Times in pairs, one step apart, for drift and diffusion."""
    step = _step(values)
    begin = np.round(np.linspace(0, _DURATION - step, _PAIRS) / step)
    return np.asarray(step * np.stack([begin, begin + 1], -1).ravel())


def _solve(values: Values) -> dict[str, Drawn]:
    mode, step, times = _model(values), _step(values), _saves(values)
    run = mode.simulate(_DURATION, step, _TRIALS, save_points=times, start=_START, precision="float32", progress=False)
    paths = run["amplitude"].transpose("trial", "time").values
    edges = np.linspace(0.0, _WIDEST * values["singular_value"], _BINS + 1)
    places = (edges[:-1] + edges[1:]) / 2
    drift, diffusion = _moved(paths, step, edges)
    late = paths[:, _PAIRS:]
    density = np.histogram(late, edges)[0] / late.size / np.diff(edges)
    fine = np.linspace(places[0], places[-1], 8 * _BINS)
    return {
        _PATH.title: Drawn(
            {"x": times, "mean": paths.mean(0)}, {"x": times, "mean": mode.gradient_flow(times, _START)}
        ),
        _DRIFT.title: Drawn({"x": places, "drift": drift}, {"x": fine, "drift": mode.drift(fine)}),
        _DIFFUSION.title: Drawn({"x": places, "diffusion": diffusion}, {"x": fine, "diffusion": mode.diffusion(fine)}),
        _DENSITY.title: Drawn({"x": places, "density": density}, {"x": fine, "density": mode.stationary_density(fine)}),
    }


def _moved(paths: np.ndarray, dt: float, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the steps of all paths, per unit time, by where they begin; NaN where few of them do."""
    begin = paths[:, ::2]
    steps = (paths[:, 1::2] - begin) / dt
    own = np.digitize(begin, edges).ravel()
    count = np.bincount(own, minlength=len(edges) + 1)[1:-1].astype(float)
    count[count < 20] = np.nan
    mean, square = (
        np.bincount(own, weights=each.ravel(), minlength=len(edges) + 1)[1:-1] / count for each in (steps, steps**2)
    )
    return mean, (square - mean**2) * dt


def _lines(values: Values) -> str:
    return (
        "import numpy as np\nfrom dynascope import ModeEquation\n\n"
        f"mode = ModeEquation({arguments(values)})\n"
        f"dt = {_step(values):g}\n"
        f"begin = np.round(np.linspace(0, {_DURATION:g} - dt, {_PAIRS}) / dt)\n"
        "times = dt * np.stack([begin, begin + 1], -1).ravel()  # in pairs, for drift and diffusion\n"
        f"run = mode.simulate({_DURATION:g}, dt, {_TRIALS}, save_points=times, start={_START:g}, "
        'precision="float32")\n'
        'print(run["amplitude"].mean("trial").isel(time=-1).item())\n'
        f"print(mode.gradient_flow(times, {_START:g})[-1])\n"
        "print(mode.peak(), mode.stationary_moments())"
    )


FAMILY = Family(
    "one mode of a deep linear network",
    {
        "depth": Range(2, 8, 1, 4),
        "singular_value": Range(0.3, 1.5, 0.05, 1.0),
        "temperature": Range(0.001, 0.02, 0.001, 0.01),
        "label_noise": Range(0.05, 0.8, 0.05, 0.2),
    },
    (_PATH, _DRIFT, _DIFFUSION, _DENSITY),
    _solve,
    _lines,
)
