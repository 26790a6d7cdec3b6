"""How many dropout layers a signal passes in a row: what they leave of it is the product of what each leaves.

Those in branches, which something passes beside, as in residual networks, count as one together.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dynascope.monitor.tracing import first_tensor, with_first
from dynascope.steering.knobs import PATHS

_LEFT = 0.1  # of what rows differ by: what comes beside the signal, such as the length of a text, is less
_MOST = 64  # calls of layers up to which it is tried out which lie behind which
Call = tuple[nn.Module, int]  # a layer, and which of its calls in a pass


def in_a_row(layers: Sequence[nn.Module], say: Callable[[], Tensor]) -> int | None:
    """Count the calls of layers without any of which outputs do not differ between rows, and 1 for all others.

    say: gives what the network says of some rows, (row, output), in evaluation mode, in one pass
    Others that cut the signal off all together count as many as lie behind each other: as long as a tower is, of some
    side by side, and 1 where shortcuts carry little. Branches may be without effect: some start at 0. None where it
    cannot be told: layers that are not called then, outputs that do not differ anyway, networks that refuse to work
    with nothing, and layers that drop whole branches, since not to pass these is what they are for.

    >>> drop, x = nn.Dropout(0.0), torch.eye(2)
    >>> in_a_row([drop], lambda: drop(drop(x))), in_a_row([drop], lambda: x + drop(x)), in_a_row([drop], lambda: x)
    (2, 1, None)
    """
    if any(type(each).__name__ in PATHS for each in layers):
        return None
    try:
        return _counted(layers, say)
    except Exception:  # the network is the user's own, and was not made for this
        return None


def _counted(layers: Sequence[nn.Module], say: Callable[[], Tensor]) -> int | None:
    free = _without((), layers, say)
    if not free.spread > 0 or {layer for layer, _ in free.reached} != {*layers}:
        return None
    calls = [*free.reached]

    def cuts(closed: Sequence[Call]) -> bool:
        return bool(closed) and _without(closed, layers, say, free).spread <= _LEFT * free.spread

    def alone(among: Sequence[Call]) -> list[Call]:
        """Those that cut the signal off by themselves: none, where all of them together do not."""
        if not cuts(among):
            return []
        half = len(among) // 2
        return alone(among[:half]) + alone(among[half:]) if half else [*among]

    line = alone(calls)
    others = [each for each in calls if each not in line]
    if not cuts(others):
        return len(line) + bool(others)
    return None if len(others) > _MOST else len(line) + _longest(others, layers, say, free)


def _longest(calls: Sequence[Call], layers: Sequence[nn.Module], say: Callable[[], Tensor], free: "_Passed") -> int:
    """How many of these calls lie behind each other: what reaches one is alike for all rows without that before it."""
    longest = dict.fromkeys(calls, 1)
    for index in reversed(range(len(calls))):  # in the order in which they are made
        reached = _without([calls[index]], layers, say, free).reached
        behind = [each for each in calls[index + 1 :] if reached.get(each, 1.0) <= _LEFT * free.reached[each]]
        longest[calls[index]] += max((longest[each] for each in behind), default=0)
    return max(longest.values())


@dataclass(frozen=True)
class _Passed:
    """A pass: what was said, by how much rows differ in it, and in what reaches each call, in their order."""

    said: Tensor
    spread: float
    reached: dict[Call, float]


def _without(
    closed: Collection[Call], layers: Sequence[nn.Module], say: Callable[[], Tensor], free: _Passed | None = None
) -> _Passed:
    """A pass in which nothing comes out of the closed calls. free: one without any."""
    made: Counter[nn.Module] = Counter()
    reached: dict[Call, float] = {}

    def pass_on(layer: nn.Module, given: tuple[object, ...], made_of_it: object) -> object:
        call = (layer, made[layer])
        made[layer] += 1
        came, passed = first_tensor(given), first_tensor(made_of_it)
        reached[call] = 0.0 if came is None else _spread(came.float())  # where it is: features may be large
        if call not in closed or passed is None:
            return None
        if getattr(layer, "inplace", False):  # what came in may be what goes on
            passed.zero_()
        return with_first(made_of_it, torch.zeros_like(passed))

    hooks = [each.register_forward_hook(pass_on) for each in layers]
    try:
        with torch.no_grad():
            said = say().cpu().double()
    finally:
        for hook in hooks:
            hook.remove()
    kept = said[:, (said if free is None else free.said).isfinite().all(0)]  # classes may be masked
    if not kept.isfinite().all():
        raise ValueError("with nothing to work with, the network says nothing")
    return _Passed(said, _spread(kept), reached)


def _spread(rows: Tensor) -> float:
    flat = rows.flatten(1)
    return float((flat - flat.mean(0)).norm())
