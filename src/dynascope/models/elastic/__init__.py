"""Locally elastic dynamics: training on one sample moves the features of all others, most those of its class.

`strengths` are the functions of time that drive the model, `geometry` says along which directions they act.
`mean_path` follows the class means exactly, `propagation` their law, `equations` one step at a time, `softmax` before
linearisation. `simulation` samples, `separation` says when classes part, `estimate` reads the strengths off measured
class means.
"""

from dynascope.models.elastic.model import CITE, LocallyElastic

__all__ = ["CITE", "LocallyElastic"]
