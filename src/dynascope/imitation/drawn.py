"""Class means of samples as they are drawn, one by each network at an update, by the label that is trained on.

So the source of the elastic models reads its networks. Some of the networks draw a class at an update: their chance is
in all that is read, and shuffled labels say how much of it is chance alone.
"""

import warnings

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

_SHUFFLE = 9  # of seeds
_DIMS = ("trial", "update", "draw")


def contents(record: xr.Dataset) -> str:
    """What a record holds, for a message.

    >>> contents(xr.Dataset())
    'nothing'
    """
    return ", ".join(map(str, record.data_vars)) or "nothing"


def by_label(record: xr.Dataset, named: str, *, shuffle: bool) -> xr.DataArray:
    """Means over all networks of a record, as one trial, (step, class, logit); with labels that say nothing if asked.

    Networks whose numbers ended on the way are left out with a warning: what is not known repeats the mean before it.
    named: what the record is called where it lacks them
    """
    if not {"drawn_output", "drawn_label"} <= set(record):
        raise ValueError(
            "run must hold drawn_output and drawn_label, as Ensemble.train(…, keep_drawn=True) records them where "
            f"there are labels, but {named} holds {contents(record)}"
        )
    logits = record["drawn_output"].transpose(*_DIMS, "logit").values.astype(float)
    labels = record["drawn_label"].transpose(*_DIMS).values
    whole = np.isfinite(logits).all(axis=(1, 2, 3))
    if not whole.any():
        raise ValueError("run must hold a trial whose drawn outputs are finite throughout")
    if not whole.all():
        lost = ", ".join(str(each) for each in record["trial"].values[~whole])
        warnings.warn(
            f"the drawn outputs of some trials are not finite from an update on and are left out: trial {lost}",
            RuntimeWarning,
            stacklevel=3,
        )
        logits, labels = logits[whole], labels[whole]
    if missing := sorted(set(range(logits.shape[-1])) - set(np.unique(labels).tolist())):
        raise ValueError(f"every class must be drawn by some network, but class {missing[0]} is not")
    logits, labels = (
        np.moveaxis(each, 2, 1).reshape(-1, *each.shape[1:2], *each.shape[3:]) for each in (logits, labels)
    )
    own = shuffled(labels, 0) if shuffle else labels
    path = filled(drawn_means(logits, own))
    return xr.DataArray(path, dims=("step", "class", "logit"), coords={"step": np.arange(len(path))}, name="class_mean")


def drawn_means(
    logits: Float[np.ndarray, "trial update logit"],
    labels: Int[np.ndarray, "trial update"],
    weights: Float[np.ndarray, "resample trial"] | None = None,
) -> Float[np.ndarray, "*resample update class logit"]:
    """Mean logits over the networks that drew each class, weighted if asked; NaN where none did.

    >>> drawn_means(np.ones((2, 1, 2)), np.array([[0], [0]])).tolist()
    [[[1.0, 1.0], [nan, nan]]]
    """
    shares = np.ones((1, len(logits))) if weights is None else weights
    found = np.empty((len(shares), *logits.shape[1:], logits.shape[2]))
    for k in range(logits.shape[2]):
        own = (labels == k).astype(float)
        total = (shares @ (own[..., None] * logits).reshape(len(logits), -1)).reshape(found[..., 0, :].shape)
        with np.errstate(invalid="ignore"):
            found[..., k, :] = total / (shares @ own)[..., None]
    return found[0] if weights is None else found


def filled(path: Float[np.ndarray, "*lead update class logit"]) -> Float[np.ndarray, "*lead update class logit"]:
    """The same where a class that nobody drew repeats the update before; the first ones take the next.

    >>> filled(np.array([[[np.nan]], [[2.0]], [[np.nan]]])).ravel().tolist()
    [2.0, 2.0, 2.0]
    """
    known = np.isfinite(path[..., :1])  # (…, update, class, 1)
    first = np.argmax(known, axis=-3, keepdims=True)
    place = np.where(known, np.arange(path.shape[-3])[:, None, None], first)
    return np.take_along_axis(path, np.maximum.accumulate(place, axis=-3), axis=-3)


def shuffled(labels: Int[np.ndarray, "trial update"], seed: int) -> Int[np.ndarray, "trial update"]:
    """Labels that say nothing: at each update those of all networks, in random order."""
    return np.random.default_rng([seed, _SHUFFLE]).permuted(labels, axis=0)
