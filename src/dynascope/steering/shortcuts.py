"""Whether there is a way round the dropout layers of a network, as beside the branches of a residual one.

Then noise cannot cut the signal off, however much there is.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from dynascope.monitor.tracing import first_tensor, with_first
from dynascope.steering.knobs import PATHS

_LEFT = (
    0.1  # of what outputs differ by between rows: what comes beside the signal, such as the length of a text, is less
)


def way_round(layers: Sequence[nn.Module], say: Callable[[], Tensor]) -> bool:
    """Tell whether outputs still differ between rows where nothing passes any of these layers.

    say: gives what the network says of some rows, (row, output), in evaluation mode
    No, too, where it cannot be told: layers that are not called then, outputs that do not differ anyway, and layers
    that drop whole branches, since not to pass these is what they are for.

    >>> drop, x = nn.Dropout(), torch.eye(2)
    >>> way_round([drop], lambda: drop(x)), way_round([drop], lambda: x + drop(x)), way_round([drop], lambda: x)
    (False, True, False)
    """
    if any(type(each).__name__ in PATHS for each in layers):
        return False
    called: set[nn.Module] = set()

    def nothing(layer: nn.Module, _given: object, made: object) -> object:
        called.add(layer)
        passed = first_tensor(made)
        return None if passed is None else with_first(made, torch.zeros_like(passed))

    with torch.no_grad():
        free = _spread(say())
        hooks = [each.register_forward_hook(nothing) for each in layers]
        try:
            cut = _spread(say())
        except (ArithmeticError, AssertionError, RuntimeError, TypeError, ValueError):
            return False  # some networks refuse to work with nothing
        finally:
            for hook in hooks:
                hook.remove()
    return called == {*layers} and cut > _LEFT * free


def _spread(said: Tensor) -> float:
    """By how much rows differ, in the outputs that are finite: classes may be masked."""
    kept = said.double()[:, said.isfinite().all(0)]
    return float((kept - kept.mean(0)).norm())
