"""Random numbers without a state: each is a function of (seed, trial, step, stream, place).

So a trial does not depend on its neighbours, a resumed run draws what it would have drawn, and all devices agree.
The generator is SplitMix64 (Steele, Lea & Flood 2014) on int64 tensors, which wrap around.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.func import vmap

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
SECOND = 0x94D049BB133111EB - (1 << 64)
START, ORDER, NOISE = 0, 1, 2  # what a trial's random numbers are for
LABELS, INPUTS, DROPOUT = 0, 1, 2  # kinds of noise; each dropout layer adds its number to the last


def _shifted(z: Tensor, by: int) -> Tensor:
    """The unsigned shift z >> by, which int64 lacks."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def mix(z: Tensor) -> Tensor:
    """Scramble 64-bit integers, one to one.

    >>> hex(int(mix(torch.tensor(GOLDEN))) % 2**64)  # the first output of SplitMix64 from seed 0
    '0xe220a8397b1dcdaf'
    """
    z = (z ^ _shifted(z, 30)) * FIRST
    z = (z ^ _shifted(z, 27)) * SECOND
    return z ^ _shifted(z, 31)


def keys(start: Tensor, *numbers: Tensor | int) -> Tensor:
    """A new key for each combination of a key and whole numbers.

    >>> keys(torch.tensor([1, 2]), 7).shape
    torch.Size([2])
    """
    for number in numbers:
        step = _signed((number + 1) * GOLDEN) if isinstance(number, int) else (number + 1) * GOLDEN
        start = mix(start + step)
    return start


def _signed(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def uniform(key: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Numbers in [0, 1), one key for all of `shape`.

    >>> uniform(torch.tensor(5), (2, 3), torch.float32).shape
    torch.Size([2, 3])
    """
    place = torch.arange(1, math.prod(shape) + 1, device=key.device).view(tuple(shape))
    bits = mix(key + place * GOLDEN)
    digits = 53 if dtype == torch.float64 else 24
    return _shifted(bits, 64 - digits).to(dtype) * 2.0**-digits


def at_least(share: Tensor, key: Tensor, shape: Sequence[int]) -> Tensor:
    """Whether numbers drawn from [0, 1) in steps of 2⁻¹⁶ are at least `share`: four from each draw, for speed.

    >>> float(at_least(torch.tensor(0.25), torch.tensor(5), (100, 1000)).double().mean().round(decimals=2))
    0.75
    """
    size = math.prod(shape)
    if torch.compiler.is_compiling():  # each number is made anew where it is used, and none is written
        # the ^ 0 keeps the compiler from folding places into addresses, which are too narrow for what comes next
        place = torch.arange(size, device=key.device).view(tuple(shape)) ^ 0
        bits = mix(key + ((place >> 2) + 1) * GOLDEN)
        drawn = (bits >> ((place & 3) * 16)).to(torch.int16)
    else:
        bits = mix(key + torch.arange(1, -(-size // 4) + 1, device=key.device) * GOLDEN)
        quarters = [(bits >> by).to(torch.int16) for by in (0, 16, 32, 48)]  # older vmap knows no view as int16
        drawn = torch.stack(quarters, dim=-1).flatten()[:size].view(tuple(shape))
    return drawn >= threshold(share)


def threshold(share: Tensor) -> Tensor:
    """From which number on, of the 2¹⁶ that 16 bits can be, what they stand for is at least `share`.

    >>> threshold(torch.tensor([0.0, 0.5]))
    tensor([-32768.,      0.])
    """
    return (share * 2**16).round() - 2**15


def normal(key: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Standard normal numbers by the method of Box and Muller.

    >>> abs(float(normal(torch.tensor(5), (10_000,), torch.float64).std()) - 1) < 0.02
    True
    """
    radius = torch.sqrt(-2 * torch.log(1 - uniform(keys(key, 0), shape, dtype)))
    return radius * torch.cos(2 * torch.pi * uniform(keys(key, 1), shape, dtype))


def batches(own: Tensor, first: int, count: int, *, samples: int, batch: int, shuffled: bool) -> Tensor:
    """Which samples trials with these keys draw at the steps first, first + 1, …: (step, trial, draw).

    With replacement each draw is independent; shuffled, each epoch is a permutation of the samples, of which those
    that do not fill a batch are left out.

    >>> batches(torch.arange(3), 0, 2, samples=4, batch=2, shuffled=True).sum((0, 2)).tolist()  # 0 + 1 + 2 + 3
    [6, 6, 6]
    """
    if not shuffled:
        steps = torch.arange(first, first + count, device=own.device)
        each = keys(own[None, :].expand(count, -1), steps[:, None])
        drawn = vmap(vmap(lambda key: uniform(key, (batch,), torch.float64)))(each)
        return (drawn * samples).long()
    length = samples // batch
    epochs = []
    for epoch in range(first // length, (first + count - 1) // length + 1):
        drawn = vmap(lambda key: uniform(key, (samples,), torch.float64))(keys(own, epoch))
        order = drawn.argsort(1)[:, : length * batch]
        epochs.append(order.view(len(own), length, batch).transpose(0, 1))
    start = first % length
    return torch.cat(epochs)[start : start + count]
