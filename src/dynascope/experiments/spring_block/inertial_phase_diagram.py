"""spring-block Figure S17: Phase diagram of the chain with inertia."""

from dynascope.experiments.spring_block.phase_diagrams import Config, phase_diagram

EXPERIMENT = phase_diagram("S17", Config(friction_max=0.1, noise_max=0.07, friction_left=0.12, dynamics="inertial"))
