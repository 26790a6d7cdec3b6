"""Skills, scaling laws and emergence."""

NAMES = (
    "strengths",
    "scaling_laws",
    "stage_law",
    "finite_size",
    "optimal_compute",
    "emergence",
    "data_emergence",
    "toy_network",
    "networks",
)
