"""What a network shows: numbers from features, logits and labels.

Functions take NumPy, PyTorch and JAX arrays alike. What needs PyTorch itself is loaded on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynascope.measure.collapse import neural_collapse
    from dynascope.measure.elasticity import class_elasticity, gradient_gram
    from dynascope.measure.separation import data_separation, load_curve
    from dynascope.measure.spectrum import (
        cka,
        effective_dimension,
        eigenfunctions,
        feature_spectrum,
        minimum_feature_distance,
    )
    from dynascope.measure.streaming import LoadAccumulator

__all__ = [
    "LoadAccumulator",
    "cka",
    "class_elasticity",
    "data_separation",
    "effective_dimension",
    "eigenfunctions",
    "feature_spectrum",
    "gradient_gram",
    "load_curve",
    "minimum_feature_distance",
    "neural_collapse",
]
_ON_FIRST_USE = {
    "LoadAccumulator": "streaming",
    "cka": "spectrum",
    "class_elasticity": "elasticity",
    "data_separation": "separation",
    "effective_dimension": "spectrum",
    "eigenfunctions": "spectrum",
    "feature_spectrum": "spectrum",
    "gradient_gram": "elasticity",
    "load_curve": "separation",
    "minimum_feature_distance": "spectrum",
    "neural_collapse": "collapse",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'dynascope.measure' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dynascope.measure.{_ON_FIRST_USE[name]}"), name)
