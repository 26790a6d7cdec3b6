"""Gradient descent on the parameters a_k, b_k themselves, with all data or with sampled batches.

Arrays are (slot, point, lane): the skills that can move, the points of the parameter grid, the trials. A skill whose
samples never occur receives no gradient; it keeps its start and takes no slot.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.scipy.special import ndtr
from jaxtyping import Float, Int

from dynascope.models import stepping
from dynascope.models.family import Labels
from dynascope.models.multilinear.curves import SkillSet
from dynascope.models.parameters import Grid
from dynascope.models.stepping import Array, Numeric, Parameters, State

LABELS: Labels = {
    "loss": ("loss", None),
    "training_loss": ("loss on the training set", None),
    "strength": ("skill strength", None),
    "time": ("time", "training steps"),
    "skill": ("rank of the skill", None),
}


@dataclass(frozen=True)
class Options:
    """How to train; every value has been checked. See `Multilinear.simulate` for what they mean."""

    steps: int
    batch_size: int
    trials: int
    data: int | None
    parameters: int
    precision: str


def full_step(state: State, noise: object, time: Numeric, p: Parameters, dt: Numeric) -> State:
    """One step on the whole loss: a_k ← a_k + η share_k b_k (S − a_k b_k), b_k likewise (B.6), (B.7).
    Source: layerwise (B.6), (B.7), (C.3).
    """
    share = p["share"]
    if "weight" in state:  # (C.3)
        return {"weight": state["weight"] + p["learning_rate"] * share * (p["target"] - state["weight"])}
    a, b = state["first"], state["second"]
    pull = p["learning_rate"] * share * (p["target"] - a * b)
    return {"first": a + pull * b, "second": b + pull * a}


def batch_step(state: State, noise: Array, time: Numeric, p: Parameters, dt: Numeric) -> State:
    """One step on a batch: each sample's skill is drawn by its share, and only the skills drawn move."""
    slots, points, lanes = next(iter(state.values())).shape
    batch = noise.shape[0]
    level = jnp.broadcast_to(ndtr(noise), (batch, points, lanes))
    cumulative = jnp.broadcast_to(p["cumulative"], (slots, points, lanes))
    search = jax.vmap(jax.vmap(jnp.searchsorted, in_axes=1, out_axes=1), in_axes=1, out_axes=1)
    slot = search(cumulative, level)  # beyond the last one for a skill that the model lacks
    place = (slot, jnp.arange(points)[:, None], jnp.arange(lanes))
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
    slots = _all_slots(tasks, options) if options.data is None else _sampled_slots(tasks, options, options.data, seed)
    fields = {
        name: np.array([[getattr(task, name)] for task in tasks]) for name in ("target", "initial", "learning_rate")
    }
    readout = _Readout(tasks, slots, tracked, known=options.parameters, **fields)
    trained = {name: fields[name] for name in ("target", "learning_rate")}
    trained |= {"cumulative": np.cumsum(slots.share, axis=0)} if options.batch_size else {"share": slots.share}
    lanes = stepping.padded_trials(options.trials) if options.batch_size else slots.share.shape[2]
    names = ("weight",) if tasks[0].linear else ("first", "second")
    start = np.broadcast_to(fields["initial"] ** (1 / len(names)), (len(slots.share), len(tasks), lanes))
    with jax.enable_x64(True):
        states = stepping.saved_states(
            batch_step if options.batch_size else full_step,
            {name: jnp.array(start, options.precision) for name in names},
            trained,
            dt=1.0,
            saves=saves,
            trials=min(lanes, options.trials),
            elements=max(options.batch_size, 1),
            seed=seed,
            precision=options.precision,
            label="multilinear model",
            progress=progress,
        )
        saved = [readout.read(values, options.trials) for values in states]
    return {name: np.stack([each[name] for each in saved]) for name in saved[0]}


@dataclass(frozen=True)
class _Slots:
    """Which skill each slot holds and its share of the samples, in order of rank; empty slots have share 0."""

    rank: Int[np.ndarray, "slot point lane"]
    share: Float[np.ndarray, "slot point lane"]
    missing: Float[np.ndarray, "point lane"]  # share of samples of skills that the model lacks


def _all_slots(tasks: list[SkillSet], options: Options) -> _Slots:
    """Every skill that the model has, with unlimited data."""
    rank = np.broadcast_to(np.arange(1, options.parameters + 1)[:, None, None], (options.parameters, len(tasks), 1))
    share = np.stack([task.frequency(rank[:, 0, 0].astype(float)) for task in tasks], axis=1)[..., None]
    missing = np.array([[float(task.withheld(np.array(float(options.parameters))))] for task in tasks])
    return _Slots(rank, share, missing)


