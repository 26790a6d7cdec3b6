"""From recorded networks to a stochastic model that imitates them, and how well it does."""

import time
from collections.abc import Callable, Sequence
from typing import TypedDict

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.checks import Given, count, listed, one_of, scalar
from dynascope.imitation import judging
from dynascope.imitation.clouds import collapse, noise_covariance, separability
from dynascope.imitation.runs import Recorded, class_means
from dynascope.models.elastic.estimate import STRENGTHS, estimate_strengths
from dynascope.models.elastic.geometry import symmetric_root
from dynascope.models.elastic.model import LocallyElastic
from dynascope.models.elastic.path_fit import MODELS, Drift, drifts, follow, power_law, solve
from dynascope.models.elastic.strengths import PowerLaw
from dynascope.models.elastic.tails import tail_index
from dynascope.records import digest, with_provenance
from dynascope.statistics.resampling import bootstrap_weights, interval, resampled, too_few
from dynascope.statistics.stages import learning_stages

PROCEDURES = ("followed", "published")
_HORIZON = 40  # a path is followed a fortieth of its points ahead
_FEWEST_AHEAD = 10  # points after the reference time
_CLOUD = 64  # simulated trials, at least
_RATIO = ("norm", "time", "class")
_PATH = ("time", "class", "feature")


class Options(TypedDict, total=False):
    """What `imitate` takes beside a run and a geometry."""

    procedure: str
    reference_time: float | None
    splits: int
    resamples: int
    seed: int


def imitate(
    run: Given[Recorded],
    geometry: str | Sequence[str] = "logits",
    *,
    procedure: str = "followed",
    reference_time: float | None = None,
    splits: int = 4,
    resamples: int = 200,
    seed: int = 0,
) -> xr.Dataset:
    """Estimate a locally elastic model from recorded networks, simulate it, and judge it on what it was not fitted to.

    X̄_k' = (1/K) Σ_l E_kl(t) f_l(X̄_l), strengths E(t) read off the class means of the networks, solved from the
    reference time on. Nothing is rescaled. Time is that of the record: training steps.

    run: what `class_means` reads: a record of `Ensemble.train`, a watched run, a path to either, or a list of them.
    geometry: isotropic, logits, mixture, softmax, general or kernel, a list of these, or "all"; several give the result
        a dimension `geometry`.
    procedure: "followed", or "published" for the source's own (three classes), with no forecast: strengths of either
        geometry, isotropic or logits, drive the logit model from random starts, and one scalar aligns the path.
    reference_time: where imitation begins; by default where the margins first pass a tenth of their largest value.
    splits: random splits of the networks into halves over which held-out differences are averaged.
    resamples: bootstrap samples behind the intervals.
    seed: of splits, bootstrap and SDE.

    Returns, over `norm`, time and class, relative_difference on the other half of the networks beside noise_floor and
    baselines, and the same for forecasts; over time strengths with intervals, means, spreads and separability of
    networks and imitation; tail indices and a verdict. docs/imitate.md names them all. A single run has no other half:
    what compares halves is NaN. Fails where class means jump between records; the softmax drift is that of clean
    labels.
    Source: elastic Section 4, Section D.

    >>> from dynascope import LocallyElastic
    >>> model = LocallyElastic(intra=0.1, inter=-0.02, noise=0.02)
    >>> run = model.simulate(duration=30.0, samples=5, trials=6, start=[[1.0, 0, 0], [0, 1.2, 0], [0, 0, 0.8]])
    >>> result = imitate(run, geometry="logits", resamples=20)
    >>> bool(result["relative_difference"].mean() < 0.1), result["imitated_mean"].dims
    (True, ('equation', 'time', 'class', 'feature'))
    """
    begun = time.perf_counter()
    names = check_options(
        geometry, procedure=procedure, reference_time=reference_time, splits=splits, resamples=resamples, seed=seed
    )
    means = class_means(run)
    task = _Task(means, reference_time, splits=splits, resamples=resamples, seed=seed, procedure=procedure)
    found = [_imitated(task, name) for name in names]
    whole = found[0] if isinstance(geometry, str) and geometry != "all" else xr.concat(found, dim="geometry")
    whole = whole.assign_coords(geometry=names if "geometry" in whole.dims else names[0])
    whole = _of_networks(task).merge(whole)
    options = {"geometry": names, "procedure": procedure, "reference_time": float(task.times[task.begin])}
    return with_provenance(
        whole,
        "imitate",
        {"class_means": digest(means.to_dataset(name="class_mean")), "networks": task.trials},
        options=options | {"splits": splits, "resamples": resamples},
        seed=seed,
        precision="float64",
        wall_time=time.perf_counter() - begun,
    )


