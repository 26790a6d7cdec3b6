"""A training step recorded as a CUDA graph, which replays it without launching its kernels one by one."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

_WARM_UP = 3  # steps that PyTorch needs before it can record one
_TIMED = 2  # steps by which ways are compared
TRIED = 1 + _TIMED  # in a row, those that are timed and one before


def captured(step: Callable[[], None], device: torch.device, mutable: Sequence[Tensor]) -> torch.cuda.CUDAGraph:
    """Record one step; what the steps before it and the recording change is undone.

    step: works on tensors that stay where they are. mutable: all tensors that it reads after changing them.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(device), undone(mutable):
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                with undone(mutable):
                    step()
        torch.cuda.current_stream(device).wait_stream(side)
        with torch.cuda.graph(graph):
            step()
    return graph


@contextmanager
def undone(mutable: Sequence[Tensor]) -> Iterator[None]:
    """Give tensors back the values that they came with.

    >>> number = torch.zeros(1)
    >>> with undone([number]):
    ...     _ = number.add_(1)
    >>> number.item()
    0.0
    """
    saved = [tensor.detach().clone() for tensor in mutable]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, before in zip(mutable, saved, strict=True):
                tensor.copy_(before)


@torch.no_grad()
def timed(
    graph: torch.cuda.CUDAGraph, device: torch.device, mutable: Sequence[Tensor], moved: Sequence[Tensor]
) -> tuple[float, Tensor]:
    """Seconds of a step, and by how much it moves some of what it changes; all of it is undone."""
    with undone(mutable), torch.cuda.device(device):
        before = [tensor.clone() for tensor in moved]
        graph.replay()
        change = torch.cat([(new - old).flatten() for new, old in zip(moved, before, strict=True)])
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(_TIMED):
            graph.replay()
        torch.cuda.synchronize()
        return (time.perf_counter() - begun) / _TIMED, change


def can_compile() -> bool:
    """Whether `torch.compile` has what it needs for a GPU: Triton, and a C compiler for its launchers."""
    compilers = (os.environ.get("CC"), "cc", "gcc", "clang")
    return find_spec("triton") is not None and any(map(shutil.which, filter(None, compilers)))


def compiled_apart(function: Any) -> Callable[..., Any]:
    """A function without defaults, compiled as if it were another each time: the compiler keeps few variants of one."""
    code = function.__code__.replace()  # by which variants are counted
    own: Any = FunctionType(code, function.__globals__, closure=function.__closure__)
    return torch.compile(own, dynamic=False)
