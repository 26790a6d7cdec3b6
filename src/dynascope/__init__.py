"""See, model and forecast how neural networks learn.

The names below are the public interface; everything else may change between versions. What needs slow libraries is
loaded on first use, so that importing the package stays quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

from dynascope.deprecation import new_name
from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock
from dynascope.records import digest, load, save

if TYPE_CHECKING:
    from dynascope.imitation import imitate
    from dynascope.measure.collapse import etf_distance, simplex_etf
    from dynascope.measure.hyperplanes import separable, separating_direction
    from dynascope.models.deep_linear.network import DeepLinear
    from dynascope.models.elastic.difference import relative_difference
    from dynascope.models.elastic.elasticity import estimate_elasticity
    from dynascope.models.elastic.estimate import estimate_strengths
    from dynascope.models.elastic.model import LocallyElastic
    from dynascope.models.elastic.strengths import PowerLaw, Sampled
    from dynascope.models.linear_modes import DiagonalNetwork, ScalarNetwork, TwoLayerLinear, learnability
    from dynascope.models.mode_equation.model import ModeEquation
    from dynascope.models.multilinear import Multilinear, estimate_emergence
    from dynascope.models.spring_block.estimate import estimate_chain
    from dynascope.monitor.attach import watch
    from dynascope.statistics.stages import learning_stages

__all__ = [
    "DeepLinear",
    "DiagonalNetwork",
    "LocallyElastic",
    "ModeEquation",
    "Multilinear",
    "PowerLaw",
    "Sampled",
    "ScalarNetwork",
    "SpringBlock",
    "TwoLayerLinear",
    "digest",
    "estimate_chain",
    "estimate_elasticity",
    "estimate_emergence",
    "estimate_strengths",
    "etf_distance",
    "grid",
    "imitate",
    "learnability",
    "learning_stages",
    "load",
    "relative_difference",
    "save",
    "separable",
    "separating_direction",
    "simplex_etf",
    "watch",
]
__version__ = "0.1.0"

_ON_FIRST_USE = {
    "DeepLinear": "models.deep_linear.network",
    "DiagonalNetwork": "models.linear_modes",
    "LocallyElastic": "models.elastic.model",
    "ModeEquation": "models.mode_equation.model",
    "Multilinear": "models.multilinear",
    "PowerLaw": "models.elastic.strengths",
    "Sampled": "models.elastic.strengths",
    "ScalarNetwork": "models.linear_modes",
    "TwoLayerLinear": "models.linear_modes",
    "estimate_emergence": "models.multilinear",
    "estimate_elasticity": "models.elastic.elasticity",
    "estimate_strengths": "models.elastic.estimate",
    "etf_distance": "measure.collapse",
    "imitate": "imitation",
    "estimate_chain": "models.spring_block.estimate",
    "learnability": "models.linear_modes",
    "learning_stages": "statistics.stages",
    "relative_difference": "models.elastic.difference",
    "separable": "measure.hyperplanes",
    "separating_direction": "measure.hyperplanes",
    "simplex_etf": "measure.collapse",
    "watch": "monitor.attach",
}

_RENAMED = {"calibrate_emergence": "estimate_emergence", "fit_chain": "estimate_chain"}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        name = new_name("dynascope", name, _RENAMED)
    return getattr(importlib.import_module(f"dynascope.{_ON_FIRST_USE[name]}"), name)
