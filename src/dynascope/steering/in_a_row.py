"""How many dropout layers a signal passes in a row: what they leave of it is the product of what each leaves.

Layers in branches, which something passes beside, as in residual networks, count as one together.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from dynascope.monitor.tracing import first_tensor, with_first
from dynascope.steering.knobs import PATHS

_LEFT = 0.1  # of what rows differ by: what comes beside the signal, such as the length of a text, is less


def in_a_row(layers: Sequence[nn.Module], say: Callable[[], Tensor]) -> int | None:
    """Count the layers, by the calls of each, without which outputs do not differ between rows; and 1 for all others.

    say: gives what the network says of some rows, (row, output), in evaluation mode, in one pass
    Others that cut the signal off together, as in towers side by side, count each. None where it cannot be told: layers
    that are not called then, outputs that do not differ anyway, networks that refuse to work with nothing, and layers
    that drop whole branches, since not to pass these is what they are for.

    >>> drop, x = nn.Dropout(0.0), torch.eye(2)
    >>> in_a_row([drop], lambda: drop(drop(x))), in_a_row([drop], lambda: x + drop(x)), in_a_row([drop], lambda: x)
    (2, 1, None)
    """
    if any(type(each).__name__ in PATHS for each in layers):
        return None
    try:
        calls, free = _without((), layers, say)
        if not free > 0 or {*calls} != {*layers}:
            return None

        def cut(closed: Sequence[nn.Module]) -> bool:
            return _without(closed, layers, say)[1] <= _LEFT * free

        if not cut(layers):
            return 1
        alone = [each for each in layers if cut([each])]
        others = [each for each in layers if each not in alone]
        if others and not cut(others):
            return sum(calls[each] for each in alone) + 1
        return calls.total()
    except (ArithmeticError, AssertionError, RuntimeError, TypeError, ValueError):
        return None


def _without(
    closed: Sequence[nn.Module], layers: Sequence[nn.Module], say: Callable[[], Tensor]
) -> tuple[Counter[nn.Module], float]:
    """How often each layer is called, and by how much rows differ, where nothing passes the closed ones."""
    calls: Counter[nn.Module] = Counter()

    def pass_on(layer: nn.Module, _given: object, made: object) -> object:
        calls[layer] += 1
        passed = first_tensor(made)
        return with_first(made, torch.zeros_like(passed)) if layer in closed and passed is not None else None

    hooks = [each.register_forward_hook(pass_on) for each in layers]
    try:
        with torch.no_grad():
            said = say().double()
    finally:
        for hook in hooks:
            hook.remove()
    kept = said[:, said.isfinite().all(0)]  # classes may be masked
    return calls, float((kept - kept.mean(0)).norm())
