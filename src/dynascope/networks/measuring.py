"""Measures of all trials at once, on the device where they train.

Batched forms of `dynascope.measure`, to which tests hold them; nothing leaves the device. Needs only PyTorch.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

MEASURES = ("load", "load_pinv", "kappa", "effective_dimension")
_Measure = Callable[..., Tensor]
_FAINT = 1e-12  # intensities below this share of the strongest are rounding


def measured(
    names: Sequence[str], features: Mapping[str, Tensor], y: Tensor, *, classes: int, probes: Sequence[str], last: str
) -> dict[str, Tensor]:
    """Take the named measures of features (trial, sample, …) by layer, `logits` among them.

    y: labels (trial, sample), whole numbers, or targets (trial, sample, output)
    Loads are (trial, layer) at the probes, the others (trial,), of the layer called `last`.

    >>> x = torch.tensor([[[0.0, 0.0], [0.0, 2.0], [4.0, 0.0], [4.0, 2.0]]])  # Σw = diag(0, 1), Σb = diag(4, 0)
    >>> y = torch.tensor([[0, 0, 1, 1]])
    >>> found = measured(["load"], {"act": x, "logits": x}, y, classes=2, probes=["act"], last="act")
    >>> round(float(found["load"][0, 0].exp()), 6)
    0.25
    """
    of_last: dict[str, tuple[_Measure, list[str]]] = {
        "kappa": (_distance, [last, "logits"]),
        "effective_dimension": (_effective_dimension, [last]),
    }
    loads = _loads_of(y, classes)
    found = {}
    for name in names:
        if name in loads:
            found[name] = torch.stack([_of_finite(loads[name], features[each]) for each in probes], 1)
        else:
            measure, layers = of_last[name]
            found[name] = _of_finite(measure, *(features[each] for each in layers))
    return found


def _loads_of(y: Tensor, classes: int) -> dict[str, _Measure]:
    """How loads are measured with these labels, or targets."""
    if y.is_floating_point():
        return {"load": partial(_best_fit, y=y.double())}
    members = torch.nn.functional.one_hot(y, classes).double()
    return {"load": partial(_ratio_of_traces, members=members), "load_pinv": partial(_pinv, members=members)}


def _of_finite(measure: _Measure, *features: Tensor) -> Tensor:
    """Measure in float64; NaN for trials that left the finite numbers, which decompositions would refuse."""
    rows = [each.flatten(2) for each in features]  # (trial, sample, feature)
    finite = torch.stack([torch.isfinite(x).all(2).all(1) for x in rows]).all(0)
    own = 2.0**-20 if rows[0].dtype == torch.float32 else 0.0
    rounding = max(own, max(rows[0].shape[1:]) * 2.0**-52)  # of singular values, as in dynascope.measure
    value = measure(*(torch.where(finite[:, None, None], x, 0).double() for x in rows), rounding=rounding)
    return torch.where(finite, value, torch.nan)


def split(x: Tensor, members: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Class means about the grand mean, those of each sample's class, and what is left of the samples.

    x: (trial, sample, feature). members: (trial, sample, class), 1 for a sample's class, which may have no other.

    >>> split(torch.tensor([[[0.0], [2.0], [7.0]]]), torch.tensor([[[1.0, 0], [1, 0], [0, 1]]]))[0].flatten().tolist()
    [-2.0, 4.0]
    """
    x = x - x.mean(1, keepdim=True)
    means = members.mT @ x / members.sum(1)[..., None].clamp(min=1)
    own = members @ means
    return means, own, x - own


def _ratio_of_traces(x: Tensor, *, members: Tensor, rounding: float) -> Tensor:
    """log(tr Σw / tr Σb), spring-block (3)."""
    _, own, rest = split(x, members)
    return (rest**2).sum((1, 2)).log() - (own**2).sum((1, 2)).log()


def _pinv(x: Tensor, *, members: Tensor, rounding: float) -> Tensor:
    """Log tr(Σw Σb⁺), spring-block (S1), by projection on the few directions that Σb has."""
    means, _, rest = split(x, members)
    sizes = members.sum(1)[..., None].sqrt()
    directions, roots = _thin((means * sizes).mT)
    kept = _stands_out(roots, rounding)
    kept[:, members.shape[2] - 1 :] = False  # class means about their mean lie in one dimension less
    along = ((rest @ directions) ** 2).sum(1)  # (trial, direction)
    value = torch.where(kept, along / roots**2, 0).sum(1).log()
    return torch.where(kept.any(1), value, (rest**2).sum((1, 2)).log() + torch.inf)


def _thin(x: Tensor) -> tuple[Tensor, Tensor]:
    """Left singular vectors (trial, row, place) and singular values (trial, place) of matrices (trial, row, column).

    By way of their triangles: on a GPU those of few columns are decomposed all at once, others one by one.
    """
    frame, triangle = torch.linalg.qr(x)
    turn, values, _ = torch.linalg.svd(triangle, full_matrices=False)
    return frame @ turn, values


def _stands_out(values: Tensor, rounding: float) -> Tensor:
    """Which of the singular values (trial, place), largest first, are more than rounding."""
    return values > rounding * values[:, :1]


def _best_fit(x: Tensor, *, y: Tensor, rounding: float) -> Tensor:
    """√(mean square of what the best linear fit of the targets leaves / 2), spring-block S5."""
    x, y = x - x.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
    left, sizes = _thin(x)
    explained = torch.where(_stands_out(sizes, rounding)[:, None], left, 0)
    rest = y - explained @ (explained.mT @ y)
    return torch.sqrt((rest**2).sum((1, 2)) / (2 * x.shape[1]))


def _distance(x: Tensor, outputs: Tensor, *, rounding: float) -> Tensor:
    """κ = 1 − CKA(features, projection on the span of the outputs), layerwise (2.8), (2.9)."""
    left, values = _thin(outputs)
    span = torch.where(_stands_out(values, rounding)[:, None], left, 0)
    x, span = (each - each.mean(1, keepdim=True) for each in (x, span))
    x = x / x.abs().amax((1, 2), keepdim=True)  # keeps fourth powers in range
    cross = ((x.mT @ span) ** 2).sum((1, 2))
    return 1 - cross / (_gram_norm(x) * _gram_norm(span))


def _gram_norm(x: Tensor) -> Tensor:
    """‖XᵀX‖ = ‖XXᵀ‖."""
    return torch.sqrt((_gram(x) ** 2).sum((1, 2)))


def _gram(x: Tensor) -> Tensor:
    """XᵀX or XXᵀ, the smaller of the two, whose eigenvalues agree."""
    return x.mT @ x if x.shape[2] <= x.shape[1] else x @ x.mT


def _effective_dimension(x: Tensor, *, rounding: float) -> Tensor:
    """1 + exp(entropy of all intensities but the first), layerwise (2.6)."""
    values = torch.linalg.eigvalsh(_gram(x)).flip(1)
    rest = torch.where(values > _FAINT * values[:, :1], values, 0)[:, 1:]
    total = rest.sum(1, keepdim=True)
    share = rest / torch.where(total > 0, total, 1)
    entropy = -torch.special.xlogy(share, share).sum(1)
    return torch.where(total[:, 0] > 0, 1 + entropy.exp(), 1.0)
