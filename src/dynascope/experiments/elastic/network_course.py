"""Figures 1, 3, 5, D.1 and D.7 to D.10 on real networks: one training, what it does, its strengths and imitations."""

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.elastic.network_imitation import check_imitation, draw_imitation, imitations
from dynascope.experiments.elastic.network_imitation import statements as imitation_statements
from dynascope.experiments.elastic.network_training import Training, growth_of_each, pictures, read_strengths, train
from dynascope.experiments.registry import Experiment
from dynascope.models.elastic.estimate import estimate_strengths
from dynascope.models.elastic.tails import tail_index
from dynascope.records import attribute, with_provenance
from dynascope.statistics.derivative import local_derivative
from dynascope.statistics.resampling import bootstrap_weights
from dynascope.statistics.stages import learning_stages

_WINDOWS = (11, 51, 101, 191, 301)  # of Fig. D.1, and 191 of Fig. 3
_FIG_3 = 191
_SEEN = 0.1  # what the eye sees: less is "similar", or "not perceivable"


@dataclass(frozen=True)
class Config(Training):
    """One ensemble with true labels. `pair`: the classes whose difference gives the direction of Fig. 1."""

    pair: tuple[int, int] = (0, 1)
    drawn: bool = True  # also follow the logits of the drawn samples, as the source does (Fig. D.1)


def run(config: Config) -> xr.Dataset:
    """Train, then read everything off the recorded logits."""
    begun = time.perf_counter()
    data = pictures(config)
    trained = train(config, data, keep_outputs=True, keep_drawn=config.drawn)
    record = trained[["class_mean", "loss", "accuracy"]].drop_attrs()
    steps, means = record["step"].values, record["class_mean"].values.astype(float)
    strengths = read_strengths(steps, means)
    begin, printed = float(strengths["reference_time"][0]), strengths.sel(reading="L-model as printed")
    parts = [record, strengths, growth_of_each(steps, means), _stages(steps, means)]
    parts.append(imitations(trained, begin, printed, config.seed))
    parts.append(_projection(trained["output"].values, data[3], config.pair))
    merged = xr.merge(parts)
    if config.drawn:
        merged = merged.merge(_windows(trained, merged))
    return with_provenance(
        merged, "Ensemble", asdict(config), options={}, seed=config.seed, precision="float32",
        wall_time=time.perf_counter() - begun, device=attribute(trained, "device"),
    )  # fmt: skip


def _stages(steps: np.ndarray, means: np.ndarray) -> xr.Dataset:
    found = learning_stages(steps, means).rename(time="step", length="pattern_length", ok="stages_found")
    return found.assign(stages_reason=found.attrs["reason"]).drop_attrs()


def _projection(outputs: Float[np.ndarray, "trial step sample logit"], labels: np.ndarray, pair: Any) -> xr.Dataset:
    """Samples of one network along (C.24) over time, and how well that direction parts the classes of each network.

    `misplaced`: share of pairs of samples of two classes in the wrong order, worst two classes; for every choice of the
    two class means that give the direction, at the start and at the end.
    """
    outputs = outputs.astype(float)
    members = [np.flatnonzero(labels == k) for k in range(outputs.shape[-1])]
    last = np.stack([outputs[:, -1, each].mean(axis=1) for each in members], axis=1)  # (trial, class, logit)
    pairs = list(combinations(range(len(members)), 2))
    directions = np.stack([last[:, k] - last[:, other] for k, other in pairs])  # (pair, trial, logit)
    along = np.einsum("cmsl,pcl->pmcs", outputs[:, [0, -1]], directions)
    shares = []
    for k, other in pairs:
        lower = (along[..., members[k], None] < along[..., None, members[other]]).mean(axis=(-1, -2))
        shares.append(np.minimum(lower, 1 - lower))
    some = np.concatenate([each[:10] for each in members])
    shown = directions[pairs.index(pair), 0]
    return xr.Dataset(
        {
            "misplaced": (("pair", "moment", "trial"), np.max(shares, axis=0)),
            "projected": (("step", "sample"), outputs[0][:, some] @ (shown / np.linalg.norm(shown))),
            "sample_class": ("sample", labels[some]),
        },
        coords={"moment": ["start", "end"], "pair": [f"{k}–{other}" for k, other in pairs]},
    )


