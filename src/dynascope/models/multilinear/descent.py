"""Gradient descent on the parameters a_k, b_k themselves, with all data or with sampled batches.

Arrays are (row, point, lane): the skills that can move, the points of the parameter grid, the trials. A skill whose
samples never occur receives no gradient; it keeps its start and takes no row.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.scipy.special import ndtr
from jaxtyping import Float, Int

from dynascope.models import stepping
from dynascope.models.multilinear.curves import SkillSet
from dynascope.models.parameters import Grid


@dataclass(frozen=True)
class Options:
    """How to train; every value has been checked. See `Multilinear.simulate` for what they mean."""

    steps: int
    batch: int
    trials: int
    data: int | None
    parameters: int
    precision: str


def full_step(state: dict[str, Any], noise: Any, time: Any, p: Any, dt: Any) -> dict[str, Any]:
    """One step on the whole loss: a_k ← a_k + η share_k b_k (S − a_k b_k), b_k likewise (B.6), (B.7)."""
    share = p["share"]
    if "weight" in state:  # (C.3)
        return {"weight": state["weight"] + p["learning_rate"] * share * (p["target"] - state["weight"])}
    a, b = state["first"], state["second"]
    pull = p["learning_rate"] * share * (p["target"] - a * b)
    return {"first": a + pull * b, "second": b + pull * a}


def batch_step(state: dict[str, Any], noise: Any, time: Any, p: Any, dt: Any) -> dict[str, Any]:
    """One step on a batch: each sample's skill is drawn by its share, and only the skills drawn move."""
    rows, points, lanes = next(iter(state.values())).shape
    batch = noise.shape[0]
    level = jnp.broadcast_to(ndtr(noise), (batch, points, lanes))
    cumulative = jnp.broadcast_to(p["cumulative"], (rows, points, lanes))
    search = jax.vmap(jax.vmap(jnp.searchsorted, in_axes=1, out_axes=1), in_axes=1, out_axes=1)
    place = (
        search(cumulative, level),
        jnp.arange(points)[:, None],
        jnp.arange(lanes),
    )  # beyond the rows: no such skill
    read = {name: value.at[place].get(mode="fill", fill_value=0.0) for name, value in state.items()}
    strength = read["weight"] if "weight" in read else read["first"] * read["second"]
    pull = p["learning_rate"] / batch * (p["target"] - strength)
    partner = {"weight": 1.0, "first": read.get("second"), "second": read.get("first")}
    return {name: value.at[place].add(pull * partner[name], mode="drop") for name, value in state.items()}


def run_descent(
    tasks: list[SkillSet],
    options: Options,
    tracked: Int[np.ndarray, " skill"],
    *,
    saves: np.ndarray,
    seed: int,
    progress: bool | None,
) -> dict[str, np.ndarray]:
    """Loss and training_loss (time, point, trial) and strength (time, point, trial, skill) at the saved steps."""
    every = np.arange(1.0, tasks[0].skills + 1)
    frequency = np.stack([task.frequency(every) for task in tasks], axis=1)[..., None]  # (skill, point, 1)
    share = frequency if options.data is None else _sample_shares(frequency[..., 0], options.data, options.trials, seed)
    known = slice(0, options.parameters)
    moving = np.flatnonzero(share[known].any(axis=(1, 2)))
    fields = {
        name: np.array([[getattr(task, name)] for task in tasks]) for name in ("target", "initial", "learning_rate")
    }
    run = _Readout(frequency, share, moving, tracked, known=options.parameters, **fields)
    trained = {name: fields[name] for name in ("target", "learning_rate")}
    chances = share if options.batch == 0 else np.cumsum(share, axis=0)
    trained["cumulative" if options.batch else "share"] = chances[moving]
    lanes = share.shape[2] if options.batch == 0 else stepping.padded_trials(options.trials)
    shape = (len(moving), len(tasks), lanes)
    with jax.enable_x64(True):
        start = fields["initial"] if tasks[0].linear else np.sqrt(fields["initial"])
        names = ("weight",) if tasks[0].linear else ("first", "second")
        state = {name: jnp.array(np.broadcast_to(start, shape), options.precision) for name in names}
        states = stepping.march(
            batch_step if options.batch else full_step,
            state,
            trained,
            dt=1.0,
            saves=saves,
            trials=min(lanes, options.trials),
            elements=max(options.batch, 1),
            seed=seed,
            precision=options.precision,
            label="multilinear model",
            progress=progress,
        )
        saved = [run.read(values, options.trials) for values in states]
    return {name: np.stack([each[name] for each in saved]) for name in saved[0]}


