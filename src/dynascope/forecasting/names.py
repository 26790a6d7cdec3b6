"""What the name of a quantity tells."""

import re
from collections.abc import Iterable

_HELD_OUT = frozenset(
    ("test", "testing", "val", "valid", "validation", "eval", "evaluation", "dev", "held", "heldout", "holdout")
)
_TRAINED = frozenset(("train", "training", "batch", "minibatch"))


def words_of(name: str) -> list[str]:
    """The words of a name.

    >>> words_of("Val/top-1 acc")
    ['val', 'top', '1', 'acc']
    """
    return re.findall("[0-9a-z]+", name.lower())


def told_by(name: str, beside: Iterable[str] = ()) -> float:
    """What a name tells: 1 for data that is not trained on, −1 for data that is, 0 if it says nothing.

    beside: what else was logged: a loss beside a val_loss is of data that is trained on

    >>> told_by("val/loss"), told_by("train_accuracy"), told_by("loss"), told_by("loss", ["lr", "val_loss"])
    (1.0, -1.0, 0.0, -1.0)
    """
    words = set(words_of(name))
    if words & (_HELD_OUT | _TRAINED):
        return float(bool(words & _HELD_OUT)) - float(bool(words & _TRAINED))
    held_out = (set(words_of(each)) for each in beside)
    return -1.0 if any(each & _HELD_OUT and each - _HELD_OUT == words for each in held_out) else 0.0
