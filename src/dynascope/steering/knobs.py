"""What can be turned while a network trains: one number each, with limits, of the user's own training.

A knob has a name, a value, limits and a method `set`. `noise` says which way more of it is noisier; `scale` whether
equal steps are differences (linear) or ratios (log) of its value.
"""

import math
from collections.abc import Callable
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import nn

from dynascope.checks import Given, count, scalar
from dynascope.networks.network import Dropout as OwnDropout

_LEVELS = 6  # values that a compiled model meets: torch compiles it anew for each, up to eight times
_DROPS = ("drop_prob", "p")  # what layers call their share
PATHS = ("DropPath", "StochasticDepth")  # layers that drop whole branches


@runtime_checkable
class Knob(Protocol):
    """One number of a training run that can be turned.

    >>> isinstance(Function("strength", print, value=0.0, at_most=1.0), Knob)
    True
    """

    name: str
    limits: tuple[float, float]
    scale: str
    noise: int

    @property
    def value(self) -> float:
        """What it is now."""

    def set(self, value: float) -> None:
        """Turn it."""


class Limited:
    """Limits that are checked, on a scale; usual: those that a knob has if nobody chose others, all below `below`."""

    name, scale, noise = "", "linear", 1
    usual: tuple[float, float] = (0.0, 1.0)
    below = math.inf

    def _limit(self, at_least: float, at_most: float) -> None:
        self.limits = allowed(self, at_least, at_most)

    def _within(self, value: float) -> float:
        return min(max(scalar("value", value), self.limits[0]), self.limits[1])


def allowed(knob: Limited | type[Limited], at_least: Given[float], at_most: Given[float]) -> tuple[float, float]:
    """Limits of a knob, or of a kind of knob, if they can be.

    >>> allowed(Dropout, 0, 0.5)
    (0.0, 0.5)
    """
    low = scalar("at_least", at_least, at_least=0.0)
    high = scalar("at_most", at_most, at_least=0.0)
    if knob.scale == "log" and low == 0:
        raise ValueError(f"at_least must be above 0 for {knob.name}, which is turned by factors, got {at_least!r}")
    if not low < high:
        raise ValueError(f"at_most must be above at_least, got at_least={at_least!r}, at_most={at_most!r}")
    if not high < knob.below:
        raise ValueError(f"at_most must be below {knob.below:g} for {knob.name}, got {at_most!r}")
    return low, high


class Dropout(Limited):
    """The share of every dropout layer of a model: nn.Dropout and its kin, DropPath and StochasticDepth, our own.

    model: any module; compiled ones meet six values only, since each is compiled anew
    at_least, at_most: of the share

    Layers that differ at the start are set to the same share; `layers` are those that it turns.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1))
    >>> knob = Dropout(net)
    >>> knob.set(0.25)
    >>> knob.value, net[1].p
    (0.25, 0.25)
    """

    name, usual, below = "dropout", (0.0, 0.6), 1.0

    def __init__(
        self, model: Given[nn.Module], *, at_least: Given[float] = usual[0], at_most: Given[float] = usual[1]
    ) -> None:
        model = _module(model)
        self._limit(at_least, at_most)
        self.layers = [each for each in model.modules() if _share_of(each) is not None]
        if not self.layers:
            raise ValueError(
                "model must have dropout layers (nn.Dropout, DropPath, StochasticDepth) to turn; it has none: add "
                "nn.Dropout(0.0) behind each activation, or turn another knob (LearningRate, WeightDecay, InputNoise)"
            )
        compiled = any(hasattr(each, "_orig_mod") or each._compiled_call_impl for each in model.modules())
        ours = all(isinstance(each, OwnDropout) for each in self.layers)
        self._step = (self.limits[1] - self.limits[0]) / (_LEVELS - 1) if compiled and not ours else 0.0

    @property
    def value(self) -> float:
        """The largest share among the layers."""
        return max(cast(float, _share_of(each)) for each in self.layers)

    def set(self, value: float) -> None:
        """Give every layer this share."""
        share = self._within(value)
        if self._step:
            levels = (share - self.limits[0]) / self._step
            share = self.limits[0] + self._step * (1 if 0.25 <= levels < 1 else round(levels))  # little is not none
        for each in self.layers:
            if isinstance(each, OwnDropout):
                each.dropout.fill_(share)
            else:
                setattr(each, _share_name(each), share)


def _share_name(layer: nn.Module) -> str:
    if isinstance(layer, nn.modules.dropout._DropoutNd):
        return "p"
    if type(layer).__name__ in PATHS:
        return next((name for name in _DROPS if isinstance(getattr(layer, name, None), float)), "")
    return ""


