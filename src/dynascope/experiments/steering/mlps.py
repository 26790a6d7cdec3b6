"""dynascope docs/steer.md: Multilayer perceptrons that steer their dropout, beside what people do.

The law was set on MNIST, plain and with noise on its pixels, and on Fashion-MNIST, with these perceptrons and the
networks of steering/architectures; claims are judged on the other data. The oracle of a task is the fixed value with
the best mean test accuracy over the seeds, known in hindsight.
"""

from functools import partial

import numpy as np
import xarray as xr

from dynascope import plots
from dynascope.experiments.claims import Claim, Judgement, above, below, not_run
from dynascope.experiments.experiment import Axes, Experiment, Panels
from dynascope.experiments.sources import own
from dynascope.experiments.steering.arms import (
    AGAIN,
    GRID,
    PLAIN,
    STEERED,
    UNLABELLED,
    Config,
    arm_names,
    cost,
    trained,
)
from dynascope.statistics.errors import Estimate, over_trials

TUNED = {"data": ["mnist", "fashion"], "network": ["mlp-3", "mlp-7", "mlp-11", "cnn", "resnet", "transformer"]}
ORACLE = "best in hindsight"


def run(config: Config) -> xr.Dataset:
    """Train the networks of every data set and kind."""
    found = [[trained(data, network, config) for network in config.networks] for data in config.data]
    stacked = {name: np.stack([[cell[name] for cell in row] for row in found]) for name in found[0][0]}
    task, times = ("data", "network", "wrong"), np.linspace(0, config.epochs, stacked["knob"].shape[-1])
    values = {
        "accuracy": ((*task, "arm", "trial"), stacked["accuracy"], {"long_name": "test accuracy"}),
        "fixed": ((*task, "value", "trial"), stacked["fixed"], {"long_name": "test accuracy"}),
        "fixed_bend": ((*task, "value", "trial"), stacked["fixed_bend"], {"long_name": "bend at the end"}),
        "knob": ((*task, "trial", "time"), stacked["knob"], {"long_name": config.knob}),
        "bend": ((*task, "trial", "time"), stacked["bend"], {"long_name": "bend"}),
    }
    coords = {
        "data": list(config.data),
        "network": list(config.networks),
        "wrong": ("wrong", list(config.wrong), {"long_name": "share of wrong labels"}),
        "arm": arm_names(config),
        "value": ("value", list(config.grid), {"long_name": config.knob}),
        "time": ("time", times, {"long_name": "epochs"}),
    }
    return xr.Dataset(values, coords=coords)


def read(record: xr.Dataset) -> xr.Dataset:
    """Add the oracle's accuracy, (…task, trial), and the regret of each arm."""
    best = record["fixed"].mean("trial").argmax("value")
    oracle = record["fixed"].isel(value=best, drop=True).drop_vars("value", errors="ignore")
    return record.assign(oracle=oracle, regret=oracle - record["accuracy"])


def unseen(record: xr.Dataset) -> np.ndarray:
    """Tell which data sets and networks the law was not tuned on, (data, network)."""
    return np.asarray(~np.logical_and.outer(*(np.isin(record[name].values, each) for name, each in TUNED.items())))


def _mean(seen: xr.Dataset, values: xr.DataArray, wrong: float) -> np.ndarray | None:
    """Mean over the unseen tasks with this share of wrong labels, of each trial; None where there are none."""
    chosen = np.isclose(seen["wrong"].values, wrong)
    if not chosen.any():
        return None
    own = values.isel(wrong=int(chosen.argmax())).transpose("data", "network", "trial").values
    return np.asarray(own[unseen(seen)].mean(axis=0))


def _regret(seen: xr.Dataset, *, arm: str = STEERED) -> Judgement:
    lost = _mean(seen, seen["regret"].sel(arm=arm), 0.0)
    assert lost is not None
    return below(over_trials(lost), 0.002, note=_others(seen, 0.0))


def _others(seen: xr.Dataset, wrong: float) -> str:
    """Regrets of the rivals."""
    rest = [str(arm) for arm in seen["arm"].values if arm != STEERED]
    lost = {arm: _mean(seen, seen["regret"].sel(arm=arm), wrong) for arm in rest}
    return "regret of others: " + ", ".join(
        f"{arm} {each.mean():.4f}" for arm, each in lost.items() if each is not None
    )


