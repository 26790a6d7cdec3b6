"""Sets of curves: 18 published language models, TaskSet's 8000 settings of Adam, networks of our own, planted ones.

The published ones are read from the folder `curves` of the data folder. Our own set ships with the package;
docs/write_curves.py makes it.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from dynascope.data.folder import data_folder
from dynascope.forecasting.candidates import candidates_after
from dynascope.forecasting.candidates.earlier import Known
from dynascope.forecasting.candidates.schedule import MULTI_POWER, law
from dynascope.forecasting.candidates.theory import mode, skills
from dynascope.forecasting.curves import Curve
from dynascope.forecasting.known import Library, law_of
from dynascope.forecasting.learning import Group
from dynascope.forecasting.pace import Pace, pace_of
from dynascope.forecasting.seen import Kind

FOLDS = (  # tasks of our own networks that are left out together
    ("mnist", "linear", "spiral"),
    ("fashion", "waves", "mixture"),
    ("cifar10", "memory", "teacher"),
    ("geomnist", "parity", "modular"),
)
OWN = Path(__file__).with_name("own_curves.npz")
IMAGES = Path(__file__).with_name("own_curves_images.npz")  # made before, of three tasks
_MOVES = 0.02  # that a curve of TaskSet falls from the mean of its first five records, if it moves at all
_LARGEST = 5.0  # loss of one that moves
CURVES = 200  # of a task of TaskSet that others learn from
_BROKEN = 1e4  # loss beyond which a curve is not one


def _published(name: str) -> dict[str, np.ndarray]:
    path = data_folder() / "curves" / name
    if not path.exists():
        raise FileNotFoundError(
            f"forecasts of published curves need curves/{name} in {data_folder()}: put it there, or name another "
            "folder in DYNASCOPE_DATA"
        )
    with np.load(path) as file:
        return {key: file[key] for key in file.files}


def language(*, published: bool = True) -> list[Group]:
    """Published language models: one curve a group, named size/schedule, with learning rates; or what stands for them.

    >>> len(language(published=False))
    10
    """
    if not published:
        return _instead_of_language()
    return [
        Group(f"language/{name}", each[:, 0], each[:, 2][None], each[:, 1])
        for name, each in _published("language_models.npz").items()
    ]


def _instead_of_language() -> list[Group]:
    """Runs of two sizes and five schedules as the multi-power law has them, for tests where nothing published is."""
    step, rng = np.arange(2000.0, 24_001.0, 200.0), np.random.default_rng(0)
    u = step / step[-1]
    rates = {
        "constant_24000": np.ones_like(u),
        "cosine_24000": 0.1 + 0.9 * (1 + np.cos(np.pi * u)) / 2,
        "wsd_20000_24000": np.where(u < 0.8, 1.0, 10.0 ** -np.maximum(5 * (u - 0.8), 0)),
        "wsdld_20000_24000": np.where(u < 0.8, 1.0, 1 - 4.5 * (u - 0.8)),
        "wsdcon_9": np.where(u < 0.6, 1.0, 0.3),
    }
    groups = []
    for size, level, height in (("25M", 3.1, 0.25), ("100M", 2.8, 0.3)):
        for name, rate in rates.items():
            pace = pace_of(step, rate, 0.0, step[-1]) or Pace(u, rate)
            shape = law(pace, u, np.array([[0.55, 0.7, 200.0, 0.85]]))[0]
            value = level + height * shape + 0.002 * rng.standard_normal(len(step))
            groups.append(Group(f"language/{size}/{name}", step, value[None], rate))
    return groups


def known_beside(groups: list[Group], chosen: list[Group], unit: float = 20_000.0) -> list[Group]:
    """The same curves, to be forecast where `chosen` are known to their ends."""
    known = Library(tuple(Curve(each.step, each.value[0], each.rate, each.name) for each in chosen))
    after = candidates_after(known.shapes(1.0), law_of(known.curves, unit))
    return [Group(each.name, each.step, each.value, each.rate, after) for each in groups]


def taskset(part: str = "valid", *, published: bool = True, most: int | None = None) -> list[Group]:
    """TaskSet: one group for each task; curves that are not finite or explode are left out. Or what stands for it.

    most: curves of a task
    """
    if not published:
        return [Group(each.name.replace("planted", "taskset"), each.step, each.value) for each in planted(30, seed=1)]
    found = _published("taskset.npz")
    groups = []
    for task in sorted({name.split("/")[0] for name in found}):
        value = found[f"{task}/{part}"].astype(float)
        usable = np.isfinite(value).all(1) & (np.abs(np.nan_to_num(value)).max(1) < _BROKEN)
        groups.append(Group(f"taskset/{task}", np.arange(value.shape[1]) * 200.0, value[usable][:most]))
    return groups


def moving(value: np.ndarray) -> np.ndarray:
    """Which curves of TaskSet move at all, (curve,)."""
    return np.asarray((value.max(1) < _LARGEST) & (value[:, :5].mean(1) - value.min(1) >= _MOVES))


def networks() -> list[Group]:
    """Networks of our own: a group for each task, schedule and quantity.

    Accuracies are turned upside down, as `forecast` does, so that all curves fall as they get better.
    """
    return [group for path in (IMAGES, OWN) for group in _networks(path)]


def _networks(path: Path) -> list[Group]:
    with np.load(path) as file:
        found = {name: file[name] for name in file.files if name != "load"}
    task_of = np.array([str(each).split("/")[0] for each in found["name"]])
    loss, accuracy = found["loss"].astype(float), -found["accuracy"].astype(float)
    quantities = {
        "train/loss": (loss[:, :, 0], Kind(-1.0)),
        "test/loss": (loss[:, :, 1], Kind(1.0)),
        "train/accuracy": (accuracy[:, :, 0], Kind(-1.0, least=-1.0)),
        "test/accuracy": (accuracy[:, :, 1], Kind(1.0, least=-1.0)),
    }
    if "batch" in found:
        quantities["batch/loss"] = found["batch"].astype(float), Kind(-1.0)
    groups = []
    for task in dict.fromkeys(task_of.tolist()):
        mine = task_of == task
        for number, schedule in enumerate(found["schedule"]):
            for name, (table, kind) in quantities.items():
                begin = int(name == "batch/loss")  # before the first step there is no batch
                value = table[mine, number :: len(found["schedule"]), begin:].reshape(-1, table.shape[-1] - begin)
                step, factor = found["step"][mine][0, begin:].astype(float), found["factor"][number, begin:]
                if (usable := np.isfinite(value).all(1)).any():
                    full = f"networks/{task}/{schedule}/{name}"
                    groups.append(Group(full, step, value[usable], factor, kind=kind))
    return groups


def fold_of_networks(name: str) -> int:
    """Which tasks are left out with a group of networks: a quarter of them.

    >>> fold_of_networks("networks/mnist/cosine/test/loss"), fold_of_networks("networks/waves/drop/train/loss")
    (0, 1)
    """
    return next(place for place, tasks in enumerate(FOLDS) if name.split("/")[1] in tasks)


def earlier_of(groups: list[Group], few: int = 25, others: int = 400) -> list[Group]:
    """Some curves of each group, to be forecast where a few others of the group are known."""
    found = []
    for number, each in enumerate(groups):
        rng = np.random.default_rng(number)
        order = rng.permutation(len(each.value))
        known, rest = each.value[order[:few]], each.value[order[few : few + others]]
        shapes = tuple(Known(each.step, value) for value in known)
        found.append(Group(each.name, each.step, rest, each.rate, candidates_after(shapes, MULTI_POWER)))
    return found


def planted(curves: int = 150, seed: int = 7) -> list[Group]:
    """Curves of each family with noise, so that what is plain to see is seen.

    >>> len(planted(2))
    8
    """
    rng, t = np.random.default_rng(seed), np.arange(1.0, 101.0)

    def level() -> float:
        return rng.uniform(0, 2)

    def height() -> float:
        return rng.uniform(0.3, 3)

    def logistic() -> np.ndarray:
        return mode(t, rng.uniform(15, 90), 10 ** rng.uniform(-3, -1), 2.0)

    def learned() -> np.ndarray:
        return skills(t / 100, float(np.exp(rng.uniform(np.log(0.003), np.log(0.3)))), _exponent(rng))

    families: dict[str, Callable[[], np.ndarray]] = {
        "power": lambda: level() + height() * t ** -rng.uniform(0.1, 1.2),
        "shifted": lambda: level() + height() * (1 + t / rng.uniform(5, 80)) ** -rng.uniform(0.3, 3),
        "exponential": lambda: level() + height() * np.exp(-t / rng.uniform(8, 120)),
        "mmf": lambda: level() + height() / (1 + (t / rng.uniform(10, 90)) ** rng.uniform(1, 5)),
        "log": lambda: rng.uniform(3, 6) - rng.uniform(0.1, 0.6) * np.log(t),
        "line": lambda: rng.uniform(2, 6) - rng.uniform(0.2, 1.9) * t / 100,
        "mode": lambda: level() + height() * logistic(),
        "skills": lambda: level() + height() * learned(),
    }
    groups = []
    for name, draw in families.items():
        values = []
        for _ in range(curves):
            smooth = draw()
            noise = np.exp(rng.uniform(np.log(1e-4), np.log(0.05)))
            values.append(smooth + noise * np.ptp(smooth) * rng.standard_normal(len(t)))
        groups.append(Group(f"planted/{name}", t, np.array(values)))
    return groups


def _exponent(rng: np.random.Generator) -> float:
    return round(float(rng.uniform(0.2, 1.4)), 1)  # few, since each is a table
