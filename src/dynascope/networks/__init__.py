"""Networks to watch, each trained many times at once. Their names need PyTorch when they are first used."""

from dynascope.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
