"""Standard normal noise as a pure function of seed, trial, step and element.

A simulation that draws its noise from a counter needs no state to carry and keeps one promise for free:
trial 3 sees the same noise whether 4 or 4000 trials run, on whatever time grid it is saved and at every
point of a parameter grid. The bits are Threefry-2x32 with 20 rounds, the generator behind `jax.random`;
written out here because only then does XLA fuse its rounds, and because the polynomial Box-Muller
transform below costs half of the inverse error function. `benchmarks/spring_block.py` times it beside
the generators of NumPy, torch and JAX.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtri
from jaxtyping import Array, Float, UInt32

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def threefry(key: Any, high: UInt32[Array, "..."], low: UInt32[Array, "..."]) -> Any:
    """Scramble the counters (`high`, `low`) with a 64-bit `key`: Threefry-2x32, 20 rounds.

    `high` and `low` broadcast against each other; two arrays of independent 32-bit words come back.
    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).

    >>> words = threefry(jnp.zeros(2, jnp.uint32), jnp.zeros(1, jnp.uint32), jnp.zeros(1, jnp.uint32))
    >>> [hex(int(word[0])) for word in words]
    ['0x6b200159', '0x99ba4efe']
    """
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    first, second = high + schedule[0], low + schedule[1]
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            first = first + second
            second = (second << np.uint32(turn) | second >> np.uint32(32 - turn)) ^ first
        first = first + schedule[(group + 1) % 3]
        second = second + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return first, second


@functools.partial(jax.jit, static_argnames=("rows", "elements", "trials"))
def _words(key: Any, first_row: Any, first_trial: Any, stride: Any, *, rows: int, elements: int, trials: int) -> Any:
    """Two 32-bit words each, (row, element, 1, trial); compiled apart from their use, at full vector width."""
    row = (first_row + lax.iota(jnp.uint32, rows))[:, None, None, None]
    element = lax.iota(jnp.uint32, elements)[:, None, None]
    trial = first_trial + lax.iota(jnp.uint32, trials)
    return threefry(key, row, element + stride * trial)


def _polynomial(coefficients: list[float], x: Array) -> Array:
    result = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + np.asarray(coefficient, x.dtype)
    return result


def _log(x: Array) -> Array:
    """Natural logarithm of normal positive numbers: x = m·2ᵉ, log m = 2 artanh((m−1)/(m+1)).

    With m in [√½, √2) the series in ((m−1)/(m+1))² < 0.0295 ends after 11 terms (5 in float32).
    """
    wide = x.dtype == jnp.float64
    word, fraction_bits = (np.uint64, 52) if wide else (np.uint32, 23)
    half_root = np.sqrt(np.asarray(0.5, x.dtype)).view(word)
    bias = word(2048 if wide else 256)
    bits = lax.bitcast_convert_type(x, word)
    exponent = (bits - half_root + (bias << word(fraction_bits))) >> word(fraction_bits)  # e + bias
    mantissa = lax.bitcast_convert_type(bits - ((exponent - bias) << word(fraction_bits)), x.dtype)
    # 2^fraction_bits + e + bias has e + bias in its last bits: cheaper than converting 64-bit integers
    offset = np.asarray(2.0**fraction_bits, x.dtype)
    scaled = lax.bitcast_convert_type(exponent | offset.view(word), x.dtype)
    ratio = (mantissa - 1) / (mantissa + 1)
    series = _polynomial([2 / (2 * k + 1) for k in range(11 if wide else 5)], ratio * ratio)
    whole: Array = (scaled - (offset + np.asarray(bias, x.dtype))) * np.asarray(math.log(2), x.dtype)
    return whole + ratio * series


def _cosine_of_turns(turns: Array) -> Array:
    """cos(2π·turns) for |turns| ≤ ½, as the sine series of the quarter turn that is left."""
    wide = turns.dtype == jnp.float64
    angle = 0.25 - jnp.abs(turns)  # in [-¼, ¼]
    terms = [(-1) ** k * (2 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(12 if wide else 7)]
    return angle * _polynomial(terms, angle * angle)


@functools.partial(jax.jit, static_argnames=("dtype",))
def box_muller(first: UInt32[Array, "..."], second: UInt32[Array, "..."], *, dtype: Any) -> Float[Array, "..."]:
    """Turn two independent 32-bit words into one standard normal, √(−2 log u)·cos(2πv).

    float64: 40 bits for u (|z| ≤ 7.4) and 24 for v; float32: 31 and 32 bits (|z| ≤ 6.7). The v are equally
    spaced on the circle, so that the mean is exactly 0 and the cosine's mean square exactly ½.

    >>> with jax.enable_x64(True):
    ...     z = box_muller(jnp.array([2**31], jnp.uint32), jnp.array([2**23], jnp.uint32), dtype=jnp.float64)
    >>> abs(float(z[0]) - math.sqrt(2 * math.log(2))) < 1e-7
    True
    """
    if dtype == jnp.float64:
        word = first.astype(jnp.uint64) << np.uint64(32) | second.astype(jnp.uint64)
        one = np.float64(1).view(np.uint64)
        u = 2.0 - lax.bitcast_convert_type(word >> np.uint64(24) << np.uint64(12) | one, jnp.float64)
        v = lax.bitcast_convert_type((word & np.uint64(0xFFFFFF)) << np.uint64(28) | one, jnp.float64) - 1.5
    else:
        scale = np.float32(2.0**-31)
        u = (lax.bitcast_convert_type(first >> np.uint32(1), jnp.int32).astype(dtype) + np.float32(0.5)) * scale
        v = lax.bitcast_convert_type(second, jnp.int32).astype(dtype) * (scale / 2)
    normal: Array = jnp.sqrt(-2 * _log(u)) * _cosine_of_turns(v)
    return normal


@jax.jit
def _cosine_and_sine(first: UInt32[Array, "rows ..."], second: UInt32[Array, "rows ..."]) -> Float[Array, "..."]:
    """Both normals of the float32 transform, one behind the other: (2·rows, …). The sine is a quarter turn away."""
    quarter = (lax.iota(jnp.uint32, 2) << np.uint32(30)).reshape(2, *(1,) * (first.ndim - 1))
    both: Array = box_muller(first[:, None], second[:, None] - quarter, dtype=np.dtype(np.float32))
    return both.reshape(-1, *first.shape[1:])


@jax.jit
def truncate_normal(noise: Float[Array, "..."], bound: Any) -> Float[Array, "..."]:
    """Map standard normals to normals conditioned on |ζ| ≤ `bound`, keeping order and sign.

    With tails t = erfc(|ζ|/√2) and T = erfc(bound/√2) the new tail is t + T − t T: exact, accurate far out in either
    precision, and a path keeps its noise when the bound moves.

    >>> [round(float(z), 3) for z in truncate_normal(jnp.array([0.5, 6.0]), 1.0)]
    [0.334, 1.0]
    """
    root = np.sqrt(2.0).astype(noise.dtype)
    inner, outer = lax.erfc(jnp.abs(noise) / root), lax.erfc(jnp.asarray(bound, noise.dtype) / root)
    return jnp.sign(noise) * jnp.minimum(-ndtri((inner + outer - inner * outer) / 2), bound)


def seed_key(seed: object) -> UInt32[np.ndarray, "2"]:
    """Split an integer seed in [0, 2⁶⁴) into the generator's two key words.

    >>> seed_key(2**32 + 5)
    array([1, 5], dtype=uint32)
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise ValueError(f"seed must be an integer from 0 to 2**64 - 1, got {seed!r}")
    return np.array([int(seed) >> 32, int(seed) & 0xFFFFFFFF], np.uint32)


