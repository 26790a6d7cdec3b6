"""deep-linear Figure 11: Diffusion with hidden layers of width 24."""

from dynascope.experiments.deep_linear.mode_diffusion import Config, diffusion_experiment
from dynascope.experiments.sources import deep_linear

EXPERIMENT = diffusion_experiment(
    "fig-11",
    "hidden width 24",
    deep_linear(figure="11"),
    Config(width=(12, 24, 24, 24, 12)),
    adapted="initial weights with γ = 2 for the source's 3",
)