def _closed(seen: xr.Dataset, *, wrong: float, share: float, arm: str = STEERED) -> Judgement:
    """The gap that is closed less so much of the gap, of each trial."""
    plain = seen["accuracy"].sel(arm=PLAIN)
    closed, gap = (_mean(seen, each - plain, wrong) for each in (seen["accuracy"].sel(arm=arm), seen["oracle"]))
    if closed is None or gap is None:
        return not_run(f"needs {wrong:.0%} wrong labels")
    part = closed.mean() / gap.mean() if gap.mean() else np.nan
    note = f"{part:.1%} of a gap of {gap.mean():.4f}; {_others(seen, wrong)}"
    return above(over_trials(closed - share * gap), 0.0, note=note)


def beats_the_grid(seen: xr.Dataset) -> Judgement:
    """Steered networks against the value that validation chooses, over all tasks."""
    again = _ahead(seen, AGAIN)
    note = f"gain over it; over the one that is then trained again on all samples {again.mean:.4f} ± {again.error:.4f}"
    return above(_ahead(seen, GRID), 0.0, note=note)


def _ahead(seen: xr.Dataset, arm: str, ours: str = STEERED) -> Estimate:
    """Accuracy beyond that of an arm, over all unseen tasks."""
    return over_trials(_all(seen, seen["accuracy"].sel(arm=ours) - seen["accuracy"].sel(arm=arm)))


def _all(seen: xr.Dataset, values: xr.DataArray) -> np.ndarray:
    """Mean over all unseen tasks, of each trial."""
    own = [_mean(seen, values, float(wrong)) for wrong in seen["wrong"].values]
    return np.asarray(np.mean([each for each in own if each is not None], axis=0))


def _beside(seen: xr.Dataset) -> Judgement:
    """Networks that have inputs beside to look at against those that have not, over all tasks."""
    gain = _ahead(seen, STEERED, UNLABELLED)
    lost = _all(seen, seen["regret"].sel(arm=UNLABELLED)).mean()
    return above(gain, 0.0, note=f"regret against the best of the grid in hindsight {lost:.4f}")


def never_worse(seen: xr.Dataset, *, arm: str = STEERED) -> Judgement:
    """Steered networks against those that keep the value at which they began, in each task."""
    beyond = seen["accuracy"].sel(arm=arm) - seen["accuracy"].sel(arm=PLAIN)
    worst = over_trials(beyond)
    return above(worst.mean.ravel(), 0.0, -worst.error.ravel(), note="each task; one standard error is allowed")


def table(record: xr.Dataset) -> str:
    """Test accuracies as a Markdown table: a row for each task, a column for each arm; below, regret and cost.

    Errors are standard errors over seeds, those of regrets of paired differences, over the tasks of each share.
    """
    seen = read(record)
    arms = [*map(str, seen["arm"].values), ORACLE]
    both = xr.concat([seen["accuracy"], seen["oracle"].expand_dims(arm=[ORACLE])], "arm")
    rows = [["data", "network", "wrong labels", *arms]]
    for data in seen["data"].values:
        for network in seen["network"].values:
            for wrong in seen["wrong"].values:
                reached = both.sel(data=data, network=network, wrong=wrong).mean("trial")
                numbers = [f"{float(reached.sel(arm=arm)):.4f}" for arm in arms]
                rows.append([str(data), str(network), f"{wrong:.0%}", *numbers])
    for wrong in seen["wrong"].values:
        lost = [_mean(seen, both.sel(arm=ORACLE) - both.sel(arm=arm), float(wrong)) for arm in arms]
        estimates = [over_trials(each) for each in lost if each is not None]
        numbers = [f"{float(each.mean):.4f} ± {float(each.error):.4f}" for each in estimates]
        rows.append(["regret, unseen tasks", "", f"{wrong:.0%}", *numbers])
    grid = seen.sizes["value"]
    rows.append(["cost in runs", "", "", *(f"{cost(arm, grid)}" for arm in arms[:-1]), f"{grid}, and the test set"])
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *body])


def _draw_regret(record: xr.Dataset, ax: Axes) -> None:
    """Regret of each arm, one point for each task."""
    seen = read(record)
    arms = list(seen["arm"].values)[::-1]
    for colour, wrong in zip(plots.PALETTE, seen["wrong"].values, strict=False):
        lost = seen["regret"].sel(wrong=wrong).mean("trial")
        for height, arm in enumerate(arms):
            points = lost.sel(arm=arm).values.ravel()
            label = f"{wrong:.0%} wrong labels" if height == 0 else None
            ax.plot(
                points, np.full(points.size, height) + 0.15 * (float(wrong) - 0.2) / 0.2, "o", color=colour, label=label
            )
    ax.axvline(0.0, color="black", linewidth=1)
    ax.set_yticks(range(len(arms)), arms)
    ax.set_xlabel("test accuracy below the best fixed value in hindsight")
    ax.set_xscale("symlog", linthresh=0.01)


