"""All curves that there are to learn from, and what is left out of learning together."""

from collections.abc import Callable

from dynascope.experiments.forecasts import sets
from dynascope.experiments.forecasts.judged import Config, task_of, thinned
from dynascope.forecasting.learning import Group

TOTALS = {"taskset": 1.5, "language": 0.6, "networks": 1.0, "planted": 0.15}


def taught(config: Config) -> list[Group]:
    """Curves of every set; published ones only if they are used."""
    groups = [*sets.networks(), *sets.planted()]
    if config.published:
        tasks, language = sets.taskset("valid", most=sets.CURVES), sets.language()
        some = sets.CURVES // 2
        groups += [*tasks, *sets.taskset("train", most=some), *sets.earlier_of(tasks, others=some)]
        groups += [*language, *all_known_beside(language)]
    return thinned(groups, config)


def all_known_beside(groups: list[Group]) -> list[Group]:
    """All language models, each to be forecast where those of the other size are known."""
    sizes = sorted({task_of(each.name) for each in groups})
    return [
        known
        for size in sizes
        for known in sets.known_beside(
            [each for each in groups if task_of(each.name) == size],
            [each for each in groups if task_of(each.name) != size],
        )
    ]


def quarters(groups: list[Group]) -> Callable[[str], str]:
    """What is left out with a group: a quarter of all tasks, sizes and families."""
    others = list(dict.fromkeys(task_of(each.name) for each in groups if not each.name.startswith("networks/")))

    def fold(name: str) -> str:
        own = name.startswith("networks/")
        return str(sets.fold_of_networks(name) if own else others.index(task_of(name)) % len(sets.FOLDS))

    return fold
