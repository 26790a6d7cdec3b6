"""Learn what `forecast` brings along, from all sets of curves, and write it beside the code that reads it.

Bands are calibrated on tasks, sizes and families that were left out of learning, a quarter at a time. About ten minutes
on one core. The published curves must be there: see `experiments/forecasts/sets.py`.
`python docs/write_prior.py`.
"""

import sys
from functools import cache

import msgspec

from dynascope.experiments.forecasts.judged import Config, lessons
from dynascope.experiments.forecasts.teachers import TOTALS, quarters, taught
from dynascope.files import write_text
from dynascope.forecasting.evidence import PRIOR


def main() -> None:
    """Learn and write."""
    config = Config()
    groups = taught(config)
    given = lessons(groups, quarters(groups), TOTALS, config)
    print(f"{len(given.weight)} forecasts to learn from", file=sys.stderr)
    learnt = cache(lambda left: given.learnt(left, config.steps, made="docs/write_prior.py"))
    prior = given.calibrated(learnt, frozenset())
    write_text(PRIOR, msgspec.json.encode(prior).decode() + "\n")


if __name__ == "__main__":
    main()
