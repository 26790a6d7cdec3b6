"""Skills that are learned one after another: scaling laws and emergence.

`quadrature` adds millions of skills up by a few hundred, `curves` holds the strengths and losses of one set of skills,
`scaling` its power laws, `emergence` and `calibrate` the extended models of networks, `extended` their gradient flow,
`descent` gradient descent on the parameters, `toy_network` a small network whose modes can be followed, `model` what
users meet.
"""

from dynascope.models.multilinear.calibrate import calibrate_emergence
from dynascope.models.multilinear.model import CITE, Multilinear

__all__ = ["CITE", "Multilinear", "calibrate_emergence"]
