"""What is turned while a network trains: knobs, the law by which they are turned, and advice about a run."""

from dynascope.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
