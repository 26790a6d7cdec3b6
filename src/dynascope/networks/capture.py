"""A training step recorded as a CUDA graph, which replays it without launching its kernels one by one."""

import os
import shutil
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import torch
from torch import Tensor

_WARM_UP = 3  # steps that PyTorch needs before it can record one


def captured(step: Callable[[], None], device: torch.device, mutable: Sequence[Tensor]) -> torch.cuda.CUDAGraph:
    """Record one step; what the steps before it and the recording change is undone.

    step: works on tensors that stay where they are. mutable: all tensors that it reads after changing them.
    """
    saved = [tensor.detach().clone() for tensor in mutable]

    @torch.no_grad()
    def undo() -> None:
        for tensor, before in zip(mutable, saved, strict=True):
            tensor.copy_(before)

    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.device(device), torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            step()
            undo()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(device), torch.cuda.graph(graph):
        step()
    undo()
    return graph


def can_compile() -> bool:
    """Whether `torch.compile` has what it needs for a GPU: Triton, and a C compiler for its launchers."""
    compilers = (os.environ.get("CC"), "cc", "gcc", "clang")
    return find_spec("triton") is not None and any(map(shutil.which, filter(None, compilers)))
