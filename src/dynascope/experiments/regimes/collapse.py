"""layerwise (D.1)–(D.9): Neural collapse of trained networks.

Spread, angles, weights and decisions of the last layer, before and after training, on training images.
"""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from dynascope.experiments.claims import Claim, Judgement, equal
from dynascope.experiments.regimes import recipe
from dynascope.experiments.regimes.recipe import Recipe, regime
from dynascope.experiments.sources import layerwise
from dynascope.measure import neural_collapse

START, END = "before training", "after training"
_SIGNS = ("nc1", "nc2_thesis", "nc3_thesis", "nc4")


def run(config: Recipe) -> xr.Dataset:
    """The same networks after one step and after all."""
    data = recipe.load(config)
    look = partial(_look, data=data)
    first = recipe.train(recipe.shortened(config, 1), data, look=look)
    return recipe.gather({START: first, END: recipe.train(config, data, look=look)})


def _look(ensemble: Any, data: tuple[np.ndarray, ...]) -> xr.Dataset:
    """Signs of collapse over trial; and how far outputs are from (D.1), and covariances (D.4), (D.5) from adding up."""
    images, labels = data[0], data[1]
    seen = ensemble.features(images)
    last = next(name for name in seen if name != "logits")
    found = []
    for trial, (values, logits) in enumerate(zip(seen[last], seen["logits"], strict=True)):
        layer = ensemble.trained(trial).stages.get_submodule(ensemble.network.readout)
        weight, bias = (each.detach().cpu().numpy() for each in (layer.weight, layer.bias))
        features = values.reshape(len(values), -1).astype(float)
        signs = neural_collapse(features, labels, weight, bias)[list(_SIGNS)]
        off = np.abs(features @ weight.T + bias - logits).max() / np.abs(logits).max()
        found.append(signs.assign(output_error=off, covariance_error=_left_over(features, labels)))
    return xr.concat(found, "trial")


def _left_over(features: np.ndarray, labels: np.ndarray) -> float:
    """|Σ_W + Σ_b − Σ|/|Σ| by loops over classes, Σ the covariance of all features; 0 for balanced classes."""
    classes = np.unique(labels)
    means = np.stack([features[labels == each].mean(axis=0) for each in classes])
    spread = [features[labels == each] - mean for each, mean in zip(classes, means, strict=True)]
    within = sum(each.T @ each for each in spread)
    apart = means - means.mean(axis=0)
    whole = np.cov(features.T, bias=True)
    parts = within / len(features) + apart.T @ apart / len(classes)
    return float(np.linalg.norm(parts - whole) / np.linalg.norm(whole))


def _falls(record: xr.Dataset, name: str) -> Judgement:
    before, after = (record[name].sel(case=case).values for case in (START, END))
    return recipe.exceeds((before, after), note=f"{name} before training, beside that after; training images")


def _exact(record: xr.Dataset, name: str, note: str) -> Judgement:
    return equal(float(record[name].max()), 0.0, 1e-4, note=f"{note}, largest of all networks; float32")


EXPERIMENT = regime(
    layerwise(equation="D.1–D.9"),
    Recipe(),
    run,
    claims=(
        Claim(
            "eqD.1-outputs",
            "outputs are w·Φ + b of the last features",
            partial(_exact, name="output_error", note="distance beside the largest output"),
            layerwise(equation="D.1"),
            kind="derived",  # a linear last layer, by definition
        ),
        Claim(
            "eqD.5-covariances",
            "within-class and between-class covariance add up to that of all features",
            partial(_exact, name="covariance_error", note="distance beside the whole"),
            layerwise(equation="D.2–D.5"),
            kind="derived",
        ),
        *(
            Claim(
                f"eq{equation}-{short}",
                f"training brings networks towards {statement}",
                partial(_falls, name=name),
                layerwise(equation=equation),
            )
            for name, equation, short, statement in (
                ("nc1", "D.6", "spread", "NC1: less spread within classes"),
                ("nc2_thesis", "D.7", "frame", "NC2: class means at equal angles"),
                ("nc3_thesis", "D.8", "duality", "NC3: weights along centred class means"),
                ("nc4", "D.9", "nearest", "NC4: decisions by the nearest class mean"),
            )
        ),
    ),
    smoke={"seeds": 4, "steps": 300},
    adapted="10,000 images of MNIST; ResNet18 of width 8; fewer steps, more weight decay",
)
