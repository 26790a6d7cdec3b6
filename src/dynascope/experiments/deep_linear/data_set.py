"""deep-linear Section J.3: Diffusion peaks on a finite data set."""

from dynascope.experiments.deep_linear.mode_diffusion import Config, diffusion_experiment
from dynascope.experiments.sources import deep_linear

EXPERIMENT = diffusion_experiment(
    "j3",
    "a data set of 1000 samples",
    deep_linear(section="J.3"),
    Config(data_size=1000),
    adapted="size of the data set, which the source leaves out, and initial weights with γ = 2 for its 3",
)
