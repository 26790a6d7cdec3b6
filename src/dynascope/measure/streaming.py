"""Load curves of data that does not fit in memory: update with batches, merge across workers, compute at the end."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import xarray as xr

from dynascope.checks import ArrayLike, Given, one_of, scalar
from dynascope.measure.arrays import (
    class_codes,
    float64_of,
    like,
    one_hot,
    rank_of,
    require_spread,
    rounding_of,
    rows_of,
)
from dynascope.measure.arrays import to_numpy as host
from dynascope.measure.separation import DEAD_BELOW, MARGIN, STREAMED, describe, log_ratio


@runtime_checkable
class _Moments(Protocol):
    """What is kept of a layer."""

    @property
    def samples(self) -> int: ...
    @property
    def width(self) -> int: ...
    def plus(self, other: Any) -> "_Moments": ...
    def load(self) -> float: ...


class LoadAccumulator:
    """Gather a load curve batch by batch; batches and workers may come in any order.

    Per layer it keeps on the host, in float64: for trace the size and mean of each class and one sum of squares about
    the class means, K·(p + 1) + 1 numbers; for pinv a p × p scatter matrix instead of the sum; for regression the p × p
    triangle of a QR decomposition of all samples seen. Deviations are taken about running means (Chan's update), never
    as differences of large sums, so that results meet `load_curve` to rounding.

    kind: see `data_separation`. An accumulator can be pickled and sent to another process. It gives no intervals: these
    need all samples at once, see `load_curve`.
    Source: spring-block (3), (S1), Section S5; Chan, Golub and LeVeque (1983).

    >>> random = np.random.default_rng(0)
    >>> labels = np.arange(60) % 3
    >>> layers = [random.normal(size=(60, 4)) + scale * np.eye(4)[labels] for scale in (0.0, 2.0, 4.0)]
    >>> first, second = LoadAccumulator(), LoadAccumulator()
    >>> _ = first.update([x[:20] for x in layers], labels[:20])
    >>> _ = second.update([x[20:] for x in layers], labels[20:])
    >>> curve = first.merge(second).compute()
    >>> from dynascope.measure.separation import load_curve
    >>> bool(np.allclose(curve["load"], load_curve(layers, labels)["load"], rtol=1e-12))
    True
    """

    def __init__(self, *, kind: str = "trace") -> None:
        self.kind = one_of("kind", kind, STREAMED)
        self._layers: list[_Moments] = []  # one per layer

    def update(self, features: Given[Sequence[ArrayLike]], labels: ArrayLike) -> "LoadAccumulator":
        """Add a batch: the features of every layer, [(sample, …), …], and its labels; returns itself.

        A batch that is refused changes nothing.

        >>> LoadAccumulator().update([np.ones((2, 3))], [0, 0]).samples
        2
        """
        if not isinstance(features, list | tuple) or not features:
            raise ValueError("features must be a list with the features of every layer, the input first")
        read: Callable[..., _Moments] = _Fit.of if self.kind == "regression" else _ClassMoments.of
        named = [(f"features[{index}]", each) for index, each in enumerate(features)]
        batch = [read(each, labels, name=name, matrix=self.kind == "pinv") for name, each in named]
        self._add(batch)
        return self

    def merge(self, other: object) -> "LoadAccumulator":
        """Add what another accumulator has seen; returns itself and leaves the other as it was.

        >>> LoadAccumulator().merge(LoadAccumulator(kind="pinv"))
        Traceback (most recent call last):
        ValueError: other must be a LoadAccumulator of kind 'trace', got 'pinv'
        """
        if not isinstance(other, LoadAccumulator) or other.kind != self.kind:
            got = repr(getattr(other, "kind", type(other).__name__))
            raise ValueError(f"other must be a LoadAccumulator of kind {self.kind!r}, got {got}")
        if other._layers:
            self._add(other._layers)
        return self

    def _add(self, batch: Sequence[_Moments]) -> None:
        if self._layers and [each.width for each in self._layers] != [each.width for each in batch]:
            widths = [each.width for each in self._layers]
            raise ValueError(f"features must keep the widths {widths}, got {[each.width for each in batch]}")
        both = zip(self._layers, batch, strict=True)
        self._layers = [mine.plus(new) for mine, new in both] if self._layers else list(batch)

    @property
    def samples(self) -> int:
        """Number of samples seen.

        >>> LoadAccumulator().samples
        0
        """
        return self._layers[0].samples if self._layers else 0

    def loads(self) -> np.ndarray:
        """Separation of every layer from all samples seen, (layer,).

        >>> LoadAccumulator().update([np.array([[0.0], [1.0], [3.0], [4.0]])], [0, 0, 1, 1]).loads().round(4).tolist()
        [-2.1972]
        """
        if not self._layers:
            raise ValueError("nothing has been added yet; call update(features, labels) first")
        return np.array([each.load() for each in self._layers])

    def compute(
        self, layers: Sequence[str] | None = None, *, margin: float = MARGIN, dead_below: float = DEAD_BELOW
    ) -> xr.Dataset:
        """Return the load curve with its shape, as `load_curve` does, without intervals.

        >>> batch = [np.array([[0.0], [1.0], [s + 0.0], [s + 1.0]]) for s in (1, 2, 4)]
        >>> str(LoadAccumulator().update(batch, [0, 0, 1, 1]).compute()["shape"].values)
        'linear'
        """
        options = {"margin": scalar("margin", margin, at_least=0.0), "dead_below": scalar("dead_below", dead_below)}
        loads = self.loads()
        if len(loads) < 3:
            raise ValueError(f"a load curve needs at least 3 layers, got {len(loads)}")
        return describe(loads, layers, kind=self.kind, **options)


class _ClassMoments:
    """Sizes and means of classes, and the scatter about them: its trace, or the matrix."""

    def __init__(
        self, classes: np.ndarray, sizes: np.ndarray, means: np.ndarray, scatter: float | np.ndarray, rounding: float
    ):
        self.classes, self.sizes, self.means, self.scatter, self.rounding = classes, sizes, means, scatter, rounding

    @classmethod
    def of(cls, features: ArrayLike, labels: ArrayLike, *, name: str, matrix: bool) -> "_ClassMoments":
        with float64_of(**{name: features}) as (xp, x):
            x = rows_of(xp, name, x, least=1)
            classes, codes = class_codes(labels, x.shape[0], part=True)
            sizes = np.bincount(codes).astype(np.float64)
            shift = xp.mean(x, axis=0)
            x = x - shift
            marks = one_hot(xp, x, codes, len(classes))
            means = marks.T @ x / like(xp, x, sizes)[:, None]
            rest = x - marks @ means
            scatter = host(rest.T @ rest) if matrix else float(xp.sum(rest**2))
            return cls(classes, sizes, host(means + shift), scatter, rounding_of(features))

    @property
    def width(self) -> int:
        return int(self.means.shape[1])

    @property
    def samples(self) -> int:
        return int(self.sizes.sum())

    def plus(self, other: "_ClassMoments") -> "_ClassMoments":
        classes = np.union1d(self.classes, other.classes)
        (mine, means), (theirs, new) = self._spread(classes), other._spread(classes)
        sizes = mine + theirs
        gap = (new - means) * np.sqrt(mine * theirs / sizes)[:, None]
        added = gap.T @ gap if np.ndim(self.scatter) else float((gap**2).sum())
        means = means + (new - means) * (theirs / sizes)[:, None]
        rounding = max(self.rounding, other.rounding)
        return _ClassMoments(classes, sizes, means, self.scatter + other.scatter + added, rounding)

    def _spread(self, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sizes and means over a longer list of classes."""
        sizes, means = np.zeros(len(classes)), np.zeros((len(classes), self.width))
        places = np.searchsorted(classes, self.classes)
        sizes[places], means[places] = self.sizes, self.means
        return sizes, means

    def load(self) -> float:
        require_spread(self.classes, self.samples)
        means = self.means - self.sizes @ self.means / self.sizes.sum()
        weighted = means * np.sqrt(self.sizes)[:, None]
        if not np.ndim(self.scatter):
            return log_ratio(float(self.scatter), float((weighted**2).sum()))
        _, roots, directions = np.linalg.svd(weighted, full_matrices=False)
        rank = min(rank_of(roots, self.rounding), len(self.classes) - 1) if roots[0] > 0 else 0
        if rank == 0:
            return log_ratio(float(np.trace(self.scatter)), 0.0)
        kept = directions[:rank] / roots[:rank, None]
        return log_ratio(float(np.sum((kept @ self.scatter) * kept)), 1.0)


class _Fit:
    """Mean of (features, targets) and the triangle R of the centred samples: RᵀR is their scatter matrix."""

    def __init__(self, samples: int, width: int, mean: np.ndarray, triangle: np.ndarray, rounding: float):
        self.samples, self.width, self.mean, self.triangle, self.rounding = samples, width, mean, triangle, rounding

    @classmethod
    def of(cls, features: ArrayLike, labels: ArrayLike, *, name: str, matrix: bool) -> "_Fit":
        with float64_of(**{name: features, "labels": labels}) as (xp, x, y):
            x = rows_of(xp, name, x, least=1)
            joint = xp.concat([x, xp.reshape(y, (x.shape[0], -1))], axis=1)
            mean = xp.mean(joint, axis=0)
            triangle = xp.linalg.qr(joint - mean)[1]
            return cls(x.shape[0], x.shape[1], host(mean), host(triangle), rounding_of(features))

    def plus(self, other: "_Fit") -> "_Fit":
        if self.mean.shape != other.mean.shape:
            raise ValueError("labels must keep their number of outputs from batch to batch")
        samples = self.samples + other.samples
        gap = (other.mean - self.mean) * math.sqrt(self.samples * other.samples / samples)
        triangle = np.asarray(np.linalg.qr(np.vstack([self.triangle, other.triangle, gap[None]]), mode="r"))
        mean = self.mean + (other.mean - self.mean) * (other.samples / samples)
        return _Fit(samples, self.width, mean, triangle, max(self.rounding, other.rounding))

    def load(self) -> float:
        if self.samples < self.width + 2:
            raise ValueError(
                f"kind='regression' needs more samples than features by 2 or more, got {self.samples} samples of "
                f"{self.width} features so far; add batches"
            )
        x, y = self.triangle[:, : self.width], self.triangle[:, self.width :]
        left, sizes, _ = np.linalg.svd(x, full_matrices=False)
        explained = left[:, : rank_of(sizes, self.rounding)] if sizes[0] > 0 else left[:, :0]
        return math.sqrt(((y - explained @ (explained.T @ y)) ** 2).sum() / (2 * self.samples))
