"""spring-block Figure S8(a): Which noise is the best on Fashion-MNIST.

By itself, since three noises lie close: the 60 runs of the whole diagram leave open whose curve is the straightest.
"""

from dynascope.experiments.phases.phase_diagrams import DATA_NOISES, Config, best_cell, draw_best_row
from dynascope.experiments.phases.phase_rows import phase_row

EXPERIMENT = phase_row(
    Config("FIG. S8(a)", "data_noise", DATA_NOISES[1:4], slopes=(0.4,), data="fashion", seeds=150),
    claims=best_cell("S8(a)", among="among its three best noises"),
    draw=draw_best_row,
    adapted="the slope with the best accuracy and its three best noises, the other six being less accurate and less "
    "straight by far; 150 runs, not 10: two of these are nearly as straight",
)
