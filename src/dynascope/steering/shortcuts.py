"""Whether there is a way round the dropout layers of a network, as beside the branches of a residual one.

Then noise cannot cut the signal off, however much there is.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from dynascope.steering.knobs import PATHS

_SAME = 1e-6  # of the outputs' size: what differs less between rows is rounding


def way_round(layers: Sequence[nn.Module], say: Callable[[], Tensor]) -> bool:
    """Tell whether inputs still count where nothing passes any of these layers.

    say: gives what the network says of some rows, (row, output), in evaluation mode
    Layers that drop whole branches say nothing: not to pass them is what they are for.

    >>> drop, x = nn.Dropout(), torch.eye(2)
    >>> way_round([drop], lambda: drop(x)), way_round([drop], lambda: x + drop(x))
    (False, True)
    """
    if any(type(each).__name__ in PATHS for each in layers):
        return False
    hooks = [each.register_forward_hook(_nothing) for each in layers]
    try:
        with torch.no_grad():
            said = say()
    finally:
        for hook in hooks:
            hook.remove()
    return bool((said - said[:1]).abs().max() > _SAME * said.abs().max())


def _nothing(_layer: nn.Module, _given: object, made: Tensor) -> Tensor:
    return torch.zeros_like(made)
