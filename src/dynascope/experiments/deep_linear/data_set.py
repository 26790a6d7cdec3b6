"""deep-linear Section J.3: Diffusion peaks on a finite data set.

The source says neither how large it is nor how it is drawn; its code has 60 samples and whitens them.
"""

from dynascope.experiments.deep_linear.mode_diffusion import Config, diffusion_experiment
from dynascope.experiments.sources import deep_linear

EXPERIMENT = diffusion_experiment(
    "j3",
    "a data set of 60 whitened samples",
    deep_linear(section="J.3"),
    Config(data_size=60, whitened=True),
    adapted="initial weights with γ = 2 for the source's 3",
    kind="derived",  # the section breaks off in its first sentence
)
