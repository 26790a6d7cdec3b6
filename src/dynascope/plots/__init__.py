"""Pictures of records. Each function takes a record and axes and returns the axes.

They are loaded on first use: a file that computes may name them and matplotlib is imported only when one draws.
"""

from dynascope.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
