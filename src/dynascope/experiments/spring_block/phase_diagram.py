"""spring-block Figure 3: Phase diagram of the chain."""

from dynascope.experiments.spring_block.phase_diagrams import Config, phase_diagram

EXPERIMENT = phase_diagram("3", Config(friction_max=0.15, noise_max=0.014, friction_left=0.2))
