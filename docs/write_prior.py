"""Learn what `forecast` brings along, from all sets of curves, and write it beside the code that reads it.

Bands are calibrated on tasks, sizes and families that were left out of learning, a third at a time. About five minutes
on one core. The published curves must be there: see `experiments/forecasts/sets.py`.
`python docs/write_prior.py`.
"""

import sys

import msgspec

from dynascope.experiments.forecasts.judged import Config, lessons
from dynascope.experiments.forecasts.networks import taught, thirds
from dynascope.experiments.forecasts.taskset import TOTALS
from dynascope.files import write_text
from dynascope.forecasting.evidence import PRIOR


def main() -> None:
    """Learn and write."""
    config = Config()
    groups = taught(config)
    fold = thirds(groups)
    given = lessons(groups, fold, TOTALS, config)
    print(f"{len(given.weight)} forecasts to learn from", file=sys.stderr)
    _, below = given.without(sorted({fold(each.name) for each in groups}), config.steps)
    every = given.weight > 0
    prior = given.calibrated(given.learnt(every, config.steps, made="docs/write_prior.py"), below, every)
    write_text(PRIOR, msgspec.json.encode(prior).decode() + "\n")


if __name__ == "__main__":
    main()
