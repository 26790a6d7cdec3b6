"""Run the optimisers' steps over grid points and trials: plain arrays in, plain arrays out.

A network is a few small matrices: it is stepped on its own from save to save, so that it stays in the fastest cache and
its arithmetic cannot depend on its neighbours. Chunks of trials run side by side on the machine's cores.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import lax

from dynascope.models.deep_linear.equations import STEPS, Step, Weights
from dynascope.models.noise import normals
from dynascope.models.stepping import Array, Numeric, Parameters
from dynascope.progress import progress_bar

_NOISE_BATCH = 2**18  # normals drawn at once
_CHUNKS = (256, 16, 1)  # trials that run together: few sizes, few compilations
STRIDE = 2**16  # normals set aside for a step of one trial: noise does not change with the batch size or label noise


class DivergenceError(FloatingPointError):
    """Training diverged: at which `step` and `time`, in which `trial`; `record` holds what came before."""

    def __init__(self, message: str, *, step: int, time: float, trial: int, record: xr.Dataset | None = None):
        super().__init__(message)
        self.step, self.time, self.trial, self.record = step, time, trial, record


@dataclass(frozen=True)
class Point:
    """One point of the parameter grid: what its steps need, and beyond which size a weight has diverged."""

    method: str
    parameters: Parameters
    saves: np.ndarray
    normals: int  # of one step
    limit: float
    observe: Callable[[Weights], dict[str, Any]]

    @property
    def stride(self) -> int:
        """Normals set aside for one step of one trial."""
        return max(STRIDE, 1 << max(self.normals - 1, 0).bit_length())


Saved = tuple[list[dict[str, np.ndarray]], DivergenceError | None]


@partial(jax.jit, static_argnames=("step",))
def _advance(
    step: Step, weights: Weights, noise: Array, begin: Numeric, end: Numeric, parameters: Parameters
) -> Weights:
    """Rows `begin` to `end` of the noise, (row, element, 1, trial), for one network after another."""

    def train(network: tuple[Weights, Array]) -> Weights:
        start, rows = network
        moved: Weights = lax.fori_loop(begin, end, lambda index, w: step(w, rows[index], parameters), start)
        return moved

    trained: Weights = lax.map(train, (weights, jnp.moveaxis(noise[:, :, 0], -1, 0)))
    return trained


@partial(jax.jit, static_argnames=("step",))
def _sizes_after(step: Step, weights: Weights, noise: Array, parameters: Parameters) -> tuple[Weights, Array]:
    """Weights after the rows of noise, and the size of the largest after each: (trial, row)."""

    def train(network: tuple[Weights, Array]) -> tuple[Weights, Array]:
        def one(w: Weights, row: Array) -> tuple[Weights, Array]:
            moved = step(w, row, parameters)
            return moved, jnp.max(jnp.stack([jnp.max(jnp.abs(each)) for each in moved]))

        start, rows = network
        return lax.scan(one, start, jnp.asarray(rows))

    path: tuple[Weights, Array] = lax.map(train, (weights, jnp.moveaxis(noise[:, :, 0], -1, 0)))
    return path


class _Noise:
    """Rows of normals for one chunk of trials, drawn in batches."""

    def __init__(self, point: Point, weights: Weights, *, seed: int, first_trial: int, stride: int):
        needed, trials, self._dtype = point.normals, len(weights[0]), weights[0].dtype
        steps = min(_NOISE_BATCH // (max(needed, 1) * trials), 2 * int(point.saves[-1]))
        self.length = 2 ** (max(2, steps).bit_length() - 1)  # few shapes, few compilations
        self._shape = (self.length, needed, 1, trials)
        self._place: dict[str, Any] = {"first_trial": first_trial, "stride": stride, "dtype": self._dtype}
        self._seed, self._first, self._rows = seed, -1, jnp.zeros(self._shape, self._dtype)

    def batch(self, now: int) -> tuple[int, Array]:
        """The first row of the batch that holds row `now`, and the batch."""
        first = now - now % self.length
        if first != self._first and self._shape[1]:
            steps, elements, _, trials = self._shape
            self._rows = normals(self._seed, first, steps=steps, elements=elements, trials=trials, **self._place)
            self._first = first
        return first, self._rows


def _run_chunk(
    point: Point,
    start: Sequence[np.ndarray],
    *,
    seed: int,
    first_trial: int,
    stride: int,
    report: Callable[[int], None],
) -> Saved:
    """Train some trials at one grid point and observe them at its save steps, until one diverges."""
    with jax.enable_x64(True):  # each thread has its own
        step = STEPS[point.method]
        weights = tuple(jnp.asarray(w) for w in start)
        noise = _Noise(point, weights, seed=seed, first_trial=first_trial, stride=stride)
        seen: list[dict[str, np.ndarray]] = []
        now = 0
        for save in point.saves:
            before, since = weights, now
            while now < save:
                first, rows = noise.batch(now)
                end = min(int(save), first + noise.length)
                weights = _advance(step, weights, rows, np.int32(now - first), np.int32(end - first), point.parameters)
                now = end
            if not all(np.all(np.abs(w) < point.limit) for w in map(np.asarray, weights)):  # NaN is not below it
                return seen, _first_failure(point, before, since, noise, first_trial)
            seen.append({name: np.asarray(value) for name, value in point.observe(weights).items()})
            report(now - since)
    return seen, None


def _first_failure(point: Point, weights: Weights, now: int, noise: _Noise, first_trial: int) -> DivergenceError:
    """Run the failed stretch again to name the step at which it began."""
    while True:
        first, rows = noise.batch(now)
        weights, sizes = _sizes_after(STEPS[point.method], weights, rows[now - first :], point.parameters)
        sound = np.asarray(sizes) < point.limit
        if not sound.all():
            index, trial = np.argwhere(~sound.T)[0]
            step, trial = now + int(index) + 1, first_trial + int(trial)
            at = step * float(point.parameters["dt"])
            return DivergenceError(f"step {step} (time {at:g}) in trial {trial}", step=step, time=at, trial=trial)
        now += sound.shape[1]


def _chunks(trials: int, largest: int) -> Iterator[range]:
    """Split trials into chunks of the fixed sizes, none above `largest`."""
    first = 0
    while first < trials:
        size = next(size for size in _CHUNKS if size <= max(1, min(largest, trials - first)))
        yield range(first, first + size)
        first += size


def run_networks(
    points: Sequence[Point], start: Sequence[np.ndarray], *, seed: int, progress: bool | None
) -> list[Saved]:
    """Observations of every grid point, stacked over trials, and the first divergence there if there was one."""
    trials = len(start[0])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chunks = list(_chunks(trials, trials * len(points) // cores))
    stride = max(point.stride for point in points)
    total, done, lock = sum(int(p.saves[-1]) for p in points) * len(chunks), 0, threading.Lock()
    with progress_bar("training networks", total, progress) as show, ThreadPoolExecutor(cores) as pool:

        def report(steps: int) -> None:
            nonlocal done
            with lock:
                done += steps
                show(done)

        def work(job: tuple[Point, range]) -> Saved:
            point, chunk = job
            chosen = [w[chunk.start : chunk.stop] for w in start]
            return _run_chunk(point, chosen, seed=seed, first_trial=chunk.start, stride=stride, report=report)

        finished = list(pool.map(work, [(point, chunk) for point in points for chunk in chunks]))
    return list(_gather(finished, len(chunks)))


def _gather(finished: Sequence[Saved], chunks: int) -> Iterator[Saved]:
    """Join the chunks of each point: (save, trial, …), as far as all of them came."""
    for first in range(0, len(finished), chunks):
        parts = finished[first : first + chunks]
        common = min(len(seen) for seen, _ in parts)
        joined = [
            {name: np.concatenate([seen[save][name] for seen, _ in parts]) for name in parts[0][0][save]}
            for save in range(common)
        ]
        failures = [failure for _, failure in parts if failure is not None]
        yield joined, min(failures, key=lambda failure: failure.step, default=None)
