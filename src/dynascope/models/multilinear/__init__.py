"""Skills that are learned one after another: scaling laws and emergence.

`quadrature` adds millions of skills up by a few hundred, `curves` holds the strengths and losses of one set of skills,
`scaling` its power laws, `emergence` and `estimate` the extended models of networks, `extended` their gradient flow,
`descent` gradient descent on the parameters, `toy_network` a small network whose modes can be followed, `model` what
users meet.
"""

from dynascope.deprecation import renamed
from dynascope.models.multilinear.estimate import estimate_emergence
from dynascope.models.multilinear.model import CITE, Multilinear

calibrate_emergence = renamed("calibrate_emergence", estimate_emergence)

__all__ = ["CITE", "Multilinear", "estimate_emergence"]
