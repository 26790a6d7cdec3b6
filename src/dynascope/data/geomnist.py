"""Pictures of ellipses, rectangles and triangles, drawn from a seed."""

from collections.abc import Callable

import numpy as np

from dynascope.budget import require_room
from dynascope.checks import Given, count

SHAPES = ("ellipse", "rectangle", "triangle")
_SIDE = 32.0  # the published sizes are in pixels of a 32 × 32 image
_CENTRE = 16.0
_APEX = 8 * np.sqrt(3)
# (row, column) relative to the centre: vertices at rows 16, 26, 6 and columns 16 − 8√3, 24, 24
_TRIANGLE = np.array([[0.0, -_APEX], [10.0, 8.0], [-10.0, 8.0]], np.float32)


def geomnist(
    per_class: Given[int] = 500, seed: Given[int] = 0, *, size: Given[int] = 32
) -> tuple[np.ndarray, np.ndarray]:
    """Draw filled shapes at random size, place and angle, blurred: GeoMNIST.

    Each factor is drawn by itself, uniformly: the ellipse has semi-axes r and 2r with r in 5 … 7, the rectangle
    half-sides 4 and 8, the triangle vertices at rows 16, 26, 6 and columns 16 − 8√3, 24, 24; the last two are shifted
    along the diagonal by −1 … 1. All turn about (16, 16) by 0° … 176° and are blurred by a Gaussian with σ in
    0.9 … 1.1 pixels (of 32), which averages over the pixels inside the image only.

    per_class: images of each of the three classes; the first m images do not depend on how many follow
    seed: where the random numbers start
    size: pixels of a side; all lengths scale with it

    Returns images, float32 (3·per_class, 1, size, size) in [0, 1], and labels, int64, in the order of `SHAPES`.
    Source: elastic Figure 2, Section 4.1; it ties the angle to the size and uses no seed, this does neither.

    >>> x, y = geomnist(per_class=2, seed=0)
    >>> x.shape, str(x.dtype), y.tolist()
    ((6, 1, 32, 32), 'float32', [0, 0, 1, 1, 2, 2])
    """
    per_class, seed, size = count("per_class", per_class), count("seed", seed, at_least=0), count("size", size)
    require_room({"per_class": per_class, "size": size}, 2 * len(SHAPES) * per_class * size**2, precision="float32")
    images = [_draw(shape, per_class, np.random.default_rng([seed, k]), size) for k, shape in enumerate(_EDGES)]
    return np.concatenate(images)[:, None], np.repeat(np.arange(len(SHAPES)), per_class)


def _draw(edges: Callable[..., list[np.ndarray]], images: int, rng: np.random.Generator, size: int) -> np.ndarray:
    """(image, row, column) of one class; one row of random numbers per image."""
    chance = rng.random((images, 4)).astype(np.float32)
    angle = np.deg2rad(176 * chance[:, 0])[:, None, None]
    width = 0.9 + 0.2 * chance[:, 1]
    unit = np.float32(_SIDE / size)
    offset = (np.arange(size, dtype=np.float32) + 0.5) * unit - 0.5 - np.float32(_CENTRE)
    row, column = offset[:, None], offset[None, :]
    cos, sin = np.cos(angle), np.sin(angle)
    inside = np.ones((images, size, size), np.float32)
    for distance in edges(cos * row + sin * column, cos * column - sin * row, chance):
        inside *= np.clip(0.5 - distance / unit, 0, 1)  # the share of a pixel on the inner side of an edge
    blur = _blur(width / unit, size)
    return np.asarray(np.clip(blur @ inside @ blur.transpose(0, 2, 1), 0, 1))


def _blur(width: np.ndarray, size: int) -> np.ndarray:
    """(image, size, size): each row averages with Gaussian weights."""
    gap = np.subtract.outer(np.arange(size), np.arange(size)).astype(np.float32)
    weights = np.exp(-0.5 * (gap / width[:, None, None]) ** 2)
    return np.asarray(weights / weights.sum(-1, keepdims=True))


# distances to each edge in pixels of 32, negative inside, for (row, column) in the shape's own frame


def _ellipse(row: np.ndarray, column: np.ndarray, chance: np.ndarray) -> list[np.ndarray]:
    r = (5 + 2 * chance[:, 2])[:, None, None]
    level = (row / r) ** 2 + (column / (2 * r)) ** 2 - 1
    slope = 2 * np.sqrt((row / r**2) ** 2 + (column / (4 * r**2)) ** 2)
    return [level / np.maximum(slope, 1e-6)]  # to first order, exact at the edge


def _rectangle(row: np.ndarray, column: np.ndarray, chance: np.ndarray) -> list[np.ndarray]:
    shift = (2 * chance[:, 3] - 1)[:, None, None]
    return [np.abs(row - shift) - 4, np.abs(column - shift) - 8]


def _triangle(row: np.ndarray, column: np.ndarray, chance: np.ndarray) -> list[np.ndarray]:
    shift = (2 * chance[:, 3] - 1)[:, None, None]
    edges = []
    for begin, end in zip(_TRIANGLE, np.roll(_TRIANGLE, -1, axis=0), strict=True):
        along = (end - begin) / np.linalg.norm(end - begin)
        edges.append(along[1] * (row - shift - begin[0]) - along[0] * (column - shift - begin[1]))
    return edges


_EDGES = (_ellipse, _rectangle, _triangle)
