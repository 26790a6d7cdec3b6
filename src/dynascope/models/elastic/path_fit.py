"""Strengths that keep a model on a measured path, for any geometry and any pattern of E.

The closed-form estimators of `estimate` invert the solution of one geometry. Here strengths are found on the way: at
each recorded time those are taken that lead the model, from where it stands, to the measured class means a few points
ahead. What the geometry cannot do stays as an error of the path instead of growing without bound.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline

from dynascope.checks import one_of
from dynascope.models.elastic.geometry import geometry_blocks, margin_directions
from dynascope.models.elastic.softmax import margins

MODELS = ("isotropic", "logits", "mixture", "softmax", "general", "kernel")
RIDGE = 0.1  # share of the mean eigenvalue that holds strengths where they were: what is not seen stays
_OWN_WEIGHTS = (0.5, 0.6, 0.7, 0.8, 0.9)
_SUBSTEPS = 2  # Runge–Kutta steps between two recorded times
_FIRST = 20  # repetitions after which the first strengths no longer know that they began at 0
_INDICES = np.linspace(0.0, 4.0, 81)  # strengths that grew without end would explode when continued
_FORECAST_RIDGE = 0.01


@dataclass(frozen=True)
class Drift:
    """X̄_k' = (1/K) Σ_l E_kl(t) f_l(X̄_l), with f the geometry and E(t) = Σ_q strength_q(t) · pattern_q.

    blocks: H_l (class, feature, feature); f_l = H_l x_l, or margins e_l − softmax x_l where `softmax` is set (B.4)
    patterns: (class, class, strength), which entries of E share a strength
    directions: (class, feature), unit vectors along which paths are fitted; None for all directions alike
    """

    blocks: Float[np.ndarray, "class feature feature"]
    patterns: Float[np.ndarray, "class class strength"]
    softmax: bool
    directions: Float[np.ndarray, "class feature"] | None

    def pull(self, means: Float[np.ndarray, "*lead class feature"]) -> Float[np.ndarray, "*lead class feature"]:
        """f_l(x_l)/K for every class l."""
        felt = margins(means) if self.softmax else np.einsum("lij,...lj->...li", self.blocks, means)
        return np.asarray(felt / len(self.blocks))

    def seen(self, means: Float[np.ndarray, "*lead class feature"]) -> Float[np.ndarray, "*lead number"]:
        """The numbers in which a path is fitted."""
        if self.directions is not None:
            return np.asarray(np.einsum("...ki,ki->...k", means, self.directions))
        return means.reshape((*means.shape[:-2], -1))

    def elasticity(self, strengths: Float[np.ndarray, "*lead strength"]) -> Float[np.ndarray, "*lead class class"]:
        """E from its strengths."""
        return np.tensordot(strengths, self.patterns, axes=(-1, -1))


def drifts(model: str, classes: int, features: int) -> list[Drift]:
    """The drifts among which a named model is chosen by its fit; one, but for the weight of "mixture".

    "isotropic", "logits", "mixture", "softmax": the geometries of `geometry_blocks` with two strengths, α within and β
    between classes. "general": the logit geometry with a strength for every ordered pair of classes. "kernel": the
    softmax drift with one for every pair, E_kl = E_lk: a tangent kernel of classes.

    >>> [len(drifts(model, 3, 3)) for model in MODELS]
    [1, 1, 5, 1, 1, 1]
    """
    one_of("geometry", model, MODELS)
    geometry = {"general": "logits", "kernel": "softmax"}.get(model, model)
    own = np.eye(classes)
    patterns = np.stack([own, 1 - own], axis=-1)
    if model == "general":
        patterns = np.eye(classes**2).reshape(classes, classes, -1)
    elif model == "kernel":
        pairs = np.eye(classes**2).reshape(classes, classes, classes, classes)
        patterns = np.maximum(pairs, np.swapaxes(pairs, 0, 1))[:, :, *np.triu_indices(classes)]
    directions = None
    if model in ("logits", "mixture"):  # two strengths cannot follow wrong-class logits: they are fitted to the margins
        directions = margin_directions(classes, features)
        directions = directions / np.linalg.norm(directions[0])
    weights = _OWN_WEIGHTS if model == "mixture" else (1.0,)
    blocks = [geometry_blocks(geometry, classes, features, own_weight=weight)[0] for weight in weights]
    return [Drift(each, patterns, geometry == "softmax", directions) for each in blocks]


def follow(
    times: Float[np.ndarray, " time"],
    means: Float[np.ndarray, "*lead time class feature"],
    drift: Drift,
    *,
    horizon: int,
) -> tuple[Float[np.ndarray, "*lead interval strength"], Float[np.ndarray, "*lead time class feature"]]:
    """Strengths, constant between recorded times, and the path that the model takes with them from the first means.

    With Y the model's state at t_i and X the means, the strengths of [t_i, t_i+1] minimise
    |X(t_i+h) − Y − Σ_q strength_q ∫ pattern_q f|² + ridge·|strength − the one before|², f taken along the measured path
    and moved to where the model stands: ∫ f(X) + (t_i+h − t_i)(f(Y) − f(X(t_i))). The integral takes no derivative of
    noisy data; `horizon` = h points average over it. Leading axes are fitted one by one.

    >>> times = np.linspace(0.0, 2.0, 41)
    >>> means = np.exp(times)[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> strengths, path = follow(times, means, drifts("isotropic", 2, 2)[0], horizon=1)
    >>> float((strengths[-1, 0] - strengths[-1, 1]).round(3)), float(np.abs(path - means).max().round(6))
    (2.0, 0.0)
    """
    felt = drift.pull(means)
    summed = CubicSpline(times, felt, axis=-3).antiderivative()(times)
    state = means[..., 0, :, :]
    number = drift.patterns.shape[-1]
    strength = np.zeros((*means.shape[:-3], number))
    strengths, path = [], [state]
    for i in range(len(times) - 1):
        j = min(i + horizon, len(times) - 1)
        moved = summed[..., j, :, :] - summed[..., i, :, :]
        moved = moved + (times[j] - times[i]) * (drift.pull(state) - felt[..., i, :, :])
        rows = drift.seen(np.einsum("klq,...li->...qki", drift.patterns, moved))  # (…, strength, number)
        gap = drift.seen(means[..., j, :, :] - state)
        for _ in range(1 if i else _FIRST):  # at first there is no strength before that could be held
            strength = _nearest(rows, gap, strength)
        state = _advance(state, drift.elasticity(strength), float(times[i + 1] - times[i]), drift)
        strengths.append(strength)
        path.append(state)
    return np.stack(strengths, axis=-2), np.stack(path, axis=-3)


def _nearest(rows: np.ndarray, gap: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Least squares that leaves alone what the data do not determine."""
    gram = rows @ np.swapaxes(rows, -1, -2)
    raised = RIDGE * np.trace(gram, axis1=-2, axis2=-1)[..., None] / gram.shape[-1] + np.finfo(float).tiny
    moment = np.einsum("...qn,...n->...q", rows, gap) + raised * before
    raised_gram = gram + raised[..., None] * np.eye(gram.shape[-1])
    return np.asarray(np.linalg.solve(raised_gram, moment[..., None])[..., 0])


def _advance(state: np.ndarray, elasticity: np.ndarray, span: float, drift: Drift) -> np.ndarray:
    """Runge–Kutta steps of fourth order over a span in which E is constant."""
    step = span / _SUBSTEPS
    for _ in range(_SUBSTEPS):
        first = elasticity @ drift.pull(state)
        second = elasticity @ drift.pull(state + step / 2 * first)
        third = elasticity @ drift.pull(state + step / 2 * second)
        fourth = elasticity @ drift.pull(state + step * third)
        state = state + step / 6 * (first + 2 * second + 2 * third + fourth)
    return state


def solve(
    times: Float[np.ndarray, " time"],
    start: Float[np.ndarray, "*lead class feature"],
    elasticity: Float[np.ndarray, "interval class class"],
    drift: Drift,
    *,
    kicks: Float[np.ndarray, "*lead interval class feature"] | None = None,
) -> Float[np.ndarray, "*lead time class feature"]:
    """Follow the ODE from `start` with E constant between the times; with `kicks` the SDE, which adds one after each.

    Kicks of covariance C·(t_i+1 − t_i) make it the SDE with noise C, to first order in the growth over an interval.

    >>> still = solve(np.array([0.0, 1.0]), np.ones((2, 2)), np.zeros((1, 2, 2)), drifts("isotropic", 2, 2)[0])
    >>> still[-1].tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    path = [start]
    for i, span in enumerate(np.diff(times).tolist()):
        state = _advance(path[-1], elasticity[i], span, drift)
        path.append(state if kicks is None else state + kicks[..., i, :, :])
    return np.stack(path, axis=-3)


def power_law(
    times: Float[np.ndarray, " time"], means: Float[np.ndarray, "time class feature"], drift: Drift
) -> tuple[Float[np.ndarray, " strength"], float]:
    """Scales and the common index r of strengths scale·(1 + t)^−r that explain a stretch of path best.

    X̄(t) = const + Σ_q scale_q ∫ (1 + τ)^−r pattern_q f(X̄) dτ, least squares over 0 ≤ r ≤ 4 with a small ridge. Time
    counts from the start of training.

    >>> times = np.linspace(10.0, 50.0, 200)
    >>> means = np.sqrt(1 + times)[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> scales, index = power_law(times, means, drifts("isotropic", 2, 2)[0])
    >>> round(index, 1)
    1.0
    """
    felt = drift.pull(means)
    target = drift.seen(means)
    target = (target - target.mean(axis=0)).ravel()
    found = []
    for index in _INDICES:
        late = ((1 + times) / (1 + times[-1])) ** -index  # of order 1, so that ridges compare
        summed = CubicSpline(times, late[:, None, None] * felt).antiderivative()(times)
        rows = drift.seen(np.einsum("klq,tli->qtki", drift.patterns, summed))
        rows = (rows - rows.mean(axis=1, keepdims=True)).reshape(len(rows), -1)
        gram = rows @ rows.T
        raised = _FORECAST_RIDGE * np.trace(gram) / len(gram) + np.finfo(float).tiny
        scales = np.linalg.solve(gram + raised * np.eye(len(gram)), rows @ target)
        missed = ((target - scales @ rows) ** 2).sum() + raised * scales @ scales
        found.append((missed, scales * (1 + times[-1]) ** index, float(index)))
    _, scales, index = min(found, key=lambda each: each[0])
    return scales, index
