"""Locally elastic models, and networks beside them."""

NAMES = (
    "binary_separation",
    "tail_index",
    "general_geometry",
    "separability",
    "discrete_limit",
    "linearisation",
    "first_order",
    "estimators",
    "mean_path",
    "drift",
    "collapse",
    "direction",
    "network_projection",
    "network_course",
    "network_course_cifar",
    "network_early",
    "network_early_cifar",
    "network_corruption",
    "network_samples",
    "network_classes",
)
