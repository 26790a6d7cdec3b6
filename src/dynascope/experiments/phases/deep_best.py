"""spring-block Figure S6(b): Which learning rate is the best of networks with 12 layers.

By itself, since three rates lie close: the 20 runs of the whole diagram leave open which is the best.
"""

from dynascope.experiments.phases.phase_diagrams import RATES, Config, best_cell, draw_best_row
from dynascope.experiments.phases.phase_rows import phase_row

EXPERIMENT = phase_row(
    Config("FIG. S6(b)", "learning_rate", RATES[3:6], slopes=(0.4,), epochs=200, depth=11, seeds=40),
    claims=best_cell("S6(b)", among="among its three best noises"),
    draw=draw_best_row,
    adapted="the slope with the best accuracy and its three best rates, the other nine being less accurate by 0.006 or "
    "more and less straight; 40 runs, not 10: these three are nearly as accurate",
)
