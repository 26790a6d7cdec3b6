"""spring-block Figure S18: Phase diagram of the chain with noise on the velocity."""

from dynascope.experiments.spring_block.phase_diagrams import Config, phase_diagram

CONFIG = Config(
    friction_max=0.012,
    noise_max=0.028,
    friction_left=0.016,
    stiffness=0.1,
    dynamics="langevin",
    noise_decay=0.002,
    duration=300.0,
)
EXPERIMENT = phase_diagram("S18", CONFIG)
