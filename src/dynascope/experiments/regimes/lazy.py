"""layerwise Figure 6.3: Small targets make a network lazy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.experiments.claims import Claim, Judgement, above, below
from dynascope.experiments.regimes import recipe
from dynascope.experiments.regimes.last_layer import FULL, LAST
from dynascope.experiments.regimes.recipe import LAPTOP, MINIMAL, PAPER, Recipe, final, regime
from dynascope.experiments.sources import layerwise
from dynascope.measure import minimum_feature_distance

LAZY, ZERO, DECAY = "targets over 100", "targets over 100, from zero", "weight decay of section 2.4"
_SCALE = 0.01
_PLAIN = {"weight_decay": 0.0}
_DECAY = 1e-3


def run(config: Recipe) -> xr.Dataset:
    """All layers, with weight decay too; all layers on targets a hundredth as large; the last layer alone."""
    data = recipe.load(config)
    return recipe.gather(
        {
            FULL: recipe.train(config, data, ensemble=_PLAIN),
            DECAY: recipe.train(config, data, ensemble={"weight_decay": _DECAY}),
            LAZY: recipe.train(config, data, ensemble=_PLAIN, network={"target_scale": _SCALE}),
            ZERO: _from_zero(config, data),
            LAST: recipe.train(config, data, ensemble=_PLAIN | {"trained": "last"}, look=_fitted(data)),
        }
    )


def _from_zero(config: Recipe, data: tuple[np.ndarray, ...]) -> xr.Dataset:
    """Networks less what they are at the start learn small targets: section 6.2.2 asks for a function that is zero."""
    x, y, xt, yt = data
    outputs = int(yt.max()) + 1
    still, _ = recipe.prepared(config, x.shape[1:], outputs, ensemble=_PLAIN | {"learning_rate": 0.0})
    still.train(x, y, 1, record_every=1, progress=False)
    seen, unseen = (still.features(each, at=())["logits"] for each in (x, xt))
    own, cooler = recipe.prepared(config, x.shape[1:], outputs, ensemble=_PLAIN)
    targets = (_SCALE * np.eye(outputs)[y] + seen).astype(x.dtype)
    nothing = (xt, np.zeros((len(xt), outputs), x.dtype))
    own.train(x, targets, config.steps, probe=nothing, record_every=config.steps, later=cooler)
    parts = []
    for inputs, start, labels in ((x, seen, y), (xt, unseen, yt)):
        found = own.features(inputs)
        logits = found.pop("logits") - start
        kappa = [_distance(*each) for each in zip(*found.values(), logits, strict=True)]
        parts.append({"kappa": kappa, "accuracy": (logits.argmax(axis=-1) == labels).mean(axis=-1)})
    dims = ("probe", "trial", "step")
    both = {name: (dims, np.array([part[name] for part in parts])[..., None]) for name in parts[0]}
    return xr.Dataset(both, {"probe": ["train", "test"], "step": [config.steps]})


def _distance(features: np.ndarray, outputs: np.ndarray) -> float:
    return float(minimum_feature_distance(features.reshape(len(features), -1), outputs))


def _fitted(data: tuple[np.ndarray, ...]) -> Callable[[Any], xr.Dataset]:
    """Of features as they are, on test samples, κ with outputs fitted by least squares, and with the targets."""
    x, y, xt, yt = data

    def look(own: Any) -> xr.Dataset:
        train, test = (next(iter(own.features(each).values())) for each in (x, xt))
        targets = np.eye(int(yt.max()) + 1)
        fitted = [
            _distance(each, least_squares(seen, targets[y], each)) for seen, each in zip(train, test, strict=True)
        ]
        exact = [_distance(each, targets[yt]) for each in test]
        return xr.Dataset({"fitted_kappa": ("trial", fitted), "target_kappa": ("trial", exact)})

    return look


def least_squares(
    features: Float[np.ndarray, "sample feature"],
    targets: Float[np.ndarray, "sample output"],
    others: Float[np.ndarray, "other feature"],
) -> Float[np.ndarray, "other output"]:
    """Outputs at other samples of the linear model with a bias that fits the targets best.

    >>> least_squares(np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]]), np.array([[2.0]])).round(9).tolist()
    [[5.0]]
    """
    seen, unseen = (np.column_stack([each, np.ones(len(each))]).astype(float) for each in (features, others))
    return np.asarray(unseen @ np.linalg.lstsq(seen, targets)[0])


def _further(record: xr.Dataset, case: str, note: str) -> Judgement:
    """κ of a case, beyond that of the network whose layers are all trained on plain targets."""
    return recipe.exceeds((final(record, "kappa", case), final(record, "kappa", FULL)), note=note)


def _furthest(record: xr.Dataset) -> Judgement:
    """As all are trained here; and linear models fitted to the end beside lazy networks that start from zero."""
    trained = final(record, "kappa", LAST), final(record, "kappa", LAZY)
    best = final(record, "fitted_kappa", LAST), final(record, "kappa", ZERO)
    reached = final(record, "accuracy", ZERO).mean()
    note = (
        "κ of the last layer alone, as trained, beside targets over 100; then fitted to the end, beside lazy networks "
        f"from zero, which are not (test accuracy {reached:.2f})"
    )
    return recipe.exceeds(trained, best, note=note)


def _within(record: xr.Dataset) -> Judgement:
    exact = final(record, "target_kappa", LAST)
    note = (
        "κ of untrained features with the targets as outputs; beside it trained linear models, then fitted to the end"
    )
    return recipe.exceeds(*((exact, final(record, name, LAST)) for name in ("kappa", "fitted_kappa")), note=note)


def _minimal(record: xr.Dataset, case: str) -> Judgement:
    return below(recipe.means(final(record, "kappa", case)), MINIMAL, note=f"κ, {case}")


def _extended(record: xr.Dataset) -> Judgement:
    return above(recipe.means(*(final(record, "kappa", case) for case in (LAZY, ZERO, LAST))), MINIMAL)


def _constant(record: xr.Dataset) -> Judgement:
    overlaps = recipe.means(*(final(record, "constant_overlap", case) for case in (FULL, LAZY, LAST)))
    return above(overlaps, 0.95, note="⟨e₁|1⟩ on test samples, 1 at most; the linear model has untrained features")


EXPERIMENT = regime(
    layerwise(figure="6.3"),
    Recipe(batch_norm=False),  # four layers, fully connected, no batch norm
    run,
    claims=(
        Claim(
            "fig-6.3-rich",
            "the rich network is nearer to minimal features than the lazy one (κ)",
            lambda record: _further(record, LAZY, "κ with small targets, beside that with plain ones"),
        ),
        Claim(
            "fig-6.3-linear",
            "the linear model has features further from minimal than the rich network (κ)",
            lambda record: _further(record, LAST, "κ of the last layer alone, beside the whole network's"),
            settles_at="laptop",  # as the next ones: three networks are too few for the linear model's spread
        ),
        Claim(
            "fig-6.3-extended",
            "the lazy network and the linear model have extended features, κ > 0.1",
            _extended,
            settles_at="laptop",
        ),
        Claim(
            "fig-6.3-minimal",
            "the rich network has minimal features, κ < 0.1",
            lambda record: _minimal(record, FULL),
            settles_at="paper",
            why=("fig-6.3-decay, with the weight decay that the source uses elsewhere it has",),
        ),
        Claim(
            "fig-6.3-decay",
            "with momentum and weight decay of section 2.4 it has",
            lambda record: _minimal(record, DECAY),
            kind="own",
            settles_at="paper",
        ),
        Claim(
            "fig-6.3-further",
            "the linear model is further from minimal features than the lazy network (κ)",
            _furthest,
            settles_at="laptop",
            why=("fig-6.3-within, outputs that lie within the features are nearer to them than the targets",),
        ),
        Claim(
            "fig-6.3-within",
            "of untrained features κ is larger for the targets, which a lazy network may reach, than for what is "
            "linear in the features",
            _within,
            kind="own",
            settles_at="laptop",
        ),
        Claim(
            "sec-2.5.1-constant",
            "the first feature is nearly constant, ⟨e₁|1⟩ > 0.95, in rich and lazy networks and the linear model",
            _constant,
            layerwise(section="2.5.1"),
            settles_at="laptop",
        ),
    ),
    smoke={"learning_rate": 0.5, "steps": 1300, "cool": 0.2},
    laptop=LAPTOP | {"learning_rate": 0.3},
    paper=PAPER | {"network": "mlp", "width": 256, "learning_rate": 0.3, "steps": 5000},
    adapted="learning rate, steps and weight decay, which the source leaves out for this figure; a lazy network whose "
    "start is not subtracted, and one whose is",
)
