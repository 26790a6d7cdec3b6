"""SGD on deep linear networks, and one of their modes."""

NAMES = (
    "exact_objects",
    "aligned_modes",
    "gradient_flow",
    "finite_population",
    "weight_moments",
    "label_noise",
    "diffusion_peaks",
    "saddles",
    "timescales",
    "assumptions",
    "scaling",
    "hidden_width",
    "data_set",
    "mode_coefficients",
    "mode_peak",
    "mode_density",
    "mode_stationary",
    "mode_end_of_training",
)
