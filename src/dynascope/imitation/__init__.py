"""Theory meets network: estimate a model from recorded networks, simulate it again, compare, forecast.

`runs` reads class means from whatever was recorded, `procedure` fits and simulates, `judging` compares with what was
not fitted.
"""

from dynascope.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