def _draw_values(record: xr.Dataset, ax: Axes, *, data: int) -> None:
    """Accuracy over fixed values of the knob, and where steered networks end."""
    chosen = record.isel(data=data, network=record.sizes["network"] // 2)
    for colour, wrong in zip(plots.PALETTE, record["wrong"].values, strict=False):
        own = chosen.sel(wrong=wrong)
        mean, error = own["fixed"].mean("trial"), own["fixed"].std("trial") / np.sqrt(record.sizes["trial"])
        ax.errorbar(record["value"], mean, error, color=colour, label=f"fixed, {wrong:.0%} wrong labels")
        steered = own["accuracy"].sel(arm=STEERED)
        ax.plot(
            own["knob"].isel(time=-1), steered, "*", color=colour, alpha=0.6, label="steered" if wrong == 0 else None
        )
    ax.set(xlabel=record["value"].attrs["long_name"], ylabel=record["fixed"].attrs["long_name"])
    if record["value"].values.min() > 0:  # a knob that is turned by factors
        ax.set_xscale("log")
    ax.set_title(f"{chosen['data'].values}, {chosen['network'].values}", fontsize="small")


def _draw_courses(record: xr.Dataset, ax: Axes) -> None:
    """The knob while it is turned, of each task."""
    for colour, wrong in zip(plots.PALETTE, record["wrong"].values, strict=False):
        courses = record["knob"].sel(wrong=wrong).mean("trial").stack(task=("data", "network"))
        lines = ax.plot(record["time"], courses.transpose("time", "task"), color=colour, linewidth=1)
        lines[0].set_label(f"{wrong:.0%} wrong labels")
    ax.set(xlabel="epochs", ylabel=record["knob"].attrs["long_name"])


_DIGITS = {"data": ("digits",), "size": 0, "batch_size": 50, "wrong": (0.0, 0.4)}
LAPTOP = {
    **_DIGITS,
    "samples": 60,
    "learning_rate": 0.002,
    "networks": ("mlp-3", "mlp-7"),
    "width": 64,
    "seeds": 4,
    "epochs": 30,
    "grid": (0.0, 0.1, 0.2, 0.3, 0.5),
}
SMOKE = {
    **_DIGITS,
    "samples": 40,
    "valid": 5,
    "learning_rate": 0.003,
    "networks": ("mlp-3",),
    "width": 32,
    "seeds": 3,
    "epochs": 4,
    "grid": (0.0, 0.1, 0.5),
    "probe": 15,
    "unlabelled": 15,
    "every": 8,
    "times": 5,
}
EXPERIMENT = Experiment(
    own(place="docs/steer.md"),
    Config(),
    run,
    claims=(
        Claim(
            "steer-regret",
            "clean labels: one steered run reaches the best of nine fixed values in hindsight but for .002",
            _regret,
            kind="own",
            settles_at="paper",
        ),
        *(
            Claim(
                f"steer-wrong-{wrong:.0%}".removesuffix("%"),
                f"{wrong:.0%} wrong labels: it closes {share:.0%} or more of the gap from no noise to that best value",
                partial(_closed, wrong=wrong, share=share),
                kind="own",
                settles_at="paper",
            )
            for wrong, share in ((0.2, 0.85), (0.4, 0.7))
        ),
        Claim(
            "steer-grid",
            "over all tasks it is better than the one of nine that a validation set chooses, at a ninth of the cost",
            beats_the_grid,
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "steer-harmless",
            "in no task it is worse than without noise by more than a standard error",
            never_worse,
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "steer-beside",
            "over all tasks it is better still where it has inputs beside the training set to look at, without labels",
            _beside,
            kind="own",
            settles_at="paper",
        ),
    ),
    picture=Panels(_draw_regret, partial(_draw_values, data=-1), _draw_courses, width=6.5, height=4.5),
    read=read,
    smoke=SMOKE,
    laptop=LAPTOP,
    model="NetworkCurves",
    precision="float32",
    kind="figure",
    needs=("torch", "sklearn"),
)