def check_options(
    geometry: str | Sequence[str],
    *,
    procedure: str = "followed",
    reference_time: float | None = None,
    splits: int = 4,
    resamples: int = 200,
    seed: int = 0,
) -> list[str]:
    """Refuse options of `imitate` that cannot work, before anything is trained; return the names of geometries.

    >>> check_options("logits")
    ['logits']
    """
    names = _names(geometry, one_of("procedure", procedure, PROCEDURES))
    count("splits", splits)
    count("seed", seed, at_least=0)
    count("resamples", resamples, at_least=20)
    if reference_time is not None:
        scalar("reference_time", reference_time, at_least=0.0)
    return names


def _names(geometry: str | Sequence[str], procedure: str) -> list[str]:
    allowed = MODELS if procedure == "followed" else ("isotropic", "logits")
    if isinstance(geometry, str):
        names = list(allowed) if geometry == "all" else [geometry]
    else:
        names = listed("geometry", geometry, f"names from {', '.join(allowed)}, or all")
    for name in names:
        one_of("geometry", name, allowed)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"geometry must be different names from {', '.join(allowed)}, or all, got {geometry!r}")
    return names


class _Task:
    """Class means, where imitation begins and how it is judged."""

    def __init__(
        self,
        means: xr.DataArray,
        reference_time: float | None,
        *,
        splits: int,
        resamples: int,
        seed: int,
        procedure: str,
    ) -> None:
        self.labels, self.paths = means, means.values
        self.trials, points, self.classes, self.features = self.paths.shape
        self.times = np.asarray(means["time"].values)
        self.average = self.paths.mean(axis=0)
        self.begin = self._reference(reference_time)
        self.first, self.last = points // 4, points // 2  # of the stretch that forecasts are fitted to
        self.horizon = max(1, points // _HORIZON)
        self.splits, self.resamples, self.seed, self.procedure = splits, resamples, seed, procedure
        self.halves = judging.halves(self.trials, splits, seed) if self.trials > 1 else None

    def _reference(self, wanted: float | None) -> int:
        latest = len(self.times) - _FEWEST_AHEAD
        if wanted is None:
            kind = "logits" if self.features >= self.classes else "isotropic"
            found = estimate_strengths(self.times, self.average, kind, window=5)
            return min(int(np.searchsorted(self.times, float(found["reference_time"]))), latest)
        wanted = scalar("reference_time", wanted, at_least=float(self.times[0]))
        begin = int(np.searchsorted(self.times, wanted))
        if begin > latest:
            raise ValueError(f"reference_time must be at most {self.times[latest]:g}, got {wanted:g}")
        return begin

    @property
    def late(self) -> np.ndarray:
        """Times from the reference time on."""
        return np.asarray(self.times[self.begin :])

    def half(self, which: int) -> Float[np.ndarray, "fit time class feature"]:
        """Averages of the halves from the reference time on: 0 fitted, 1 judged."""
        assert self.halves is not None
        return np.tensordot(self.halves[:, which], self.paths[:, self.begin :], axes=1)

    def padded(self, values: np.ndarray, axis: int, begin: int | None = None) -> np.ndarray:
        """Put NaN where nothing is known yet."""
        ahead = [(0, 0)] * values.ndim
        ahead[axis] = (self.begin if begin is None else begin, 0)
        return np.pad(values, ahead, constant_values=np.nan)


def _fit(task: _Task, means: np.ndarray, name: str) -> tuple[Drift, np.ndarray, np.ndarray]:
    """Drift, elasticities and path by either procedure, for every lead."""
    if task.procedure == "followed":
        return judging.chosen_fit(task.late, means, name, horizon=task.horizon)
    rates, paths = [], []
    for each in means.reshape((-1, *means.shape[-3:])):
        rates.append(judging.published_strengths(task.late, each, name))
        paths.append(judging.published_paths(task.late, each, rates[-1], seeds=[task.seed])[0][0])
    middle = np.stack(rates)
    middle = ((middle[..., 1:] + middle[..., :-1]) / 2).swapaxes(1, 2).reshape((*means.shape[:-3], -1, 2))
    drift = drifts("logits", task.classes, task.features)[0]
    return drift, drift.elasticity(middle), np.stack(paths).reshape(means.shape)


def _imitated(task: _Task, name: str) -> xr.Dataset:
    """Everything that depends on the geometry."""
    genuine = task.average[task.begin :]
    drift, elasticity, path = _fit(task, genuine, name)
    cloud = _simulated(task, drift, elasticity, path)
    known = {
        "fitted_difference": (_RATIO, task.padded(judging.differences(genuine, path), 1)),
        "relative_difference": (_RATIO, _held_out(task, lambda: _fit(task, task.half(0), name)[2])),
        "imitated_mean": (("equation", *_PATH), task.padded(np.stack([path, cloud.mean(axis=0)]), 1)),
        "imitated_spread": (_PATH, task.padded(cloud.std(axis=0, ddof=1), 0)),
        "imitated_separability": ("time", task.padded(separability(cloud[: task.trials]), 0)),
        "imitated_collapse": ("time", task.padded(collapse(path), 0)),
    }
    pairs = ("time", "class", "other_class")
    strengths = np.concatenate([elasticity, elasticity[-1:]])
    result = xr.Dataset(known | {"elasticity": (pairs, task.padded(strengths, 0))}, coords=_coords(task))
    result = result.assign(_curves(task, drift, elasticity)).assign(_saturation(task, drift))
    return result.assign(_forecast(task, name)).assign(_verdict(task, name))


def _held_out(task: _Task, fitted: Callable[[], np.ndarray]) -> np.ndarray:
    """Mean over splits of the difference between a path from one half and the other half."""
    if task.halves is None:
        return np.full((2, len(task.times), task.classes), np.nan)
    return task.padded(judging.differences(task.half(1), fitted()).mean(axis=1), 1)


def _simulated(
    task: _Task, drift: Drift, elasticity: np.ndarray, path: np.ndarray
) -> Float[np.ndarray, "trial time class feature"]:
    """Trials of the SDE from the networks' mean at the reference time."""
    size = max(_CLOUD, task.trials)
    root = symmetric_root(noise_covariance(task.late, task.paths[:, task.begin :], elasticity, drift))
    white = np.random.default_rng([task.seed, 3]).standard_normal((size, len(task.late) - 1, len(root)))
    kicks = (white @ root.T) * np.sqrt(np.diff(task.late))[:, None]
    kicks = kicks.reshape(*white.shape[:2], task.classes, task.features)
    start = np.broadcast_to(path[0], (size, *path.shape[1:]))
    return solve(task.late, start, elasticity, drift, kicks=kicks)


def _curves(task: _Task, drift: Drift, elasticity: np.ndarray) -> dict[str, object]:
    """Strengths over time and their tail indices, with intervals over networks."""
    late = task.paths[:, task.begin :]
    read = _reduced(task, elasticity)
    drawn: dict[str, np.ndarray] = {}
    if task.procedure == "followed" and not too_few(task.trials):
        weights = bootstrap_weights(task.trials, task.resamples, task.seed)

        def fit(means: np.ndarray) -> np.ndarray:
            strengths, _ = follow(task.late, means, drift, horizon=task.horizon)
            return drift.elasticity(strengths)

        drawn = _reduced(task, resampled(weights, late, fit, held=len(drift.patterns)))
    result: dict[str, object] = {}
    for name, value in read.items():
        ends = interval(value, drawn[name], task.trials) if name in drawn else (np.nan * value,) * 2
        for key, each in zip((name, f"{name}_low", f"{name}_high"), (value, *ends), strict=True):
            result[key] = ("time", task.padded(each, 0)) if each.ndim else float(each)
    return result


def _reduced(task: _Task, elasticity: Float[np.ndarray, "*lead interval class class"]) -> dict[str, np.ndarray]:
    """Mean strength within and between classes and their difference, at the times; and tail indices."""
    own = np.eye(task.classes, dtype=bool)
    within, between = (elasticity[..., chosen].mean(axis=-1) for chosen in (own, ~own))
    found: dict[str, np.ndarray] = {}
    for name, rate in zip(STRENGTHS, (within, between, within - between), strict=True):
        integrated = np.cumsum(rate * np.diff(task.late), axis=-1)
        found[name] = np.concatenate([rate, rate[..., -1:]], axis=-1)
        found[f"tail_index_{name}"] = np.asarray(tail_index(task.late[1:], integrated, "integrated"))
    return found


def _saturation(task: _Task, drift: Drift) -> dict[str, object]:
    fitted = drift.patterns.shape[-1]
    observed = np.array([task.classes, task.classes * task.features])
    return {
        "functions_fitted": fitted,
        "functions_observed": ("norm", observed),
        "saturated": ("norm", fitted >= observed),
    }


def _forecast(task: _Task, name: str) -> dict[str, object]:
    """Second half of training, foreseen from the second quarter."""
    if task.procedure == "published":
        unknown = np.full((2, len(task.times), task.classes), np.nan)
        return {"forecast_difference": (_RATIO, unknown), "forecast_mean": (_PATH, np.full_like(task.average, np.nan))}
    path, _, index = judging.forecast(task.times, task.average, name, first=task.first, last=task.last)
    missed = judging.differences(task.average[task.last :], path)
    return {
        "forecast_difference": (_RATIO, task.padded(missed, 1, task.last)),
        "forecast_mean": (_PATH, task.padded(path, 0, task.last)),
        "forecast_index": index,
    }


def _verdict(task: _Task, name: str) -> dict[str, object]:
    """What Theorem 3.1 says of the power laws that fit the second half of training."""
    if name not in ("isotropic", "logits"):
        return {"separates": -1, "verdict": "the theorem speaks of the isotropic and the logit model only"}
    drift = drifts(name, task.classes, task.features)[0]
    scales, index = power_law(task.times[task.last :], task.average[task.last :], drift)
    laws = [PowerLaw(scale, index) for scale in scales.tolist()]
    judged = LocallyElastic(task.classes, task.features, laws[0], laws[1], name).separation_verdict()
    separates = -1 if judged.separates is None else int(judged.separates)
    return {"separates": separates, "verdict": f"strengths fall like t^{-index:.2g}: {judged.reason}"}


def _of_networks(task: _Task) -> xr.Dataset:
    """Everything that does not depend on the geometry."""
    times, average = task.times, task.average
    late = average[task.begin :]
    held = np.broadcast_to(late[0], late.shape)

    def isotropic(means: np.ndarray) -> np.ndarray:
        return judging.chosen_fit(task.late, means, "isotropic", horizon=task.horizon)[2]

    ahead = average[task.last :]
    seen = {"first": task.first, "last": task.last}
    foreseen = [
        np.broadcast_to(ahead[0], ahead.shape),
        judging.forecast(times, average, "isotropic", **seen)[0],
        judging.trend(times, average, **seen),
    ]
    unknown = np.full((2, len(times), task.classes), np.nan)
    baselines = [
        _held_out(task, lambda: task.half(0)[:, :1]),
        _held_out(task, lambda: isotropic(task.half(0))),
        unknown,
    ]
    forecasts = [task.padded(judging.differences(ahead, each), 1, task.last) for each in foreseen]
    stages = learning_stages(times, task.paths if task.trials > 1 else average, resamples=task.resamples)
    kept = [name for name in stages.data_vars if str(name).startswith("amplification_time")]
    spread = task.paths.std(axis=0, ddof=1) if task.trials > 1 else np.full_like(average, np.nan)
    fitted_baselines = [judging.differences(late, each) for each in (held, isotropic(late))]
    return xr.Dataset(
        {
            "network_mean": (_PATH, average, {"long_name": "mean logit"}),
            "network_spread": (_PATH, spread),
            "noise_floor": (_RATIO, _held_out(task, lambda: task.half(0))),
            "forecast_noise_floor": (_RATIO, _halves_apart(task)),
            "baseline_difference": (("baseline", *_RATIO), np.stack(baselines)),
            "forecast_baseline_difference": (("baseline", *_RATIO), np.stack(forecasts)),
            "fitted_baseline_difference": (
                ("baseline", *_RATIO),
                np.stack([*(task.padded(each, 1) for each in fitted_baselines), unknown]),
            ),
            "network_separability": ("time", separability(task.paths)),
            "network_collapse": ("time", collapse(average)),
            "reference_time": float(times[task.begin]),
            "forecast_time": float(times[task.last]),
            **{str(name): stages[name] for name in kept},
        },
        coords=_coords(task) | {"baseline": list(judging.BASELINES)},
        attrs={"stages": stages.attrs["reason"]},
    )


def _halves_apart(task: _Task) -> np.ndarray:
    """The noise floor beside forecasts: half against half in the second half of training."""
    if task.halves is None:
        return np.full((2, len(task.times), task.classes), np.nan)
    first, second = (np.tensordot(task.halves[:, each], task.paths[:, task.last :], axes=1) for each in (0, 1))
    return task.padded(judging.differences(second, first).mean(axis=1), 1, task.last)


def _coords(task: _Task) -> dict[str, object]:
    labels = {name: np.arange(size) for name, size in (("class", task.classes), ("feature", task.features))}
    return labels | {"time": task.labels["time"], "norm": list(judging.NORMS), "equation": ["ode", "sde"]}
