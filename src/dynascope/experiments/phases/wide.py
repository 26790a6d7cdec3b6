"""spring-block Figure S7(a): Phase diagram of networks: batch size, width 400."""

from dynascope.experiments.phases.phase_diagrams import BATCH_SIZES, COARSER, TWO_BATCHES, Config, phase_diagram

EXPERIMENT = phase_diagram(
    Config("FIG. S7(a)", "batch_size", BATCH_SIZES[:8], learning_rate=0.0005, width=400, seeds=60, fits_less=True),
    laptop={**COARSER, "values": (240, 64, 16), "width": 128},
    smoke=TWO_BATCHES,
    adapted="no batches of 10 and 5, which alone take longer than all others; 60 runs, not 10: accuracies vary",
)
