"""Theory meets network: estimate a model from recorded networks, simulate it again, compare, forecast.

`runs` reads class means from whatever was recorded, `procedure` fits and simulates, `judging` compares with what was
not fitted.
"""

from dynascope.imitation.procedure import imitate
from dynascope.imitation.runs import class_means

__all__ = ["class_means", "imitate"]
