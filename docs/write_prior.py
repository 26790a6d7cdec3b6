"""Learn what `forecast` brings along, from all sets of curves, and write it beside the code that reads it.

Bands are calibrated on tasks, sizes and families that were left out of learning, a third at a time. About five minutes
on one core. The published curves must be there: see `experiments/forecasts/sets.py`.
`python docs/write_prior.py`.
"""

import sys

import msgspec

from dynascope.experiments.forecasts import sets
from dynascope.experiments.forecasts.judged import Config, lessons
from dynascope.experiments.forecasts.language import all_known_beside
from dynascope.experiments.forecasts.sets import CURVES
from dynascope.experiments.forecasts.taskset import TOTALS
from dynascope.files import write_text
from dynascope.forecasting.evidence import PRIOR


def unit(name: str) -> str:
    """What is left out as a whole: a task, a size, a family."""
    return "/".join(name.split("/")[:2])


def main() -> None:
    """Learn and write."""
    config = Config()
    tasks = sets.taskset("valid", most=CURVES)
    language = sets.language()
    taught = [
        *tasks,
        *sets.taskset("train", most=CURVES // 2),
        *sets.earlier_of(tasks, others=CURVES // 2),
        *language,
        *all_known_beside(language),
        *sets.networks(),
        *sets.planted(),
    ]
    others = list(dict.fromkeys(unit(each.name) for each in taught if not each.name.startswith("networks")))

    def fold(name: str) -> str:
        own = name.startswith("networks")
        return str(sets.fold_of_networks(name) if own else others.index(unit(name)) % len(sets.FOLDS))

    given = lessons(taught, fold, TOTALS, config)
    print(f"{len(given.weight)} forecasts to learn from", file=sys.stderr)
    _, below = given.without(sorted({fold(each.name) for each in taught}), config.steps)
    every = given.weight > 0
    prior = given.calibrated(given.learnt(every, config.steps, made="docs/write_prior.py"), below, every)
    write_text(PRIOR, msgspec.json.encode(prior).decode() + "\n")


if __name__ == "__main__":
    main()
