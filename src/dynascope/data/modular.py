"""Arithmetic modulo a prime, the standard task of grokking."""

import numpy as np

from dynascope.budget import require_room
from dynascope.checks import Given, count, one_of, require, scalar

OPERATIONS = ("division", "addition", "subtraction", "multiplication")


def modular_arithmetic(
    modulus: Given[int] = 97, operation: str = "division", *, train_share: Given[float] = 0.5, seed: Given[int] = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw equations a ∘ b = c modulo a number: all pairs (a, b), split at random into training and test.

    Inputs are int64 (n, 3), the tokens a, b and "=", which is `modulus` itself; labels are c, int64 (n,). Training
    inputs and labels, then test inputs and labels. For division c·b = a, b runs from 1 to modulus − 1, and the modulus
    must be a prime: modulus·(modulus − 1) equations; modulus² for the others.

    modulus: numbers are 0 … modulus − 1
    operation: division, addition, subtraction or multiplication
    train_share: part of all equations that is for training, above 0 and below 1
    Source: layerwise Figure 6.4; Power et al. (2022), section 3.1.

    >>> x, y, xt, yt = modular_arithmetic(5, train_share=0.6)
    >>> x.shape, xt.shape, bool(np.all(y * x[:, 1] % 5 == x[:, 0]))
    ((12, 3), (8, 3), True)
    """
    modulus, share = count("modulus", modulus, at_least=2), scalar("train_share", train_share, above=0.0)
    require("train_share", np.array(share), np.array(share < 1), "be below 1")
    one_of("operation", operation, OPERATIONS)
    require_room({"modulus": modulus}, 4 * modulus**2)
    a, b = (each.ravel() for each in np.meshgrid(np.arange(modulus), np.arange(modulus), indexing="ij"))
    if operation == "division":
        if any(modulus % k == 0 for k in range(2, int(modulus**0.5) + 1)):
            raise ValueError(f"modulus must be a prime for division, which else has no or many answers, got {modulus}")
        c, b = a[b > 0], b[b > 0]  # every pair of an answer and a divisor, once
        a = c * b % modulus
    else:
        c = {"addition": a + b, "subtraction": a - b, "multiplication": a * b}[operation] % modulus
    tokens = np.stack([a, b, np.full_like(a, modulus)], 1).astype(np.int64)
    order = np.random.default_rng([count("seed", seed, at_least=0), 5]).permutation(len(a))
    train, test = np.split(order, [round(share * len(a))])
    if not train.size or not test.size:
        raise ValueError(f"train_share must leave equations for training and for test, got {train_share}")
    return tokens[train], c[train].astype(np.int64), tokens[test], c[test].astype(np.int64)
