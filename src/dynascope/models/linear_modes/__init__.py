"""Linear models and linear networks whose learning curves are known exactly.

`linear` holds what a model without hidden layers learns and how well it generalises, `feedback` the equation by which
two layers amplify each other, `diagonal`, `two_layer` and `scalar` the networks that users meet.
"""

from dynascope.models.linear_modes.diagonal import DiagonalNetwork
from dynascope.models.linear_modes.linear import learnability, minimum_norm, mode_curves, training_path
from dynascope.models.linear_modes.scalar import ScalarNetwork
from dynascope.models.linear_modes.two_layer import TwoLayerLinear, balanced_weights

CITE = "nam2024inductive"

__all__ = [
    "CITE",
    "DiagonalNetwork",
    "ScalarNetwork",
    "TwoLayerLinear",
    "balanced_weights",
    "learnability",
    "minimum_norm",
    "mode_curves",
    "training_path",
]
