"""elastic (B.4)–(B.14): When a linear model stands in for softmax dynamics.

The softmax dynamics (B.4), its linearisations (B.7)–(B.14), and the step to the L-model (B.5).
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, corrected, equal
from dynascope.experiments.elastic.tables import by_row
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import elastic
from dynascope.models.elastic import LocallyElastic
from dynascope.models.elastic.geometry import margin_amplitudes, margin_directions
from dynascope.models.elastic.mean_path import general_path
from dynascope.models.elastic.softmax import linearise, margin_jacobian, margins

_MODEL = partial(LocallyElastic, 3, 3, 3.0, -0.3, "softmax")
_START = elastic(section="B.2", place="around initialisation")
_LATE = elastic(section="B.2", place="around convergence")
_SIZES = (1e-2, 1e-3)  # of states at which the error of the linear drift is measured


@dataclass(frozen=True)
class Config:
    """Logits of three classes from a small random start; derivatives at random states."""

    last_time: float = 1e4
    times: int = 200
    states: int = 50
    seed: int = 51


def run(config: Config) -> xr.Dataset:
    """Follow the exact dynamics and its linearisation about equal logits, and differentiate it automatically."""
    random = np.random.default_rng(config.seed)
    model, start = _MODEL(), 0.1 * random.standard_normal((3, 3))
    times = np.concatenate([[0.0], np.geomspace(1e-3, config.last_time, config.times)])
    path = model.mean_path(times, start)
    matrix, offset = model.linearise(np.zeros((3, 3)))
    left, amplitude, directions = margins(path), margin_amplitudes(path), margin_directions(3, 3)
    lengths = np.linalg.norm(left, axis=-1) * np.linalg.norm(directions[0])
    slopes, errors = _derivatives(model, random.standard_normal((config.states, 3, 3)))
    expanded = by_row("state", [_expand(random, model.drift(0.0)) for _ in range(config.states)])
    return xr.Dataset(
        {
            "path": (("time", "class", "feature"), path),
            "linear_path": (("time", "class", "feature"), _affine_path(times, start, matrix, offset)),
            "cosine": (("time", "class"), np.einsum("tkp,kp->tk", left, directions) / lengths),
            "factor": (("time", "class"), margin_amplitudes(left) / amplitude),  # of what is left to learn, over d_k
            "amplitude": (("time", "class"), amplitude),
            "derivative_slope": ("state", slopes),
            "linear_error": (("state", "size"), errors),
            "start_residue": (("class", "feature"), offset),
        },
        coords={"time": ("time", times, {"units": "iterations × step size"}), "size": list(_SIZES)},
    ).merge(expanded)


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

    def drift(state: jax.Array | np.ndarray) -> jax.Array:
        felt = jnp.eye(3) - jax.nn.softmax(state.reshape(3, 3), axis=-1)
        return jnp.asarray(kernel) @ felt.ravel()

    matrix, offset = model.linearise(np.zeros((3, 3)))
    slopes, errors = [], []
    with jax.enable_x64(True):
        jacobian = jax.jit(jax.jacobian(drift))
        for state in states:
            printed = kernel @ margin_jacobian(state)
            slopes.append(float(np.sum(printed * np.asarray(jacobian(state.ravel()))) / np.sum(printed**2)))
            small = [size * state.ravel() / np.linalg.norm(state) for size in _SIZES]
            errors.append([np.linalg.norm(drift(x) - matrix @ x - offset.ravel()) for x in small])
    return np.array(slopes), np.array(errors)


def _expand(random: np.random.Generator, kernel: np.ndarray) -> dict[str, float]:
    """At a random φ: Ψ and J beside automatic derivatives, and the order of what (B.12) and (B.7) leave out."""
    around, ahead = 2 * random.standard_normal((3, 3)), random.standard_normal((3, 3))

    def loss(state: jax.Array) -> jax.Array:
        return -jnp.trace(jax.nn.log_softmax(state, axis=-1))

    with jax.enable_x64(True):
        slope, bend = (np.asarray(part(loss)(jnp.asarray(around))) for part in (jax.grad, jax.hessian))
    jacobian, left = margin_jacobian(around), margins(around)
    matrix, offset = linearise(kernel, around)
    missed: list[list[float]] = []
    for size in _SIZES:
        z = around + size * ahead
        expansion = left.ravel() + jacobian @ around.ravel() - jacobian @ z.ravel()
        drift = kernel @ margins(z).ravel() - matrix @ z.ravel() - offset.ravel()
        missed.append([float(np.linalg.norm(margins(z).ravel() - expansion)), float(np.linalg.norm(drift))])
    orders = np.log10(np.array(missed[0]) / missed[1])
    return {
        "margin_missed": float(np.abs(left + slope).max()),
        "jacobian_missed": float(np.abs(jacobian - bend.reshape(9, 9)).max()),
        "expansion_order": float(orders[0]),
        "drift_order": float(orders[1]),
    }


def _signed(record: xr.Dataset) -> Judgement:
    note = "regression of the automatic derivative on Θ J(φ) at random states; (B.12) has the right sign"
    return corrected(record["derivative_slope"].values, -1.0, 1e-9, published=1.0, note=note)


def _residue(record: xr.Dataset) -> Judgement:
    expected = (_MODEL().drift(0.0) @ margin_directions(3, 3).ravel()).reshape(3, 3)
    note = "Θ R at equal logits minus Θ d, nine entries"
    return equal(record["start_residue"].values - expected, 0.0, 1e-12, note=note)


def _early(record: xr.Dataset) -> Judgement:
    order = np.log10(record["linear_error"].values[:, 0] / record["linear_error"].values[:, 1])
    note = "order of the error between |x| = 1e-2 and 1e-3; bound 0.05: the cubic term"
    return equal(order, 2.0, 0.05, rival=1.0, error=0.0, note=note)


def _second(record: xr.Dataset, name: str) -> Judgement:
    note = "order of the error between |z − φ| of 1e-2 and 1e-3, median of random φ; bound 0.05: the cubic term"
    return equal(float(record[name].median()), 2.0, 0.05, rival=1.0, error=0.0, note=note)


def _last_decade(record: xr.Dataset, name: str, scale: np.ufunc = np.positive) -> np.ndarray:
    """Growth with log t over the last decade, of a quantity or of its logarithm, for each class."""
    late = record.sel(time=float(record["time"][-1]) * np.array([0.1, 1.0]), method="nearest")
    return np.asarray(np.diff(scale(late[name].values), axis=0)[0] / float(np.diff(np.log(late["time"]))[0]))


def _endless(record: xr.Dataset) -> Judgement:
    note = (
        "d c/d log t over the last decade: margins are about (K−1) e^{−c}, so that c ≈ log t; rival 0; bound 0.01: the "
        "next order, e^{−c}"
    )
    return equal(_last_decade(record, "amplitude"), 1.0, 0.01, rival=0.0, error=0.0, note=note)


def _constant(record: xr.Dataset) -> Judgement:
    fall, growth = (_last_decade(record, name, np.log) for name in ("factor", "amplitude"))
    note = "d log C/d log t over the last decade: C falls like 1/(t log t), so the L-model's strengths decay"
    return corrected(fall, -1 - growth, 0.01, published=0.0, note=note)  # margins fall like e^{−c} ∝ 1/t: C ∝ 1/(t c)


def _draw_logits(record: xr.Dataset, ax: Axes) -> None:
    """The logits of one class beside their linearisation."""
    shown = record.isel({"time": slice(1, None), "class": 0})
    for feature, colour in zip(range(3), plots.PALETTE, strict=False):
        each = shown.isel(feature=feature)
        ax.plot(shown["time"], each["path"], color=colour, label=f"logit {feature}")
        ax.plot(shown["time"], each["linear_path"], color=colour, linestyle=":")
    ax.plot([], [], color="black", linestyle=":", label="linearised about equal logits")
    ax.set(xscale="log", xlabel=plots.axis_label(record["time"]), ylabel="mean logits of class 0")


def _draw_factor(record: xr.Dataset, ax: Axes) -> None:
    ax.loglog(record["time"][1:], record["factor"].values[1:], color=plots.PALETTE[0])
    ax.set(xlabel=plots.axis_label(record["time"]), ylabel="C in e_k − softmax X̄_k = C H X̄_k")


EXPERIMENT = Experiment(
    elastic("B.4–B.14"),
    Config(),
    run,
    claims=(
        Claim(
            "b6-margins",
            "the drift is Θ (e − softmax X): minus the gradient of cross-entropy by logits",
            lambda r: equal(r["margin_missed"].max(), 0.0, 1e-12, note="automatic gradient at random states"),
            elastic("B.6"),
        ),
        Claim(
            "b10-jacobian",
            "the softmax of a class has the Jacobian diag p − p pᵀ, that of all classes is block diagonal",
            lambda r: equal(r["jacobian_missed"].max(), 0.0, 1e-12, note="automatic derivative at random states"),
            elastic("B.10"),
        ),
        Claim(
            "b7-second",
            "linearised about any φ, with −J, the drift errs in second order",
            lambda r: _second(r, "drift_order"),
            elastic("B.7, B.14"),
            "derived",
        ),
        Claim(
            "b12-second",
            "Ψ(z) = Ψ(φ) + J φ − J z up to what is of second order",
            lambda r: _second(r, "expansion_order"),
            elastic("B.12"),
        ),
        Claim("b11-sign", "the drift of (B.4) linearised about φ has the matrix +Θ J(φ)", _signed, elastic("B.11")),
        Claim("b14-start", "about equal logits the residue is Ψ(u) = d", _residue, _START),
        Claim("b14-early", "the linear drift about equal logits errs quadratically in |x|", _early, _START),
        Claim(
            "b14-converges",
            "while Θ is constant logits grow as log t for ever: the assumed finite φ(∞) takes a Θ that dies out",
            _endless,
            _LATE,
            "own",
        ),
        Claim(
            "b5-direction",
            "e_k − softmax X̄_k turns into the direction d_k",
            lambda r: above(r["cosine"].values[-1], 0.999, note="cosine of the angle at the last time"),
            elastic("B.5"),
        ),
        Claim(
            "b5-constant",
            "while Θ is constant, e_k − softmax X̄_k = C H X̄_k with a constant C",
            _constant,
            elastic("B.5"),
            "derived",  # the source has networks that converge in mind
        ),
    ),
    picture=Panels(_draw_logits, _draw_factor),
    model="LocallyElastic",
    smoke={"times": 60, "states": 10},
    paper={"last_time": 1e6, "states": 1000},
)
