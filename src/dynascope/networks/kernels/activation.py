"""Batch norm, leaky ReLU and dropout of many networks at once, in one pass over memory, and one backward.

A program has all draws of one feature of one network, so that their mean and deviation never leave it; random numbers
are made where they are used, in both passes. It takes a second to compile, where PyTorch's compiler takes half a minute
to load and to write the same. Needs Triton, which PyTorch brings with it where it knows GPUs.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from dynascope.networks.draws import FIRST, GOLDEN, SECOND, threshold

_GOLDEN, _FIRST, _SECOND = tl.constexpr(GOLDEN), tl.constexpr(FIRST), tl.constexpr(SECOND)


def activate(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    slope: Tensor,
    *,
    eps: float,
    dropout: Tensor | None = None,
    key: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise over draws, apply the leaky ReLU, drop; and the means and variances over draws, (trial, feature).

    x: (trial, draw, feature), float32; quickest where draws lie side by side. weight, bias: (trial, feature)
    slope, dropout, key: (trial,); without dropout and key nothing is dropped
    """
    drops = (1 - dropout, threshold(dropout), key) if dropout is not None else ()
    found: tuple[Tensor, ...] = _Activation.apply(x.mT.contiguous(), weight, bias, eps, slope.contiguous(), *drops)
    return found[0].mT, found[1], found[2]


class _Activation(Function):
    """x: (trial, feature, draw). drops: what is kept by 1 − dropout, from which number on, and the keys."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, *rest: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean, variance = (x.new_empty(x.shape[:2]) for _ in range(2))
        weight, bias, out = weight.contiguous(), bias.contiguous(), torch.empty_like(x)
        ctx.save_for_backward(x, weight, bias, *rest)
        ctx.eps = eps
        _forward[x.shape[0] * x.shape[1],](x, weight, bias, *_told(rest), out, mean, variance, eps, **_sizes(x, rest))
        ctx.mark_non_differentiable(mean, variance)
        return out, mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        x, weight, bias, *rest = ctx.saved_tensors
        back, by_weight, by_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        _backward[x.shape[0] * x.shape[1],](
            x, given.contiguous(), weight, bias, *_told(rest), back, by_weight, by_bias, ctx.eps, **_sizes(x, rest)
        )
        return back, by_weight, by_bias, *[None] * (1 + len(rest))


def _told(rest: Any) -> tuple[Tensor, ...]:
    """Slopes and what is known of dropout, in its place something where there is none."""
    slope, *drops = rest
    return (slope, *drops) if drops else (slope,) * 4


def _sizes(x: Tensor, rest: Any) -> dict[str, Any]:
    held = triton.next_power_of_2(x.shape[2])
    warps = min(max(held // 512, 1), 8)
    return {"FEATURES": x.shape[1], "DRAWS": x.shape[2], "HELD": held, "DROPS": len(rest) > 1, "num_warps": warps}


@triton.jit
def _shifted(z, BY: tl.constexpr):
    """The unsigned shift."""
    return (z >> BY) & ((1 << (64 - BY)) - 1)


@triton.jit
def _kept(key, least, feature, draw, FEATURES: tl.constexpr):
    """Which draws of a feature are kept, as `draws.at_least` says it: four numbers from each of SplitMix64's."""
    place = draw.to(tl.int64) * FEATURES + feature
    z = key + ((place >> 2) + 1) * _GOLDEN
    z = (z ^ _shifted(z, 30)) * _FIRST
    z = (z ^ _shifted(z, 27)) * _SECOND
    z = z ^ _shifted(z, 31)
    return (z >> ((place & 3) * 16)).to(tl.int16).to(tl.float32) >= least


@triton.jit
def _normalised(x, row, draw, eps, DRAWS: tl.constexpr):
    """Values with mean 0 and variance 1, and mean, variance and 1/deviation."""
    inside = draw < DRAWS
    value = tl.load(x + row * DRAWS + draw, mask=inside, other=0.0)
    mean = tl.sum(value, 0) / DRAWS
    value = tl.where(inside, value - mean, 0.0)
    variance = tl.sum(value * value, 0) / DRAWS
    scale = 1.0 / tl.sqrt(variance + eps)
    return value * scale, mean, variance, scale


@triton.jit
def _forward(
    x,
    weight,
    bias,
    slope,
    share,
    least,
    key,
    out,
    means,
    variances,
    eps,
    FEATURES: tl.constexpr,
    DRAWS: tl.constexpr,
    HELD: tl.constexpr,
    DROPS: tl.constexpr,
):
    """All draws of one feature of one trial."""
    row = tl.program_id(0).to(tl.int64)
    trial, feature, draw = row // FEATURES, row % FEATURES, tl.arange(0, HELD)
    value, mean, variance, _ = _normalised(x, row, draw, eps, DRAWS)
    value = value * tl.load(weight + row) + tl.load(bias + row)
    value = tl.where(value > 0, value, tl.load(slope + trial) * value)
    if DROPS:
        kept = _kept(tl.load(key + trial), tl.load(least + trial), feature, draw, FEATURES)
        value = tl.where(kept, value / tl.load(share + trial), 0.0)
    tl.store(out + row * DRAWS + draw, value, mask=draw < DRAWS)
    tl.store(means + row, mean)
    tl.store(variances + row, variance)


@triton.jit
def _backward(
    x,
    given,
    weight,
    bias,
    slope,
    share,
    least,
    key,
    out,
    by_weight,
    by_bias,
    eps,
    FEATURES: tl.constexpr,
    DRAWS: tl.constexpr,
    HELD: tl.constexpr,
    DROPS: tl.constexpr,
):
    """The gradients by the draws of one feature of one trial, by its weight and its bias."""
    row = tl.program_id(0).to(tl.int64)
    trial, feature, draw = row // FEATURES, row % FEATURES, tl.arange(0, HELD)
    value, _, _, scale = _normalised(x, row, draw, eps, DRAWS)
    factor = tl.load(weight + row)
    change = tl.load(given + row * DRAWS + draw, mask=draw < DRAWS, other=0.0)
    if DROPS:
        kept = _kept(tl.load(key + trial), tl.load(least + trial), feature, draw, FEATURES)
        change = tl.where(kept, change / tl.load(share + trial), 0.0)
    change = tl.where(value * factor + tl.load(bias + row) > 0, change, tl.load(slope + trial) * change)
    by_value, by_one = tl.sum(change * value, 0), tl.sum(change, 0)
    back = factor * scale * (change - by_one / DRAWS - value * (by_value / DRAWS))
    tl.store(out + row * DRAWS + draw, back, mask=draw < DRAWS)
    tl.store(by_weight + row, by_value)
    tl.store(by_bias + row, by_one)
