"""What all networks share: named stages, probe points, and small layers whose settings can differ between trials."""

import copy
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from dynascope.checks import one_of
from dynascope.networks import draws

ADJUSTABLE = ("slope", "dropout", "input_scale", "output_scale", "weight_scale", "target_scale")


class LeakyReLU(nn.Module):
    """x for x > 0, slope·x else; the slope is a buffer, so that trials can differ.

    Written as slope·x + (1 − slope)·relu(x), which takes a third of the time of a choice between two tensors.
    """

    slope: Tensor

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.register_buffer("slope", torch.tensor(float(slope)))

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return self.slope * x + (1 - self.slope) * torch.relu(x)


class Linear(nn.Linear):
    """x ↦ W·x + b, in the order of factors that suits an ensemble's stacked W.

    Where its gradient is needed, it shall lie in memory as W does; where not, the other order is twice as quick.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(n, in) → (n, out)."""
        if self.weight.requires_grad and torch.is_grad_enabled():
            return (self.weight @ x.mT).mT + self.bias
        return x @ self.weight.mT + self.bias


class BatchNorm2d(nn.BatchNorm2d):
    """PyTorch's batch norm as ordinary sums: many trials of few channels leave most of a GPU idle in cuDNN's own."""

    momentum: float
    running_mean: Tensor
    running_var: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """(n, channel, row, column) → the same shape."""
        variance, mean = self.running_var, self.running_mean
        if self.training:
            many = x.numel() // x.shape[1]
            if many < 2:
                raise ValueError("batch norm needs two values of a channel in training: use a batch_size above 1")
            variance, mean = torch.var_mean(x, (0, 2, 3), correction=0)
            with torch.no_grad():
                for kept, new in ((self.running_mean, mean), (self.running_var, variance * (many / (many - 1)))):
                    kept.mul_(1 - self.momentum).add_(self.momentum * new)
        scale = self.weight * torch.rsqrt(variance + self.eps)
        shift = self.bias - mean * scale
        return torch.addcmul(shift[:, None, None], x, scale[:, None, None])


class Dropout(nn.Module):
    """Set a share of the values to 0 and scale up the rest, in training only.

    An ensemble hands it a key of its own, from which it draws; without one it draws from PyTorch's own generator.
    """

    dropout: Tensor
    key: Tensor | None

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.register_buffer("dropout", torch.tensor(float(dropout)))
        self.register_buffer("key", None)

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        if not self.training:
            return x
        if self.key is None:
            kept = torch.rand_like(x) >= self.dropout
        else:
            kept = draws.at_least(self.dropout, self.key, x.shape)
        return x * (kept.to(x.dtype) / (1 - self.dropout))


class Flatten(nn.Module):
    """(n, …) → (n, inputs), multiplied by a fixed number."""

    input_scale: Tensor

    def __init__(self, input_scale: float) -> None:
        super().__init__()
        self.register_buffer("input_scale", torch.tensor(float(input_scale)))

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return self.input_scale * x.flatten(1)


class Scale(nn.Module):
    """Multiply by a fixed number."""

    output_scale: Tensor

    def __init__(self, output_scale: float) -> None:
        super().__init__()
        self.register_buffer("output_scale", torch.tensor(float(output_scale)))

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return self.output_scale * x


class MeanOverPixels(nn.Module):
    """(n, channel, row, column) → (n, channel)."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return x.mean((-2, -1))


class Network(nn.Module):
    """Stages one after another, from inputs of one shape to one number per class.

    `features` returns what measuring needs: the values after each probe point, by name.
    """

    tokens: int | None = None  # where inputs are whole numbers: how many there are

    def __init__(
        self, stages: Mapping[str, nn.Module], *, shape: Sequence[int], classes: int, probes: Sequence[str]
    ) -> None:
        super().__init__()
        self.stages = nn.Sequential(OrderedDict(stages))
        self.shape, self.classes, self.probes = tuple(shape), classes, tuple(probes)

    def forward(self, x: Tensor, at: Sequence[str] = ()) -> Tensor | dict[str, Tensor]:
        """(n, *shape) → (n, class); with stages in `at`, the values after each of them too, as `features` has them."""
        if at:
            return self._taken(x, at)
        logits: Tensor = self.stages(x)
        return logits

    def _taken(self, x: Tensor, at: Sequence[str]) -> dict[str, Tensor]:
        found = {}
        for name, stage in self.stages.named_children():
            x = stage(x)
            if name in at:
                found[name] = x
        return found | {"logits": x}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        """Return the values after each probe point, and `logits`."""
        return self._taken(x, self.probes)

    @property
    def last(self) -> str:
        """Name of the stage whose values the last linear layer reads, the features Φ of the layerwise thesis."""
        names = [name for name, _ in self.stages.named_children()]
        return names[names.index(self.readout) - 1]

    @property
    def readout(self) -> str:
        """Name of the last linear layer."""
        return [name for name, stage in self.stages.named_children() if isinstance(stage, nn.Linear)][-1]

    @property
    def kinds(self) -> list[str]:
        """What each probe point is made of, by the last map before it since the point before: Linear, Conv2d, or "".

        >>> from dynascope.networks import CNN
        >>> CNN(depth=2, input_norm=True).kinds
        ['', 'Conv2d', 'Conv2d']
        """
        found, kind = [], ""
        for name, stage in self.stages.named_children():
            maps = [type(each).__name__ for each in stage.modules() if isinstance(each, nn.Linear | nn.Conv2d)]
            kind = [kind, *maps][-1]
            if name in self.probes:
                found.append(kind)
                kind = ""
        return found

    def reset_parameters(self) -> None:
        """Draw all weights again, from PyTorch's generator."""
        for module in self.modules():
            if module is not self and hasattr(module, "reset_parameters"):
                module.reset_parameters()  # type: ignore[operator]

    @property
    def adjustable(self) -> tuple[str, ...]:
        """Settings that can differ between the trials of an ensemble."""
        held = {name.rpartition(".")[2] for name, _ in self.named_buffers()}
        return tuple(name for name in ADJUSTABLE if name in held)

    def cut(self, stage: str) -> "Network":
        """Return a copy of the stages up to the one that is named, and a new linear layer to the classes after it.

        >>> from dynascope.networks import MLP
        >>> [name for name, _ in MLP(4, 2, width=3, depth=5).cut("act_1").stages.named_children()]
        ['flat', 'linear_1', 'act_1', 'readout']
        """
        own = copy.deepcopy(self)
        stages = dict(own.stages.named_children())
        names = list(stages)
        names = names[: names.index(one_of("stage", stage, names[: names.index(self.readout)])) + 1]
        blank = torch.zeros(1, *self.shape, dtype=None if self.tokens is None else torch.int64)
        with torch.no_grad():
            values = copy.deepcopy(self).cpu().float().eval()(blank, names)[names[-1]]
        kept = {name: stages[name] for name in names} | ({"flattened": nn.Flatten()} if values.ndim > 2 else {})
        kept["readout"] = Linear(values.numel(), self.classes)
        probes = [name for name in self.probes if name in kept]
        found = Network(kept, shape=self.shape, classes=self.classes, probes=probes)
        for name, buffer in own.named_buffers(recurse=False):
            found.register_buffer(name, buffer)
        found.tokens = self.tokens
        return found
