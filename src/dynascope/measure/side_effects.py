"""Run a model beside its training and leave no trace: flags, buffers and every random state stay as they were."""

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import nn


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Give evaluation mode without gradients inside, and put back what a forward pass may move.

    Put back are training flags, buffers (content, and identity where a forward pass replaces them) and the random
    states of PyTorch on the CPU and on every GPU, of NumPy and of Python. Inside, compiled parts run as they are
    written, so that nothing is compiled again, and autocast is off, whose cache of converted weights would otherwise
    reach the next backward pass without gradients. It is `no_grad`, not `inference_mode`: a mask or table that a module
    makes and keeps inside is an ordinary tensor, which the next backward pass may use. PyTorch's transformer layers go
    the way that they go in training: in evaluation they would pass rows of unequal length, without shape or hooks.

    >>> layer = nn.BatchNorm1d(2)
    >>> with undisturbed(layer):
    ...     print(layer.training, torch.is_grad_enabled())
    False False
    >>> layer.training, torch.is_grad_enabled()
    (True, True)
    """
    modules = list(model.modules())
    flags = [(module, module.training) for module in modules]
    buffers = [(module._buffers, dict(module._buffers)) for module in modules if module._buffers]
    contents = [
        (buffer, buffer.detach().clone()) for _, held in buffers for buffer in held.values() if buffer is not None
    ]
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002 (it is the user's)
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=_gpus()))
        stack.enter_context(torch.no_grad())
        if "torch._dynamo" in sys.modules:  # else nothing is compiled, and asking would import the compiler
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        for kind in {"cpu", *(each.device.type for each in model.parameters())}:
            if torch.amp.is_autocast_available(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        stack.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            for module in modules:
                module.training = False
            yield
        finally:
            for module, training in flags:
                module.training = training
            for place, held in buffers:
                place.clear()
                place.update(held)
            for buffer, content in contents:
                if not torch.equal(buffer, content):  # writing would bump its version, which a backward pass checks
                    buffer.copy_(content)
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)


def _gpus() -> list[int]:
    started = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return list(range(torch.cuda.device_count())) if started else []
