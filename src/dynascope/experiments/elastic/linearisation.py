"""Appendix B: the softmax dynamics (B.4), its linearisations (B.7)–(B.14), and the step to the L-model (B.5)."""

import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim
from dynascope.experiments.registry import Experiment
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.geometry import margin_amplitudes, margin_directions
from dynascope.models.elastic.mean_path import general_path
from dynascope.models.elastic.softmax import margin_jacobian, margins
from dynascope.records import with_provenance

INTRA, INTER = 3.0, -0.3


@dataclass(frozen=True)
class Config:
    """Logits of three classes from a small random start; derivatives at random states."""

    last_time: float = 1e4
    times: int = 200
    states: int = 50
    seed: int = 51


SCALES = {"smoke": Config(times=60, states=10), "laptop": Config(), "paper": Config(last_time=1e6, states=1000)}
SIGN = Claim("b11-sign", "elastic (B.11)", "the drift of (B.4) linearised about φ has the matrix +Θ J(φ)")
RESIDUE = Claim("b14-start", "elastic B.2, around initialisation", "about equal logits the residue is Ψ(u) = d")
EARLY = Claim(
    "b14-early", "elastic B.2, around initialisation", "the linear drift about equal logits errs quadratically in |x|"
)
FINITE = Claim("b14-converges", "elastic B.2, around convergence", "the logits converge to a finite φ(∞)")
ALIGNED = Claim("b5-direction", "elastic (B.5)", "e_k − softmax X̄_k turns into the direction d_k")
FACTOR = Claim("b5-constant", "elastic (B.5)", "e_k − softmax X̄_k = C H X̄_k with a constant C")


def run(config: Config) -> xr.Dataset:
    """Follow the exact dynamics and its linearisation about equal logits, and differentiate it automatically."""
    begun = time.perf_counter()
    random = np.random.default_rng(config.seed)
    model = LocallyElastic(3, 3, INTRA, INTER, "softmax")
    start = 0.1 * random.standard_normal((3, 3))
    times = np.concatenate([[0.0], np.geomspace(1e-3, config.last_time, config.times)])
    path = model.mean_path(times, start)
    matrix, offset = model.linearise(np.zeros((3, 3)))
    about_start = _affine_path(times, start, matrix, offset)
    left, amplitude = margins(path), margin_amplitudes(path)
    along = margin_amplitudes(left)  # of what cross-entropy still asks, in units of d_k
    lengths = np.linalg.norm(left, axis=-1) * np.linalg.norm(margin_directions(3, 3)[0])
    cosine = np.einsum("tkp,kp->tk", left, margin_directions(3, 3)) / lengths
    derivative, quadratic = _derivatives(model, random.standard_normal((config.states, 3, 3)))
    record = xr.Dataset(
        {
            "path": (("time", "class", "feature"), path),
            "linear_path": (("time", "class", "feature"), about_start),
            "cosine": (("time", "class"), cosine),
            "factor": (("time", "class"), along / amplitude),
            "amplitude": (("time", "class"), amplitude),
            "derivative_slope": ("state", derivative),
            "linear_error": (("state", "size"), quadratic),
            "start_residue": (("class", "feature"), offset),
        },
        coords={"time": ("time", times, {"units": "iterations × step size"}), "size": [1e-2, 1e-3]},
    )
    parameters = {"intra": INTRA, "inter": INTER, "geometry": "softmax"}
    wall_time = time.perf_counter() - begun
    return with_provenance(
        record, "LocallyElastic", parameters, options=vars(config), seed=config.seed, precision="float64",
        wall_time=wall_time,
    )  # fmt: skip


