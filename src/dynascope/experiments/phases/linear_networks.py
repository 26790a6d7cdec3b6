"""spring-block Figure 5(a): Deep linear networks from orthogonal weights.

On orthonormal data, with small and large steps and dropout. Without biases gradient flow keeps
W_{ℓ+1}ᵀ W_{ℓ+1} − W_ℓ W_ℓᵀ, which is 0 at orthogonal weights of one width. With orthonormal data the Gram matrix of
layer ℓ is then the ℓ-th power of that of layer 1, whatever the loss: one layer tells the whole load curve. It is
straight as far as one direction between the classes grows and all others stay.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from scipy.stats import ortho_group

from dynascope import networks
from dynascope.experiments.claims import Claim, Judgement, below
from dynascope.experiments.experiment import Axes
from dynascope.experiments.phases.curves import LOAD, NetworkExperiment, curves, draw_kind, side_by_side
from dynascope.experiments.phases.shapes import bend
from dynascope.experiments.sources import spring_block
from dynascope.statistics.errors import over_trials

# name -> (loss, whether all samples make a step)
KINDS = {
    "squared loss, small batches": ("mse", False),
    "squared loss, full batches": ("mse", True),
    "cross-entropy, small batches": ("cross_entropy", False),
    "cross-entropy, full batches": ("cross_entropy", True),
}
SETTINGS = ("small steps", "large steps", "dropout")
_STRAIGHT = 0.01  # straight: from layer to layer the work changes by less than this share of its mean; else bent
_FLOW = 0.02  # balance: what steps of finite size may add to the last load, in units of the mean work of a layer


@dataclass(frozen=True)
class Config:
    """As many samples as dimensions and units, one random orthogonal matrix; labels 0 or 1 at random, of each run.

    Steps, dropout and starts are the paper's. It leaves out the rest: ours are the loss ½ Σ |f(x) − y|² of its source
    [41], one-hot labels, layers without biases, 7 hidden layers as in its other networks. With a sum over samples a
    learning rate means the same for small batches and full batches.
    What is claimed of cross-entropy and of large steps in full batches is ours.
    """

    learning_rate: tuple[float, float] = (0.001, 0.01)
    dropout: float = 0.1
    width: int = 64
    depth: int = 7
    epochs: int = 400
    batch_size: int = 8  # where not all samples make a step
    seeds: int = 20


def run(config: Config) -> xr.Dataset:
    """Train every kind of network in every setting from the same weights and labels."""
    random = np.random.default_rng(0)
    x = ortho_group.rvs(config.width, random_state=random)
    y = random.integers(2, size=(config.seeds, config.width))
    found = [_trained(config, x, y, *kind) for kind in KINDS.values()]
    load, balanced, loss = (np.stack(each) for each in zip(*found, strict=True))
    record = curves(load, loss, kinds=list(KINDS), settings=SETTINGS, names=(LOAD, "loss"))
    implied = (record["load"].dims, balanced, {"long_name": "load that the first layer and balance imply"})
    return record.assign(balanced_load=implied)


def _trained(
    config: Config, x: np.ndarray, y: np.ndarray, loss: str, whole: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loads (setting, run, layer), those that balance would give, and the loss (setting, run)."""
    small, large = config.learning_rate
    batch = len(x) if whole else config.batch_size
    summed = batch * (2 if loss == "mse" else 1)  # an ensemble's loss is the mean over samples and outputs
    own = np.tile(y, (len(SETTINGS), 1))
    ensemble = networks.Ensemble(
        networks.mlp_variants.OrthogonalMLP(config.width, 2, width=config.width, depth=config.depth),
        trials=list(range(config.seeds)) * len(SETTINGS),
        learning_rate=np.repeat([small, large, small], config.seeds) * summed,
        batch_size=batch,
        vary={"dropout": np.repeat([0.0, 0.0, config.dropout], config.seeds)},
        loss=loss,
        sampling="shuffled",
    )
    steps = len(x) // batch * config.epochs
    path = ensemble.train(x, own, steps, probe=(x, own), record_every=[steps], measures=("load",), progress=False)
    first = ensemble.features(x, at=["act_1"])["act_1"]
    balanced = np.stack([balanced_load(*each, config.depth) for each in zip(first, own, strict=True)])
    last, shape = path.isel(step=-1), (len(SETTINGS), config.seeds)
    return last["load"].values.reshape(*shape, -1), balanced.reshape(*shape, -1), last["loss"].values.reshape(shape)


def balanced_load(
    first: Float[np.ndarray, "sample feature"], y: Int[np.ndarray, " sample"], depth: int
) -> Float[np.ndarray, " layer"]:
    """Loads (3) of layers 0 to `depth` if the Gram matrix of layer ℓ is the ℓ-th power of that of layer 1.

    So it is in a linear network without biases, on orthonormal data, that gradient flow has led away from orthogonal
    weights: W_{ℓ+1}ᵀ W_{ℓ+1} = W_ℓ W_ℓᵀ turns X_ℓᵀ X_ℓ into (X_1ᵀ X_1)^ℓ.

    >>> first = np.diag([1.0, 1.0, 1.0, 1.0]) @ np.array([[3.0, 0], [2, 1], [-2, 1], [-3, 0]])
    >>> balanced_load(first, np.array([0, 0, 1, 1]), 2).shape
    (3,)
    """
    members = (y[:, None] == np.unique(y)).astype(float)
    classes = members @ np.linalg.pinv(members)  # projection on vectors that are constant in each class
    between = classes - 1 / len(y)
    values, vectors = np.linalg.eigh(first.astype(float) @ first.T.astype(float))
    within_share, between_share = (
        np.einsum("ni,nm,mi->i", vectors, projection, vectors) for projection in (np.eye(len(y)) - classes, between)
    )
    powers = np.maximum(values, 0.0) ** np.arange(depth + 1)[:, None]
    return np.asarray(np.log(powers @ within_share / (powers @ between_share)))


