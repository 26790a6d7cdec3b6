"""The load curve of what a network itself believes: what a training run shows of its own noise.

Rows of a probe are labelled by the network's own predictions, not by the labels that it is given. Where labels are
right and learnt, both are the same. Where some are wrong, the curve of the given labels ends flat as soon as a few of
them are given up, and would say "noise enough" too early; the curve of the beliefs does not.

Networks are measured side by side: one of a user, or all of an ensemble.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dynascope.measure.arrays import pieces_of
from dynascope.measure.separation import bends, drawn_anew
from dynascope.networks.measuring import split
from dynascope.records import Json

_RESAMPLES = 100
_ENDS = (0.025, 0.975)
_FEW = 2  # rows of a class below which it has no spread, and is left out
_FIRM = 0.5  # less probability than what a network says: a label that has so much less is contradicted
_BEGUN = 0.3  # of the way from a guess to all labels: from there on training has given the curve its shape


@dataclass(frozen=True)
class Signal:
    """One number for each network, (network,).

    bend: of the load curve of what it believes; low, high: its 95 % interval over other probes.
    fit: share of the given labels that it says. doubt: by how much it believes in what it says more than in the label,
    in probability, in the mean. sure: mean probability of what it says.
    ready: whether it tells all classes apart, and well enough for the curve to mean something.
    contradicted: share of the given labels that it firmly says to be wrong; None where an older version measured.
    beside: as sure, on inputs that it does not train on; None where there are none.
    """

    bend: np.ndarray
    low: np.ndarray
    high: np.ndarray
    fit: np.ndarray
    doubt: np.ndarray
    sure: np.ndarray
    ready: np.ndarray
    contradicted: np.ndarray | None = None
    beside: np.ndarray | None = None

    def numbers(self) -> dict[str, Json]:
        """Those of a single network, as its journal has them; what is not finite is NaN, which has one form there."""
        bend, low, high, doubt, sure = (
            float(each[0]) if np.isfinite(each[0]) else math.nan
            for each in (self.bend, self.low, self.high, self.doubt, self.sure)
        )
        firm = {} if self.contradicted is None else {"contradicted": float(self.contradicted[0])}
        return {
            **firm,
            "belief_bend": bend,
            "belief_bend_interval": [low, high],
            "belief_ready": float(self.ready[0]),
            "doubt": doubt,
            "confidence": sure,
        }

    @classmethod
    def read(cls, numbers: Mapping[str, Json]) -> "Signal":
        """What `numbers` gave, and the accuracy beside it, of a single network."""
        low, high = numbers["belief_bend_interval"]
        names = ("belief_bend", "probe_accuracy", "doubt", "confidence")
        bend, fit, doubt, sure = (np.array([numbers[name]]) for name in names)
        firm = np.array([numbers["contradicted"]]) if "contradicted" in numbers else None
        ready = np.array([numbers["belief_ready"] > 0])
        return cls(bend, np.array([low]), np.array([high]), fit, doubt, sure, ready, firm)


def believed(logits: Tensor) -> Tensor:
    """The class that a network says of each row, (…, row, class) → (…, row); a single logit says 0 or 1.

    >>> believed(torch.tensor([[0.0, 1.0], [2.0, 1.0]])).tolist()
    [1, 0]
    """
    return (logits[..., 0] > 0).long() if logits.shape[-1] == 1 else logits.argmax(-1)


def chances(logits: Tensor) -> Tensor:
    """Probability of each class, (…, row, class); a single logit has two.

    >>> chances(torch.tensor([[0.0], [2000.0]])).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    z = logits.double()
    return torch.softmax(torch.cat([-z / 2, z / 2], -1) if z.shape[-1] == 1 else z, dim=-1)


def shortfalls(chance: Tensor, y: Tensor) -> Tensor:
    """By how much less probable labels y, (…, row), are than what networks say of the rows; see `chances`.

    0 where a label is believed, learnt by heart or not; where a network says another class and is sure, 1.

    >>> shortfalls(chances(torch.tensor([[[0.0, 2000.0], [0.0, 2000.0]]])), torch.tensor([[1, 0]])).tolist()
    [[0.0, 1.0]]
    """
    return chance.amax(-1) - chance.gather(-1, y.long()[..., None])[..., 0]