def _sampled_slots(tasks: list[SkillSet], options: Options, data: int, seed: int) -> _Slots:
    """The skills among `data` samples of each trial; trial i draws the same numbers whatever else runs."""
    every = np.arange(1.0, tasks[0].skills + 1)
    cumulative = [np.cumsum(task.frequency(every)) for task in tasks]
    drawn = []
    for trial in range(options.trials):
        level = np.random.default_rng([seed, trial]).random(data)
        for chances in cumulative:
            drawn.append(np.unique(np.searchsorted(chances, level * chances[-1]) + 1, return_counts=True))
    most = max(1, *(int(np.sum(rank <= options.parameters)) for rank, _ in drawn))  # at least one slot, maybe empty
    shape = (most, len(tasks), stepping.padded_trials(options.trials))  # lanes that pad the trials stay empty
    ranks, shares, missing = np.full(shape, tasks[0].skills + 1), np.zeros(shape), np.zeros(shape[1:])
    for index, (rank, counts) in enumerate(drawn):
        trial, point = divmod(index, len(tasks))
        known = int(np.sum(rank <= options.parameters))
        ranks[:known, point, trial] = rank[:known]
        shares[:known, point, trial] = counts[:known] / data
        missing[point, trial] = counts[known:].sum() / data
    return _Slots(ranks, shares, missing)


def lay_out(found: dict[str, np.ndarray], saves: np.ndarray, ranks: np.ndarray, grid: Grid) -> xr.Dataset:
    """Name the axes of what `run_descent` found, with the grid in front."""
    dims = (*grid.dims, "trial", "time")
    variables: dict[str, Any] = {}
    for name, values in found.items():
        ordered = np.moveaxis(values, 0, 2)  # (point, trial, time, …)
        shaped = np.ascontiguousarray(ordered).reshape((*grid.shape, *ordered.shape[1:]))
        last = ("skill",) if name == "strength" else ()
        variables[name] = ((*dims, *last), shaped)
    coordinates: dict[str, Any] = {
        "trial": np.arange(found["loss"].shape[2]),
        "time": ("time", saves.astype(float)),
        "skill": ("skill", ranks),
    }
    return xr.Dataset(variables, coords=coordinates | grid.coordinates)


@dataclass(frozen=True)
class _Readout:
    """Turn the parameters of slots into losses over all skills and the strengths of tracked ones."""

    tasks: list[SkillSet]
    slots: _Slots
    tracked: Int[np.ndarray, " skill"]
    known: int  # skills that the model has
    target: np.ndarray  # (point, 1), as the others
    initial: np.ndarray
    learning_rate: np.ndarray

    @cached_property
    def frequency(self) -> Float[np.ndarray, "slot point lane"]:
        """P(k) of the skill in each slot, 0 in empty ones."""
        rank = self.slots.rank
        chances = np.stack([t.frequency(rank[:, i].astype(float)) for i, t in enumerate(self.tasks)], axis=1)
        return np.where(self.slots.share > 0, chances, 0.0)

    @cached_property
    def place(self) -> Int[np.ndarray, "point lane skill"]:
        """Slot of each tracked skill, -1 where it has none."""
        _, points, lanes = self.slots.rank.shape
        found = np.full((points, lanes, len(self.tracked)), -1)
        for point in range(points):
            for lane in range(lanes):
                ranks = self.slots.rank[:, point, lane]
                near = np.minimum(np.searchsorted(ranks, self.tracked), len(ranks) - 1)
                found[point, lane] = np.where(ranks[near] == self.tracked, near, -1)
        return found

    @cached_property
    def beyond(self) -> Float[np.ndarray, "point 1"]:
        """Share of skills that the model lacks."""
        return np.array([[float(task.withheld(np.array(float(self.known))))] for task in self.tasks])

    def read(self, state: dict[str, np.ndarray], trials: int) -> dict[str, np.ndarray]:
        wide = {name: np.asarray(value, float) for name, value in state.items()}
        strength = wide["weight"] if "weight" in wide else wide["first"] * wide["second"]
        lanes = strength.shape[2]  # as many as trials, or one for all
        miss = (self.target - strength) ** 2 / 2
        never, lacking = (self.target - self.initial) ** 2 / 2, self.target**2 / 2
        seen, share = self.frequency[..., :lanes], self.slots.share[..., :lanes]
        unseen = 1 - self.beyond - seen.sum(axis=0)
        loss = (seen * miss).sum(axis=0) + np.maximum(unseen, 0.0) * never + self.beyond * lacking
        training = (share * miss).sum(axis=0) + self.slots.missing[:, :lanes] * lacking
        place = np.broadcast_to(self.place[:, :lanes], (len(self.tasks), lanes, len(self.tracked)))
        followed = np.take_along_axis(strength.transpose(1, 2, 0), np.maximum(place, 0), axis=2)
        still = np.where(self.tracked <= self.known, self.initial, 0.0)[:, None, :]  # (point, 1, skill)
        full = (len(self.tasks), trials)
        return {
            "loss": np.broadcast_to(loss, full),
            "training_loss": np.broadcast_to(training, full),
            "strength": np.broadcast_to(np.where(place >= 0, followed, still), (*full, len(self.tracked))),
        }
