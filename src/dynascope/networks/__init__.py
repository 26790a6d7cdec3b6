"""Networks to watch, and many copies of them trained at once. Each name needs PyTorch when it is first used."""

from dynascope.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