def sureness(logits: Tensor) -> np.ndarray:
    """Mean probability of what networks say of rows, (network, row, class) → (network,).

    >>> sureness(torch.tensor([[[0.0, 2000.0], [1.0, 1.0]]])).tolist()
    [0.75]
    """
    return np.asarray(chances(logits).amax(-1).mean(-1).cpu().numpy())


def curves(layers: Sequence[Tensor], codes: Tensor, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Loads (3) of all layers, (network, layer), and how each moves with the weight of a row, (network, row, layer).

    layers: features (network, row, …), the input first. codes: class of each row, (network, row).

    >>> x = torch.tensor([[[0.0, 0.0], [0.0, 2.0], [4.0, 0.0], [4.0, 2.0]]])  # Σw = diag(0, 1), Σb = diag(4, 0)
    >>> load, _ = curves([x], torch.tensor([[0, 0, 1, 1]]), 2)
    >>> bool(np.isclose(load, np.log(1 / 4)).all())
    True
    """
    members = torch.nn.functional.one_hot(codes, classes).double()  # (network, row, class)
    members = members * (members.sum(1, keepdim=True) >= _FEW)
    kept, sizes = members.sum(-1), members.sum(1)[..., None]  # (network, row), (network, class, 1)
    loads, slopes = [], []
    for each in layers:
        x = each.flatten(2)
        within, between = torch.zeros_like(kept), torch.zeros_like(kept)
        for part in pieces_of(x, classes):
            means, own, rest = split(x[..., part].double(), members)
            own = own - (sizes * means).sum(1, keepdim=True) / sizes.sum(1, keepdim=True)
            within += kept * (rest**2).sum(-1)
            between += kept * (own * (own + 2 * rest)).sum(-1)
        spread, signal = within.sum(1), between.sum(1)
        loads.append(torch.log(spread) - torch.log(signal))
        slopes.append(within / spread[:, None] - between / signal[:, None])
    return torch.stack(loads, -1).cpu().numpy(), torch.stack(slopes, -1).cpu().numpy()


def signals(layers: Sequence[Tensor], logits: Tensor, y: Tensor, classes: int) -> Signal:
    """Read off a pass of inputs through networks what they show.

    layers: features (network, row, …), the input first. logits: (network, row, class). y: the given labels,
    (network, row). classes: how many there are to be told apart.

    >>> rows = [torch.tensor([[[0.0], [1.0], [3.0], [4.0]]])] * 3
    >>> z = torch.tensor([[[1.0, 0], [1, 0], [0, 1], [0, 1]]])
    >>> signals(rows, z, torch.tensor([[0, 0, 1, 1]]), 2).ready.tolist()
    [True]
    """
    codes, chance = believed(logits), chances(logits)
    less = shortfalls(chance, y)
    fit, doubt, firm, sure = (
        each.double().mean(-1).cpu().numpy() for each in (codes == y, less, less > _FIRM, chance.amax(-1))
    )
    kinds = max(logits.shape[-1], 2)
    loads, slopes = curves(layers, codes, kinds)
    weights = np.concatenate(list(drawn_anew(slopes.shape[1], _RESAMPLES, 0)))
    with np.errstate(invalid="ignore"):
        drawn = bends(loads[:, None] + np.einsum("ri,nil->nrl", weights, slopes))
        bend, (low, high) = bends(loads), np.quantile(drawn, _ENDS, axis=1)
    told = np.array([len(np.unique(each)) for each in codes.cpu().numpy()]) >= classes
    begun = fit - 1 / classes > _BEGUN * (1 - 1 / classes)
    finite = np.isfinite(bend) & np.isfinite(low) & np.isfinite(high) & np.isfinite(doubt)
    return Signal(bend, low, high, fit, doubt, sure, told & begun & finite, firm)
