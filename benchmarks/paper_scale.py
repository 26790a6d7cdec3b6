"""What the paper's largest figures of networks take on a GPU: the dropout diagram, FIG. 5(c) and FIG. 6.

The diagram's 960 networks are trained to the end; the convolutional ones for a part of the epochs, and the rest is
reckoned from the time of a step. Seconds by the clock of: networks made, the way found (trials of it, compiling,
capture), steps, measures. Random images stand in for data that is not here.

    python benchmarks/paper_scale.py [part of the epochs, 20]
"""

import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
import torch

from dynascope.experiments.phases import dropout_schedules, load_curves
from dynascope.experiments.registry import find
from dynascope.networks import training
from dynascope.networks.recording import Course
from dynascope.networks.training import Trainer

SPENT: dict[str, float] = defaultdict(float)
STEPS = [0]
WAYS: list[str] = []


def timed(owner: Any, name: str, label: str) -> None:
    """Let a function add the time of its calls."""
    inner: Callable[..., Any] = getattr(owner, name)

    @wraps(inner)
    def outer(*given: Any, **options: Any) -> Any:
        begun = time.perf_counter()
        found = inner(*given, **options)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        SPENT[label] += time.perf_counter() - begun
        if label == "advance":
            STEPS[0] += given[1]
        if label == "way":
            WAYS.append(str(given[0].way))
        return found

    setattr(owner, name, outer)


def images_or_random(name: str, size: int, samples: int, tested: int = 0) -> load_curves.Images:
    """The data, or numbers of its shape."""
    try:
        return DATA(name, size, samples, tested)
    except OSError:
        rng, colours = np.random.default_rng(0), 3 if name == "cifar10" else 1
        sizes = (10 * samples, 10000)
        x, xt = (rng.standard_normal((n, colours, size, size), np.float32) for n in sizes)
        return x, np.arange(sizes[0]) % 10, xt, np.arange(sizes[1]) % 10


def told(name: str, seconds: float) -> float:
    """Print where the time went; seconds of a step."""
    step = (SPENT["advance"] - SPENT["way"]) / STEPS[0]
    print(
        f"{name}: {seconds:.1f} s; networks made {SPENT['made']:.1f}, way found {SPENT['way']:.1f} "
        f"({', '.join(WAYS)}), "
        f"{STEPS[0]} steps {STEPS[0] * step:.1f}, measures {SPENT['measures']:.1f}; {step * 1e3:.2f} ms a step",
        flush=True,
    )
    return step


def at_full_length(part: int) -> None:
    """Let a shortened training choose its way as the whole one would."""
    made = Trainer.__init__

    def lengthened(self: Trainer, *given: Any, planned: int = 0, **options: Any) -> None:
        made(self, *given, planned=planned * part, **options)

    Trainer.__init__ = lengthened  # type: ignore[method-assign]


def clear() -> None:
    SPENT.clear()
    WAYS.clear()
    STEPS[0] = 0


def main(part: int) -> None:
    """Run them."""
    config = find("phases/dropout").settings("paper")
    clear()
    begun = time.perf_counter()
    fixed = {n: getattr(config, n) for n in ("data", "size", "samples", "epochs", "batch_size", "depth", "width")}
    load_curves.run_grid({"slope": config.slopes, "dropout": config.values}, seeds=config.seeds, fixed=fixed)
    told("dropout diagram", time.perf_counter() - begun)
    print(f"    training: {SPENT['advance']:.1f} s, to find the way included; at most 20 are wanted")
    at_full_length(part)
    for figure in ("raised_dropout", "convolutional"):
        config = find(f"phases/{figure}").settings("paper")
        stages = len(config.schedules[0])
        clear()
        begun = time.perf_counter()
        dropout_schedules.run(replace(config, epochs=config.epochs // part, times=1))
        step = told(f"{figure}, a part", time.perf_counter() - begun)
        whole = step * stages * config.epochs + SPENT["way"] + SPENT["made"]
        whole += SPENT["measures"] / (stages + 1) * (stages * config.times + 1)
        print(f"    {stages * config.epochs} steps, all that comes with them: {whole:.0f} s; at most 300 are wanted")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    DATA = load_curves.data_set
    load_curves.data_set = dropout_schedules.data_set = images_or_random  # type: ignore[assignment]
    timed(training, "initial_state", "made")
    timed(Trainer, "_begin", "way")
    timed(Trainer, "advance", "advance")
    timed(Course, "_measure", "measures")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
