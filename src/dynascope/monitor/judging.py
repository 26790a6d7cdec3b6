"""What the numbers of a run say, one sentence each: the law behind it, where it holds, and its source."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope.measure.separation import DEAD_BELOW
from dynascope.measure.spectrum import THRESHOLD
from dynascope.records import attribute

_LOADS, _IDLE = "loads", "idle"  # what the record calls loads and layers that add nothing
_UNEVEN = 0.5  # work that differs from the mean by more than this part of it is not shared evenly
_LEARNT = 0.5  # a probe loss below this part of a guess's counts as small
COLLAPSED = 0.1  # nc1 and nc2 below it are called collapsed; a convention of ours
_COLLAPSES = {"nc1": "NC1 {:.3g}", "nc2_angle": "NC2 angle {:.3g}", "nc3": "NC3 {:.3g}", "nc4": "NC4 {:.3g}"}
_COUNTS = {
    "minimum_feature_distance": "κ = {:.3g}",
    "dimension_intensity": "{:.1f} significant",
    "dimension_quality": "{:.1f} useful",
    "dimension_utilization": "{:.1f} used",
}
_ALIKE = 0.9  # ratios of elasticity from 0.9 to 1/0.9 count as equal


@dataclass(frozen=True)
class Verdict:
    """A finding with the law that it rests on.

    >>> print(Verdict("load", "Layers share the work.", "the law", "deep networks", "a paper").sentence)
    Layers share the work. Law: the law; holds for deep networks. Source: a paper.
    """

    subject: str
    finding: str
    law: str
    holds: str
    source: str

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        return f"{self.finding} Law: {self.law}; holds for {self.holds}. Source: {self.source}."


def verdicts(record: xr.Dataset) -> list[Verdict]:
    """Judge the newest measurement of a run; what was not measured, or is not finite, is not judged.

    >>> run = xr.Dataset({"nc1": ("step", [0.5]), "nc2_angle": ("step", [0.4])}, coords={"step": [10]})
    >>> [each.subject for each in verdicts(run)]
    ['collapse']
    """
    judges = (_load, _dead, _collapse, _features, _elasticity)
    return [verdict for judge in judges if (verdict := judge(record)) is not None]


def newest(record: xr.Dataset, name: str) -> xr.DataArray | None:
    """Read the last measurement of a variable that is finite throughout; None if there is none.

    >>> float(newest(xr.Dataset({"nc1": ("step", [0.5, np.nan])}), "nc1"))
    0.5
    """
    if name not in record:
        return None
    places = finite_steps(record[name])
    return record[name].isel(step=int(places[-1])) if len(places) else None


def finite_steps(values: xr.DataArray) -> np.ndarray:
    """Find the places along step at which a variable is finite throughout.

    >>> finite_steps(xr.DataArray([[1.0, np.nan], [1.0, 2.0]], dims=("step", "layer"))).tolist()
    [1]
    """
    numbers = values.transpose("step", ...).values
    return np.flatnonzero(np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1))


def _number(record: xr.Dataset, name: str) -> float:
    found = newest(record, name)
    return float("nan") if found is None else float(found)


_WORK = {
    "concave": "deep layers do more of the work than shallow ones",
    "convex": "shallow layers do more of the work than deep ones",
}
_ADVICE = {
    "concave": "more noise (dropout, learning rate, smaller batches) or a weaker nonlinearity moves it towards a line",
    "convex": "less noise or a stronger nonlinearity moves it towards a line",
    "linear": "such networks tended to generalise best",
}


def _load(record: xr.Dataset) -> Verdict | None:
    bend = newest(record, "bend")
    if bend is None:
        return None
    at = int(finite_steps(record["bend"])[-1])
    shape = str(record["shape"].values[at])
    linearity = float(record["linearity"][at])
    against = _against(record, at)
    advice = f"no advice here, {against}" if against else _ADVICE[shape]
    return Verdict(
        "load",
        f"The load curve is {shape} (bend {float(bend):+.2f}, R² of a line {linearity:.2f}): "
        f"{_WORK.get(shape) or _shares(record, at)}{_since(record, 'bend')}.",
        f"noise against nonlinearity decides the shape; {advice}",
        "layers of one kind and width after training to a small loss, layer by layer as counted here",
        "spring-block (3), FIG. 1 and S5; the bounds of ±0.5 on the bend and of half the mean on work are ours",
    )


def _since(record: xr.Dataset, name: str) -> str:
    """Say when a variable was last finite, where that is not the newest measurement."""
    at = int(finite_steps(record[name])[-1])
    return "" if at == record.sizes["step"] - 1 else f", as of step {int(record['step'][at])}"


def _shares(record: xr.Dataset, at: int) -> str:
    """How layers share the work that does not grow or fall with depth."""
    work = record["increment"].values[at, 1:]
    mean, names = work.mean(), record["layer"].values[1:]
    low, high = _interval(record, at)
    differs = (low > (1 + _UNEVEN) * mean) | (high < (1 - _UNEVEN) * mean)
    spread = "" if (low < high).all() else " (its spread over samples is not known)"
    if not differs.any():
        return f"the layers share the work evenly{spread}"
    most, least = int(work.argmax()), int(work.argmin())
    return (
        f"no trend with depth, but unequal work{spread}: {names[most]} does {work[most]:.2f}, {names[least]} "
        f"{work[least]:.2f} of {work.sum():.2f}"
    )


def _interval(record: xr.Dataset, at: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of each layer's work; the work itself where the record has no interval."""
    if "increment_interval" in record:
        ends = record["increment_interval"].values[at, 1:]
        if np.isfinite(ends).all():
            return ends[:, 0], ends[:, 1]
    work = record["increment"].values[at, 1:]
    return work, work


