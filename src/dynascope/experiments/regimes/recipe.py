"""One way to train some networks on images and measure their last features, shared by the figures of regimes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dynascope import networks, plots
from dynascope.data import images
from dynascope.experiments.claims import Claim, Judgement, above
from dynascope.experiments.experiment import Experiment, Figure
from dynascope.experiments.sources import Source
from dynascope.measure import feature_spectrum
from dynascope.statistics.errors import Estimate, over_trials

MINIMAL = 0.1  # κ below it is called the minimum feature regime, Definition 2
SHOWN = 256  # features kept in the record
PROBED = 10_000  # training images, at most, on which networks are followed
_SPECTRUM = ("intensity", "cumulative_quality", "cumulative_utilization")
_NUMBERS = ("dimension_utilization", "constant_overlap")


@dataclass(frozen=True)
class Recipe:
    """Networks, data and training that the cases of a figure have in common.

    SGD with momentum 0.9, weight decay and a learning rate that falls, as in section 2.4 of the thesis; squared loss,
    since cross-entropy does not see the sum of the outputs: it keeps there what the start has put, which counts in
    their span as one more feature. Weight decay is five times the thesis's, for courses of a few hundred steps.
    network: mlp (ReLU, `depth` hidden layers of `width`, batch norm as in the thesis's convolutional networks), resnet
    (ResNet18 whose first blocks have `width` channels), vgg (VGG16 likewise). For the latter two images of MNIST and
    Fashion-MNIST are padded to 32 × 32. Those of CIFAR-10 are averaged to 10 × 10 pixels.
    """

    data: str = "digits"
    train_per_class: int = 100
    test_per_class: int = 34
    network: str = "mlp"
    width: int = 64
    depth: int = 3
    batch_norm: bool = True
    seeds: int = 3
    steps: int = 400
    batch_size: int = 50
    loss: str = "mse"
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-3
    cool: float = 0.3  # share of the steps, the last ones, that are taken at a fifth of the learning rate
    records: int = 6
    seed: int = 23


LAPTOP: dict[str, Any] = {
    "data": "mnist",
    "train_per_class": 300,
    "test_per_class": 100,
    "seeds": 6,
    "width": 128,
    "steps": 1500,
    "batch_size": 100,
    "records": 10,
}
PAPER: dict[str, Any] = LAPTOP | {
    "train_per_class": 1000,
    "test_per_class": 200,
    "network": "resnet",
    "seeds": 10,
    "width": 8,
    "steps": 1200,
    "batch_size": 128,
}


def load(recipe: Recipe, *, classes: int | None = None, train_per_class: int | None = None) -> tuple[np.ndarray, ...]:
    """Training images and labels, test images and labels, as the network wants them.

    >>> [each.shape for each in load(Recipe(), classes=3, train_per_class=10)]
    [(30, 1, 8, 8), (30,), (102, 1, 8, 8), (102,)]
    """
    sizes = (train_per_class or recipe.train_per_class, recipe.test_per_class)
    small = 10 if recipe.data == "cifar10" else None
    x, y, xt, yt = images(recipe.data, classes=classes, per_class=sizes, size=small, seed=recipe.seed)
    if recipe.network == "vgg" or (recipe.network == "resnet" and recipe.data in ("mnist", "fashion")):
        around = (32 - x.shape[-1]) // 2
        x, xt = (np.pad(each, [(0, 0), (0, 0), (around, around), (around, around)]) for each in (x, xt))
    return x, y, xt, yt


def _network(recipe: Recipe, shape: tuple[int, ...], outputs: int, options: Mapping[str, Any]) -> Any:
    if recipe.network == "mlp":
        own = {"width": recipe.width, "depth": recipe.depth, "batch_norm": recipe.batch_norm} | dict(options)
        return networks.MLP(shape, outputs, **own)
    kind = {"resnet": networks.ResNet18, "vgg": networks.VGG16}[recipe.network]
    return kind(outputs, shape[0], width=recipe.width, size=shape[-1])


def train(
    recipe: Recipe,
    data: tuple[np.ndarray, ...],
    *,
    network: Mapping[str, Any] | None = None,
    ensemble: Mapping[str, Any] | None = None,
    targets: tuple[np.ndarray, np.ndarray] | None = None,
    look: Callable[[Any], xr.Dataset] | None = None,
) -> xr.Dataset:
    """Train `seeds` networks; follow accuracy, κ and effective dimension, and decompose the last features at the end.

    network, ensemble: options that differ from the recipe's. targets: of training and test samples, for regression.
    look: what else to measure, over trial, of the ensemble when it is trained.
    Returns over trial: accuracy, loss, kappa, effective_dimension (step, probe); at the end, of test samples,
    dimension_utilization, constant_overlap and (feature) intensity, cumulative_quality, cumulative_utilization.
    """
    x, y, xt, yt = data
    answers = (y, yt) if targets is None else targets
    outputs = int(yt.max()) + 1 if targets is None else targets[1].shape[1]
    own, cooler = prepared(recipe, x.shape[1:], outputs, network=network, ensemble=ensemble)
    steps = np.unique(np.geomspace(min(10, recipe.steps), recipe.steps, recipe.records).round().astype(int))
    some = slice(None, None, -(-len(x) // PROBED))
    run = own.train(
        x,
        answers[0],
        recipe.steps,
        probe={"train": (x[some], answers[0][some]), "test": (xt, answers[1])},
        record_every=steps.tolist(),
        measures=("kappa", "effective_dimension"),
        later=cooler,
    )
    kept = run.drop_vars(["class_mean", "train_loss", "diverged_at"], errors="ignore")
    functions = np.eye(outputs)[yt] if targets is None else targets[1]
    seen = [] if look is None else [look(own)]
    return xr.merge([kept.drop_attrs(), _spectra(own, x, xt, functions), *seen])


def prepared(
    recipe: Recipe,
    shape: tuple[int, ...],
    outputs: int,
    *,
    network: Mapping[str, Any] | None = None,
    ensemble: Mapping[str, Any] | None = None,
) -> tuple[Any, dict[int, Any] | None]:
    """`seeds` networks before their training, with options that differ from the recipe's, and what changes on the way.

    >>> prepared(Recipe(), (1, 8, 8), 10)[1]
    {280: {'learning_rate': 0.020000000000000004}}
    """
    shared = ("learning_rate", "momentum", "weight_decay", "batch_size", "loss", "seed")
    options = {name: getattr(recipe, name) for name in shared} | dict(ensemble or {})
    own = networks.Ensemble(
        _network(recipe, shape, outputs, network or {}), trials=recipe.seeds, sampling="shuffled", **options
    )
    cooler = {round((1 - recipe.cool) * recipe.steps): {"learning_rate": 0.2 * options["learning_rate"]}}
    return own, cooler if recipe.cool else None


def shortened(recipe: Recipe, steps: int) -> Recipe:
    """The recipe for fewer steps, at one learning rate throughout.

    >>> shortened(Recipe(), 5).steps
    5
    """
    return replace(recipe, steps=steps, cool=0.0)


def _spectra(ensemble: Any, x: np.ndarray, xt: np.ndarray, functions: np.ndarray) -> xr.Dataset:
    """Spectra of the last features, from at most 2000 training samples, on the test samples."""
    part = x[:: -(-len(x) // 2000)]
    train, test = ensemble.features(part), ensemble.features(xt)
    last = next(name for name in train if name != "logits")
    spectra = []
    for seen, unseen, logits in zip(train[last], test[last], test["logits"], strict=True):
        found = feature_spectrum(seen.reshape(len(seen), -1), unseen.reshape(len(unseen), -1), functions, logits)
        spectra.append(found[[*_SPECTRUM, *_NUMBERS]].reindex(feature=np.arange(1, SHOWN + 1)))
    return xr.concat(spectra, "trial")


def gather(cases: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Put the cases of a figure beside each other.

    >>> gather({"a": xr.Dataset({"kappa": 0.1})})["case"].values.tolist()
    ['a']
    """
    return xr.concat(list(cases.values()), "case", join="outer", coords="minimal").assign_coords(case=list(cases))


def final(record: xr.Dataset, name: str, case: str) -> np.ndarray:
    """Values of the networks of a case at the end, on test samples."""
    return at_the_end(record, name, case, "test")


def at_the_end(record: xr.Dataset, name: str, case: str, probe: str) -> np.ndarray:
    """Values of the networks of a case at its own last step: cases may have unequal times and numbers of networks."""
    known = record["kappa"].sel(case=case, probe="test").notnull()
    values = record[name].sel(case=case).isel(trial=known.any("step").values)
    if "step" in values.dims:
        values = values.isel(step=int(np.flatnonzero(known.any("trial"))[-1]))
    return np.asarray(values.sel(probe=probe) if "probe" in values.dims else values, float)


def means(*cases: np.ndarray) -> Estimate:
    """Mean and error over the networks of each case; NaN for none."""
    means, errors = np.transpose([tuple(over_trials(each if len(each) else np.full(2, np.nan))) for each in cases])
    return Estimate(means, errors, min(len(each) for each in cases))


def exceeds(*pairs: tuple[np.ndarray, np.ndarray], margin: float = 0.0, note: str = "") -> Judgement:
    """Judge that the mean of each first networks exceeds that of its second by more than `margin`."""
    first, second = (means(*side) for side in zip(*pairs, strict=True))
    return above(first.against(second), second.mean + margin, note=note)


def plot(record: xr.Dataset) -> Figure:
    """Draw quality, utilization and intensity of the last features, and κ over training, a colour for each case."""
    figure, axes = plots.new_figure(columns=4, width=3.8)
    labels = ("cumulative quality", "cumulative utilization", "intensity beside the strongest", "κ on test samples")
    for place, case in enumerate(record["case"].values):
        one, colour = record.sel(case=case).mean("trial"), plots.PALETTE[place % len(plots.PALETTE)]
        accuracy = final(record, "accuracy", case).mean()  # NaN for regression
        percent = f" ({100 * accuracy:.0f} %)" if np.isfinite(accuracy) else ""
        shown = f"{case}{percent} [{final(record, 'kappa', case).mean():.2g}]"
        for ax, name in zip(axes[0], ("cumulative_quality", "cumulative_utilization", "intensity"), strict=False):
            values = one[name] / one[name].isel(feature=0) if name == "intensity" else one[name]
            ax.plot(record["feature"], values, color=colour, label=shown)
            ax.set_xscale("log")
        path = one["kappa"].sel(probe="test").dropna("step")
        axes[0, 3].plot(path["step"], path, color=colour, marker=".", label=shown)
    for ax, label in zip(axes[0], labels, strict=True):
        ax.set(xlabel="feature, strongest first", ylabel=label)
    axes[0, 2].set_yscale("log")
    axes[0, 3].set(xlabel="step", xscale="log")
    axes[0, 3].axhline(MINIMAL, color="0.5", linestyle=":")
    title = "case (test accuracy) [κ]"
    axes[0, 3].legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.02, 1), title=title)
    return figure


def regime(
    source: Source,
    config: Recipe,
    run: Callable[[Recipe], xr.Dataset],
    claims: tuple[Claim, ...],
    *,
    adapted: str,
    smoke: Mapping[str, Any] | None = None,
    laptop: Mapping[str, Any] = LAPTOP,
    paper: Mapping[str, Any] = PAPER,
) -> Experiment:
    """Declare an experiment on networks that are trained by the recipe."""
    return Experiment(
        source,
        config,
        run,
        claims,
        picture=plot,
        smoke=smoke or {},
        laptop=laptop,
        paper=paper,
        model="Ensemble",
        precision="float32",
        needs=("torch", "sklearn"),
        adapted=adapted,
    )
