"""Deep linear networks under gradient descent, SGD and Langevin noise, followed mode by mode.

`exact` holds gradient, noise and mode equations of one network, `at_weights` the same at given weights over a parameter
grid, `equations` one step of each optimiser, `teacher` what is learned and from where, `descent` runs many networks,
`labels` names the axes of what they recorded, `network` is the model that users meet.
"""

from dynascope.models.deep_linear.network import CITE, DeepLinear

__all__ = ["CITE", "DeepLinear"]
