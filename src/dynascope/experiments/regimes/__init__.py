"""What moves trained networks towards minimal features."""

NAMES = (
    "grokking",
    "modular_division",
    "data_size",
    "learning_rate",
    "architecture",
    "labels",
    "regression",
    "lazy",
    "last_layer",
    "classes",
    "collapse",
    "course",
)
