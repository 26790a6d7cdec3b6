from dynascope import cli as cli
from dynascope import records as records
from dynascope import report as report
from dynascope import results as results
from dynascope.forecasting.forecasts import forecast as forecast
from dynascope.imitation import imitate as imitate
from dynascope.measure.hyperplanes import separable as separable
from dynascope.measure.separation import load_curve as load_curve
from dynascope.models.deep_linear.network import DeepLinear as DeepLinear
from dynascope.models.elastic.difference import relative_difference as relative_difference
from dynascope.models.elastic.elasticity import estimate_elasticity as estimate_elasticity
from dynascope.models.elastic.estimate import estimate_strengths as estimate_strengths
from dynascope.models.elastic.model import LocallyElastic as LocallyElastic
from dynascope.models.elastic.strengths import PowerLaw as PowerLaw
from dynascope.models.elastic.strengths import Sampled as Sampled
from dynascope.models.linear_modes import DiagonalNetwork as DiagonalNetwork
from dynascope.models.linear_modes import ScalarNetwork as ScalarNetwork
from dynascope.models.linear_modes import TwoLayerLinear as TwoLayerLinear
from dynascope.models.linear_modes import learnability as learnability
from dynascope.models.mode_equation.model import ModeEquation as ModeEquation
from dynascope.models.multilinear import Multilinear as Multilinear
from dynascope.models.multilinear import estimate_emergence as estimate_emergence
from dynascope.models.parameters import grid as grid
from dynascope.models.spring_block import SpringBlock as SpringBlock
from dynascope.models.spring_block.estimate import estimate_chain as estimate_chain
from dynascope.monitor.attach import watch as watch
from dynascope.networks.ensemble import Ensemble as Ensemble
from dynascope.records import digest as digest
from dynascope.records import load as load
from dynascope.records import save as save
from dynascope.statistics.stages import learning_stages as learning_stages
from dynascope.steering.advice import advise as advise
from dynascope.steering.attach import steer as steer

__version__: str
__all__: list[str]
