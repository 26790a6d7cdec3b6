"""GPUs of a machine, found without a framework that would take hold of them; packs that fit into their memory."""

import gc
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from dynascope.sweep.workload import Configuration, Workload

_QUERY = ("nvidia-smi", "--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits")
SHARE = 0.8  # of a GPU's memory that packs may fill: the framework needs some, and pieces are left between


@dataclass(frozen=True)
class Gpu:
    """One GPU: the name by which CUDA_VISIBLE_DEVICES selects it, and its bytes of memory."""

    name: str
    memory: int

    def worker(self) -> dict[str, Any]:
        """Options of a worker that has this GPU for itself."""
        return {"env": {"CUDA_VISIBLE_DEVICES": self.name}, "resources": {"GPU": 1}}


def gpus() -> list[Gpu]:
    """Find the GPUs that this process may use, as CUDA_VISIBLE_DEVICES and nvidia-smi say; none where these do not."""
    return list(_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("PATH")))


@cache  # nvidia-smi may take a second
def _gpus(visible: str | None, path: str | None) -> tuple[Gpu, ...]:
    if visible is not None and visible.strip() in ("", "-1"):
        return ()
    try:
        chosen = [f"--id={visible}"] if visible else []
        said = subprocess.run([*_QUERY, *chosen], capture_output=True, text=True, check=True).stdout
        found = [Gpu(name.strip(), int(size) << 20) for name, size in (line.split(",") for line in said.splitlines())]
    except (OSError, subprocess.CalledProcessError, ValueError):
        return ()
    names = visible.split(",") if visible else [each.name for each in found]
    return tuple(Gpu(name, each.memory) for name, each in zip(names, found, strict=False))


@dataclass
class Room:
    """How many configurations run at once: what fits by what the workload says, and by what did not fit before.

    memory: bytes of the GPU; None where there is none, or where the workload does not say what it needs
    most: configurations, where more were too many

    >>> room = Room(Workload(len, {"x": 1}, gpu=True, memory=30.0), memory=150)
    >>> room.split([{"x": each} for each in range(7)])
    [[{'x': 0}, {'x': 1}, {'x': 2}, {'x': 3}], [{'x': 4}, {'x': 5}, {'x': 6}]]
    """

    workload: Workload
    memory: int | None = None
    most: int | None = None

    @classmethod
    def here(cls, workload: Workload, most: int | None) -> "Room":
        """The room of this process."""
        own = gpus() if workload.memory is not None else []
        return cls(workload, own[0].memory if own else None, most)

    def split(self, pack: Sequence[Configuration]) -> list[Sequence[Configuration]]:
        """Split a pack into parts of equal size that fit."""
        parts = 1 if self.most is None else math.ceil(len(pack) / self.most)
        if self.memory is not None:
            parts = max(parts, math.ceil(sum(map(self._bytes, pack)) / (SHARE * self.memory)))
        length = math.ceil(len(pack) / parts)
        return [pack[at : at + length] for at in range(0, len(pack), length)]

    def _bytes(self, configuration: Configuration) -> float:
        memory = self.workload.memory
        found = memory(configuration) if callable(memory) else memory
        if not isinstance(found, int | float) or not 0 < found < math.inf:
            raise ValueError(f"memory of {self.workload.name} must be a number of bytes above 0, got {found!r}")
        return found


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory is full: PyTorch's, JAX's or Python's own.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("RESOURCE_EXHAUSTED: Out of memory"))
    (True, True)
    >>> is_out_of_memory(ValueError("RESOURCES"))
    False
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & {"MemoryError", "OutOfMemoryError"}) or "RESOURCE_EXHAUSTED" in str(error)


def let_go() -> None:
    """Give back what an error that is over held on a GPU: what is left lies in cycles, and in PyTorch's own store."""
    gc.collect()
    torch = sys.modules.get("torch")  # held only if loaded; asking must not load it
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
