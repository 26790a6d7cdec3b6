"""FIG. 5.1, FIG. 5.2, Table 5.1: two-layer networks on multitask sparse parity, foreseen from one skill alone."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope.data.parity import SparseParity
from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.registry import Experiment
from dynascope.models.multilinear import Multilinear, estimate_emergence
from dynascope.records import with_provenance

START_SHARE = 3.6  # R(0) = initial²/3.6, as the authors calibrate
FORMS = {"time": "time", "data": "data", "data_printed": "data", "parameters": "parameters"}  # curve -> resource
# FIG. 5.2: printed 1/𝓑², D_c, N_c, and half of their last digit
PRINTED = {"time": (22.0, 0.5), "data_printed": (800.0, 50.0), "parameters": (4.0, 0.5)}


@dataclass(frozen=True)
class Part:
    """One resource: where it is measured with all skills and with one alone, and how networks are trained."""

    x: tuple[int, ...]  # steps, sizes of training sets, or widths
    alone: tuple[int, ...]
    trials: int
    batch_size: int
    learning_rate: float
    width: int = 0  # where x are not widths
    steps: int = 0  # where x are not steps
    alone_steps: int = 0


def _part(x: Any, alone: Any, **settings: Any) -> Part:
    return Part(tuple(np.asarray(x, int).tolist()), tuple(np.asarray(alone, int).tolist()), **settings)


@dataclass(frozen=True)
class Config:
    """Skills of m = 3 among n_b random bits, α = 0.6, S = 5; all weights start as Gaussians of deviation `initial`."""

    time: Part
    data: Part
    parameters: Part
    skills: int = 3
    bits: int = 16
    relevant: int = 3
    exponent: float = 0.6
    target: float = 5.0
    initial: float = 0.01
    weight_decay: float = 5e-5  # of Adam, which trains the narrow networks; the others have plain SGD without
    samples: int = 1024  # inputs of each skill on which strengths are measured
    table_width: int = 10  # of Table 5.1
    as_printed: bool = False  # whether task and networks have the size in print
    seed: int = 51


SCALES = {
    "smoke": Config(
        time=_part(np.arange(0, 2501, 50), np.arange(0, 1001, 20), trials=14, batch_size=100,
                   learning_rate=0.05, width=50),
        data=_part(2.0 ** np.arange(4, 11), 2.0 ** np.arange(3, 9), trials=6, batch_size=32, learning_rate=0.05,
                   width=50, steps=2500, alone_steps=1000),
        parameters=_part([1, 2, 3, 4, 6, 8, 10, 12], np.arange(1, 9), trials=8, batch_size=32, learning_rate=0.005,
                         steps=4000, alone_steps=2500),
        skills=2, bits=8, samples=64, initial=0.05, table_width=12,
    ),
    "laptop": Config(
        time=_part(np.arange(0, 6001, 50), np.arange(0, 1201, 20), trials=8, batch_size=500,
                   learning_rate=0.05, width=200),
        data=_part(50 * 2.0 ** np.arange(8), 25 * 2.0 ** np.arange(7), steps=12000, alone_steps=3000, trials=5,
                   batch_size=250, learning_rate=0.05, width=100),
        parameters=_part(np.arange(1, 17), np.arange(1, 9), steps=20000, alone_steps=12000, trials=8, batch_size=200,
                         learning_rate=0.003),
    ),
    "paper": Config(
        time=_part(np.arange(0, 30001, 50), np.arange(0, 2001, 20), trials=10,
                   batch_size=4000, learning_rate=0.05, width=1000),
        data=_part(400 * 2.0 ** np.arange(8), 50 * 2.0 ** np.arange(8), steps=40_000, alone_steps=10_000, trials=5,
                   batch_size=2000, learning_rate=0.05, width=1000),
        parameters=_part(np.arange(1, 21), np.arange(1, 11), steps=150_000, alone_steps=60_000, trials=10,
                         batch_size=4000, learning_rate=0.001),
        skills=5, bits=32, samples=4096, as_printed=True,
    ),
}  # fmt: skip

FORESEEN = {
    "time": Claim(
        "fig-5.1a-networks", "layerwise FIG. 5.1(a)",
        "(5.2) with the rate calibrated on one skill alone predicts how networks learn the other skills in time",
    ),
    "data_printed": Claim(
        "fig-5.1b-networks", "layerwise FIG. 5.1(b)",
        "(5.5) as printed, with D_c calibrated on one skill alone, predicts how networks learn the others from data",
    ),
    "data": Claim(
        "fig-5.1b-corrected", "layerwise FIG. 5.1(b), (5.5) corrected",
        "E[min(d/D_c, 1)], with D_c calibrated on one skill alone, predicts how networks learn the others from data",
    ),
    "parameters": Claim(
        "fig-5.1c-networks", "layerwise FIG. 5.1(c)",
        "(5.9) with N_c calibrated on one skill alone predicts which skills networks of some width learn",
    ),
}  # fmt: skip
INSTANCES = Claim(
    "fig-5.1a-instances",
    "layerwise 5.3.2",
    "networks learn each skill at about the predicted time: nearer to it than to another skill's",
)
TAIL = Claim("fig-5.1a-tail", "layerwise 5.3.2", "a network takes longer to saturate than the calibrated sigmoid")
ABRUPT = Claim(
    "fig-5.1b-abrupt",
    "layerwise 5.3.2",
    "with few samples of a skill networks stay below (5.5): they change more abruptly",
)
FIRST = Claim("table-5.1-first", "layerwise Table 5.1", "a network of 10 units learns the most frequent skill")
RANGE = Claim("table-5.1-range", "layerwise Table 5.1", "a run reaches R/S = 4.5 in the second skill")
PREFERENCE = Claim(
    "fig-5.1c-preference", "layerwise 5.2.3", "networks use their hidden units for the more frequent skills first"
)
OUTLIERS = Claim(
    "table-5.1-outliers",
    "layerwise Table 5.1",
    "some runs learn a less frequent skill at the cost of a more frequent one",
)
NUMBERS = Claim("fig-5.2-numbers", "layerwise FIG. 5.2", "one skill alone gives 𝓑² = 1/22, D_c = 800 and N_c = 4")


def run(config: Config) -> xr.Dataset:
    """Train networks on one skill and on several, for each resource, and foresee the several from the one."""
    begun = time.perf_counter()
    parts = [_measure(config, kind) for kind in ("time", "data", "parameters")]
    record = xr.merge([part.drop_attrs() for part in parts])
    settings = {name: getattr(config, name) for name in ("exponent", "target", "initial", "table_width", "as_printed")}
    record = record.assign(settings | {"learning_rate": config.time.learning_rate})
    record = xr.merge([record, *(_forecast(record, form) for form in FORMS)])
    return with_provenance(
        record, "Multilinear", {}, options=asdict(config), seed=config.seed, precision="float32",
        wall_time=time.perf_counter() - begun, device=parts[0].attrs["device"],
    )  # fmt: skip


def _measure(config: Config, kind: str) -> xr.Dataset:
    """Strengths R/S of all skills, `…_strength` (trial, skill, x), and of one alone, `…_alone` (trial, x)."""
    from dynascope.networks.arguments import device_name  # noqa: PLC0415 (imports torch)
    from dynascope.networks.parity import ParitySettings, train_parity  # noqa: PLC0415

    part: Part = getattr(config, kind)
    narrow, found = kind == "parameters", []
    for skills, x, steps in ((config.skills, part.x, part.steps), (1, part.alone, part.alone_steps)):
        settings = ParitySettings(
            SparseParity(skills, config.bits, config.relevant, config.exponent),
            trials=part.trials, batch_size=part.batch_size, learning_rate=part.learning_rate, target=config.target,
            initial=config.initial, seed=config.seed, widths=x if narrow else (part.width,),
            data=x if kind == "data" else (), optimizer="adam" if narrow else "sgd",
            weight_decay=config.weight_decay if narrow else 0.0,
        )  # fmt: skip
        trained = train_parity(settings, x if kind == "time" else [steps], samples=config.samples)
        axes = ("data", f"{kind}_trial", "parameters", "time", "skill")
        strength = xr.DataArray(
            trained["strength"], dims=axes, coords={"skill": np.arange(1, skills + 1), kind: list(x)}
        )
        found.append(strength.isel({axis: 0 for axis in ("data", "parameters", "time") if axis != kind}))
    alone = found[1].sel(skill=1, drop=True).rename({kind: f"alone_{kind}"})
    values = {f"{kind}_strength": found[0].transpose(..., "skill", kind), f"{kind}_alone": alone}
    return xr.Dataset(values, attrs={"device": device_name(settings.device)})


def _models(record: xr.Dataset) -> tuple[Multilinear, Multilinear]:
    """One skill alone, and all of them."""
    alpha, target, rate = (float(record[name]) for name in ("exponent", "target", "learning_rate"))
    start = float(record["initial"]) ** 2 / START_SHARE
    return tuple(Multilinear(n, alpha, target, start, rate) for n in (1, record.sizes["skill"]))  # type: ignore[return-value]


def _forecast(record: xr.Dataset, form: str) -> xr.Dataset:
    """Calibrate one curve on one skill alone and predict all: value, low, high, fit (x alone), predicted (skill, x)."""
    kind, printed = FORMS[form], form == "data_printed"
    one, all_skills = _models(record)
    target, alone = float(record["target"]), f"alone_{kind}"
    measured = target * record[f"{kind}_alone"].transpose(f"{kind}_trial", alone).values
    fit = estimate_emergence(kind, record[alone].values, measured, model=one, published=printed)
    value = float(fit["value"])
    predicted = all_skills.emergence(
        kind, record["skill"].values, record[kind].values, calibration=value, published=printed
    )
    return xr.Dataset(
        {
            **{f"{form}_{name}": float(fit[name]) for name in ("value", "low", "high", "standard_error")},
            f"{form}_fit": (alone, fit["fitted"].values / target),
            f"{form}_predicted": (("skill", kind), predicted / target),
        },
        coords={"skill": record["skill"], kind: record[kind], alone: record[alone]},
    )


def _baselines(record: xr.Dataset, kind: str) -> dict[str, np.ndarray]:
    """What predicts R/S (skill, x) with less: the model without calibration, and without frequencies.

    plain: the multilinear model, which has its skill functions. same: every skill is learned as one alone. stretched:
    as one alone, with P(k) of the resource; no model at all.
    """
    _, all_skills = _models(record)
    skills, x = record["skill"].values, record[kind].values
    places, alone = record[f"alone_{kind}"].values, record[f"{kind}_alone"].mean(f"{kind}_trial").values
    plain = all_skills.emergence(kind, skills, x) / float(record["target"])
    share = all_skills.frequency(skills)[:, None] if kind != "parameters" else 1 / skills[:, None]
    stretched = np.interp(share * x, places, alone)
    return {"plain": plain, "same": np.broadcast_to(np.interp(x, places, alone), plain.shape), "stretched": stretched}


def _errors(record: xr.Dataset, form: str) -> dict[str, float]:
    """Mean distance between the networks' mean strength and each prediction, over all but the first skill and all x."""
    kind = FORMS[form]
    mean = record[f"{kind}_strength"].mean(f"{kind}_trial").values
    predictions = {"model": _forecast(record, form)[f"{form}_predicted"].values} | _baselines(record, kind)
    halves = [record[f"{kind}_strength"][half::2].mean(f"{kind}_trial").values for half in (0, 1)]
    distances = {name: np.abs(mean - each) for name, each in predictions.items()}
    distances["noise"] = np.abs(halves[0] - halves[1]) / 2  # of the mean over all trials
    return {name: float(each[1:].mean()) for name, each in distances.items()}


