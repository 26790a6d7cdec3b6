"""Deep linear networks under gradient descent, SGD and Langevin noise, followed mode by mode.

`exact` holds gradient, noise and mode equations of one network, `objects` the same at given weights over a parameter
grid, `equations` one step of each optimiser, `teacher` what is learned and from where, `training` runs many networks,
`network` is the model that users meet. `mode` is the equation of one mode, with its `mode_flow` without noise, its
`stationary` law and its `fokker_planck` evolution.
"""

from dynascope.models.deep_linear.mode import ModeEquation
from dynascope.models.deep_linear.network import CITE, DeepLinear

__all__ = ["CITE", "DeepLinear", "ModeEquation"]
