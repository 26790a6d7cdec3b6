"""Real networks for the claims on local elasticity: pictures, networks trained at once, strengths read off them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.stats import t as student

from dynascope import networks
from dynascope.data import geomnist, images
from dynascope.experiments.claims import Claim, Judgement, not_run
from dynascope.experiments.experiment import Axes
from dynascope.models.elastic.estimate import estimate_strengths
from dynascope.models.elastic.geometry import margin_amplitudes
from dynascope.statistics.derivative import local_derivative
from dynascope.statistics.errors import Estimate
from dynascope.statistics.resampling import CONFIDENCE, bootstrap_weights, resampled

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # pictures and labels, to train on and to probe
READINGS = {  # name -> geometry and method of the estimate
    "L-model": ("logits", "exact"),
    "I-model": ("isotropic", "exact"),
    "L-model as printed": ("logits", "published"),
    "I-model as printed": ("isotropic", "published"),
    "L-model as coded": ("logits", "code"),
}
SMALL: dict[str, Any] = {"network": "mlp", "size": 8, "probes": 20, "records": 40, "learning_rate": 0.05}  # of seconds
unsettled = partial(Claim, settles_at="paper")  # what few small networks cannot decide
_TAILS = {"exact": "integrated", "published": "published", "code": "published"}
_CLEAR = 5.0  # standard errors
_RESAMPLES = 100
_LAST = 1000  # iterations
_LEFT = 10  # records that estimates and imitations need at least


@dataclass(frozen=True)
class Training:
    """Which networks learn which pictures, how long, and how often they are looked at.

    `per_class` pictures are trained on, `probes` others of each class are measured. The published setting is LeNet,
    learning rate 0.005, batch 1; a small fully connected network stands in where seconds must do.
    """

    data: str = "geomnist"  # or cifar10 (from the data folder), or digits (with scikit-learn)
    classes: int = 3
    per_class: int = 600
    probes: int = 100
    size: int = 32
    network: str = "lenet"  # or mlp
    learning_rate: float = 0.005
    steps: int = 100_000
    records: int = 200
    trials: int = 100
    seed: int = 4


def pictures(given: Training) -> Data:
    """Training pictures and labels, probe pictures and labels; photographs are scaled to −1 … 1 as in the source.

    >>> [part.shape for part in pictures(Training(per_class=4, probes=2, size=8))]
    [(12, 1, 8, 8), (12,), (6, 1, 8, 8), (6,)]
    """
    if given.data == "geomnist":
        return *geomnist(given.per_class, seed=given.seed, size=given.size), *geomnist(
            given.probes, seed=given.seed + 1, size=given.size
        )
    wanted = (given.per_class, given.probes)
    x, y, probe, own = images(given.data, classes=given.classes, per_class=wanted, seed=given.seed)
    return 2 * x - 1, y, 2 * probe - 1, own


def record_steps(steps: int, records: int) -> list[int]:
    """Steps at which networks are looked at: dense where they begin, each gap longer than the one before.

    >>> record_steps(100, 5)
    [0, 4, 16, 36, 64, 100]
    """
    return sorted({round(steps * (i / records) ** 2) for i in range(records + 1)})


def ensemble(given: Training, x: np.ndarray, precision: str = "float32") -> networks.Ensemble:
    """The networks of a training on such pictures, before it."""
    network = (
        networks.LeNet(given.classes, x.shape[1])
        if given.network == "lenet"
        else networks.MLP(x.shape[1:], given.classes, width=24, depth=2)
    )
    options: dict[str, Any] = {"learning_rate": given.learning_rate, "seed": given.seed, "precision": precision}
    return networks.Ensemble(network, trials=given.trials, **options)


def train(
    given: Training,
    data: Data | None = None,
    *,
    labels: np.ndarray | None = None,
    keep_outputs: bool = False,
    keep_drawn: bool = False,
) -> xr.Dataset:
    """Train networks on the pictures, or on given ones, and record their class means on the probe.

    data: (x, y, probe x, probe y) if not `pictures(given)`
    labels: a row for every network if not the true ones for `given.trials` of them
    keep_outputs, keep_drawn: what else `Ensemble.train` is to keep
    """
    x, y, probe, own = pictures(given) if data is None else data
    trials = given.trials if labels is None else len(labels)
    return ensemble(replace(given, trials=trials), x).train(
        x,
        y if labels is None else labels,
        steps=given.steps,
        probe=(probe, own),
        record_every=record_steps(given.steps, given.records),
        keep_outputs=keep_outputs,
        keep_drawn=keep_drawn,
    )


def clear_from(steps: np.ndarray, means: np.ndarray) -> float:
    """First step from which what the margins share, and what differs between classes, stay clear of their noise.

    Before it logarithms of averages over trials are logarithms of chance. `means`: (trial, step, class, logit).
    """
    clear = np.ones(len(steps), bool)
    apart = means - means.mean(axis=2, keepdims=True)
    for part in (margin_amplitudes(means).mean(axis=-1, keepdims=True), apart.reshape((*apart.shape[:2], -1))):
        noise = np.sqrt(part.var(axis=0, ddof=1).sum(axis=-1) / len(part))
        clear &= np.linalg.norm(part.mean(axis=0), axis=-1) > _CLEAR * noise
    unclear = np.flatnonzero(~clear)
    first = 0 if not unclear.size else min(int(unclear[-1]) + 1, len(steps) - _LEFT)
    return float(steps[first])


def read_strengths(steps: np.ndarray, means: np.ndarray, readings: Iterable[str] = READINGS) -> xr.Dataset:
    """Estimate strengths from class means (trial, step, class, logit) in several ways, side by side over `reading`.

    The exact forms start where averages are clear of noise, the printed ones at step 0 as in the source.
    """
    found, begin = [], clear_from(steps, means)
    for name in readings:
        geometry, method = READINGS[name]
        reference = begin if method == "exact" else None
        each = estimate_strengths(steps, means, geometry, method=method, reference_time=reference, tail=_TAILS[method])
        found.append(each.assign(reason=each.attrs["reason"]).drop_attrs().rename(time="step"))
    return xr.concat(found, xr.Variable("reading", list(readings)))


def rate_of_change(steps: np.ndarray, curves: Float[np.ndarray, "trial step"]) -> Float[np.ndarray, "trial step"]:
    """Slope of each network's curve, over a tenth of the records."""
    return local_derivative(np.asarray(steps, float), curves, max(5, len(steps) // 10 | 1))


def growth_of_each(steps: np.ndarray, means: Float[np.ndarray, "trial step class logit"]) -> xr.Dataset:
    """A − B of each network by itself: what differs between classes grows as exp((A − B)/K) in (7), from any start."""
    apart = np.linalg.norm(means - means.mean(axis=2, keepdims=True), axis=(2, 3))
    growth = means.shape[2] * np.log(apart / apart[:, :1])
    rate = rate_of_change(steps, growth)
    length = np.linalg.norm(means, axis=-1).mean(axis=-1)
    curves = {"growth": growth, "growth_rate": rate, "length": length, "adjusted_rate": rate * length}
    return xr.Dataset({name: (("trial", "step"), values) for name, values in curves.items()})


def growth_of_mean(steps: np.ndarray, means: Float[np.ndarray, "trial step class logit"]) -> xr.Dataset:
    """A − B of the average over networks, as the source reads it: its integral, rate, and rate times length.

    `mean_…` over step, and `drawn_…` the same of resampled networks.
    """

    def read(paths: np.ndarray) -> np.ndarray:
        """Of average paths (…, step, class, logit)."""
        apart = np.linalg.norm(paths - paths.mean(axis=-2, keepdims=True), axis=(-1, -2))
        growth = paths.shape[-2] * np.log(apart / apart[..., :1])
        rate = rate_of_change(steps, growth)
        return np.stack([growth, rate, rate * np.linalg.norm(paths, axis=-1).mean(axis=-1)], axis=-2)

    found, drawn = read(means.mean(axis=0)), resampled(bootstrap_weights(len(means), _RESAMPLES, 0), means, read)
    curves: dict[str, Any] = {}
    for row, name in enumerate(("growth", "rate", "adjusted_rate")):
        curves |= {f"mean_{name}": ("step", found[row]), f"drawn_{name}": (("resample", "step"), drawn[:, row])}
    return xr.Dataset(curves)


def last_iterations(steps: np.ndarray) -> np.ndarray:
    """Which steps are among the last 1000, over which the source averages; of a short run, in its last third.

    >>> last_iterations(np.array([0, 5000, 9200, 10_000])).tolist()
    [False, False, True, True]
    """
    return np.asarray(steps >= steps[-1] - min(_LAST, steps[-1] / 3))


def at_end(record: xr.Dataset, name: str) -> Estimate:
    """A strength at the last step, and its standard error from the 95 % interval, which has Student's quantile."""
    low, value, high = (record[f"{name}{end}"].isel(step=-1).values for end in ("_low", "", "_high"))
    trials = record.sizes["trial"]
    return Estimate(value, (high - low) / 2 / student.ppf((1 + CONFIDENCE) / 2, trials - 1), trials)


def recorded(judge: Callable[[xr.Dataset], Judgement], name: str, **at: str) -> Callable[[xr.Dataset], Judgement]:
    """Judge records that hold such a variable, at these labels too; those of earlier runs stay unjudged.

    >>> recorded(lambda record: Judgement("reproduced"), "error")(xr.Dataset()).verdict
    'not run'
    """

    def judged(record: xr.Dataset) -> Judgement:
        if name in record and all(label in record[dim] for dim, label in at.items()):
            return judge(record)
        return not_run(f"the record lacks {', '.join([name, *at.values()])}: run it again")

    return judged


def label_steps(ax: Axes, ylabel: str) -> None:
    """Label a panel over training steps, with a legend that leaves room for its curves."""
    ax.set(xlabel="training step", ylabel=ylabel)
    ax.locator_params(axis="x", nbins=4)  # numbers of six digits need room
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize="x-small")
