"""What is watched: the user's own training run, seen from outside and left as it is.

Reading a run needs no PyTorch; what does is loaded on first use.
"""

from dynascope.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
