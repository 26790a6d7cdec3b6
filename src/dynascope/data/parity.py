"""Many skills in one task: the parity of a few bits, which ones being told by control bits."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynascope.budget import require_room
from dynascope.checks import ArrayLike, Given, count, require, scalar


@dataclass(frozen=True)
class SparseParity:
    """Multitask sparse parity: inputs are one-hot control bits and random skill bits, targets are ±1.

    Control bit k says which skill is asked for, with frequency P(k) ∝ k^−(α+1), and g_k(x) = (−1)^(sum of its relevant
    bits). The relevant bits of the skills are disjoint: skill 1 has the first few, skill 2 those that follow (the order
    of the bits is nothing that a fully connected network could notice).

    skills: how many; bits: random bits of an input, at most 62; relevant: bits in each parity; exponent: α

    Source: layerwise (4.1), (4.2), Table 4.2.

    >>> task = SparseParity(skills=2, bits=8)
    >>> x, y, skill = task.sample(4, seed=0)
    >>> x.shape, bool((task.parity(x) == y).all())
    ((4, 10), True)
    """

    skills: int = 5
    bits: int = 32
    relevant: int = 3
    exponent: float = 0.6

    def __post_init__(self) -> None:
        for name in ("skills", "bits", "relevant"):
            count(name, getattr(self, name))
        scalar("exponent", self.exponent)
        needed = self.skills * self.relevant
        require("bits", np.array(self.bits), np.array(needed <= self.bits <= 62), f"lie between {needed} and 62")

    @cached_property
    def frequency(self) -> np.ndarray:
        """P(k) of each skill (4.1). Source: layerwise (4.1).

        >>> SparseParity(skills=2, exponent=1.0).frequency.tolist()
        [0.8, 0.2]
        """
        weights = np.arange(1.0, self.skills + 1) ** -(self.exponent + 1)
        return np.asarray(weights / weights.sum())

    def sample(
        self, size: Given[int], seed: Given[int] = 0, *, skill: Given[int | None] = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw inputs, float32 (size, skills + bits) of 0 and 1, targets ±1, float32 (size,), and ranks of skills.

        skill: the rank of the only skill to draw; all by their frequency if not given

        >>> SparseParity(skills=3, bits=9).sample(2, skill=3)[2].tolist()
        [3, 3]
        """
        size, random = count("size", size), np.random.default_rng(count("seed", seed, at_least=0))
        require_room({"size": size, "skills": self.skills}, size * (self.skills + self.bits))
        if skill is None:
            ranks = random.choice(self.skills, size, p=self.frequency) + 1
        else:
            rank = count("skill", skill)
            require("skill", np.array(rank), np.array(rank <= self.skills), f"be at most {self.skills}")
            ranks = np.full(size, rank)
        control = ranks[:, None] == np.arange(1, self.skills + 1)
        x = np.concatenate([control, random.integers(0, 2, (size, self.bits))], axis=1).astype(np.float32)
        return x, self.parity(x), ranks

    def parity(self, x: ArrayLike) -> np.ndarray:
        """g(x) = Σ_k g_k(x): ±1, the parity of the relevant bits of the skill that the control bits name (4.2).
        Source: layerwise (4.2).

        >>> SparseParity(skills=1, bits=3).parity([[1, 0, 0, 1], [1, 1, 0, 1]]).tolist()
        [-1.0, 1.0]
        """
        inputs = np.asarray(x)
        if inputs.ndim != 2 or inputs.shape[1] != self.skills + self.bits:
            raise ValueError(f"x must have the shape (sample, {self.skills + self.bits}), got {inputs.shape}")
        used = inputs[:, self.skills : self.skills * (self.relevant + 1)]
        signs = 1 - 2 * (used.reshape(-1, self.skills, self.relevant).sum(-1) % 2)
        return np.asarray((signs * inputs[:, : self.skills]).sum(1), np.float32)
