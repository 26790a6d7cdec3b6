"""3 × 3 convolutions of many networks at once, each with its own weights, as kernels of our own.

cuDNN has none that suits few channels: it turns images around before and after, and in full float32 goes through the
networks one by one. Images lie channels last, (trial, n, row, column, channel), and are read once for each product.
Needs Triton, which PyTorch brings with it where it knows GPUs.
"""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# as they were fastest on an H200, 16 and 20 channels
_PIXELS, _WARPS, _STAGES = 128, 4, 2  # of a program that convolves
_ADDED, _PROGRAMS = 32, 4096  # pixels that a program for weights adds at a time, and how many leave a part of the sum


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, *, rounded: bool) -> Tensor:
    """Convolve with stride 1 and padding 1.

    x: (trial, n, row, column, channel), float32. weight: (trial, out, channel, 3, 3). bias: (trial, out)
    rounded: products of numbers rounded to tf32; else each is made of three such products, which is as exact as float32
    """
    out: Tensor = _Convolution.apply(x.contiguous(), weight.contiguous(), rounded)
    return out if bias is None else out + bias[:, None, None, None]


class _Convolution(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, rounded: bool) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.rounded = rounded
        return _convolved(x, weight, rounded)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        slope = slope.contiguous()
        turned = weight.flip(3, 4).transpose(1, 2).contiguous()
        back = _convolved(slope, turned, ctx.rounded) if ctx.needs_input_grad[0] else None
        return back, _weights(x, slope, ctx.rounded), None


def _convolved(x: Tensor, weight: Tensor, rounded: bool) -> Tensor:
    trials, n, rows, columns, channels = x.shape
    made = weight.shape[1]
    out = x.new_empty(trials, n, rows, columns, made)
    pixels = n * rows * columns
    _convolve[(triton.cdiv(pixels, _PIXELS), trials)](
        x,
        weight.permute(0, 3, 4, 2, 1).contiguous(),  # (trial, 3, 3, channel, out)
        out,
        pixels,
        ROWS=rows,
        COLUMNS=columns,
        IN=channels,
        OUT=made,
        IN_HELD=_power(channels),
        OUT_HELD=_power(made),
        BLOCK=_PIXELS,
        HOW=_how(rounded),
        num_warps=_WARPS,
        num_stages=_STAGES,
    )
    return out


def _weights(x: Tensor, slope: Tensor, rounded: bool) -> Tensor:
    """The gradient by the weights, (trial, out, channel, 3, 3)."""
    trials, n, rows, columns, channels = x.shape
    made, pixels = slope.shape[-1], n * rows * columns
    blocks = triton.cdiv(pixels, _ADDED)
    many = triton.cdiv(blocks * 3 * trials, _PROGRAMS)  # blocks of a program
    parts = triton.cdiv(blocks, many)
    out = x.new_empty(trials, parts, 3, 3, channels, made)
    _add[(parts, 3, trials)](
        x,
        slope,
        out,
        pixels,
        ROWS=rows,
        COLUMNS=columns,
        IN=channels,
        OUT=made,
        IN_HELD=_power(channels),
        OUT_HELD=_power(made),
        BLOCK=_ADDED,
        MANY=many,
        HOW=_how(rounded),
        num_warps=_power(channels) // 16,
    )
    return out.sum(1).permute(0, 4, 3, 1, 2)


def _power(number: int) -> int:
    """What tl.dot can multiply: a power of 2, from 16."""
    return max(16, 1 << (number - 1).bit_length())


def _how(rounded: bool) -> str:
    return "tf32" if rounded else "tf32x3"


@triton.jit
def _convolve(
    x,
    weight,
    out,
    pixels,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    IN_HELD: tl.constexpr,
    OUT_HELD: tl.constexpr,
    BLOCK: tl.constexpr,
    HOW: tl.constexpr,
):
    """A block of pixels of one trial, all channels: nine products, one for each neighbour."""
    trial = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = (pixel // COLUMNS) % ROWS, pixel % COLUMNS
    channel, made = tl.arange(0, IN_HELD), tl.arange(0, OUT_HELD)
    x += trial * pixels * IN
    weight += trial * 9 * IN * OUT
    total = tl.zeros((BLOCK, OUT_HELD), tl.float32)
    for tap in range(9):
        r = row + (tap // 3 - 1)
        c = column + (tap % 3 - 1)
        inside = (pixel < pixels) & (r >= 0) & (r < ROWS) & (c >= 0) & (c < COLUMNS)
        there = (pixel + (tap // 3 - 1) * COLUMNS + (tap % 3 - 1)) * IN
        seen = tl.load(x + there[:, None] + channel[None, :], mask=inside[:, None] & (channel < IN)[None, :], other=0.0)
        held = (channel < IN)[:, None] & (made < OUT)[None, :]
        factor = tl.load(weight + tap * IN * OUT + channel[:, None] * OUT + made[None, :], mask=held, other=0.0)
        total = tl.dot(seen, factor, total, input_precision=HOW)
    out += trial * pixels * OUT
    kept = (pixel < pixels)[:, None] & (made < OUT)[None, :]
    tl.store(out + pixel[:, None] * OUT + made[None, :], total, mask=kept)


@triton.jit
def _add(
    x,
    slope,
    out,
    pixels,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    IN_HELD: tl.constexpr,
    OUT_HELD: tl.constexpr,
    BLOCK: tl.constexpr,
    MANY: tl.constexpr,
    HOW: tl.constexpr,
):
    """The gradient by the weights of one row of neighbours, from some blocks of pixels of one trial."""
    trial = tl.program_id(2).to(tl.int64)
    down = tl.program_id(1) - 1
    channel, made = tl.arange(0, IN_HELD), tl.arange(0, OUT_HELD)
    x += trial * pixels * IN
    slope += trial * pixels * OUT
    left = tl.zeros((IN_HELD, OUT_HELD), tl.float32)
    middle = tl.zeros((IN_HELD, OUT_HELD), tl.float32)
    right = tl.zeros((IN_HELD, OUT_HELD), tl.float32)
    for block in range(MANY):
        pixel = (tl.program_id(0) * MANY + block) * BLOCK + tl.arange(0, BLOCK)
        row, column = (pixel // COLUMNS) % ROWS + down, pixel % COLUMNS
        inside = (pixel < pixels) & (row >= 0) & (row < ROWS)
        kept = (pixel < pixels)[:, None] & (made < OUT)[None, :]
        given = tl.load(slope + pixel[:, None] * OUT + made[None, :], mask=kept, other=0.0)
        there = x + ((pixel + down * COLUMNS) * IN)[:, None] + channel[None, :]
        some = (channel < IN)[None, :]
        seen = tl.load(there - IN, mask=(inside & (column > 0))[:, None] & some, other=0.0)
        left = tl.dot(tl.trans(seen), given, left, input_precision=HOW)
        seen = tl.load(there, mask=inside[:, None] & some, other=0.0)
        middle = tl.dot(tl.trans(seen), given, middle, input_precision=HOW)
        seen = tl.load(there + IN, mask=(inside & (column < COLUMNS - 1))[:, None] & some, other=0.0)
        right = tl.dot(tl.trans(seen), given, right, input_precision=HOW)
    part = trial * tl.num_programs(0) + tl.program_id(0)
    out += (part * 3 + tl.program_id(1)) * 3 * IN * OUT
    place = out + channel[:, None] * OUT + made[None, :]
    held = (channel < IN)[:, None] & (made < OUT)[None, :]
    tl.store(place, left, mask=held)
    tl.store(place + IN * OUT, middle, mask=held)
    tl.store(place + 2 * IN * OUT, right, mask=held)
