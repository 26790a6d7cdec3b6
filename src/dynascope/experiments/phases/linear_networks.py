"""FIG. 5(a): deep linear networks with orthogonal weights on orthonormal data, with small and large steps and dropout.

Without biases gradient flow keeps W_{ℓ+1}ᵀ W_{ℓ+1} − W_ℓ W_ℓᵀ, which is 0 at orthogonal weights of one width. With
orthonormal data the Gram matrix of layer ℓ is then the ℓ-th power of that of layer 1, whatever the loss: one layer
tells the whole load curve. It is straight as far as one direction between the classes grows and all others stay.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from scipy.stats import ortho_group

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.phases import curves
from dynascope.experiments.registry import Experiment
from dynascope.measure.separation import curvature
from dynascope.networks import Ensemble
from dynascope.networks.mlp_variants import OrthogonalMLP
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
    begun = time.perf_counter()
    random = np.random.default_rng(0)
    x = ortho_group.rvs(config.width, random_state=random)
    y = random.integers(2, size=(config.seeds, config.width))
    found = [_trained(config, x, y, *kind) for kind in KINDS.values()]
    load, balanced, loss = (np.stack(each) for each in zip(*found, strict=True))
    dims = ("kind", "setting", "trial")
    values = {
        "load": ((*dims, "layer"), load, {"long_name": "load D (natural logarithm)"}),
        "balanced_load": ((*dims, "layer"), balanced, {"long_name": "load that the first layer and balance imply"}),
        "score": (dims, loss, {"long_name": "loss"}),
    }
    coords = {"kind": list(KINDS), "setting": list(SETTINGS), "layer": np.arange(config.depth + 1)}
    return curves.recorded(values, coords, config, begun)


def _trained(
    config: Config, x: np.ndarray, y: np.ndarray, loss: str, whole: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loads (setting, run, layer), those that balance would give, and the loss (setting, run)."""
    small, large = config.learning_rate
    batch = len(x) if whole else config.batch_size
    summed = batch * (2 if loss == "mse" else 1)  # an ensemble's loss is the mean over samples and outputs
    own = np.tile(y, (len(SETTINGS), 1))
    ensemble = Ensemble(
        OrthogonalMLP(config.width, 2, width=config.width, depth=config.depth),
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


CLAIMS = {
    name: Claim(f"fig-5a-{name}", "spring-block FIG. 5(a)", text)
    for name, text in (
        ("straight", "deep linear networks from orthogonal weights, small steps, squared loss: a straight load curve"),
        ("balance", "with small steps the first layer implies the whole curve: Gram matrices are powers of its own"),
        ("step", "steps ten times as large bend the curve to convex (squared loss, small batches)"),
        ("step-full", "so do they with full batches, where steps are the only noise"),
        ("dropout", "dropout bends the curve to convex (squared loss)"),
        ("entropy-straight", "with cross-entropy, too, small steps give a straight load curve"),
        ("entropy-step", "with cross-entropy, too, large steps bend the curve to convex (small batches)"),
        ("entropy-dropout", "with cross-entropy, too, dropout bends the curve to convex"),
    )
}


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge curvature in units of the mean work of a layer, run by run."""
    order = ("kind", "setting", "trial", "layer")
    load = record["load"].transpose(*order).values
    work = (load[..., 0] - load[..., -1]) / (load.shape[-1] - 1)
    bends = curvature(load) / work
    bend, error = over_trials(bends)  # (kind, setting)
    astray = np.abs(load - record["balanced_load"].transpose(*order).values)[..., -1] / work
    small, large, dropout = range(len(SETTINGS))
    small_batches, full = [0, 2], [1, 3]  # squared loss, cross-entropy
    squared, entropy = [0, 1], [2, 3]
    note = "last load less the implied one, full batches, in units of the mean work: the largest of all runs"
    judged = {"balance": CLAIMS["balance"].falls_below(astray[full, small].max(axis=-1), _FLOW, 0.0, note=note)}
    for name, kinds in {"straight": squared, "entropy-straight": entropy}.items():
        most = np.abs(bends[kinds, small]).max(axis=-1)  # the spread of runs must not pass for a straight line
        judged[name] = CLAIMS[name].falls_below(
            most, _STRAIGHT, 0.0, note="curvature over mean work, the largest of all runs"
        )
    for name, (kinds, setting) in {
        "step": (small_batches[:1], large),
        "step-full": (full[:1], large),
        "dropout": (squared, dropout),
        "entropy-step": (small_batches[1:], large),
        "entropy-dropout": (entropy, dropout),
    }.items():
        tolerance = three_errors(error[kinds, setting])
        judged[name] = CLAIMS[name].falls_below(bend[kinds, setting], -_STRAIGHT, tolerance, note=_against(bend, kinds))
    return tuple(judged[name] for name in CLAIMS)


def _against(bend: np.ndarray, kinds: list[int]) -> str:
    return f"curvature over mean work; with small steps {', '.join(f'{each:.2g}' for each in bend[kinds, 0])}"


def plot(record: xr.Dataset) -> Any:
    """Draw the load curves, and dashed what the first layer implies if neighbouring layers are balanced."""
    figure = curves.plot(record)
    implied = record["balanced_load"].mean("trial")
    for ax, kind in zip(figure.axes, record["kind"].values, strict=True):
        for setting, line in zip(record["setting"].values, ax.get_lines(), strict=False):
            ax.plot(record["layer"], implied.sel(kind=kind, setting=setting), "--", color=line.get_color(), alpha=0.6)
        ax.plot([], [], "--", color="grey", label="implied by layer 1")
        ax.set_ylim(float(record["load"].min()) - 0.5, float(record["load"].max()) + 0.5)
        ax.legend(frameon=False, fontsize="small")
    return figure


_LAPTOP = Config(epochs=200, seeds=4)
EXPERIMENT = Experiment(
    title="Deep linear networks from orthogonal weights",
    source="spring-block FIG. 5(a)",
    kind="figure",
    claims=tuple(CLAIMS.values()),
    scales={
        "smoke": replace(_LAPTOP, width=32, depth=5, epochs=120, learning_rate=(0.001, 0.03)),
        "laptop": _LAPTOP,
        "paper": Config(),  # 3200 steps of 60 networks four times: about 15 s on a GPU
    },
    run=run,
    check=check,
    plot=plot,
)