def label_run(found: dict[str, np.ndarray], saves: np.ndarray, ranks: np.ndarray, grid: Grid) -> xr.Dataset:
    """Name the axes of what `run_descent` found, with the grid in front."""
    dims = (*grid.dims, "trial", "time")
    labels = {"loss": "loss", "training_loss": "loss on the training set", "strength": "skill strength"}
    variables: dict[str, Any] = {}
    for name, values in found.items():
        ordered = np.moveaxis(values, 0, 2)  # (point, trial, time, …)
        shaped = np.ascontiguousarray(ordered).reshape((*grid.shape, *ordered.shape[1:]))
        last = ("skill",) if name == "strength" else ()
        variables[name] = ((*dims, *last), shaped, {"long_name": labels[name]})
    coordinates: dict[str, Any] = {
        "trial": np.arange(found["loss"].shape[2]),
        "time": ("time", saves.astype(float), {"long_name": "time", "units": "training steps"}),
        "skill": ("skill", ranks, {"long_name": "rank of the skill"}),
    }
    return xr.Dataset(variables, coords=coordinates | grid.coordinates)


def _sample_shares(frequency: np.ndarray, data: int, trials: int, seed: int) -> Float[np.ndarray, "skill point lane"]:
    """d_k/D of `data` samples for each trial; trial i draws the same numbers whatever else runs."""
    lanes = stepping.padded_trials(trials)
    shares = np.zeros((*frequency.shape, lanes))
    for lane in range(trials):
        for point, chances in enumerate(frequency.T):
            random = np.random.default_rng([seed, lane])
            shares[:, point, lane] = random.multinomial(data, chances / chances.sum()) / data
    shares[..., trials:] = shares[..., :1]  # lanes that pad the trials have to hold something
    return shares


@dataclass(frozen=True)
class _Readout:
    """Turn parameters of the moving skills into losses over all skills and the strengths of tracked ones."""

    frequency: np.ndarray  # (skill, point, 1)
    share: np.ndarray  # (skill, point, 1 or lane)
    moving: np.ndarray
    tracked: np.ndarray
    known: int  # skills that the model has
    target: np.ndarray  # (point, 1), as the others
    initial: np.ndarray
    learning_rate: np.ndarray

    def read(self, state: dict[str, np.ndarray], trials: int) -> dict[str, np.ndarray]:
        wide = {name: np.asarray(value, float) for name, value in state.items()}
        strength = wide["weight"] if "weight" in wide else wide["first"] * wide["second"]
        gap_square = (self.target - strength) ** 2 / 2
        full = (len(self.target), trials)
        losses = {}
        for name, weight in (("loss", self.frequency), ("training_loss", self.share[..., :trials])):
            still = weight[: self.known].sum(axis=0) - weight[self.moving].sum(axis=0)
            still = (
                still * (self.target - self.initial) ** 2 / 2 + weight[self.known :].sum(axis=0) * self.target**2 / 2
            )
            losses[name] = np.broadcast_to((weight[self.moving] * gap_square).sum(axis=0) + still, full)
        rows = np.searchsorted(self.moving, self.tracked - 1)
        found = np.append(self.moving, -1)[np.minimum(rows, len(self.moving))] == self.tracked - 1
        lasting = np.where(self.tracked <= self.known, self.initial, 0.0)[..., None, :]  # (point, 1, skill)
        followed = np.append(strength, strength[:1], axis=0)[np.where(found, rows, 0)].transpose(1, 2, 0)
        kept = np.where(found, followed, lasting)
        return losses | {"strength": np.broadcast_to(kept, (*full, len(self.tracked)))}
