"""Figures 1.3 and 1.5: benign and malignant overfitting, with the numbers behind the pictures."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, three_errors
from dynascope.experiments.linear_modes.sines import fit_sines, sines
from dynascope.experiments.registry import Experiment
from dynascope.models.linear_modes import learnability
from dynascope.records import with_provenance

TAILS = ("as printed", "hundredth")
TARGETS = ("first", "tenth")


@dataclass(frozen=True)
class Config:
    """The settings of the captions; the noise is not given there. Tail eigenvalues n/(p − d), and 1/n of that."""

    strong: int = 5
    samples: int = 100
    features: int = 2000
    noise: float = 0.3
    sets: int = 200
    seed: int = 15


SCALES = {"smoke": Config(sets=24), "laptop": Config(), "paper": Config(sets=2000)}
LEARNED = Claim("eq1.36-learnability", "layerwise (1.36)", "with the printed spectrum L_k ≈ 1 for the first d modes")
PHASE = Claim(
    "sec1.6.1-noise-time",
    "layerwise 1.6.1",
    "noise is fitted only after ηt = (p − d)/n, the signal at ηt = 1",
)
BENIGN = Claim("fig-1.3-benign", "layerwise FIG. 1.3", "noise is interpolated, yet the fit is close to the target")
HALF = Claim("fig-1.3-signal", "layerwise (1.35)", "the share of the signal's energy that is missed is E (1 − L_1)²")
MALIGNANT = Claim("fig-1.5-malignant", "layerwise FIG. 1.5", "of a target in the tail next to nothing is learned")
TENTH = Claim(
    "fig-1.5-learnability", "layerwise (1.35), (1.36)", "of the tenth mode the share L_10 ≈ (n − d)/(p − d) is learned"
)


def run(config: Config) -> xr.Dataset:
    """Fit many training sets with both spectra and both targets."""
    begun = time.perf_counter()
    random = np.random.default_rng(config.seed)
    tails = config.samples / (config.features - config.strong) * np.array([1.0, 1 / config.samples])
    modes = np.arange(1, config.features + 1)
    spectra = np.where(modes <= config.strong, 1.0, tails[:, None])
    which = np.array([0, 9])
    results = [_one_set(config, spectra, which, random) for _ in range(config.sets)]
    stacked = {name: np.stack([result[name] for result in results]) for name in results[0]}
    theory = learnability(spectra, samples=config.samples)
    record = xr.Dataset(
        {
            "share": (("tail", "target", "trial"), np.moveaxis(stacked["share"], 0, -1)),
            "missed": (("tail", "target", "trial"), np.moveaxis(stacked["missed"], 0, -1)),
            "noise_energy": (("tail", "trial"), stacked["noise_energy"].T),
            "noise_time": (("tail", "trial"), stacked["noise_time"].T),
            "theory_share": (("tail", "target"), theory["learnability"].values[:, which]),
            "theory_overfitting": ("tail", theory["overfitting"].values),
        },
        coords={"tail": list(TAILS), "target": list(TARGETS)},
    )
    record = record.merge(_picture(config, spectra, which, random))
    return with_provenance(
        record, "linear model", asdict(config), options={}, seed=config.seed, precision="float64",
        wall_time=time.perf_counter() - begun,
    )  # fmt: skip


def _one_set(config: Config, spectra: np.ndarray, which: np.ndarray, random: np.random.Generator) -> dict[str, Any]:
    """Shares learned of both targets, energy of the fitted noise, and the time in which noise is fitted."""
    functions = sines(random.uniform(size=config.samples), config.features)
    noise = random.standard_normal((config.samples, 1))
    share, missed, energy, times = [], [], [], []
    for spectrum in spectra:
        fitted = fit_sines(functions, spectrum, np.concatenate([functions[:, which], noise], axis=1))
        wanted = np.eye(config.features)[which].T
        share.append(fitted[which, np.arange(len(which))])
        missed.append(np.sum((fitted[:, :-1] - wanted) ** 2, axis=0))
        energy.append(np.sum(fitted[:, -1] ** 2))
        times.append(_fitting_time((functions * spectrum) @ functions.T / config.samples, noise[:, 0]))
    return {"share": share, "missed": missed, "noise_energy": energy, "noise_time": times}


def _fitting_time(kernel: np.ndarray, noise: np.ndarray) -> float:
    """Flow time at which the training residual of pure noise has fallen to 1/e of its size."""
    rates, vectors = np.linalg.eigh(kernel)
    weights = (vectors.T @ noise) ** 2 / np.sum(noise**2)
    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2
        left = np.sum(weights * np.exp(-2 * np.maximum(rates, 0.0) * middle))
        low, high = (middle, high) if left > np.exp(-2) else (low, middle)
    return middle


def _picture(config: Config, spectra: np.ndarray, which: np.ndarray, random: np.random.Generator) -> xr.Dataset:
    """One training set per figure: the learned function, its strong part and its tail."""
    inputs, fine = random.uniform(size=config.samples), np.linspace(0.0, 1.0, 2001)
    functions, shown = sines(inputs, config.features), sines(fine, config.features)
    clean = functions[:, which] / np.sqrt(2)  # sin(2πkx)
    labels = clean + config.noise * random.standard_normal((config.samples, 1))
    parts = np.empty((len(spectra), len(which), 2, fine.size))
    for tail, spectrum in enumerate(spectra):
        fitted = fit_sines(functions, spectrum, labels)
        parts[tail, :, 0] = (shown[:, : config.strong] @ fitted[: config.strong]).T
        parts[tail, :, 1] = (shown[:, config.strong :] @ fitted[config.strong :]).T
    return xr.Dataset(
        {
            "learned": (("tail", "target", "part", "x"), parts),
            "goal": (("target", "x"), (shown[:, which] / np.sqrt(2)).T),
            "labels": (("target", "sample"), labels.T),
            "noise": config.noise,
            "expected_time": ("tail", config.samples / ((config.features - config.strong) * spectra[:, -1])),
            "printed_time": (config.features - config.strong) / config.samples,
            "flat_share": (config.samples - config.strong) / (config.features - config.strong),
        },
        coords={"x": fine, "inputs": ("sample", inputs), "part": ["first modes", "tail"]},
    )


def check(record: xr.Dataset) -> tuple[Claim, ...]:
    """Compare with (1.35), and with what the section says."""
    sets = record.sizes["trial"]

    def mean_and_error(values: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
        return values.mean("trial").values, (values.std("trial", ddof=1) / np.sqrt(sets)).values

    share, share_error = mean_and_error(record["share"])
    missed, missed_error = mean_and_error(record["missed"])
    wait, wait_error = mean_and_error(record["noise_time"])
    theory = record["theory_share"].values
    lost = record["theory_overfitting"].values * (1 - theory[:, 0]) ** 2
    finite = 2 / record.sizes["sample"]
    noise = 2 * float(record["noise"]) ** 2 * record["noise_energy"].median("trial").values  # beside |f*|² = ½
    expected = record["expected_time"].values
    medians = ", ".join(f"{v:.3g}" for v in record["noise_energy"].median("trial").values)
    gaussian = ", ".join(f"{v - 1:.3g}" for v in record["theory_overfitting"].values)
    return (
        LEARNED.corrects(
            share[0, 0], theory[0, 0], three_errors(share_error[0, 0]) + finite, published=1.0,
            standard_error=share_error[0, 0],
            note="the tail adds up to n, so κ ≈ 1 and half of the signal is lost; sine features, target the first mode",
        ),
        PHASE.corrects(
            wait, expected, three_errors(wait_error) + 0.25 * expected,
            published=float(record["printed_time"]) * expected, standard_error=wait_error,
            note="noise is fitted at ηt = n/Σ_tail ρ, which is 1 with the printed spectrum: no phase without it; "
            "25 % for the spread of the kernel's eigenvalues",
        ),
        BENIGN.falls_below(
            missed[1, 0] + noise[1], 0.1, three_errors(missed_error[1, 0]),
            note="error energy beside the target's, with a tail of a hundredth and median noise; "
            f"with the printed tail it is {missed[0, 0] + noise[0]:.2f}",
        ),
        HALF.equals(missed[:, 0], lost, three_errors(missed_error[:, 0]) + finite * lost, note="both spectra"),
        MALIGNANT.exceeds(missed[:, 1], 0.9, three_errors(missed_error[:, 1]), note="missed share of the energy"),
        TENTH.equals(
            share[:, 1], theory[:, 1], three_errors(share_error[:, 1]) + finite * theory[:, 1],
            rival=1.0, standard_error=share_error[:, 1],
            note=f"(n − d)/(p − d) = {float(record['flat_share']):.4f}; energy of fitted unit noise: median {medians}, "
            f"Gaussian features would give {gaussian} (the mean diverges: inputs and mirror images can come close)",
        ),
    )  # fmt: skip


def plot(record: xr.Dataset) -> Any:
    """Draw both figures, for both spectra: the learned function, its strong part and its tail."""
    from dynascope.plots import PALETTE, new_figure  # noqa: PLC0415 (computing never imports plotting)

    rows = [(tail, target) for target in TARGETS for tail in TAILS]
    figure, axes = new_figure(columns=3, rows=len(rows), height=2.4)
    for row, (tail, target) in zip(axes, rows, strict=True):
        learned = record["learned"].sel(tail=tail, target=target)
        row[0].plot(record["inputs"], record["labels"].sel(target=target), ".", color="grey", label="samples")
        curves = (learned.sum("part"), *(learned.sel(part=part) for part in record["part"].values))
        names = ("learned function", "its first modes", "its tail")
        for ax, curve, name, colour in zip(row, curves, names, PALETTE, strict=False):
            ax.plot(record["x"], curve, color=colour, linewidth=0.8, label=name)
            ax.plot(record["x"], record["goal"].sel(target=target), "k--", linewidth=0.8, label="target")
            ax.set_ylim(-2.2, 2.2)
            ax.set_xlabel("x")
            ax.legend(frameon=False, fontsize="x-small", loc="upper right")
        row[0].set_ylabel(f"f(x), target {target} mode,\ntail {tail}", fontsize="small")
    return figure


EXPERIMENT = Experiment(
    title="Benign and malignant overfitting",
    source="layerwise FIG. 1.3, 1.5",
    kind="figure",
    claims=(LEARNED, PHASE, BENIGN, HALF, MALIGNANT, TENTH),
    scales=SCALES,
    run=run,
    check=check,
    plot=plot,
)