def _windows(trained: xr.Dataset, record: xr.Dataset) -> xr.Dataset:
    """Strengths as the source reads them, off the drawn samples' logits at every update, with several windows.

    `trend`: correlation of their α − β with that of the probe. `drawn_intra`: α with the window of Fig. 3.
    """
    path = _drawn_means(trained["drawn_output"].values[:, :, 0], trained["drawn_label"].values[:, :, 0])
    updates = np.arange(len(path), dtype=float)
    truth = np.interp(updates, record["step"], record["growth_rate"].mean("trial"))
    found = {
        window: estimate_strengths(updates, path, "isotropic", method="published", window=window)
        for window in _WINDOWS
        if window < len(path)
    }
    trend = [np.corrcoef(each["gap"].values, truth)[0, 1] for each in found.values()]
    at = np.minimum(record["step"].values, len(path) - 1)
    return xr.Dataset(
        {"trend": ("window_size", trend), "drawn_intra": ("step", found[_FIG_3]["intra"].values[at])},
        coords={"window_size": list(found)},
    )


def _drawn_means(
    logits: Float[np.ndarray, "trial update logit"], labels: Int[np.ndarray, "trial update"]
) -> Float[np.ndarray, "update class logit"]:
    """Mean logits over the trials that drew each class; an update at which none did repeats the one before."""
    path = np.zeros((logits.shape[1], logits.shape[2], logits.shape[2]))
    for k in range(path.shape[1]):
        own = labels == k
        number = own.sum(axis=0)
        total = np.einsum("cu,cul->ul", own, logits.astype(float))
        last = np.maximum.accumulate(np.where(number > 0, np.arange(len(number)), np.argmax(number > 0)))
        path[:, k] = (total / np.maximum(number, 1)[:, None])[last]
    return path


def statements(data: str) -> dict[str, Claim]:
    """The claims on one data set, by short names."""
    place = {"geomnist": "GeoMNIST", "cifar": "CIFAR"}[data]
    end = "validation loss goes to zero" if data == "geomnist" else "validation accuracy exceeds 0.9"
    texts = {
        "converged": ("sec4-converged", "4.1", end),
        "separated": ("fig1-separated", "Fig. 1", "along the difference of some two class means all classes part"),
        "gap": ("fig3-gap", "Fig. 3", "A − B grows, by the I-model and by the L-model"),
        "intra": ("fig3-intra", "Fig. 3, (11)", "A grows, by both models as printed"),
        "inter-isotropic": ("fig3-inter-isotropic", "Fig. 3, (11)", "B falls, by the I-model as printed"),
        "inter-logits": ("fig3-inter-logits", "Fig. 3, (11)", "B falls, by the L-model as printed"),
        "identified": ("fig3-identified", "Fig. 3", "A and B can be told apart, by the L-model and by the I-model"),
        "similar": ("fig3-similar", "Fig. 3", "late in training both models give similar A − B"),
        "wild": ("fig3-wild", "Fig. 3", "early in training the L-model, as printed, is wilder than the I-model"),
        "tail": ("fig4c-separable", "Fig. 4(c), Theorem 3.1", "classes that part have α − β with a tail index below 1"),
        "rises": ("figd3-rises", "D.3(ii)", "α − β rises, then decays, in the mean over networks"),
        "adjusted": ("figd6-rises", "Fig. D.6", "α − β times the length of the class means rises, then decays"),
        "stages": ("figd10-stages", "Fig. D.10", "class means first turn, then only grow"),
        "turned": ("figd10-turned", "Fig. D.10", "class means turn more before the loss falls than after"),
        "amplified": ("figd10-amplified", "Fig. D.10", "once the loss falls, class means grow at least tenfold"),
        "sigmoid": ("figd3-sigmoid", "D.3(iii)", "the length of class means grows fastest between start and end"),
    }
    texts |= imitation_statements()
    if data == "geomnist":
        texts["drawn"] = ("fig3-drawn", "Fig. 3, D.1", "α of the drawn samples' logits rises, then decays")
        texts["onset"] = ("figd10-onset", "Fig. D.10", "validation loss starts to fall at about iteration 1200")
        texts["window"] = ("figd1-window", "Fig. D.1", "a window of 11 hides the trend of the strengths, 301 shows it")
    return {
        name: Claim(f"elastic-{key}-{data}", f"elastic {source}", f"{place}: {text}")
        for name, (key, source, text) in texts.items()
    }


