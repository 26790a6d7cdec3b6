"""The equation of one mode of a deep linear network under the noise of SGD.

`equations` holds its coefficients and steps, `flow` what it does without noise, `simulation` steps many modes,
`stationary` is the law that they settle to, `fokker_planck` the evolution of their density, `model` what users meet.
"""

from dynascope.models.mode_equation.model import ModeEquation

CITE = "corlouer2026stochastic"

__all__ = ["CITE", "ModeEquation"]
