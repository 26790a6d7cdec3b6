"""What a network shows: numbers from features, logits and labels.

Functions take NumPy, PyTorch and JAX arrays alike. Each is loaded on first use: some need PyTorch itself.
"""

from dynascope.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