def _share_of(layer: nn.Module) -> float | None:
    """What a layer drops; None if it is not of this kind."""
    if isinstance(layer, OwnDropout):
        return float(layer.dropout)
    name = _share_name(layer)
    return float(getattr(layer, name)) if name else None


class LearningRate(Limited):
    """The learning rates of an optimiser, all groups, by one factor; what a scheduler does stays as it is.

    optimizer: any of torch's; its scheduler, if any, steps as usual
    at_least, at_most: of the factor

    The factor is applied when the optimiser steps and taken out afterwards, so that a scheduler never sees it.

    >>> weights = [nn.Parameter(torch.ones(1))]
    >>> sgd = torch.optim.SGD(weights, lr=0.1)
    >>> knob = LearningRate(sgd)
    >>> knob.set(2.0)
    >>> weights[0].grad = torch.ones(1)
    >>> _ = sgd.step()
    >>> round(weights[0].item(), 6), sgd.param_groups[0]["lr"]
    (0.8, 0.1)
    """

    name, scale, usual = "learning_rate_factor", "log", (0.1, 10.0)

    def __init__(
        self,
        optimizer: Given[torch.optim.Optimizer],
        *,
        at_least: Given[float] = usual[0],
        at_most: Given[float] = usual[1],
    ) -> None:
        self._optimizer = _optimizer(optimizer)
        self._limit(at_least, at_most)
        self._factor = 1.0
        if not self.limits[0] <= 1 <= self.limits[1]:
            raise ValueError(f"at_least and at_most must lie around the factor 1, got {self.limits}")
        self._rates: list[Any] = []
        self._optimizer.register_step_pre_hook(self._apply)
        self._optimizer.register_step_post_hook(self._undo)

    @property
    def value(self) -> float:
        """The factor."""
        return self._factor

    def set(self, value: float) -> None:
        """Multiply all rates by this."""
        self._factor = self._within(value)

    def _apply(self, *_: object) -> None:
        if self._factor == 1.0:
            return
        self._rates = [group["lr"] for group in self._optimizer.param_groups]
        for group in self._optimizer.param_groups:
            group["lr"] = group["lr"] * self._factor

    def _undo(self, *_: object) -> None:
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=False):
            group["lr"] = rate
        self._rates = []


class WeightDecay(Limited):
    """The weight decay of an optimiser: of the groups that have some, or of all where none has.

    optimizer: any of torch's whose groups have a weight_decay
    at_least, at_most: of the largest decay; groups keep their ratios. A decay of 0 is set to at_least at once: it is
        turned by factors.

    >>> sgd = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    >>> knob = WeightDecay(sgd)
    >>> knob.set(0.01)
    >>> sgd.param_groups[0]["weight_decay"]
    0.01
    """

    name, scale, usual = "weight_decay", "log", (1e-5, 0.1)

    def __init__(
        self,
        optimizer: Given[torch.optim.Optimizer],
        *,
        at_least: Given[float] = usual[0],
        at_most: Given[float] = usual[1],
    ) -> None:
        groups = _optimizer(optimizer).param_groups
        if any("weight_decay" not in group for group in groups):
            raise ValueError(f"optimizer must have a weight_decay in its groups, {type(optimizer).__name__} has none")
        self._limit(at_least, at_most)
        decays = [float(group["weight_decay"]) for group in groups]
        self._groups = [group for group, decay in zip(groups, decays, strict=True) if decay or not any(decays)]
        largest = max(decays)
        self._parts = [float(group["weight_decay"]) / largest if largest else 1.0 for group in self._groups]
        if not largest:
            self.set(self.limits[0])

    @property
    def value(self) -> float:
        """The largest decay."""
        return max(float(group["weight_decay"]) for group in self._groups)

    def set(self, value: float) -> None:
        """Set the largest decay, and the others in proportion."""
        decay = self._within(value)
        for group, part in zip(self._groups, self._parts, strict=True):
            group["weight_decay"] = decay * part


class LabelSmoothing(Limited):
    """The label smoothing of a loss module.

    loss: nn.CrossEntropyLoss, the one that the training loop calls

    >>> loss = nn.CrossEntropyLoss()
    >>> LabelSmoothing(loss).set(0.1)
    >>> loss.label_smoothing
    0.1
    """

    name, below = "label_smoothing", 1.0

    def __init__(
        self, loss: Given[nn.CrossEntropyLoss], *, at_least: Given[float] = 0.0, at_most: Given[float] = 0.5
    ) -> None:
        if not isinstance(loss, nn.CrossEntropyLoss):
            raise ValueError(f"loss must be the nn.CrossEntropyLoss of the training loop, got {type(loss).__name__}")
        self._limit(at_least, at_most)
        self._loss = loss

    @property
    def value(self) -> float:
        """The smoothing."""
        return float(self._loss.label_smoothing)

    def set(self, value: float) -> None:
        """Smooth by this much."""
        self._loss.label_smoothing = self._within(value)


