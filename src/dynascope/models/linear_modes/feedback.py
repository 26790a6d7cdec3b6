"""Two layers that multiply amplify each other: the one scalar equation behind diagonal and scalar networks.

Sums a + b of paired weights grow by √γ and differences a − b shrink by √γ, with one γ(t) for all pairs. Everything here
is written in the pair sums `together` = Σ(a+b)²/(2Z) = Σ₀ + S₀ and `apart` = Σ(a−b)²/(2Z) = Σ₀ − S₀ at time 0, both at
least 0, so that no term of a closed form cancels another. Arrays broadcast.
"""

import numpy as np
from jaxtyping import Float

from dynascope.models.stepping import Numeric

_LOWEST = -700.0  # exponents below it leave the range of float64; γ is then as good as settled


def growth(together: Numeric, apart: Numeric, target: Numeric, *, flow_time: Numeric) -> Float[np.ndarray, "..."]:
    """γ(t) with γ(0) = 1, the solution of γ' = 2 (S − θ) γ, θ = (together·γ − apart/γ)/2.

    γ = [apart·h + ((1+c) + (1−c) E)/2] / [together·h + ((1−c) + (1+c) E)/2] with R = √(S² + together·apart),
    c = S/R, E = exp(−2Rτ), h = (1 − E)/(2R); τ = E[x²]·t/Z is `flow_time`.
    Source: layerwise (6.12); with 2 in place of the printed 4, rewritten without cancellation.

    >>> growth(0.5, 0.5, 1.0, flow_time=np.array([0.0, 100.0])).round(6).tolist()
    [1.0, 4.236068]
    """
    root, above, below = _root(together, apart, target)
    exponent = np.maximum(-2 * root * flow_time, _LOWEST)
    decay = np.exp(exponent)
    flat = root == 0
    covered = np.where(flat, flow_time, -np.expm1(exponent) / np.where(flat, 1.0, 2 * root))
    up = apart * covered + (above + below * decay) / 2
    down = together * covered + (below + above * decay) / 2
    return np.asarray(up / down)


def growth_limit(together: Numeric, apart: Numeric, target: Numeric) -> Float[np.ndarray, "..."]:
    """γ₊ = lim γ(t) = (S + R)/together, infinite where `together` is 0 and the target positive.

    Source: layerwise (6.14); written as (apart + R + S)/(together + R − S), which is also right for S < 0.

    >>> float(growth_limit(0.5, 0.5, 1.0).round(6))
    4.236068
    """
    root, above, below = _root(together, apart, target)
    up, down = apart + root * above, together + root * below
    still = (up == 0) & (down == 0)  # no weights and no target: nothing ever moves
    with np.errstate(divide="ignore"):
        limit = np.where(still, 1.0, up) / np.where(still, 1.0, down)
    return np.asarray(limit)


def time_between(begin: Numeric, end: Numeric, target: Numeric, *, spread: Numeric) -> Float[np.ndarray, "..."]:
    """Flow time τ in which the output goes from `begin` to `end` on its way to a target S > 0.

    τ = log[G(begin)/G(end)]/(2R) with G(θ) = (S + R − θ − √(θ² + ta))/(θ + √(θ² + ta) + R − S), ta = `spread` =
    together·apart and R = √(S² + ta). NaN where the path does not pass `end`. With ta = 0 it is the time of the sigmoid
    (3.9), and (3.12) follows. Source: derived from layerwise (3.6).

    >>> bool(abs(time_between(0.01, 0.5, 1.0, spread=0.0) - np.log(99) / 2) < 1e-12)
    True
    """
    root = np.hypot(target, np.sqrt(spread))

    def remaining(output: Numeric) -> np.ndarray:  # G(θ), each factor free of cancellation
        size = np.hypot(output, np.sqrt(spread))
        left = (target - output) * (1 + (target + output) / (root + size))
        passed = np.where(output > 0, output + size, spread / (size - np.minimum(output, 0.0)))
        return np.asarray(left / (passed + spread / (root + target)))

    passes = (end - begin) * (target - end) >= 0
    with np.errstate(divide="ignore", invalid="ignore"):
        duration = np.log(remaining(begin) / remaining(end)) / (2 * root)
    return np.where(passes & (end != target), duration, np.nan)


def _root(together: Numeric, apart: Numeric, target: Numeric) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """R = √(S² + together·apart), and 1 + S/R and 1 − S/R without cancellation."""
    root = np.hypot(target, np.sqrt(together) * np.sqrt(apart))
    positive = np.where(root == 0, 1.0, root)
    larger = 1 + np.abs(target) / positive
    smaller = (together / positive) * (apart / (positive + np.abs(target)))
    smaller = np.where(root == 0, 1.0, smaller)  # c = 0 there
    return np.asarray(root), np.where(target >= 0, larger, smaller), np.where(target >= 0, smaller, larger)