def _spread(record: xr.Dataset, kind: str, measure: Callable[[xr.Dataset], np.ndarray]) -> np.ndarray:
    """Standard error of a measure by leaving out one trial after another, both of one skill alone and of all."""
    trials = record.sizes[f"{kind}_trial"]
    left = np.stack([measure(record.drop_isel({f"{kind}_trial": [trial]})) for trial in range(trials)])
    return np.asarray(np.sqrt((trials - 1) * left.var(axis=0)))


def _foreseen(record: xr.Dataset, form: str) -> Claim:
    kind, errors = FORMS[form], _errors(record, form)

    def gains(part: xr.Dataset) -> np.ndarray:
        found = _errors(part, form)
        return np.array([found["model"] - found[name] for name in ("plain", "same")])

    value, low, high = (float(record[f"{form}_{name}"]) for name in ("value", "low", "high"))
    note = (
        f"mean distance of R/S, below the model without calibration and below one curve for all skills; calibrated "
        f"{value:.4g} in [{low:.4g}, {high:.4g}]; noise {errors['noise']:.3f}; the measured curve of one skill, "
        f"stretched: {errors['stretched']:.3f}"
    )
    rivals = [errors["plain"], errors["same"]]
    return FORESEEN[form].falls_below(errors["model"], rivals, three_errors(_spread(record, kind, gains)), note=note)


