"""Time the ways of stepping an ensemble on a GPU: those of the paper's largest figures, ResNet18 and a transformer.

Each ensemble in a process of its own; they compile side by side and take turns on the clock.

    python benchmarks/ways.py [ensemble …]      # all without; --kernels lists the kernels of a step, too
"""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch.func import vmap

from dynascope.networks import CNN, MLP, ResNet18, VisionTransformer, draws
from dynascope.networks.network import Network
from dynascope.networks.recording import Course
from dynascope.networks.settings import Settings
from dynascope.networks.training import Trainer

AT_ONCE, SECONDS = 4, 100  # processes, and how long all may take
STEPS = 6


@contextmanager
def alone() -> Iterator[None]:
    """Hold the clock."""
    with open(os.path.join(tempfile.gettempdir(), "ways.lock"), "w") as lock:
        torch.cuda.synchronize()
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        torch.cuda.synchronize()


def milliseconds(call: Callable[[], object], times: int = STEPS) -> float:
    """Of one call, after one that is not counted."""
    with alone():
        call()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(times):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - begun) / times * 1e3


def show_kernels(call: Callable[[], object], many: int = 12) -> None:
    """Print those that take longest in one call."""
    with alone(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    spent: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spent[event.name] += event.time_range.elapsed_us() / 1e3
            calls[event.name] += 1
    print(f"    {sum(spent.values()):.2f} ms in {calls.total()} kernels:")
    for name, each in spent.most_common(many):
        print(f"    {each:8.2f} ms {calls[name]:5d} × {name[:120]}", flush=True)


def trainer(network: Network, trials: int, batch: int, samples: int, way: str, products: str) -> Trainer:
    """Of random images: what they show does not matter here."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((samples, *network.shape), np.float32), rng.integers(network.classes, size=samples)
    vary = {"dropout": np.linspace(0, 0.3, trials)} if "dropout" in network.adjustable else {}
    settings = Settings(
        np.arange(trials) % 10,
        np.full(trials, 1e-4),
        batch,
        optimizer="adam",
        vary=vary,
        sampling="shuffled",
        device="cuda",
        way=way,
        products=products,
    )
    return Trainer(network, settings, x, y)


ENSEMBLES: dict[str, tuple[Callable[[], Network], int, int, int, tuple[str, ...]]] = {
    # network, trials, batch, samples, ways and products
    "dropout diagram": (
        lambda: MLP((1, 10, 10), 10, width=100, depth=7, batch_norm=True),
        240,
        2560,
        2560,
        ("compiled", "stacked"),
    ),
    "figure 6": (
        lambda: CNN((1, 10, 10), channels=16, depth=6, input_norm=True),
        20,
        2560,
        2560,
        ("compiled, own kernels", "compiled, own kernels/full", "compiled", "stacked"),
    ),
    "figure 5(c)": (
        lambda: CNN((3, 10, 10), channels=20, depth=7, input_norm=True),
        30,
        2560,
        2560,
        ("compiled, own kernels", "compiled, own kernels/full", "compiled", "stacked"),
    ),
    "ResNet18": (
        lambda: ResNet18(),
        8,
        128,
        512,
        ("stacked", "in turn", "in turn, channels last", "in turn, channels last/bfloat16", "compiled"),
    ),
    "transformer": (lambda: VisionTransformer(10, 1, size=16), 16, 128, 512, ("stacked", "in turn", "compiled")),
}


def measure(name: str) -> None:
    """Print milliseconds of a step, in each way, and seconds until the first is done."""
    make, trials, batch, samples, ways = ENSEMBLES[name]
    for each in ways:
        way, _, products = each.partition("/")
        try:
            begun = time.perf_counter()
            own = trainer(make(), trials, batch, samples, way, products or "usual")
            torch.cuda.synchronize()
            made = time.perf_counter()
            own.advance(1)
            torch.cuda.synchronize()
            ended = time.perf_counter()
            took = milliseconds(lambda own=own: own.advance(1))
            room = torch.cuda.max_memory_allocated() / 2**30
            print(
                f"{name}, {trials} trials, {each:28s}: {took:8.2f} ms a step; "
                f"made in {made - begun:.1f} s, first {ended - made:.1f} s, {room:.0f} GiB",
                flush=True,
            )
            if "--kernels" in sys.argv:
                show_kernels(lambda own=own: own.advance(1))
        except Exception as error:
            print(f"{name}, {each}: {type(error).__name__} {str(error)[:300]}", flush=True)
        own = None
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    if name == "dropout diagram":
        measures(make())


def measures(network: Network) -> None:
    """Loads of a quarter of the trials on test images; that draws on a GPU are those on a CPU."""
    own = trainer(network, 60, 2560, 2560, "stacked", "usual")
    course = Course(probes={}, record_at=[1], measures=())
    x = own.inputs(np.random.default_rng(0).standard_normal((10000, 1, 10, 10), np.float32))
    y = own.labels(np.arange(10000) % 10)
    for name in ("load", "load_pinv"):
        course.measures = (name,)
        with torch.no_grad():
            took = milliseconds(lambda: course._look(own, x, y), 1)
            print(f"dropout diagram, 60 trials, 10000 samples: {name} {took:.0f} ms")
            if "--kernels" in sys.argv:
                show_kernels(lambda: course._look(own, x, y), 6)

    def drawn(device: str) -> torch.Tensor:
        keys, share = draws.keys(torch.arange(300, device=device), 5), torch.full((300,), 0.3, device=device)
        call = vmap(lambda key, share: draws.at_least(share, key, (2560, 100)))
        return (torch.compile(lambda a, b: call(a, b)) if device == "cuda" else call)(keys, share).cpu()

    print("dropout diagram: draws that differ between compiled and not:", int((drawn("cuda") != drawn("cpu")).sum()))
    clock = milliseconds(lambda: own.batches(7, 1))
    print(f"dropout diagram, 60 trials: batches {clock:.2f} ms")


def main(names: list[str]) -> None:
    """Run them, some at a time, each with a compiler that remembers nothing."""
    begun, left, going = time.monotonic(), list(names), {}
    folder = tempfile.mkdtemp()
    while left or going:
        late = time.monotonic() - begun > SECONDS
        while left and len(going) < AT_ONCE and not late:
            name = left.pop(0)
            own = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, f"cache_{len(left)}"), "PART": name}
            going[name] = subprocess.Popen([sys.executable, *sys.argv], env=own)
        for name, run in list(going.items()):
            if run.poll() is None and late:
                run.kill()
                run.wait()
            if run.poll() is not None:
                print(f"=== {name}: until {time.monotonic() - begun:.0f} s, exit {run.returncode}", flush=True)
                del going[name]
        if left and late:
            print("not begun:", left, flush=True)
            return
        time.sleep(0.2)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if part := os.environ.get("PART"):
        measure(part)
    else:
        main([name for name in sys.argv[1:] if name[:2] != "--"] or [*ENSEMBLES])
