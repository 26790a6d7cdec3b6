"""Time the loss of many skills beside the direct sum over all of them, in one run on one machine.

The direct sum is NumPy over every skill, in blocks that fit the cache. Best of several runs; compare numbers only
within one run.
"""

import os
import resource
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import expit

from dynascope import Multilinear

ALPHA, TARGET, INITIAL, RATE = 0.6, 5.0, 0.01, 0.05
TIMES = np.geomspace(1, 1e7, 10_000)


def best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest run."""
    durations = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        durations.append(time.perf_counter() - begun)
    return min(durations)


def direct_sum(skills: int, times: np.ndarray) -> np.ndarray:
    """(4.17) as one would write it in NumPy."""
    share = np.arange(1.0, skills + 1) ** -(ALPHA + 1)
    share /= share.sum()
    start = np.log(INITIAL / (TARGET - INITIAL))
    total = np.zeros(len(times))
    for begin in range(0, skills, 4096):
        part = share[begin : begin + 4096]
        for index, moment in enumerate(times):
            total[index] += part @ expit(-(2 * RATE * TARGET * moment * part + start)) ** 2
    return TARGET**2 / 2 * total


def main() -> None:
    """Compare times and values, and say how much memory it took."""
    console = Console(width=110)
    table = Table("skills", "times", "seconds", "direct sum, seconds", "faster", "largest relative error")
    for skills in (10**5, 10**6, 10**7):
        model = Multilinear(skills, ALPHA, TARGET, INITIAL, RATE)
        model.loss(time=TIMES[:10])
        seconds = best(lambda model=model: model.loss(time=TIMES), 5)
        some = TIMES[:: skills // 2000]
        begun = time.perf_counter()
        reference = direct_sum(skills, some)
        direct = (time.perf_counter() - begun) * len(TIMES) / len(some)
        error = np.max(np.abs(model.loss(time=some) / reference - 1))
        table.add_row(
            f"{skills:,}",
            f"{len(TIMES):,}",
            f"{seconds:.3f}",
            f"{direct:.1f} (from {len(some)} times)",
            f"{direct / seconds:.0f} ×",
            f"{error:.1e}",
        )
    console.print(f"{len(os.sched_getaffinity(0))} cores, numpy {np.__version__}")
    console.print(table)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"largest memory of the process, libraries included: {memory:.0f} MB")
    for name, work in {
        "10⁶ skills, 200 pairs (time, data)": lambda: Multilinear(10**6).loss(
            time=np.geomspace(1, 1e6, 20)[:, None], data=np.geomspace(10, 1e6, 10).astype(int)
        ),
        "10⁶ skills, best split of 20 budgets": lambda: Multilinear(10**6).optimal_compute(np.geomspace(1e3, 1e9, 20)),
        "1000 skills, SGD, 1000 steps × 100 samples × 10 trials": lambda: Multilinear().simulate(),
    }.items():
        work()
        console.print(f"{name}: {best(work, 2):.2f} s")


if __name__ == "__main__":
    main()