def _error(record: xr.Dataset, reading: str, name: str) -> float:
    """Standard error at the last step, from the 95 % interval."""
    low, high = (float(record[f"{name}_{end}"].sel(reading=reading)[-1]) for end in ("low", "high"))
    return (high - low) / 3.92


def _last(record: xr.Dataset, readings: Any, name: str) -> tuple[list[float], np.ndarray]:
    values = [float(record[name].sel(reading=each)[-1]) for each in readings]
    return values, three_errors([_error(record, each, name) for each in readings])


def _tail(record: xr.Dataset) -> tuple[float, float]:
    """Tail index of α − β from A − B, mean over networks, and three standard errors (bootstrap over networks)."""
    growth, steps = record["growth"].values, record["step"].values
    drawn = tail_index(steps, bootstrap_weights(len(growth), 100, 0) @ growth, "integrated")
    return tail_index(steps, growth.mean(axis=0), "integrated"), float(three_errors(np.std(drawn, ddof=1)))


def check(data: str, record: xr.Dataset) -> tuple[Claim, ...]:
    """Judge what training did, what the strengths say and the two stages."""
    claim = statements(data)
    judged = {
        **_check_training(claim, record),
        **_check_strengths(claim, record),
        **_check_rates(claim, record),
        **_check_stages(claim, record),
        **check_imitation(claim, record),
    }
    return tuple(judged[name] for name in claim)


