"""Class means over time, exactly: closed forms where they exist, an adaptive solver elsewhere."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from scipy.linalg import expm

from dynascope.models.elastic.geometry import direction_cosine, margin_amplitudes, margin_directions
from dynascope.models.elastic.propagation import follow_slope
from dynascope.models.elastic.quadrature import integrate_growth, refuse_overflow
from dynascope.models.elastic.strengths import Growths, Strength


def isotropic_path(
    times: Float[np.ndarray, " time"],
    start: Float[np.ndarray, "*trial class feature"],
    intra: Strength,
    inter: Strength,
) -> Float[np.ndarray, "*trial time class feature"]:
    """I-model (7): the mean over classes grows with (A + (K−1) B)/K, what differs between them with (A − B)/K.
    Source: elastic (7), (C.5), (D.4), (D.5), Proposition 3.2.

    >>> from dynascope.models.elastic.strengths import Constant
    >>> isotropic_path(np.array([0.0]), np.array([[1.0], [3.0]]), Constant(1.0), Constant(0.0)).tolist()
    [[[1.0], [3.0]]]
    """
    classes = start.shape[-2]
    growth = Growths(intra, inter, classes, 1.0)(times)
    refuse_overflow(times, growth)
    together, apart = np.exp(growth)[:, :, None, None]
    mean = start.mean(axis=-2, keepdims=True)
    return np.asarray(mean[..., None, :, :] * together + (start - mean)[..., None, :, :] * apart)


def logit_path(
    times: Float[np.ndarray, " time"],
    start: Float[np.ndarray, "*trial class feature"],
    intra: Strength,
    inter: Strength,
) -> Float[np.ndarray, "*trial time class feature"]:
    """L-model for any K and p ≥ K, and any α(t), β(t).

    With c_k = d_k·x_k/|d_k|² and ρ the cosine of two d's: the mean s of the c_k grows with (A + (K−1) ρ B)/K, their
    differences with (A − ρ B)/K, and x_k(t) = x_k(0) + (1/K) ∫ [(α − β) c_k d_k + β Σ_l c_l d_l]. Since α can be
    integrated against either growth once β has been, two scalar integrals serve all classes and starts.
    Exact also where β/α varies, unlike the printed (9). Source: elastic (9), Proposition 3.3.

    >>> from dynascope.models.elastic.strengths import Constant
    >>> path = logit_path(np.array([1.0]), np.array([[0.5, -0.5], [-0.5, 0.5]]), Constant(2.0), Constant(0.0))
    >>> path.round(3).tolist()
    [[[1.359, -1.359], [-1.359, 1.359]]]
    """
    classes, features = start.shape[-2:]
    directions = margin_directions(classes, features)
    amplitude = margin_amplitudes(start)
    mean = amplitude.mean(axis=-1, keepdims=True)
    growth = Growths(intra, inter, classes, direction_cosine(classes, features))  # of s and of c − s
    with_inter = integrate_growth(times, growth, inter, knots=growth.knots)
    grown = np.exp(growth(times))
    with_intra = classes * (grown - 1) - growth.weights * with_inter  # ∫ α·growth, from the growth's own equation
    # x(t) is the start plus four fixed patterns: own direction and sum over classes, for s and for c − s
    patterns = [start]
    for part in (np.broadcast_to(mean, amplitude.shape), amplitude - mean):
        pulled = part[..., None] * directions
        patterns += [pulled, np.broadcast_to(pulled.sum(axis=-2, keepdims=True), pulled.shape)]
    curves = [
        np.full(len(times), float(classes)),
        *np.stack([with_intra - with_inter, with_inter], axis=1).reshape(4, -1),
    ]
    basis = np.stack(patterns, axis=-3).reshape((*start.shape[:-2], 5, -1))
    path: np.ndarray = np.matmul(np.transpose(curves) / classes, basis)  # (…, time, class·feature)
    return path.reshape((*path.shape[:-1], classes, features))


def general_path(
    times: Float[np.ndarray, " time"],
    start: Float[np.ndarray, "*trial class feature"],
    drift: Callable[[float], np.ndarray],
    *,
    constant: bool,
    knots: Sequence[float] | np.ndarray = (),
) -> Float[np.ndarray, "*trial time class feature"]:
    """Any drift M(t): the matrix exponential if it is constant, else an adaptive solver (relative error 1e-10).

    `knots` are times at which M bends; the solver starts anew there.

    >>> general_path(np.array([2.0]), np.ones((2, 1)), lambda time: np.zeros((2, 2)), constant=True).tolist()
    [[[1.0], [1.0]]]
    """
    flat = start.reshape(-1, start.shape[-2] * start.shape[-1])  # (trial, state)
    if constant:
        flows = _exponentials(times, drift(0.0))
    else:
        flows = follow_slope(times, np.eye(flat.shape[1]), lambda time, flow: drift(time) @ flow, knots=knots)
    path = np.einsum("tij,nj->nti", flows, flat)
    return np.asarray(path).reshape((*start.shape[:-2], len(times), *start.shape[-2:]))


def _exponentials(times: np.ndarray, matrix: np.ndarray) -> Float[np.ndarray, "time state state"]:
    """exp(M t) at each time, by products: an even grid takes one exponential."""
    flow, flows, span, step = np.eye(len(matrix)), [], -1.0, np.eye(len(matrix))
    with np.errstate(over="ignore", invalid="ignore"):
        for before, time in pairwise(np.append(0.0, times).tolist()):
            if abs(time - before - span) > 1e-14 * time:
                span, step = time - before, expm(matrix * (time - before))
            flow = step @ flow
            flows.append(flow)
        found = np.stack(flows)
        refuse_overflow(times, np.log(np.abs(found).max(axis=(1, 2))) / 2)
    return found
