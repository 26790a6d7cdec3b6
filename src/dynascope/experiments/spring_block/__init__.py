"""The spring–block chain."""

NAMES = (
    "equilibrium",
    "stationary_curvature",
    "relaxation",
    "mean_path",
    "effective_friction",
    "phase_diagram",
    "trajectories",
    "left_friction",
    "inertial_phase_diagram",
    "langevin_phase_diagram",
    "langevin_summed_noise",
    "data_separation",
)
