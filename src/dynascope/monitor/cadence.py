"""When to measure: every N steps or epoch, on a log-spaced schedule, or as often as a share of the time allows."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dynascope.checks import Given, count, scalar

PER_DECADE = 10
LEAST = 10  # measurements of a run whose length is known, whatever they cost


def log_spaced(step: int) -> bool:
    """Say whether a step is on the schedule with about ten steps per decade: …, 8, 10, 13, 16, 20, 25, …

    >>> [step for step in range(1, 40) if log_spaced(step)]
    [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32]
    """
    if step < 1:
        return step == 0
    nearest = round(PER_DECADE * math.log10(step))
    return any(round(10 ** (each / PER_DECADE)) == step for each in (nearest - 1, nearest, nearest + 1))


class Cadence:
    """Decides at each step whether to measure, from the schedule and from what measuring has cost so far.

    every: N, "epoch", "log", or None for the time budget alone. max_overhead: share of the training time that measuring
    may take; half of it is for the slow measures. With a schedule it is optional and holds due measurements back;
    without one it is 0.02 unless given. slow: slow measures come with every `slow`-th measurement of a schedule, 0
    never; under a budget alone they come as often as their half allows. steps: length of the run, if known; then at
    least ten measurements are made, unless a budget is given. clock: seconds.

    The budget is kept, not aimed at: a measurement starts only if what was spent, plus what it costs and what the last
    one will cost, is within it. The one before training is counted too, so that the next ones wait until training has
    paid for it; setting up is not, or short runs would have nothing to show.

    >>> cadence = Cadence(every=100)
    >>> [step for step in range(1, 301) if cadence.due(step)]
    [100, 200, 300]
    """

    def __init__(
        self,
        every: Given[int | str | None] = None,
        max_overhead: Given[float | None] = None,
        *,
        slow: Given[int] = 10,
        steps: Given[int | None] = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if every not in (None, "log", "epoch"):
            try:
                every = count("every", every)
            except ValueError as error:
                raise ValueError(
                    f"every must be a number of steps, 'epoch', 'log', or None for a time budget, got {every!r}"
                ) from error
        if max_overhead is not None:
            max_overhead = scalar("max_overhead", max_overhead, above=0.0)
        self.every = every
        known = None if steps is None else count("steps", steps)
        self._at_least_every = None if known is None or max_overhead is not None else math.ceil(known / LEAST)
        self.max_overhead = 0.02 if every is None and max_overhead is None else max_overhead
        self.slow = count("slow", slow, at_least=0)
        self.clock = clock
        self.measured = 0
        self.begin()

    def begin(self) -> None:
        """Start the clock: what came before, such as loading libraries, does not count."""
        self._begun = self.clock()
        self._spent = {"fast": 0.0, "slow": 0.0}
        self._cost = {"fast": 0.0, "slow": 0.0}

    def due(self, step: int) -> bool:
        """Say whether to measure at this step."""
        if self.every == "epoch":
            return False
        if self.every == "log":
            return log_spaced(step) and self._affords("fast")
        if self.every is not None:
            return step % int(self.every) == 0 and self._affords("fast")
        owed = self._at_least_every is not None and step % self._at_least_every == 0
        return owed or self._affords("fast")

    def due_at_epoch(self) -> bool:
        """Say whether to measure at the end of an epoch."""
        return self.every == "epoch" and self._affords("fast")

    def due_slow(self) -> bool:
        """Say whether the measurement that is due includes the slow measures."""
        if self.slow == 0 or not self._affords("slow"):
            return False
        return self.every is None or self.measured % self.slow == 0

    def affords_last_slow(self) -> bool:
        """Say whether what is left of the budget is enough for the slow measures at the end."""
        if self.slow == 0:
            return False
        spent = sum(self._spent.values()) + self._cost["fast"] + self._cost["slow"]
        return self.max_overhead is None or spent <= self.max_overhead * self._training()

    def expect_slow(self, times: float) -> None:
        """Guess what the slow measures cost, as a multiple of the quick ones, until they have been timed."""
        if self._spent["slow"] == 0:
            self._cost["slow"] = times * self._cost["fast"]

    @contextmanager
    def charge(self, kind: str, *, more: bool = False) -> Iterator[None]:
        """Time what is done inside and book it as "fast" or "slow"; as much is expected of the next one.

        more: it belongs to the measurement that was charged before.
        """
        begun = self.clock()
        try:
            yield
        finally:
            cost = self.clock() - begun
            self._spent[kind] += cost
            self._cost[kind] = self._cost[kind] + cost if more else cost

    @property
    def overhead(self) -> float:
        """Time spent on measuring, relative to the time spent on training."""
        spent, training = sum(self._spent.values()), self._training()
        return spent / training if training > 0 else math.inf if spent else 0.0

    def _affords(self, kind: str) -> bool:
        if self.max_overhead is None:
            return True
        budget = self.max_overhead * self._training()
        whole = sum(self._spent.values()) + self._cost[kind] + self._cost["fast"]  # the last one is still to come
        return whole <= budget and self._spent[kind] + self._cost[kind] <= budget * (0.5 if self.slow else 1.0)

    def _training(self) -> float:
        return self.clock() - self._begun - sum(self._spent.values())
