"""Sample the locally elastic model: class means exactly or by steps, samples around them, or the discrete process.

All samples of a class share their drift. Their distances from the class mean are therefore Brownian motions, centred
within the class and independent of it, whatever the drift: only class means ever need to be stepped.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.budget import require_room
from dynascope.checks import ArrayLike, SavePoints, as_float, count, increasing, require
from dynascope.models import stepping
from dynascope.models.elastic.equations import STEPS
from dynascope.models.elastic.geometry import symmetric_root
from dynascope.models.noise import normals
from dynascope.models.parameters import Grid
from dynascope.progress import progress_bar

LABEL = "locally elastic model"


@dataclass(frozen=True)
class Task:
    """What a sampler needs to know, beside the times: start (class, sample, feature), σ over the grid (point,)."""

    start: np.ndarray
    sigma: np.ndarray
    factor: np.ndarray | None  # F with F Fᵀ the covariance in units of σ², (state, state)
    trials: int
    seed: int
    precision: str
    progress: bool | None


def exact_means(
    task: Task, times: np.ndarray, transitions: Callable[[np.ndarray], Iterable[tuple[np.ndarray, np.ndarray]]]
) -> Float[np.ndarray, "point trial time class feature"]:
    """Class means at the saved times, each drawn from its Gaussian law given the one before."""
    classes, samples, features = task.start.shape
    size, dtype = classes * features, np.dtype(task.precision)
    stops = times if times[0] == 0 else np.concatenate([[0.0], times])
    mean = np.broadcast_to(task.start.mean(axis=1).ravel().astype(dtype), (len(task.sigma), task.trials, size))
    saved = np.empty((*mean.shape[:2], len(stops), size), dtype)
    saved[:, :, 0] = mean
    draw = partial(_draw, task, elements=size)
    with progress_bar(LABEL, len(stops), task.progress) as report:
        for index, (flow, spread) in enumerate(transitions(stops), start=1):
            kick = _apply(symmetric_root(spread / samples), draw(index))  # (trial, state)
            mean = _apply(flow, mean) + (task.sigma[:, None, None] * kick).astype(dtype)
            saved[:, :, index] = mean
            report(index + 1)
    return saved[:, :, len(stops) - len(times) :].reshape(*mean.shape[:2], len(times), classes, features)


def stepped_means(
    task: Task, saves: np.ndarray, dt: float, parameters: dict[str, np.ndarray], *, step: str, softmax: bool
) -> Float[np.ndarray, "point trial time class feature"]:
    """Class means by many small steps, at the step numbers `saves`."""
    classes, samples, features = task.start.shape
    given = parameters | {"noise": task.sigma[:, None] / np.sqrt(samples)}
    start = {"mean": task.start.mean(axis=1)}
    states = _march(task, saves, dt, given, step=(step, softmax), start=start, elements=classes * features)
    return np.stack([np.moveaxis(state["mean"], (2, 3), (0, 1)) for state in states], axis=2)


def discrete_points(
    task: Task,
    saves: np.ndarray,
    dt: float,
    parameters: dict[str, np.ndarray],
    *,
    batch_size: int,
    softmax: bool,
) -> Float[np.ndarray, "point trial time class sample feature"]:
    """All points of the discrete process at the iterations `saves`."""
    given = parameters | {"noise": task.sigma[:, None]}
    elements = task.start.size + 2 * batch_size
    states = _march(task, saves, dt, given, step=("discrete", softmax), start={"point": task.start}, elements=elements)
    return np.stack([np.moveaxis(state["point"], (3, 4), (0, 1)) for state in states], axis=2)


def _march(
    task: Task,
    saves: np.ndarray,
    dt: float,
    parameters: dict[str, np.ndarray],
    *,
    step: tuple[str, bool],
    start: dict[str, np.ndarray],
    elements: int,
) -> Iterator[stepping.State]:
    classes, _, features = task.start.shape
    factor = np.eye(classes * features) if task.factor is None else task.factor
    given = parameters | {"factor": factor.reshape(classes, features, classes, features)}
    lanes = (len(task.sigma), stepping.padded_trials(task.trials))
    state = {
        name: jnp.broadcast_to(jnp.asarray(value, task.precision)[..., None, None], (*value.shape, *lanes))
        for name, value in start.items()
    }
    return stepping.saved_states(
        STEPS[(*step, task.factor is not None)],
        state,
        given,
        dt=dt,
        saves=saves,
        trials=task.trials,
        elements=elements,
        seed=task.seed,
        precision=task.precision,
        label=LABEL,
        progress=task.progress,
    )


def scatter_points(
    task: Task, times: np.ndarray, means: np.ndarray, first_draw: int
) -> Float[np.ndarray, "point trial time class sample feature"]:
    """Samples around given class means. `first_draw` numbers noise that the means have not used.
    Source: elastic (C.12).
    """
    classes, samples, features = task.start.shape
    dtype, now = means.dtype, 0.0
    apart = np.broadcast_to(
        (task.start - task.start.mean(axis=1, keepdims=True)).astype(dtype), (*means.shape[:2], *task.start.shape)
    )
    points = np.empty((*means.shape[:4], samples, features), dtype)
    for index, save in enumerate(times.tolist()):
        if save > now:
            white = _draw(task, first_draw + index, elements=task.start.size)
            white = white.reshape(-1, samples, classes * features)
            kicks = white if task.factor is None else _apply(task.factor, white)
            kicks = (kicks - kicks.mean(axis=1, keepdims=True)).reshape(-1, samples, classes, features)
            scale = (task.sigma * np.sqrt(save - now)).astype(dtype).reshape(-1, 1, 1, 1, 1)
            apart = apart + scale * np.swapaxes(kicks, 1, 2)
            now = save
        points[:, :, index] = means[:, :, index, :, None] + apart
    return points


def points_at_start(
    start: ArrayLike, shape: tuple[int, int], samples: int
) -> Float[np.ndarray, "class sample feature"]:
    """All points, from the same or from class means of the `shape` (class, feature).

    >>> points_at_start([[1.0], [2.0]], (2, 1), 3)[..., 0].tolist()
    [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    """
    begin = as_float("start", start)
    if begin.shape == shape:
        return np.repeat(begin[:, None], samples, axis=1)
    whole = (shape[0], samples, shape[1])
    if begin.shape != whole:
        raise ValueError(
            f"start must have the shape (class, feature) = {shape} or (class, sample, feature) = {whole}, got "
            f"{begin.shape}"
        )
    return begin


def saved_times(duration: float, save_points: SavePoints) -> Float[np.ndarray, " time"]:
    """Evenly spaced times from 0 to `duration`, or the given ones.

    >>> saved_times(2.0, 3).tolist()
    [0.0, 1.0, 2.0]
    """
    if isinstance(save_points, int | np.integer) and not isinstance(save_points, bool):
        points = count("save_points", save_points, at_least=2)
        require_room({"save_points": points}, points)
        return np.linspace(0.0, duration, points)
    times = increasing("save_points", save_points)
    require("save_points", times, times <= duration, f"lie between 0 and duration = {duration}")
    return times


def lay_out(grid: Grid, times: np.ndarray, points: np.ndarray, means: np.ndarray) -> xr.Dataset:
    """Name the axes of points (…grid, trial, time, class, sample, feature) and class means."""
    dims = (*grid.dims, "trial", "time", "class", "sample", "feature")
    labels = {name: np.arange(size) for name, size in zip(dims[-5:], points.shape[-5:], strict=True)}
    return xr.Dataset(
        {"point": (dims, points), "class_mean": ((*dims[:-2], "feature"), means)},
        coords=labels | {"time": ("time", times)} | grid.coordinates,
    )


def _draw(task: Task, row: int, *, elements: int) -> np.ndarray:
    """One row of noise, (trial, element)."""
    lanes = stepping.padded_trials(task.trials)
    noise = normals(task.seed, row, steps=1, elements=elements, trials=lanes, dtype=task.precision)
    return np.ascontiguousarray(np.asarray(noise)[0, :, 0, : task.trials].T)


def _apply(matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Matrix times each vector; not by BLAS, whose last bit depends on how many vectors there are."""
    return np.asarray(np.einsum("ij,...j->...i", matrix.astype(vectors.dtype), vectors))
