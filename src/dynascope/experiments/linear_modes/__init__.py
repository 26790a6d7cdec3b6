"""Linear models and layerwise linear networks."""

NAMES = (
    "eigenmodes",
    "learnability",
    "diagonal",
    "two_layer",
    "theorem_1",
    "inductive_bias",
    "overfitting",
    "noise_fitting",
    "modes",
    "stages",
    "neural_collapse",
    "lazy_rich",
    "levers",
)
