from dynascope.measure.collapse import etf_distance as etf_distance
from dynascope.measure.collapse import neural_collapse as neural_collapse
from dynascope.measure.collapse import simplex_etf as simplex_etf
from dynascope.measure.elasticity import class_elasticity as class_elasticity
from dynascope.measure.elasticity import gradient_gram as gradient_gram
from dynascope.measure.hyperplanes import separating_direction as separating_direction
from dynascope.measure.separation import data_separation as data_separation
from dynascope.measure.separation import load_curve as load_curve
from dynascope.measure.spectrum import cka as cka
from dynascope.measure.spectrum import effective_dimension as effective_dimension
from dynascope.measure.spectrum import eigenfunctions as eigenfunctions
from dynascope.measure.spectrum import feature_spectrum as feature_spectrum
from dynascope.measure.spectrum import minimum_feature_distance as minimum_feature_distance
from dynascope.measure.streaming import LoadAccumulator as LoadAccumulator

__all__: list[str]