def _against(record: xr.Dataset, at: int) -> str:
    """Why the law does not hold here; empty where its conditions are met."""
    if int(record["step"][at]) == 0:
        return "before training"
    classes = len(attribute(record, "parameters")["classes"]) if "parameters" in record.attrs else 0
    loss = float(record["probe_loss"][at]) if "probe_loss" in record else float("nan")
    if classes < 2 or not loss < _LEARNT * np.log(classes):
        return f"where the probe loss is not small yet (above {_LEARNT:g} of a guess's)"
    if "layer_size" not in record:
        return "where it is not known whether layers are alike"
    hidden = record["layer_size"].values[at][record["layer"].values != "input"]
    return "" if len(set(hidden.tolist())) == 1 else "where layers are not alike"


def _dead(record: xr.Dataset) -> Verdict | None:
    if newest(record, _LOADS) is None or _IDLE not in record:
        return None
    at = int(finite_steps(record[_LOADS])[-1])
    size = np.abs(record["increment"].values[at, 1:]).mean()
    low, high = _interval(record, at)
    sure = record[_IDLE].values[at, 1:] & (high < DEAD_BELOW * size)
    idle = [str(name) for name in record["layer"].values[1:][sure]]
    if not idle:
        return None
    spread = ", in 95 % of other samples too" if (low < high).all() else "; the spread over samples is not known"
    return Verdict(
        "idle layers",
        f"These layers add little separation of classes on this probe{_since(record, _LOADS)}: "
        f"{', '.join(idle)}{spread}. To take one out may still cost accuracy.",
        "a layer whose increment is below a tenth of the mean one does none of the work, a negative one undoes it",
        "this probe and this moment; what such a layer does may serve later ones",
        "spring-block, below (3) and FIG. S3; the bound of a tenth is ours",
    )


def _collapse(record: xr.Dataset) -> Verdict | None:
    spread, angle = _number(record, "nc1"), _number(record, "nc2_angle")
    if not np.isfinite(spread):
        return None
    tight, frame = spread < COLLAPSED, angle < COLLAPSED
    words = {
        (True, True): "Classes have collapsed to points of a simplex",
        (True, False): "Classes have collapsed to points, which do not yet form a simplex",
        (False, True): "Class means form a simplex, but classes are still spread",
        (False, False): "Classes have not collapsed",
    }[tight, frame]
    return Verdict(
        "collapse",
        f"{words} ({_measured(record, _COLLAPSES)}){_since(record, 'nc1')}.",
        "past zero training error, last-layer features of a class shrink to their mean, and the means form a simplex",
        "balanced classes, at most as many as features + 1, in the terminal phase of training",
        "layerwise (D.1) to (D.9); Papyan, Han and Donoho (2020); the bound of 0.1 is ours",
    )


def _features(record: xr.Dataset) -> Verdict | None:
    distance = _number(record, "minimum_feature_distance")
    if not np.isfinite(distance):
        return None
    few = distance < THRESHOLD
    size = "the fewest features that can express its outputs" if few else "more features than its outputs need"
    return Verdict(
        "features",
        f"The last layer has {size} ({_measured(record, _COUNTS)}){_since(record, 'minimum_feature_distance')}.",
        "κ below 0.1 is the minimum feature regime, with as few features as outputs; above lies the extended one",
        f"balanced classes and more probe samples than features{_thin_probe(record)}",
        "layerwise (2.8), (2.9), Definition 2, (1.16), (2.6)",
    )


def _measured(record: xr.Dataset, named: dict[str, str]) -> str:
    """The numbers that a record has, with their names; old journals lack some."""
    found = ((text, _number(record, name)) for name, text in named.items())
    return ", ".join(text.format(number) for text, number in found if np.isfinite(number))


def _thin_probe(record: xr.Dataset) -> str:
    options = attribute(record, "options") if "options" in record.attrs else {}
    width, samples = options.get("width"), options.get("samples")
    if width is None or samples is None or samples > width:
        return ""
    return f" (here {samples} samples of {width} features: κ is too low)"


def _elasticity(record: xr.Dataset) -> Verdict | None:
    intra, inter = _number(record, "intra"), _number(record, "inter")
    if not np.isfinite(intra):
        return None
    ratio = inter / intra
    words = (
        "A step on one sample moves its own class more than others"
        if ratio < _ALIKE
        else "A step on one sample moves all classes about alike"
        if ratio <= 1 / _ALIKE
        else "A step on one sample moves other classes more than its own"
    )
    return Verdict(
        "elasticity",
        f"{words} (within {intra:.2f}, between {inter:.2f}){_since(record, 'intra')}.",
        "classes separate when the pull within them exceeds the pull between them",
        "logits that follow the locally elastic model; measured to first order, for steps on 2 samples of each class",
        "elastic section 2, (B.1) and Theorem 3.1; He and Su (2020)",
    )
