"""See, model and forecast how neural networks learn.

The names below are the public interface; everything else may change between versions. What needs slow libraries is
loaded on first use, so that importing the package stays quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock
from dynascope.records import digest, load, save

if TYPE_CHECKING:
    from dynascope.measure.collapse import etf_distance, simplex_etf
    from dynascope.measure.hyperplanes import separable, separating_direction
    from dynascope.models.elastic.estimate import estimate_strengths, relative_difference
    from dynascope.models.elastic.strengths import PowerLaw, Sampled
    from dynascope.monitor.attach import watch

__all__ = [
    "PowerLaw",
    "Sampled",
    "SpringBlock",
    "digest",
    "estimate_strengths",
    "etf_distance",
    "grid",
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
    "PowerLaw": "models.elastic.strengths",
    "Sampled": "models.elastic.strengths",
    "estimate_strengths": "models.elastic.estimate",
    "etf_distance": "measure.collapse",
    "relative_difference": "models.elastic.estimate",
    "separable": "measure.hyperplanes",
    "separating_direction": "measure.hyperplanes",
    "simplex_etf": "measure.collapse",
    "watch": "monitor.attach",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'dynascope' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dynascope.{_ON_FIRST_USE[name]}"), name)
