"""What is collected of a run's health while it trains: losses as told, gradients, weights and updates, idle units.

Gradients are those that are there at a measurement; nothing is computed backwards. Updates are seen on some numbers of
each weight matrix, kept from a measurement to the step after it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, SupportsFloat

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from torch.utils.hooks import RemovableHandle

from dynascope.checks import Given
from dynascope.measure.arrays import pieces_of
from dynascope.monitor.features import Features
from dynascope.monitor.probing import Probe
from dynascope.monitor.tasks import Task
from dynascope.records import Json

_HELD = 512  # losses that wait on their device before they are read together
_SAMPLED = 1024  # numbers of a weight matrix whose change is followed
_LEVEL = 1e-6  # a number varies over the probe if its deviation is above this share of the layer's
_EDGE = 0.01  # of a layer's range of values, from either end, that counts as saturated
Numbers = dict[str, Json]


class Vitals:
    """All that is collected of one run; its numbers are taken at a measurement.

    training: the training inputs, a tensor or a Dataset, among which samples of the probe are looked for.
    optimizer: just before whose steps gradients can be read, and whose learning rate is kept.
    """

    def __init__(
        self,
        model: nn.Module,
        probe: Probe,
        training: Given[torch.Tensor | Dataset[object] | None] = None,
        optimizer: Given[torch.optim.Optimizer | None] = None,
    ) -> None:
        optimizer = _inner(optimizer)
        if not isinstance(optimizer, torch.optim.Optimizer | None):
            raise ValueError(
                f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}; hand in the one that steps"
            )
        self.losses, self.weights, self._optimizer = Losses(), Weights(model), optimizer
        self._probe = probe
        self._hook: RemovableHandle | None = None
        self._fixed: Numbers = {} if training is None else {"leaked": leaked(probe, training)}

    def measure(self, features: Features, task: Task) -> Numbers:
        """Give all numbers since the last measurement."""
        found = self._fixed | signs(features, self._probe, task) | self.weights.measure() | self.losses.take()
        return found if self._optimizer is None else found | learning_rate(self._optimizer)

    def hook(self, read: Callable[[], None]) -> None:
        """Call what reads gradients just before each step of the optimiser, until it is closed."""
        if self._optimizer is not None:
            self._hook = self._optimizer.register_step_pre_hook(lambda *_: read())

    def close(self) -> None:
        """Let the optimiser go."""
        if self._hook is not None:
            self._hook.remove()


def _inner(optimizer: Any) -> Any:
    """The optimiser that one of accelerate or Lightning is around."""
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return optimizer


def learning_rate(optimizer: torch.optim.Optimizer) -> Numbers:
    """Rate of an optimiser as it stands, the largest of its groups; nothing where it chooses its own (Adafactor).

    >>> groups = [{"params": [nn.Parameter(torch.ones(1))], "lr": rate} for rate in (0.1, 0.2)]
    >>> learning_rate(torch.optim.SGD(groups))
    {'learning_rate': 0.2}
    """
    rates = [float(group["lr"]) for group in optimizer.param_groups if group.get("lr") is not None]
    return {"learning_rate": max(rates)} if rates else {}


def optimizer_of(model: nn.Module, candidates: Iterable[object]) -> torch.optim.Optimizer | None:
    """The first optimiser of a trainer that trains something of a model.

    >>> nets = nn.Linear(1, 1), nn.Linear(1, 1)
    >>> first, second = (torch.optim.SGD(net.parameters()) for net in nets)
    >>> optimizer_of(nets[1], [None, first, second]) is second
    True
    """
    own = set(map(id, model.parameters()))
    for each in map(_inner, candidates):
        if isinstance(each, torch.optim.Optimizer):
            trained = (parameter for group in each.param_groups for parameter in group["params"])
            if any(id(parameter) in own for parameter in trained):
                return each
    return None


def leaked(probe: Probe, training: Given[torch.Tensor | Dataset[object]]) -> float:
    """Share of the probe's samples that occur among the training inputs, bit for bit.

    training: inputs (sample, …), or a Dataset whose items are inputs or begin with them. Random augmentation hides
    a leak: give the data before it.

    >>> x = torch.arange(8.0).reshape(4, 2)
    >>> leaked(Probe.of((x, [0, 0, 1, 1]), nn.Linear(2, 2)), x[:1])
    0.25
    """
    if not isinstance(probe.inputs, torch.Tensor):
        raise ValueError("training must be left out for models with several inputs, whose samples are not compared")
    if isinstance(training, str | Mapping) or not hasattr(training, "__getitem__") or not hasattr(training, "__len__"):
        raise ValueError(
            f"training must be a tensor of inputs or a Dataset with a length, got {type(training).__name__}"
        )
    kind = probe.inputs.dtype
    seen = {_bytes(each, kind) for each in _inputs(training)}
    return sum(_bytes(each, kind) in seen for each in probe.inputs.cpu()) / len(probe)


def _inputs(training: Given[torch.Tensor | Dataset[object]]) -> Iterator[torch.Tensor]:
    if isinstance(training, torch.Tensor):
        yield from training.detach().cpu()
        return
    for place in range(len(training)):  # type: ignore[arg-type]
        item = training[place]
        yield torch.as_tensor(item[0] if isinstance(item, tuple | list) else item)


def _bytes(sample: torch.Tensor, kind: torch.dtype) -> bytes:
    return sample.to(kind).contiguous().flatten().view(torch.uint8).numpy().tobytes()


class Losses:
    """Losses as the user tells them, read only when they are asked for, so that a GPU is not waited for.

    >>> told = Losses()
    >>> for step, loss in enumerate([1.0, 3.0, math.nan]):
    ...     told.add(step, loss)
    >>> told.take()["loss_mean"], told.take()["losses_not_finite"]
    (2.0, 1.0)
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, SupportsFloat]] = []
        self._finite: list[float] = []
        self._lost, self._first = 0, math.nan
        self._last, self._changes = math.nan, list[float]()

    def add(self, step: int, loss: SupportsFloat) -> None:
        """Keep the loss of a step."""
        self._waiting.append((step, loss))
        if len(self._waiting) >= _HELD:
            self._read()

    def _read(self) -> None:
        held = [each for _, each in self._waiting]
        tensors = [each for each in held if isinstance(each, torch.Tensor)]
        if len(tensors) == len(held):
            single = [each if each.ndim == 0 else each.reshape(-1)[0] for each in tensors]
            values = torch.stack(single).double().tolist()  # all at once: each operation counts at every step
        else:
            values = [float(each) for each in held]
        for (step, _), value in zip(self._waiting, values, strict=True):
            if math.isfinite(value):
                self._finite.append(value)
                self._changes.append(value - self._last)
                self._last = value
            else:
                self._lost += 1
                self._first = step if math.isnan(self._first) else self._first
        self._waiting = []

    def take(self) -> Numbers:
        """Mean, least, greatest, greatest rise and fall from step to step since they were last taken; how many so far
        were not finite.
        """
        if self._waiting:
            self._read()
        found: Numbers = {}
        if self._finite:
            found["loss_mean"] = math.fsum(self._finite) / len(self._finite)
            found |= {"loss_least": min(self._finite), "loss_greatest": max(self._finite)}
            if len(changes := np.array(self._changes)[np.isfinite(self._changes)]):
                found |= {"loss_rise": float(changes.max()), "loss_fall": float(-changes.min())}
        if self._finite or self._lost:
            found |= {"losses_not_finite": float(self._lost), "first_not_finite": self._first}
        self._finite, self._changes = [], []
        return found