def _mean(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the first axis (trials) and three standard errors of it."""
    values = np.asarray(values, float)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return np.asarray(values.mean(axis=0)), three_errors(error)


def _check_training(claim: dict[str, Claim], record: xr.Dataset) -> dict[str, Claim]:
    loss, loss_error = _mean(record["loss"].isel(step=-1))
    accuracy, accuracy_error = _mean(record["accuracy"].isel(step=-1))
    wrong = record["misplaced"].sel(moment="end").mean("trial")
    best = str(wrong["pair"].values[np.argmin(wrong.values)])
    misplaced, misplaced_error = _mean(record["misplaced"].sel(moment="end", pair=best))
    steps = f"{record.sizes['trial']} networks, {int(record['step'][-1])} steps"
    goal = (
        claim["converged"].falls_below(loss, _SEEN * float(record["loss"].isel(step=0).mean()), loss_error, note=steps)
        if "loss" in claim["converged"].statement
        else claim["converged"].exceeds(accuracy, 0.9, accuracy_error, note=steps)
    )
    others = ", ".join(f"{each.item()}: {float(value):.2f}" for each, value in zip(wrong["pair"], wrong, strict=True))
    note = f"share of samples of two classes in the wrong order, worst two classes, best direction; of classes {others}"
    return {
        "converged": goal,
        "separated": claim["separated"].falls_below(misplaced, _SEEN, misplaced_error, note=note),
    }


def _check_strengths(claim: dict[str, Claim], record: xr.Dataset) -> dict[str, Claim]:
    exact, printed = ("L-model", "I-model"), ("L-model as printed", "I-model as printed")
    gap, gap_error = _last(record, exact, "integrated_gap")
    intra, intra_error = _last(record, printed, "integrated_intra")
    inter, inter_error = _last(record, printed, "integrated_inter")
    begin = float(record["reference_time"].sel(reading="L-model"))
    reasons = "; ".join(f"{each}: {record['reason'].sel(reading=each).item() or 'nothing doubtful'}" for each in exact)
    spoilt = record["reason"].sel(reading=printed[0]).item()
    early = record["integrated_intra"].sel(step=slice(None, _onset(record)))
    rough = [_roughness(early.sel(reading=each).values) for each in printed]
    return {
        "tail": claim["tail"].falls_below(
            _tail(record)[0],
            1.0,
            _tail(record)[1],
            note="fit to A − B of the last third of the records; logits that grow as log t give α − β ∝ 1/(t log t)",
        ),
        "gap": claim["gap"].exceeds(gap, 0.0, gap_error, note=f"from step {begin:.0f} on"),
        "intra": claim["intra"].exceeds(intra, 0.0, intra_error, note="L-model, I-model"),
        "inter-logits": claim["inter-logits"].falls_below(inter[0], 0.0, inter_error[0], note=spoilt),
        "inter-isotropic": claim["inter-isotropic"].falls_below(inter[1], 0.0, inter_error[1]),
        "identified": claim["identified"].equals(record["ok"].sel(reading=list(exact)), 1.0, 0.0, note=reasons),
        "similar": claim["similar"].equals(
            gap[1] / gap[0], 1.0, _SEEN, note=f"growth of A − B from step {begin:.0f} on, I-model over L-model"
        ),
        "wild": claim["wild"].exceeds(rough[0], rough[1], 0.0, note="ups and downs of A until the loss falls"),
    }


def _roughness(curve: np.ndarray) -> float:
    """Way up and down that a curve makes beyond the distance between its ends."""
    return float(np.abs(np.diff(curve)).sum() - np.abs(curve[-1] - curve[0]))


def _hump(claim: Claim, curve: Float[np.ndarray, "trial step"], steps: np.ndarray, note: str) -> Claim:
    """Judge that the mean curve rises from its start to a peak, and falls from there to its end."""
    peak = int(np.argmax(curve.mean(axis=0)))
    rise, error = _mean(np.stack([curve[:, peak] - curve[:, 0], curve[:, peak] - curve[:, -1]], axis=1))
    return claim.exceeds(rise, 0.0, error, note=f"{note}, peak at step {int(steps[peak])} less start, less end")


def _check_rates(claim: dict[str, Claim], record: xr.Dataset) -> dict[str, Claim]:
    steps, length = record["step"].values, record["length"].values
    speed = local_derivative(steps.astype(float), length, max(5, len(steps) // 10 | 1))
    found = {
        "rises": _hump(claim["rises"], record["growth_rate"].values, steps, "of single networks"),
        "adjusted": _hump(claim["adjusted"], record["adjusted_rate"].values, steps, "of single networks"),
        "sigmoid": _hump(claim["sigmoid"], speed, steps, "speed of growth"),
    }
    if "drawn" in claim:
        drawn, trend = record["drawn_intra"].values, record["trend"].values
        peak = int(np.argmax(drawn))
        found["drawn"] = claim["drawn"].exceeds(
            [drawn[peak] - drawn[0], drawn[peak] - drawn[-1]], 0.0, 0.25 * np.abs(drawn[peak]),
            note=f"printed I-model, window {_FIG_3}, peak at step {int(steps[peak])} less start, less end; a quarter of"
            " the peak counts as level",
        )  # fmt: skip
        found["window"] = claim["window"].exceeds(
            [0.5 - trend[0], trend[-1] - 0.5], 0.0, 0.0,
            note="correlation with α − β on the probe by window: "
            + ", ".join(f"{int(w)}: {v:.2f}" for w, v in zip(record["window_size"], trend, strict=True)),
        )  # fmt: skip
    return found


def _onset(record: xr.Dataset) -> float:
    """First step at which the mean validation loss has done a tenth of its fall."""
    loss = record["loss"].mean("trial").values
    return float(record["step"][int(np.argmax(loss <= loss[0] - _SEEN * (loss[0] - loss[-1])))])


def _check_stages(claim: dict[str, Claim], record: xr.Dataset) -> dict[str, Claim]:
    onset = _onset(record)
    angle = record["angle"].sel(step=onset)
    length, error = _mean(np.log(record["length"].isel(step=-1) / record["length"].sel(step=onset)))
    turned = float(record["angle"][0] - angle), float(angle - record["angle"][-1])
    found = bool(record["stages_found"])
    stages = (
        f"turning ends at step {float(record['amplification_time']):.0f}, the loss has fallen by a tenth at {onset:.0f}"
    )
    judged = {
        "stages": claim["stages"].equals(
            float(found), 1.0, 0.0, note=stages if found else record["stages_reason"].item()
        ),
        "turned": claim["turned"].exceeds(turned[0], turned[1], 0.0, note="radians, mean over networks"),
        "amplified": claim["amplified"].exceeds(length, np.log(10.0), error, note="logarithm of the growth in length"),
    }
    if "onset" not in claim:
        return judged
    parameters = attribute(record, "parameters")
    if (parameters["network"], parameters["learning_rate"]) != ("lenet", 0.005):
        return judged | {
            "onset": replace(claim["onset"], note="judged with the source's network and learning rate only")
        }
    note = f"at step {onset:.0f}, a tenth of the fall; tolerance: a factor of 2"
    return judged | {"onset": claim["onset"].equals(np.log2(onset / 1200), 0.0, 1.0, note=note)}


def plot(record: xr.Dataset) -> Any:
    """Draw Fig. 1, the strengths of Fig. 3, their rates, and the two stages of Fig. D.10."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    figure, axes = new_figure(columns=4, rows=2, width=4.0, height=3.2)
    step = record["step"].values
    for index, name in enumerate(record["sample_class"].values):
        axes[0, 0].plot(step, record["projected"][:, index], color=PALETTE[name], linewidth=0.5)
    axes[0, 0].set_ylabel("logits of one network along (C.24)")
    for name, colour in zip(record["reading"].values, PALETTE, strict=False):
        each = record.sel(reading=name)
        if name.endswith("printed"):
            axes[0, 1].plot(step, each["integrated_intra"], color=colour, label=f"A, {name}")
            axes[0, 1].plot(step, each["integrated_inter"], "--", color=colour, label=f"B, {name}")
        else:
            axes[0, 2].plot(step, each["integrated_gap"], color=colour, label=name)
            ends = each["integrated_gap_low"], each["integrated_gap_high"]
            axes[0, 2].fill_between(step, *ends, color=colour, alpha=0.2, linewidth=0)
    axes[0, 1].set_ylabel("integrated strengths as printed (11)")
    axes[0, 2].set_ylabel("A − B, with 95 % interval")
    axes[1, 0].plot(step, record["growth_rate"].mean("trial"), color=PALETTE[0], label="α − β")
    axes[1, 0].plot(step, record["adjusted_rate"].mean("trial"), color=PALETTE[1], label="times mean length of logits")
    axes[1, 0].set_ylabel("strength (per step)")
    axes[1, 0].set_yscale("log")
    axes[1, 1].plot(step, record["angle"], color=PALETTE[0], label="angle to the final direction (radians)")
    axes[1, 1].plot(step, record["loss"].mean("trial"), color=PALETTE[1], label="validation loss")
    axes[1, 1].set_ylabel("angle, loss")
    axes[1, 2].plot(step, record["length"].mean("trial"), color=PALETTE[2], label="mean length of class means")
    axes[1, 2].set_ylabel("length of class means")
    draw_imitation(record, axes[0, 3], axes[1, 3])
    for ax in axes.ravel():
        ax.set_xlabel("training step")
    for ax in axes.ravel()[1:]:
        ax.legend(frameon=False, fontsize="x-small")
    for ax in axes[1, :3]:
        ax.set_xscale("symlog", linthresh=float(step[-1]) / 100)
        ax.set_xlim(0, float(step[-1]))
    return figure


_SMALL: dict[str, Any] = {"network": "mlp", "size": 8, "probes": 20, "records": 50}


def _experiment(data: str, title: str, scales: dict[str, Config]) -> Experiment:
    return Experiment(
        title=title,
        source="elastic Fig. 1, 3, 5, D.1, D.7–D.10",
        kind="figure",
        claims=tuple(statements(data).values()),
        scales=scales,
        run=run,
        check=partial(check, data),
        plot=plot,
    )


GEOMNIST = _experiment(
    "geomnist",
    "Networks that learn shapes: strengths and stages",
    {
        "smoke": Config(**_SMALL, per_class=100, learning_rate=0.05, steps=1200, trials=12),
        "laptop": Config(probes=40, steps=8000, records=80, trials=16),
        "paper": Config(),
    },
)
CIFAR = _experiment(
    "cifar",
    "Networks that learn photographs: strengths and stages",
    {  # digits stand for photographs where no data lie
        "smoke": Config(**_SMALL, data="digits", per_class=100, learning_rate=0.03, steps=800, trials=12, drawn=False),
        "laptop": Config(data="cifar10", per_class=2000, probes=40, steps=8000, records=80, trials=16, pair=(1, 2),
                         drawn=False),
        "paper": Config(data="cifar10", per_class=2000, probes=200, steps=300_000, pair=(1, 2), drawn=False),
    },
)  # fmt: skip
