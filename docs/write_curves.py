"""Train our own set of curves for forecasts, and write it where the experiments look: 960 small networks.

Three data sets (10 × 10 pixels) × two networks × two optimisers × five schedules of the learning rate, 16 trials of
each with rates, dropout and wrong labels drawn at random. About 25 minutes on one core. `python docs/write_curves.py`.
"""

import io
import sys

import numpy as np

from dynascope.data import corrupt_labels
from dynascope.experiments.forecasts.sets import OWN
from dynascope.experiments.phases.load_curves import data_set
from dynascope.files import write_whole
from dynascope.networks import MLP, Ensemble

STEPS, EVERY, TRIALS, WIDTH, BATCH = 2000, 40, 16, 32, 32
DATA = ("mnist", "fashion", "cifar10")
NETWORKS = {"2 layers": (2, False), "4 layers, batch norm": (4, True)}
OPTIMISERS = {"sgd": (0.003, 0.15), "adam": (2e-4, 1e-2)}
SCHEDULES = {
    "constant": lambda u: 1.0,
    "cosine": lambda u: 0.01 + 0.99 * (1 + np.cos(np.pi * u)) / 2,
    "linear": lambda u: 1 - 0.99 * u,
    "wsd": lambda u: 1.0 if u < 0.7 else 1 - 0.99 * (u - 0.7) / 0.3,
    "drop": lambda u: 1.0 if u < 0.5 else 0.1,
}


def main() -> None:
    """Train and write."""
    rng, found, names, factors = np.random.default_rng(0), {"loss": [], "accuracy": [], "load": []}, [], []
    for data in DATA:
        x, y, xt, yt = data_set(data, 10, 100, 50)
        for network, (depth, norm) in NETWORKS.items():
            for optimiser, (low, high) in OPTIMISERS.items():
                for schedule, factor in SCHEDULES.items():
                    rate = np.exp(rng.uniform(np.log(low), np.log(high), TRIALS))
                    dropout, wrong = rng.choice([0, 0.2], TRIALS), rng.choice([0, 0.2], TRIALS)
                    labels = np.stack([corrupt_labels(y, float(each), seed=seed) for seed, each in enumerate(wrong)])
                    later = {
                        step: {"learning_rate": rate * factor(step / STEPS)}
                        for step in range(EVERY // 2, STEPS, EVERY // 2)
                        if factor(step / STEPS) != 1
                    }
                    trained = Ensemble(
                        MLP(x.shape[1:], 10, width=WIDTH, depth=depth, batch_norm=norm, dropout=0.0),
                        trials=TRIALS,
                        learning_rate=rate,
                        batch_size=BATCH,
                        seed=len(names),
                        optimizer=optimiser,
                        momentum=0.9 if optimiser == "sgd" else 0.0,
                        vary={"dropout": dropout},
                        sampling="shuffled",
                    )
                    kept = rng.choice(len(y), 500, replace=False)
                    probe = {"train": (x[kept], labels[:, kept]), "test": (xt, np.repeat(yt[None], TRIALS, 0))}
                    run = trained.train(
                        x, labels, STEPS, probe=probe, record_every=EVERY, later=later or None, measures="load"
                    )
                    for name in ("loss", "accuracy"):
                        found[name].append(run[name].transpose("trial", "probe", "step").values)
                    load = run["load"].isel(probe=0).transpose("trial", "step", "layer").values
                    found["load"].append(np.pad(load, ((0, 0), (0, 0), (0, 5 - load.shape[2])), constant_values=np.nan))
                    names.append(f"{data}/{network}/{optimiser}/{schedule}")
                    factors.append([factor(step / STEPS) for step in run["step"].values])
                    print(len(names), "of 60:", names[-1], file=sys.stderr)
    save(names, run["step"].values, np.array(factors), {name: np.array(each) for name, each in found.items()})


def save(names: list[str], step: np.ndarray, factor: np.ndarray, found: dict[str, np.ndarray]) -> None:
    """Write the set, to four digits, so that it stays small."""
    digits = {name: _rounded(each) for name, each in found.items()}
    content = io.BytesIO()
    np.savez_compressed(content, name=np.array(names), step=step, factor=factor, **digits)
    write_whole(OWN, lambda path: path.write_bytes(content.getvalue()))


def _rounded(values: np.ndarray) -> np.ndarray:
    """Four digits of each number, as floats of 32 bits whose other bits are 0."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x200) & ~np.uint32(0x3FF)).view(np.float32)


if __name__ == "__main__":
    main()
