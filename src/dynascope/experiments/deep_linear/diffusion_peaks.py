"""deep-linear Figure 1: Diffusion peaks before a mode is learned."""

from dynascope.experiments.deep_linear.mode_diffusion import Config, diffusion_experiment
from dynascope.experiments.sources import deep_linear

EXPERIMENT = diffusion_experiment("fig-1", "depth 4, width 12", deep_linear(figure="1"), Config())
