"""3 × 3 convolutions of many networks, each with its own weights, as kernels of our own."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _forward(x, w, out, pixels, ROWS: tl.constexpr, COLS: tl.constexpr, C: tl.constexpr, O: tl.constexpr,
             CP: tl.constexpr, OP: tl.constexpr, BLOCK: tl.constexpr, HOW: tl.constexpr):
    trial = tl.program_id(1).to(tl.int64)
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    area: tl.constexpr = ROWS * COLS
    n, at = p // area, p % area
    r, k = at // COLS, at % COLS
    c, o = tl.arange(0, CP), tl.arange(0, OP)
    x += trial * pixels * C
    w += trial * O * C * 9
    out += trial * pixels * O
    total = tl.zeros((BLOCK, OP), tl.float32)
    for tap in tl.static_range(9):
        dr: tl.constexpr = tap // 3 - 1
        dk: tl.constexpr = tap % 3 - 1
        inside = (p < pixels) & (r + dr >= 0) & (r + dr < ROWS) & (k + dk >= 0) & (k + dk < COLS)
        place = n * (C * area) + at + (dr * COLS + dk)
        xs = tl.load(x + place[:, None] + c[None, :] * area, mask=inside[:, None] & (c < C)[None, :], other=0.0)
        ws = tl.load(w + (o[None, :] * C + c[:, None]) * 9 + tap, mask=(c < C)[:, None] & (o < O)[None, :], other=0.0)
        total = tl.dot(xs, ws, total, input_precision=HOW)
    place = n * (O * area) + at
    tl.store(out + place[:, None] + o[None, :] * area, total, mask=(p < pixels)[:, None] & (o < O)[None, :])


@triton.jit
def _weights(x, slope, out, pixels, ROWS: tl.constexpr, COLS: tl.constexpr, C: tl.constexpr, O: tl.constexpr,
             KP: tl.constexpr, OP: tl.constexpr, BLOCK: tl.constexpr, MANY: tl.constexpr, HOW: tl.constexpr):
    trial = tl.program_id(1).to(tl.int64)
    area: tl.constexpr = ROWS * COLS
    j, o = tl.arange(0, KP), tl.arange(0, OP)  # j = channel·9 + tap
    c, tap = j // 9, j % 9
    dr, dk = tap // 3 - 1, tap % 3 - 1
    x += trial * pixels * C
    slope += trial * pixels * O
    total = tl.zeros((KP, OP), tl.float32)
    for b in range(MANY):
        p = (tl.program_id(0) * MANY + b) * BLOCK + tl.arange(0, BLOCK)
        n, at = p // area, p % area
        r, k = at // COLS, at % COLS
        rows, columns = r[None, :] + dr[:, None], k[None, :] + dk[:, None]
        inside = (p < pixels)[None, :] & (c < C)[:, None] & (rows >= 0) & (rows < ROWS) & (columns >= 0) & (columns < COLS)
        place = (n * (C * area))[None, :] + (c * area)[:, None] + rows * COLS + columns
        xs = tl.load(x + place, mask=inside, other=0.0)  # (KP, BLOCK)
        ss = tl.load(slope + (n * (O * area) + at)[:, None] + o[None, :] * area,
                     mask=(p < pixels)[:, None] & (o < O)[None, :], other=0.0)
        total = tl.dot(xs, ss, total, input_precision=HOW)
    out += (trial * tl.num_programs(0) + tl.program_id(0)) * KP * OP
    tl.store(out + j[:, None] * OP + o[None, :], total)


def _power(number: int) -> int:
    return max(16, triton.next_power_of_2(number))


def convolve(x: Tensor, w: Tensor, how: str, size: int, warps: int) -> Tensor:
    """(trial, n, c, h, w), (trial, o, c, 3, 3)."""
    t, n, c, rows, columns = x.shape
    o, pixels = w.shape[1], n * rows * columns
    out = torch.empty(t, n, o, rows, columns, device=x.device)
    grid = (triton.cdiv(pixels, size), t)
    _forward[grid](x, w, out, pixels, rows, columns, c, o, _power(c), _power(o), size, how, num_warps=warps)
    return out


def weight_gradient(x: Tensor, slope: Tensor, how: str, size: int, warps: int) -> Tensor:
    t, n, c, rows, columns = x.shape
    o, pixels = slope.shape[2], n * rows * columns
    blocks = triton.cdiv(pixels, size)
    many = max(1, blocks * t // 1056)  # eight programs for each of 132 processors
    parts = triton.cdiv(blocks, many)
    out = torch.empty(t, parts, _power(9 * c), _power(o), device=x.device)
    _weights[(parts, t)](x, slope, out, pixels, rows, columns, c, o, _power(9 * c), _power(o), size, many, how, num_warps=warps)
    return out.sum(1)[:, : 9 * c, :o].mT.reshape(t, o, c, 3, 3)
