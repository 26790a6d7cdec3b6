"""deep-linear Figure 1: Diffusion peaks before a mode is learned."""

from dynascope.experiments.deep_linear.mode_diffusion import Config, diffusion_experiment
from dynascope.experiments.deep_linear.paper import figure

EXPERIMENT = diffusion_experiment("fig-1", "depth 4, width 12", figure("1"), Config())