def _passing(x: np.ndarray, curve: np.ndarray, level: float = 0.5) -> float:
    """Where a rising curve first passes a level; NaN where it does not."""
    above = np.flatnonzero(curve >= level)
    if not above.size or above[0] == 0:
        return float("nan")
    at = above[0]
    share = (level - curve[at - 1]) / (curve[at] - curve[at - 1])
    return float(x[at - 1] + share * (x[at] - x[at - 1]))


def _lateness(record: xr.Dataset) -> np.ndarray:
    """log(time at which the networks pass half of S / predicted time) of all skills but the first."""
    _, all_skills = _models(record)
    value = float(_forecast(record, "time")["time_value"])
    predicted = all_skills.emergence_point("time", record["skill"].values, calibration=value)
    mean = record["time_strength"].mean("time_trial").values
    return np.log([_passing(record["time"].values, curve) for curve in mean] / predicted)[1:]


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge predictions by simpler ones; standard errors leave out one trial after another."""
    _, all_skills = _models(record)
    gaps = np.diff(np.log(all_skills.emergence_point("time", record["skill"].values)))
    nearest = np.minimum(gaps, np.append(gaps[1:], np.inf)) / 2
    late, error = _lateness(record), _spread(record, "time", _lateness)
    return (
        *(_foreseen(record, form) for form in FORMS),
        INSTANCES.falls_below(
            np.abs(late), nearest, three_errors(error),
            note=f"|log(measured/predicted)| below half of the gap; the ratios are {np.exp(late).round(2).tolist()}",
        ),
        _tail(record),
        _abrupt(record),
        *_table(record),
        _numbers(record),
    )  # fmt: skip


def _tail(record: xr.Dataset) -> Claim:
    """Each run's steps from half to 95 % of S, of a skill alone and of the first of several, by the sigmoid's."""
    value, ratios = float(record["time_value"]), []
    cases = (("alone_time", record["time_alone"]), ("time", record["time_strength"].sel(skill=1)))
    for (axis, curves), model in zip(cases, _models(record), strict=True):
        half, end = (float(model.emergence_point("time", 1, level, calibration=value)) for level in (0.5, 0.95))
        steps = record[axis].values
        taken = [_passing(steps, curve, 0.95) - _passing(steps, curve) for curve in curves.values]
        ratios.append(np.log(np.array(taken) / (end - half)))
    ratio = np.mean(ratios, axis=0)  # (trial,)
    error = three_errors(ratio.std(ddof=1) / np.sqrt(len(ratio))) + 0.02  # interpolation between recorded steps
    note = f"log(steps from 50 % to 95 % of S / those of the sigmoid), mean over runs; {np.exp(ratio.mean()):.2f} times"
    return TAIL.exceeds(ratio.mean(), 0.0, error, note=note)


def _abrupt(record: xr.Dataset) -> Claim:
    """Mean strengths where a curve puts them between 0.05 and 0.35, over all skills."""
    forms = ("data_printed", "data")

    def low(part: xr.Dataset) -> np.ndarray:
        mean = part["data_strength"].mean("data_trial").values
        curves = [record[f"{form}_predicted"].values for form in forms]
        return np.array([mean[(curve > 0.05) & (curve < 0.35)].mean() for curve in curves])

    curves = [record[f"{form}_predicted"].values for form in forms]
    bounds = [curve[(curve > 0.05) & (curve < 0.35)].mean() for curve in curves]
    return ABRUPT.falls_below(
        low(record), bounds, three_errors(_spread(record, "data", low)),
        note="mean R/S where the printed, and where the corrected curve lies between 0.05 and 0.35",
    )  # fmt: skip


def _table(record: xr.Dataset) -> tuple[Claim, ...]:
    strength = record["parameters_strength"]
    width = int(record["table_width"])
    at = strength.sel(parameters=width)
    mean = strength.mean("parameters").values  # (trial, skill)
    ahead = -np.diff(mean, axis=1)
    inverted = (strength.diff("skill") > 0.1).mean()
    error = ahead.std(axis=0, ddof=1) / np.sqrt(len(ahead))
    return (
        FIRST.exceeds(float(at.sel(skill=1).mean()), 0.9, 0.0, note=f"R/S, mean over runs of {width} units"),
        RANGE.corrects(
            float(at.max()), 1.0, 0.1, published=4.5,
            note=f"largest R/S of all skills and runs at {width} units; 0.45 must be meant",
        ),
        PREFERENCE.exceeds(ahead.mean(axis=0), 0.0, three_errors(error), note="R_k/S − R_{k+1}/S, mean over widths"),
        OUTLIERS.exceeds(float(inverted), 0.0, 0.0, note="share of (run, width, k) with R_{k+1}/S > R_k/S + 0.1"),
    )  # fmt: skip


def _numbers(record: xr.Dataset) -> Claim:
    """Printed numbers belong to the printed size of task and networks."""
    if not bool(record["as_printed"]):
        return replace(NUMBERS, note="needs the size of task and networks in print: scale paper")
    found = {form: float(record[f"{form}_value"]) for form in PRINTED}
    errors = {form: found[form] * float(record[f"{form}_standard_error"]) for form in PRINTED}
    errors["time"], found["time"] = errors["time"] / found["time"] ** 2, 1 / found["time"]
    tolerance = three_errors(list(errors.values())) + [rounding for _, rounding in PRINTED.values()]
    return NUMBERS.equals(
        list(found.values()), [value for value, _ in PRINTED.values()], tolerance,
        note="1/𝓑², D_c of the printed curve, N_c; least squares here, by hand in print: half of a last digit allowed",
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw calibration on one skill alone (above) and prediction of all (below), over time, data and parameters."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=3, rows=2, height=3.0)
    labels = {"time": "time T (training steps)", "data": "data D (samples)", "parameters": "hidden units N"}
    for (above, below), (kind, label) in zip(axes.T, labels.items(), strict=True):
        trials, alone = f"{kind}_trial", record[f"{kind}_alone"]
        forms = [form for form, own in FORMS.items() if own == kind]
        _band(above, alone, trials, PALETTE[0], "networks, one skill alone")
        for form, line in zip(forms, ("-", ":"), strict=False):
            curve = "(5.5) as printed" if form == "data_printed" else "model"
            value = f"{curve}, {float(record[f'{form}_value']):.3g}"
            above.plot(record[f"alone_{kind}"], record[f"{form}_fit"], line, color="black", linewidth=1, label=value)
        for colour, skill in zip(PALETTE, record["skill"].values, strict=False):
            _band(below, record[f"{kind}_strength"].sel(skill=skill), trials, colour, f"skill {skill}")
            for form, line in zip(forms, ("-", ":"), strict=False):
                below.plot(record[kind], record[f"{form}_predicted"].sel(skill=skill), line, color=colour, linewidth=1)
        for ax in (above, below):
            ax.set_xlabel(label)
            ax.set_xscale("log" if kind == "data" else "linear")
            ax.set_ylim(-0.05, 1.1)
            ax.set_ylabel("strength R/S")
            ax.legend(frameon=False, fontsize="x-small")
    axes[1, 0].set_title("dashed: networks; lines: predicted from one skill", fontsize="small")
    return figure


def _band(ax: Any, strength: xr.DataArray, trials: str, colour: str, label: str) -> None:
    """Mean over runs, dashed, and one standard deviation."""
    mean, spread = strength.mean(trials), strength.std(trials, ddof=1)
    x = mean[mean.dims[0]]
    ax.plot(x, mean, "--", color=colour, linewidth=2, label=label)
    ax.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)


EXPERIMENT = Experiment(
    title="Emergence in networks",
    source="layerwise FIG. 5.1, FIG. 5.2, Table 5.1",
    kind="figure",
    claims=(*FORESEEN.values(), INSTANCES, TAIL, ABRUPT, FIRST, RANGE, PREFERENCE, OUTLIERS, NUMBERS),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
