"""spring-block Figure S7(b): Which batch size is the best of networks 2500 wide.

By itself, since three sizes lie close: the 40 runs of the whole diagram leave open by how much the fourth is worse.
"""

from dynascope.experiments.phases.phase_diagrams import Config, best_cell, draw_best_row
from dynascope.experiments.phases.phase_rows import phase_row

EXPERIMENT = phase_row(
    Config(
        "FIG. S7(b)",
        "batch_size",
        (2560, 640, 160, 40),
        slopes=(0.4,),
        learning_rate=0.0001,
        width=2500,
        seeds=60,
        products="tf32",
    ),
    claims=best_cell("S7(b)"),
    draw=draw_best_row,
    adapted="the slope with the best accuracy, 4 batch sizes, products of tf32; 60 runs, not 10: three of these are "
    "nearly as accurate",
)
