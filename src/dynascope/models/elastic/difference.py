"""How far an imitated path of class means is from the genuine one."""

import numpy as np
from jaxtyping import Float

from dynascope.checks import ArrayLike, as_float, one_of
from dynascope.models.elastic.geometry import margin_amplitudes, margin_directions


def relative_difference(
    genuine: ArrayLike, imitated: ArrayLike, geometry: str = "logits"
) -> Float[np.ndarray, "*trial time class"]:
    """RD_k between two sets of paths, 0 for the same and 2 at the most: elastic (D.21).

    |x_k − y_k|_H / ((|x_k| + |y_k|)/2), where |·|_H is the length along the margin direction d_k for "logits" and the
    plain length for "isotropic". Paths are (…, time, class, feature). The logit form sees one direction only, the very
    one that an estimate is fitted to: judge an imitation by the plain form, on what it was not fitted to.
    Source: elastic (D.21).

    >>> float(relative_difference([[[1.0, 0.0]]], [[[0.0, 1.0]]], geometry="isotropic").round(3)[0, 0])
    1.414
    """
    one_of("geometry", geometry, ["logits", "isotropic"])
    x, y = as_float("genuine", genuine), as_float("imitated", imitated)
    if x.shape != y.shape or x.ndim < 2:
        raise ValueError(
            f"imitated must have the shape of genuine, (…, time, class, feature) = {x.shape}, got {y.shape}"
        )
    if geometry == "logits":
        length = np.linalg.norm(margin_directions(*x.shape[-2:])[0])
        distance = np.abs(margin_amplitudes(x - y)) * length
    else:
        distance = np.linalg.norm(x - y, axis=-1)
    scale = (np.linalg.norm(x, axis=-1) + np.linalg.norm(y, axis=-1)) / 2
    return np.asarray(np.divide(distance, scale, out=np.zeros_like(distance), where=scale > 0))