def _affine_path(times: np.ndarray, start: np.ndarray, matrix: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Solve x' = matrix · x + offset as a linear equation with one constant coordinate more."""
    extended = np.zeros((10, 10))
    extended[:9, :9], extended[:9, 9] = matrix, offset.ravel()
    begin = np.append(start.ravel(), 1.0)[None]  # as one class with ten features
    path = general_path(times, begin, lambda at: extended, constant=True)
    return np.asarray(path[:, 0, :9].reshape(len(times), 3, 3))


def _derivatives(model: LocallyElastic, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Regress the automatic derivative of the drift on Θ J: slope −1 or +1? And the error of the linear drift at 0."""
    kernel = model.drift(0.0)

    def drift(state: Any) -> Any:
        felt = jnp.eye(3) - jax.nn.softmax(state.reshape(3, 3), axis=-1)
        return jnp.asarray(kernel) @ felt.ravel()

    matrix, offset = model.linearise(np.zeros((3, 3)))
    slopes, errors = [], []
    with jax.enable_x64(True):
        jacobian = jax.jit(jax.jacobian(drift))
        for state in states:
            printed = kernel @ margin_jacobian(state)
            slopes.append(float(np.sum(printed * np.asarray(jacobian(state.ravel()))) / np.sum(printed**2)))
            small = [size * state.ravel() / np.linalg.norm(state) for size in (1e-2, 1e-3)]
            errors.append([np.linalg.norm(drift(x) - matrix @ x - offset.ravel()) for x in small])
    return np.array(slopes), np.array(errors)


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge derivatives by automatic differentiation, and late times by the growth of the exact path."""
    kernel = LocallyElastic(3, 3, INTRA, INTER, "softmax").drift(0.0)
    expected = (kernel @ margin_directions(3, 3).ravel()).reshape(3, 3)
    errors = record["linear_error"].values
    late = record.sel(time=float(record["time"][-1]) * np.array([0.1, 1.0]), method="nearest")
    decade = float(np.diff(np.log(late["time"]))[0])
    growth = np.diff(late["amplitude"], axis=0)[0] / decade
    fall = np.diff(np.log(late["factor"]), axis=0)[0] / decade
    # margins fall like e^{−c} ∝ 1/t, hence C ∝ 1/(t c)
    expected_fall = -1 - np.diff(np.log(late["amplitude"]), axis=0)[0] / decade
    return (
        SIGN.corrects(
            record["derivative_slope"].values, -1.0, 1e-9, published=1.0,
            note="regression of the automatic derivative on Θ J(φ) at random states; (B.12) has the right sign",
        ),
        RESIDUE.equals(
            record["start_residue"].values - expected, 0.0, 1e-12, note="Θ R at equal logits minus Θ d, nine entries"
        ),
        EARLY.equals(
            np.log10(errors[:, 0] / errors[:, 1]), 2.0, 0.05, rival=1.0, standard_error=0.0,
            note="order of the error between |x| = 1e-2 and 1e-3; bound 0.05: the cubic term",
        ),
        FINITE.corrects(
            growth, 1.0, 0.01, published=0.0,
            note="d c/d log t over the last decade: margins are about (K−1) e^{−c}, so a constant Θ gives c ≈ log t "
            "for ever; bound 0.01: the next order, e^{−c}",
        ),
        ALIGNED.exceeds(record["cosine"].values[-1], 0.999, 0.0, note="cosine of the angle at the last time"),
        FACTOR.corrects(
            fall, expected_fall, 0.01, published=0.0,
            note="d log C/d log t over the last decade: C falls like 1/(t log t), so the L-model's strengths decay",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw the logits of one class beside their linearisation, and what is left of C."""
    from dynascope.plots import PALETTE, axis_label, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=2)
    times = record["time"].values[1:]
    for feature, colour in zip(range(3), PALETTE, strict=False):
        exact, linear = (record[name].values[1:, 0, feature] for name in ("path", "linear_path"))
        axes[0, 0].plot(times, exact, color=colour, label=f"logit {feature}")
        axes[0, 0].plot(times, linear, color=colour, linestyle=":")
    axes[0, 0].plot([], [], color="black", linestyle=":", label="linearised about equal logits")
    axes[0, 0].set_ylabel("mean logits of class 0")
    axes[0, 1].plot(times, record["factor"].values[1:], color=PALETTE[0])
    axes[0, 1].set_yscale("log")
    axes[0, 1].set_ylabel("C in e_k − softmax X̄_k = C H X̄_k")
    for ax in axes[0]:
        ax.set_xscale("log")
        ax.set_xlabel(axis_label(record["time"]))
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="When a linear model stands in for softmax dynamics",
    source="elastic (B.4)–(B.14)",
    kind="equation",
    claims=(SIGN, RESIDUE, EARLY, FINITE, ALIGNED, FACTOR),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
