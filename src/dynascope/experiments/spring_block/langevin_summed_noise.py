"""spring-block Figure S18: Phase diagram with noise on the velocity, as the source's code adds it.

The code multiplies the noise by a matrix of ones: every block feels the same sum of a Wiener process per block, while
(S4) has one for each block. A noise level of the code is √L times that of the model, shared by all blocks; levels here
are chosen such that one block is shaken as much as in the other diagram.
"""

from dataclasses import replace

from dynascope.experiments.spring_block.langevin_phase_diagram import CONFIG
from dynascope.experiments.spring_block.phase_diagrams import BLOCKS, phase_diagram

_CONFIG = replace(CONFIG, noise_max=CONFIG.noise_max / BLOCKS**0.5, summed_noise=True)
EXPERIMENT = phase_diagram("S18", _CONFIG, variant="-code")