class Weights:
    """Weight matrices that are trained: their size, their gradients, and how much a step moves them.

    >>> net = nn.Linear(2, 2)
    >>> followed = Weights(net)
    >>> _ = followed.measure()
    >>> with torch.no_grad():
    ...     _ = net.weight.mul_(0.9)
    >>> followed.stepped()
    >>> round(followed.measure()["update_ratio"][0], 6), followed.names
    (0.1, ['weight'])
    """

    def __init__(self, model: nn.Module) -> None:
        tables = {id(each.weight) for each in model.modules() if isinstance(each, nn.Embedding)}
        trained = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
        self._all = [each for _, each in trained]
        held = {name: each for name, each in trained if each.ndim >= 2 and id(each) not in tables}
        self.names = [name.replace("_orig_mod.", "") for name in held]
        self._matrices = list(held.values())
        self._before: list[torch.Tensor] | None = None
        self._slopes: list[torch.Tensor] = []
        self._moved: list[torch.Tensor] | None = None
        self._turned: torch.Tensor | None = None
        self._seen: Numbers | None = None

    def read_gradients(self) -> None:
        """Read gradients now, for the next measurement: an optimiser's hook sees them before they are cleared."""
        self._seen = self._gradients()

    @property
    def waits(self) -> bool:
        """Whether the step after a measurement is still to come."""
        return self._before is not None

    def stepped(self) -> None:
        """See how far the step since the last measurement has moved the weights; does nothing at other steps."""
        if self._before is None:
            return
        with torch.no_grad():
            self._moved = [
                (_some(each) - old).norm() / old.norm() for each, old in zip(self._matrices, self._before, strict=True)
            ]
            now = self._some_gradients()
            if now and self._slopes:
                old = torch.cat(self._slopes)
                self._turned = (torch.cat(now) - old).norm() / old.norm()
        self._before = None

    def measure(self) -> Numbers:
        """Size (root mean square), gradient likewise, share of rows without gradient, and change by a step, of each."""
        if not self._matrices:
            return {}
        with torch.no_grad():
            numbers: Numbers = {"weight_size": _listed([_size(each) for each in self._matrices])}
            numbers |= self._gradients() if self._seen is None else self._seen
            if self._moved is not None:
                numbers["update_ratio"] = _listed(self._moved)
            if self._turned is not None:
                numbers["gradient_change"] = float(self._turned)
            self._before = [_some(each).clone() for each in self._matrices]
            self._slopes = [each.clone() for each in self._some_gradients()]
        self._seen = self._moved = self._turned = None
        return numbers

    def _some_gradients(self) -> list[torch.Tensor]:
        """Some gradients of each matrix; none where one of them is cleared."""
        held = [each.grad for each in self._matrices if each.grad is not None]
        return [_some(each) for each in held] if len(held) == len(self._matrices) else []

    def _gradients(self) -> Numbers:
        """Empty where all gradients are cleared; NaN for a matrix that takes no part."""
        held = [_here(each.grad) for each in self._all if each.grad is not None and not each.grad.is_sparse]
        if not held:
            return {}
        with torch.no_grad():
            whole = float(torch.stack([_norm(each) for each in held]).double().norm())
            if whole == 0:
                return {}
            rows = [
                torch.tensor([math.nan]) if each.grad is None else _norm(_here(each.grad).flatten(1), dim=1)
                for each in self._matrices
            ]
            sizes = [
                row.norm() / math.sqrt(max(1, _here(each).numel()))
                for row, each in zip(rows, self._matrices, strict=True)
            ]
            silent = [torch.where(row.isnan(), row, (row == 0).float()).mean() for row in rows]
        return {"gradient_norm": whole, "gradient_size": _listed(sizes), "silent": _listed(silent)}


