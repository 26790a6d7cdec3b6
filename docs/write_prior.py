"""Learn what `forecast` brings along, from all sets of curves, and write it beside the code that reads it.

About ten minutes on two cores. The published curves must be there: see `experiments/forecasts/sets.py`.
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

TASKS = 4  # folds of TaskSet's tasks, whose curves calibrate the bands


def main() -> None:
    """Learn and write."""
    config = Config()
    tasks = sets.taskset("valid", most=CURVES)
    places = {each.name: number % TASKS for number, each in enumerate(tasks)}
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

    def fold(name: str) -> str:
        kind, first = name.split("/")[:2]
        if kind == "networks":
            return sets.fold_of_networks(name)
        return f"tasks {places[name]}" if kind == "taskset" else kind if kind == "planted" else f"{kind}/{first}"

    given = lessons(taught, fold, TOTALS, config)
    print(f"{len(given.weight)} forecasts to learn from", file=sys.stderr)
    _, below = given.without(sorted({fold(each.name) for each in taught}), config.steps)
    every = given.weight > 0
    prior = given.calibrated(given.learnt(every, config.steps, made="docs/write_prior.py"), below, every)
    write_text(PRIOR, msgspec.json.encode(prior).decode() + "\n")


if __name__ == "__main__":
    main()