def _read(record: xr.Dataset) -> xr.Dataset:
    """Curvature, and how far the last load is from what balance implies, in units of the mean work of a layer."""
    load = record["load"]  # (kind, setting, trial, layer)
    work = (load[..., 0] - load[..., -1]) / (load.sizes["layer"] - 1)
    astray = abs(load - record["balanced_load"])[..., -1] / work
    return xr.Dataset({"bend": bend(load) / work, "astray": astray})


SMALL, LARGE, DROPOUT = range(len(SETTINGS))
SQUARED, ENTROPY = [0, 1], [2, 3]  # kinds: in small batches, in full ones


def _balanced(seen: xr.Dataset) -> Judgement:
    full = [SQUARED[1], ENTROPY[1]]
    note = "last load less the implied one, full batches, in units of the mean work: the largest of all runs"
    return below(seen["astray"][full, SMALL].max("trial"), _FLOW, note=note)


def _straight(seen: xr.Dataset, *, kinds: list[int]) -> Judgement:
    most = abs(seen["bend"][kinds, SMALL]).max("trial")  # the spread of runs must not pass for a straight line
    return below(most, _STRAIGHT, note="curvature over mean work, the largest of all runs")


def _convex(seen: xr.Dataset, *, kinds: list[int], setting: int) -> Judgement:
    small = ", ".join(f"{each:.2g}" for each in seen["bend"][kinds, SMALL].mean("trial").values)
    note = f"curvature over mean work; with small steps {small}"
    return below(over_trials(seen["bend"][kinds, setting]), -_STRAIGHT, note=note)


def _draw(record: xr.Dataset, ax: Axes, *, kind: int) -> None:
    """The load curves, and dashed what the first layer implies if neighbouring layers are balanced."""
    draw_kind(record, ax, kind=kind)
    implied = record["balanced_load"].isel(kind=kind).mean("trial")
    for curve, line in zip(implied, ax.get_lines(), strict=False):
        ax.plot(record["layer"], curve, "--", color=line.get_color(), alpha=0.6)
    ax.plot([], [], "--", color="grey", label="implied by layer 1")
    ax.set_ylim(float(record["load"].min()) - 0.5, float(record["load"].max()) + 0.5)


EXPERIMENT = NetworkExperiment(
    spring_block(figure="5(a)"),
    Config(),  # 3200 steps of 60 networks four times: about 15 s on a GPU
    run,
    claims=(
        Claim(
            "fig-5a-straight",
            "deep linear networks from orthogonal weights, small steps, squared loss: a straight load curve",
            partial(_straight, kinds=SQUARED),
        ),
        Claim(
            "fig-5a-balance",
            "with small steps the first layer implies the whole curve: Gram matrices are powers of its own",
            _balanced,
            kind="derived",
        ),
        Claim(
            "fig-5a-step",
            "steps ten times as large bend the curve to convex (squared loss, small batches)",
            partial(_convex, kinds=SQUARED[:1], setting=LARGE),
        ),
        Claim(
            "fig-5a-step-full",
            "so do they with full batches, where steps are the only noise",
            partial(_convex, kinds=SQUARED[1:], setting=LARGE),
            settles_at="paper",
            kind="own",
        ),
        Claim(
            "fig-5a-dropout",
            "dropout bends the curve to convex (squared loss)",
            partial(_convex, kinds=SQUARED, setting=DROPOUT),
        ),
        Claim(
            "fig-5a-entropy-straight",
            "with cross-entropy, too, small steps give a straight load curve",
            partial(_straight, kinds=ENTROPY),
            settles_at="laptop",  # one of ten narrow networks bends by a little more
            kind="own",
        ),
        Claim(
            "fig-5a-entropy-step",
            "with cross-entropy, too, large steps bend the curve to convex (small batches)",
            partial(_convex, kinds=ENTROPY[:1], setting=LARGE),
            settles_at="paper",
            kind="own",
        ),
        Claim(
            "fig-5a-entropy-dropout",
            "with cross-entropy, too, dropout bends the curve to convex",
            partial(_convex, kinds=ENTROPY, setting=DROPOUT),
            kind="own",
        ),
    ),
    picture=side_by_side(len(KINDS), _draw),
    read=_read,
    smoke={"width": 32, "depth": 5, "epochs": 120, "learning_rate": (0.001, 0.03), "seeds": 10},
    laptop={"epochs": 200, "seeds": 10},
    needs=("torch",),
    adapted="loss, width, depth, batches and epochs, which the source leaves out",
)