class InputNoise(Limited):
    """Gaussian noise on a model's inputs in training, in units of their standard deviation in the batch.

    model: any module whose first argument is a tensor of floats

    >>> net = nn.Identity()
    >>> knob = InputNoise(net)
    >>> knob.set(0.5)
    >>> bool((net(torch.arange(4.0)) == torch.arange(4.0)).any()), net.eval()(torch.ones(1)).item()
    (False, 1.0)
    """

    name = "input_noise"

    def __init__(self, model: Given[nn.Module], *, at_least: Given[float] = 0.0, at_most: Given[float] = 1.0) -> None:
        model = _module(model)
        self._limit(at_least, at_most)
        self._strength = self.limits[0]
        model.register_forward_pre_hook(self._disturb)

    @property
    def value(self) -> float:
        """Standard deviation of the noise over that of the inputs."""
        return self._strength

    def set(self, value: float) -> None:
        """Make the noise this strong."""
        self._strength = self._within(value)

    def _disturb(self, model: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if not model.training or self._strength == 0:
            return None
        if not given or not isinstance(given[0], torch.Tensor) or not given[0].is_floating_point():
            raise ValueError("model must take a tensor of floats first for InputNoise, which adds to it")
        return given[0] + self._strength * given[0].std() * torch.randn_like(given[0]), *given[1:]


class BatchSize(Limited):
    """The batch size of a DataLoader, from its next epoch on: smaller batches are noisier.

    loader: a DataLoader with a BatchSampler, as batch_size=… makes it

    >>> loader = torch.utils.data.DataLoader(range(100), batch_size=20)
    >>> BatchSize(loader, at_least=10, at_most=50).set(25)
    >>> len(list(loader))
    4
    """

    name, scale, noise = "batch_size", "log", -1

    def __init__(
        self,
        loader: Given[torch.utils.data.DataLoader[Any]],
        *,
        at_least: Given[int] = 8,
        at_most: Given[int] = 1024,
    ) -> None:
        sampler = getattr(loader, "batch_sampler", None)
        if type(sampler) is not torch.utils.data.BatchSampler:
            raise ValueError(
                "loader must be a DataLoader made with batch_size=…, whose BatchSampler can be set, got "
                f"{type(loader).__name__} with {type(sampler).__name__}"
            )
        self._sampler = sampler
        self._limit(count("at_least", at_least), count("at_most", at_most))

    @property
    def value(self) -> float:
        """Samples in a batch."""
        return float(self._sampler.batch_size)

    def set(self, value: float) -> None:
        """Take batches of this size, rounded."""
        self._sampler.batch_size = round(self._within(value))


class Function(Limited):
    """A knob of your own: a function that sets one number.

    name: what the record calls it
    turn: called with each new value
    value: where it stands now
    noise: 1 if larger values make training noisier, −1 if smaller ones do
    scale: "linear", or "log" to turn it by factors

    >>> seen = []
    >>> knob = Function("mixup", seen.append, value=0.0, at_most=1.0)
    >>> knob.set(0.5)
    >>> seen
    [0.5]
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[float], object],
        *,
        value: Given[float],
        at_least: Given[float] = 0.0,
        at_most: Given[float],
        noise: int = 1,
        scale: str = "linear",
    ) -> None:
        if not str(name).isidentifier():
            raise ValueError(f"name must be a word, as variables have, got {name!r}")
        if not callable(turn):
            raise ValueError(f"turn must be a function of one number, got {turn!r}")
        if noise not in (1, -1):
            raise ValueError(f"noise must be 1 or -1, got {noise!r}")
        if scale not in ("linear", "log"):
            raise ValueError(f"scale must be one of linear, log, got {scale!r}")
        self.name, self.noise, self.scale, self._turn = name, noise, scale, turn
        self._limit(at_least, at_most)
        self._value = scalar("value", value)
        if not self.limits[0] <= self._value <= self.limits[1]:
            raise ValueError(f"value must lie between {self.limits[0]:g} and {self.limits[1]:g}, got {value!r}")

    @property
    def value(self) -> float:
        """What was set last."""
        return self._value

    def set(self, value: float) -> None:
        """Call the function."""
        self._value = self._within(value)
        self._turn(self._value)


def _module(given: object) -> nn.Module:
    if not isinstance(given, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(given).__name__}")
    return given


def _optimizer(given: object) -> torch.optim.Optimizer:
    inner = getattr(given, "optimizer", given)  # what accelerate wraps around it
    if not isinstance(inner, torch.optim.Optimizer):
        raise ValueError(f"optimizer must be a torch.optim.Optimizer, got {type(given).__name__}")
    return inner
