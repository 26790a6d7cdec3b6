"""Ways to spoil data on purpose: wrong labels, noisy inputs, few or uneven samples."""

from collections.abc import Sequence

import numpy as np

from dynascope.checks import ArrayLike, Given, as_float, count, one_of, require, scalar


def checked_labels(name: str, labels: ArrayLike, classes: int | None = None) -> tuple[np.ndarray, int]:
    """Convert to int64 labels in 0 … classes − 1 with no class left empty; say which rule is broken.

    >>> checked_labels("y", [0, 1, 1])
    (array([0, 1, 1]), 2)
    >>> checked_labels("y", [0, 2])
    Traceback (most recent call last):
    ValueError: y must hold every class from 0 to 2, got no sample of class 1
    """
    values = np.asarray(labels)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a list of whole numbers, got shape {values.shape} of {values.dtype}")
    least, most = int(values.min()), int(values.max())
    classes = most + 1 if classes is None else classes
    if least < 0 or most >= classes:
        wrong = least if least < 0 else most
        raise ValueError(f"{name} must be labels from 0 to {classes - 1}, got {wrong}")
    if classes < 2:
        raise ValueError(f"{name} must hold at least 2 classes, got {classes}")
    empty = np.flatnonzero(np.bincount(values, minlength=classes) == 0)
    if empty.size:
        raise ValueError(f"{name} must hold every class from 0 to {classes - 1}, got no sample of class {empty[0]}")
    return values.astype(np.int64), classes


def corrupt_labels(labels: ArrayLike, share: Given[float], *, method: str = "flip", seed: Given[int] = 0) -> np.ndarray:
    """Give a share of the labels to other classes.

    "flip": int(share·n) labels of each class of n samples, drawn without replacement, go to the other classes in equal
    numbers (the remainder to the classes that follow in cyclic order). At share = 1 − 1/K no class is left a majority.
    "reset": int(share·n) of all labels are drawn again, uniformly over all classes, their own included.

    labels: whole numbers 0 … K − 1
    share: from 0 to 1
    Source: elastic Section 4.3; spring-block data noise; the first for "flip", the second for "reset".

    >>> np.bincount(corrupt_labels(np.repeat([0, 1, 2], 100), 0.5)[:100]).tolist()
    [50, 25, 25]
    """
    values, classes = checked_labels("labels", labels)
    share, seed = scalar("share", share, at_least=0.0), count("seed", seed, at_least=0)
    require("share", np.array(share), np.array(share <= 1), "be at most 1")
    rng = np.random.default_rng([seed, 1])
    result = values.copy()
    if one_of("method", method, ("flip", "reset")) == "reset":
        chosen = rng.choice(len(values), int(share * len(values)), replace=False)
        result[chosen] = rng.integers(classes, size=len(chosen))
        return result
    for own in range(classes):
        members = np.flatnonzero(values == own)
        chosen = rng.choice(members, int(share * len(members)), replace=False)
        result[chosen] = (own + 1 + np.arange(len(chosen)) % (classes - 1)) % classes
    return result


def noisy_inputs(inputs: ArrayLike, share: Given[float], *, seed: Given[int] = 0) -> np.ndarray:
    """Add Gaussian noise with a standard deviation of `share` times that of the inputs; float32.

    >>> x = np.linspace(-1, 1, 10_000)
    >>> round(float(np.std(noisy_inputs(x, 0.5) - x) / x.std()), 2)
    0.5
    """
    values, share = as_float("inputs", inputs), scalar("share", share, at_least=0.0)
    rng = np.random.default_rng([count("seed", seed, at_least=0), 2])
    return np.asarray(values + share * values.std() * rng.standard_normal(values.shape), np.float32)


def subsample(
    labels: ArrayLike, per_class: Given[int | Sequence[int] | np.ndarray], *, seed: Given[int] = 0
) -> np.ndarray:
    """Indices of `per_class` samples of each class, drawn without replacement, in their old order.

    per_class: one number, or one for each class

    >>> subsample([0, 0, 0, 1, 1, 1], 2).shape
    (4,)
    """
    values, classes = checked_labels("labels", labels)
    wanted = np.broadcast_to(np.asarray(per_class), (classes,)) if np.ndim(per_class) == 0 else np.asarray(per_class)
    if wanted.shape != (classes,):
        raise ValueError(f"per_class must be one number or {classes}, one for each class, got {per_class!r}")
    rng = np.random.default_rng([count("seed", seed, at_least=0), 3])
    chosen = []
    for own, number in enumerate(wanted):
        members = np.flatnonzero(values == own)
        if count("per_class", number) > len(members):
            raise ValueError(f"per_class must be at most {len(members)}, the samples of class {own}, got {number}")
        chosen.append(rng.permutation(members)[:number])
    return np.sort(np.concatenate(chosen))


def imbalance(labels: ArrayLike, ratio: Given[float], *, seed: Given[int] = 0) -> np.ndarray:
    """Indices of a subset whose class sizes fall geometrically: the last class has `ratio` times the first one's.

    n_k = n_min·ratio^(k/(K−1)), rounded down but at least 1, with n_min the size of the smallest class.

    >>> y = np.repeat([0, 1, 2], 100)
    >>> np.bincount(y[imbalance(y, 0.01)]).tolist()
    [100, 10, 1]
    """
    values, classes = checked_labels("labels", labels)
    ratio = scalar("ratio", ratio, above=0.0)
    require("ratio", np.array(ratio), np.array(ratio <= 1), "be at most 1")
    sizes = np.bincount(values).min() * ratio ** (np.arange(classes) / (classes - 1))
    return subsample(values, np.maximum(1, np.floor(sizes + 1e-9)).astype(int), seed=seed)