def normals(
    seed: int,
    first_step: int,
    *,
    steps: int,
    elements: int,
    trials: int,
    first_trial: int = 0,
    stride: int | None = None,
    dtype: Any = jnp.float64,
    bound: float | None = None,
) -> Float[Array, "{steps} {elements} 1 {trials}"]:
    """Draw the noise of `steps` consecutive steps, from `first_step` on: (step, element, 1, trial).

    The axis of size 1 stands where a state has its grid: every grid point sees the same noise.

    The value at (step, element, trial) depends on the seed, these three numbers, the `stride` between trials (the
    number of elements if not given) and the precision, on nothing else. A fixed stride keeps the noise of element 3
    the same however many elements are drawn. stride · trials must stay below 2³².
    With `bound` the normals are conditioned on |ζ| ≤ bound. float64 needs JAX's x64 context.

    >>> some = normals(0, 10, steps=2, elements=3, trials=4, dtype=jnp.float32)
    >>> more = normals(0, 8, steps=6, elements=3, trials=99, dtype=jnp.float32)
    >>> bool(jnp.all(more[2:4, ..., :4] == some))
    True
    """
    key, size, dtype = seed_key(seed), {"elements": elements, "trials": trials}, np.dtype(dtype)
    place = np.uint32(first_trial), np.uint32(elements if stride is None else stride)
    noise: Array
    if dtype == jnp.float32:  # one pair of words serves two steps
        pairs = (first_step + steps + 1) // 2 - first_step // 2
        noise = _cosine_and_sine(*_words(key, np.uint32(first_step // 2), *place, rows=pairs, **size))
        if len(noise) != steps:
            noise = noise[first_step % 2 :][:steps]
    else:
        noise = box_muller(*_words(key, np.uint32(first_step), *place, rows=steps, **size), dtype=dtype)
    if bound is not None:
        noise = truncate_normal(noise, np.asarray(bound, dtype))
    return noise
