"""See, model and forecast how neural networks learn.

The names below are the public interface; everything else may change between versions.
"""

from dynascope.models.parameters import grid
from dynascope.models.spring_block import SpringBlock
from dynascope.records import digest, load, save

__all__ = ["SpringBlock", "digest", "grid", "load", "save"]
__version__ = "0.1.0"
