"""Strengths and losses of one set of skills: plain numbers in, arrays out.

x = η·share·T is the exposure of a skill: learning rate times the share of its samples times steps. All curves are
functions of it alone; the share is P(k) ∝ k^−(α+1) with unlimited data and d_k/D with D samples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from dynascope.models.multilinear.quadrature import binomial_rule, block_ratio, power_sum, representatives

_TABLE = 2**18  # numbers of a (resource, node) table that exist at once
Flat = Float[np.ndarray, " case"] | None


@dataclass(frozen=True)
class SkillSet:
    """Skills of one grid point: how many, how frequent, and how each is learned."""

    skills: int
    exponent: float  # α
    target: float  # S
    initial: float  # R(0)
    learning_rate: float  # η
    linear: bool

    @cached_property
    def normaliser(self) -> float:
        """A of P(k) = A k^−(α+1): (4.1). Source: layerwise (4.1)."""
        return float(1 / power_sum(self.exponent + 1, np.array(1.0), float(self.skills)))

    @property
    def pole(self) -> complex:
        """Where the gap is singular in v = 2 S x; the linear model has no such point."""
        return complex(1.0, np.inf) if self.linear else complex(-self.start_logit, np.pi)

    @property
    def start_logit(self) -> float:
        """log(R(0)/(S − R(0)))."""
        return float(np.log(self.initial) - np.log(self.target - self.initial))

    @property
    def start_gap(self) -> float:
        """1 − R(0)/S."""
        return 1 - self.initial / self.target

    def frequency(self, rank: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """P(k), also between whole ranks."""
        return np.asarray(self.normaliser * rank ** -(self.exponent + 1))

    def gap(self, exposure: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """1 − R/S after an exposure x: (4.11), or (C.4) for the linear model, from any start.
        Source: layerwise (4.11), (C.4).
        """
        if self.linear:
            return np.asarray(self.start_gap * np.exp(-exposure))
        return np.asarray(expit(-(2 * self.target * exposure + self.start_logit)))

    def strength(self, rank: Float[np.ndarray, " skill"], time: Flat, data: Flat) -> Float[np.ndarray, "case skill"]:
        """Expected R_k over the sampled data, for skills that the model has."""
        left = self._mean_over_data(self.gap, self.frequency(rank), time, data)
        return np.asarray(self.target * (1 - left))

    def loss(self, time: Flat, data: Flat, parameters: Flat) -> Float[np.ndarray, " case"]:
        """Expected loss (4.17) for each case. Source: layerwise (4.17), (4.18)."""
        half_square = self.target**2 / 2
        if parameters is None:
            return half_square * self._learnable(self.skills, time, data)
        total = half_square * self.withheld(parameters)
        for count in np.unique(parameters[parameters > 0]):
            chosen = parameters == count
            parts = [None if values is None else values[chosen] for values in (time, data)]
            total[chosen] += half_square * self._learnable(int(count), *parts)
        return np.asarray(total)

    def withheld(self, parameters: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Σ P(k) over skills that a model with N of them lacks."""
        inside = np.minimum(parameters, self.skills - 1)
        beyond = self.normaliser * power_sum(self.exponent + 1, np.asarray(inside + 1), float(self.skills))
        return np.array(np.where(parameters < self.skills, beyond, 0.0))

    def _learnable(self, count: int, time: Flat, data: Flat) -> Float[np.ndarray, " case"]:
        """Σ_{k ≤ count} P(k) E[gap²]."""
        if time is None and data is None:
            return np.zeros(1)
        rank, multiplicity = representatives(1, count, block_ratio(self.exponent, self.pole))
        share = self.frequency(rank)
        weight = multiplicity * share
        cases = max(0 if values is None else len(values) for values in (time, data))
        result = np.empty(cases)
        rows = max(_TABLE // len(share), 1)
        for begin in range(0, cases, rows):
            part = slice(begin, begin + rows)
            some = [None if values is None else values[part] for values in (time, data)]
            result[part] = self._mean_over_data(lambda x: self.gap(x) ** 2, share, *some) @ weight
        return result

    def _mean_over_data(
        self, curve: Callable[[np.ndarray], np.ndarray], share: Float[np.ndarray, " node"], time: Flat, data: Flat
    ) -> Float[np.ndarray, "case node"]:
        """E[curve(η T d/D)] with d ~ Binomial(D, share); d/D is the share itself where data are unlimited."""
        if data is None:
            if time is None:
                return np.zeros((1, len(share)))
            return curve(self.learning_rate * time[:, None] * share)
        if time is None:  # one sample is enough (4.26): only what was never seen keeps its start
            with np.errstate(divide="ignore"):
                return np.asarray(curve(np.zeros(1)) * np.exp(data[:, None] * np.log1p(-share)))
        result = np.empty((len(data), len(share)))
        for size in np.unique(data):
            counts, weights = binomial_rule(int(size), share, max(abs(self.pole.real), 1.0))
            for case in np.flatnonzero(data == size):  # one table (node, count) at a time
                exposure = self.learning_rate * time[case] / size * counts
                result[case] = np.einsum("np,np->n", curve(exposure), weights)
        return result
