"""Figures D.3 and D.4 on real networks: do strengths depend on the number of samples, and of classes?"""

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.elastic.network_training import Training, growth_of_each, read_strengths, train
from dynascope.experiments.registry import Experiment
from dynascope.records import attribute, with_provenance

_SEEN = 0.1  # what the eye sees: curves that differ by less look alike
_PRINTED = "I-model as printed"


@dataclass(frozen=True)
class Config(Training):
    """One ensemble for each case; a case changes either `per_class` or `classes`."""

    varied: str = "per_class"
    cases: tuple[int, ...] = (80, 480, 600, 4800)


def run(config: Config) -> xr.Dataset:
    """Train an ensemble for each case and read its strengths by the I-model, which any number of classes allows."""
    begun = time.perf_counter()
    found = []
    for case in config.cases:
        changed: dict[str, Any] = {config.varied: case}
        trained = train(replace(config, **changed))
        steps, means = trained["step"].values, trained["class_mean"].values.astype(float)
        each = read_strengths(steps, means, (_PRINTED,)).squeeze("reading", drop=True)
        each = each.drop_vars("reason").merge(growth_of_each(steps, means))
        found.append(each.assign(loss=trained["loss"], accuracy=trained["accuracy"]).drop_attrs())
    return with_provenance(
        xr.concat(found, xr.Variable("case", list(config.cases))), "Ensemble", asdict(config), options={},
        seed=config.seed, precision="float32", wall_time=time.perf_counter() - begun,
        device=attribute(trained, "device"),
    )  # fmt: skip


SAMPLES = {
    "dominated": Claim(
        "elastic-figd3-dominated", "elastic Fig. D.3", "A outgrows |B| for any number of samples, I-model"
    ),
    "decays": Claim("elastic-figd3-decays", "elastic Fig. D.3", "α − β dies out for any number of samples"),
    "alike": Claim("elastic-figd3-alike", "elastic Fig. D.3", "A − B does not depend on the number of samples"),
}
CLASSES = {
    "intra": Claim("elastic-figd4-intra", "elastic Fig. D.4", "A grows for any number of classes, I-model"),
    "inter": Claim("elastic-figd4-inter", "elastic Fig. D.4", "B falls for any number of classes, I-model"),
    "scale": Claim("elastic-figd4-scale", "elastic Fig. D.4", "the number of classes changes the scale of A − B"),
}


def _end(record: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Value at the last step and its standard error, from the 95 % interval, for each case."""
    low, value, high = (record[f"{name}{end}"].isel(step=-1).values for end in ("_low", "", "_high"))
    return value, (high - low) / 3.92


def _growth(record: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """A − B at the last step, mean over networks and its standard error, for each case."""
    last = record["growth"].isel(step=-1)
    return last.mean("trial").values, last.std("trial", ddof=1).values / np.sqrt(record.sizes["trial"])


def check_samples(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge that samples in training hardly matter."""
    (intra, intra_error), (inter, inter_error) = (_end(record, f"integrated_{name}") for name in ("intra", "inter"))
    rate = record["growth_rate"].mean("trial").values
    growth, error = _growth(record)
    listed = ", ".join(f"{case}: {value:.3g}" for case, value in zip(record["case"].values, growth, strict=True))
    return (
        SAMPLES["dominated"].exceeds(intra, np.abs(inter), three_errors(np.hypot(intra_error, inter_error))),
        SAMPLES["decays"].falls_below(
            rate[:, -1] / rate.max(axis=1), _SEEN, 0.0, note="α − β at the end over its largest value, mean of networks"
        ),
        SAMPLES["alike"].equals(
            growth / growth.mean(), 1.0, three_errors(error / growth.mean()) + _SEEN,
            note=f"A − B at the end by samples of a class, over their mean; {listed}",
        ),
    )  # fmt: skip


def check_classes(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge that shapes stay and the scale changes with the number of classes."""
    (intra, intra_error), (inter, inter_error) = (_end(record, f"integrated_{name}") for name in ("intra", "inter"))
    growth, error = _growth(record)
    return (
        CLASSES["intra"].exceeds(intra, 0.0, three_errors(intra_error)),
        CLASSES["inter"].falls_below(inter, 0.0, three_errors(inter_error)),
        CLASSES["scale"].exceeds(
            np.ptp(growth), 0.0, three_errors(np.linalg.norm(error)),
            note=f"largest less smallest A − B; by classes {np.round(growth, 2).tolist()}",
        ),
    )  # fmt: skip


def plot(what: str, record: xr.Dataset) -> Any:
    """Draw integrated strengths and the strength that is identified, one colour for each case."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=3, width=4.0)
    step = record["step"]
    for colour, case in zip(PALETTE, record["case"].values, strict=False):
        each, label = record.sel(case=case), f"{case} {what}"
        axes[0, 0].plot(step, each["integrated_intra"], color=colour, label=f"A, {label}")
        axes[0, 0].plot(step, each["integrated_inter"], "--", color=colour, label=f"B, {label}")
        axes[0, 1].plot(step, each["growth"].mean("trial"), color=colour, label=label)
        axes[0, 2].plot(step, each["growth_rate"].mean("trial"), color=colour, label=label)
    axes[0, 0].set_ylabel("integrated strengths, I-model as printed")
    axes[0, 1].set_ylabel("A − B, mean over networks")
    axes[0, 2].set(ylabel="α − β (per step)", yscale="log")
    for ax in axes[0]:
        ax.set_xlabel("training step")
        ax.legend(frameon=False, fontsize="x-small")
    return figure


_SMALL: dict[str, Any] = {"network": "mlp", "size": 8, "probes": 20, "records": 40, "trials": 10}
SAMPLE_SIZES = Experiment(
    title="Strengths of networks by number of samples",
    source="elastic Fig. D.3",
    kind="figure",
    claims=tuple(SAMPLES.values()),
    scales={
        "smoke": Config(**_SMALL, cases=(60, 200), learning_rate=0.05, steps=700),
        "laptop": Config(cases=(80, 600), probes=40, steps=5000, records=60, trials=12),
        "paper": Config(),
    },
    run=run,
    check=check_samples,
    plot=partial(plot, "samples of a class"),
)
_PHOTOGRAPHS: dict[str, Any] = {"data": "cifar10", "varied": "classes", "cases": (2, 3), "per_class": 2000}
CLASS_NUMBERS = Experiment(
    title="Strengths of networks by number of classes",
    source="elastic Fig. D.4",
    kind="figure",
    claims=tuple(CLASSES.values()),
    scales={  # digits stand for photographs where no data lie
        "smoke": Config(**_SMALL, **_PHOTOGRAPHS | {"data": "digits", "per_class": 100}, learning_rate=0.05, steps=600),
        "laptop": Config(**_PHOTOGRAPHS, probes=40, steps=5000, records=60, trials=12),
        "paper": Config(**_PHOTOGRAPHS),  # a third of the published steps: the curves have bent by then
    },
    run=run,
    check=check_classes,
    plot=partial(plot, "classes"),
)