def _here(tensor: torch.Tensor) -> torch.Tensor:
    """What this process holds of a tensor that is sharded, so that no other is waited for."""
    local: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local.detach()


def _norm(tensor: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    """In float32 at least: half precision overflows."""
    exact = torch.promote_types(tensor.dtype, torch.float32)
    found: torch.Tensor = torch.linalg.vector_norm(tensor, dim=dim, dtype=exact)
    return found


def _some(weights: torch.Tensor) -> torch.Tensor:
    """Evenly spaced numbers of a tensor."""
    flat = _here(weights).flatten()
    return flat[:: max(1, flat.numel() // _SAMPLED)].float()


def _size(values: torch.Tensor) -> torch.Tensor:
    return _norm(_here(values)) / math.sqrt(max(1, _here(values).numel()))


def _listed(numbers: Iterable[torch.Tensor]) -> list[float]:
    """Numbers of one device, read together."""
    found = list(numbers)
    home = next((each.device for each in found if each.device.type != "cpu"), torch.device("cpu"))
    listed: list[float] = torch.stack([each.to(home).double() for each in found]).tolist()
    return listed


def signs(features: Features, probe: Probe, task: Task) -> Numbers:
    """What the probe's pass shows: numbers that are the same for all samples, saturated ones, one answer for all.

    constant, saturated: shares of the numbers that a layer gives. A layer is saturated where they lie within 1 % of its
    range from either end, and both ends are taken. one_answer: share of the class that is predicted most.
    probabilities: 1 if the model's outputs are probabilities already. input_size: root mean square.

    >>> x, codes = torch.tensor([[1.0, 0.0], [-1.0, 0.0]] * 2), np.array([0, 1] * 2)
    >>> task = Task("classification", torch.as_tensor(codes), np.arange(2), codes, x, np.arange(4))
    >>> signs(Features([x], x, x, x[:, 0], None), Probe.of((x, [0, 1] * 2), nn.Linear(2, 2)), task)["constant"]
    [0.5]
    """
    numbers: Numbers = {
        "layer_size": [float(each.shape[1]) for each in features.layers],
        "constant": _listed(_constant(each) for each in features.layers),
        "saturated": _listed(_saturated(each) for each in features.layers),
    }
    if task.name == "classification":
        logits = features.logits.double()
        answers = torch.bincount(logits.argmax(dim=1), minlength=logits.shape[1]).max() / len(logits)
        sums = bool(((logits.sum(dim=1) - 1).abs() < 1e-4).all() and (logits >= 0).all())
        numbers |= {"one_answer": float(answers), "probabilities": float(sums)}
    if isinstance(probe.inputs, torch.Tensor) and probe.inputs.is_floating_point():
        numbers["input_size"] = float(_size(probe.inputs))
    return numbers


def _constant(layer: torch.Tensor) -> torch.Tensor:
    found = []
    for part in pieces_of(layer):
        away = layer[:, part].double() - layer[0, part]  # exactly 0 where all samples are alike
        found.append((away**2).mean(dim=0) - away.mean(dim=0) ** 2)
    spread = torch.cat(found)
    return (spread <= _LEVEL**2 * spread.max()).double().mean()


def _saturated(layer: torch.Tensor) -> torch.Tensor:
    low, high = layer.aminmax()
    margin = _EDGE * (high - low)
    ends = layer <= low + margin, layer >= high - margin
    below, above = (torch.count_nonzero(each).double() / layer.numel() for each in ends)
    return torch.where(torch.minimum(below, above) > 0.1, below + above, torch.zeros_like(below))
