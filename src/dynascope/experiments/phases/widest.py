"""spring-block Figure S7(b): Phase diagram of networks: batch size, width 2500."""

from dynascope.experiments.phases.phase_diagrams import COARSER, TWO_BATCHES, Config, phase_diagram

EXPERIMENT = phase_diagram(
    Config(
        "FIG. S7(b)",
        "batch_size",
        (2560, 640, 160, 40),
        learning_rate=0.0001,
        width=2500,
        slopes=(0.0, 0.4, 1.0),
        seeds=40,
        products="tf32",
        apart="best",
    ),
    laptop={**COARSER, "values": (240, 64, 16), "width": 256, "learning_rate": 0.0005},
    smoke=TWO_BATCHES,
    adapted="4 batch sizes and 3 slopes, products of tf32; 40 runs, not 10: accuracies vary between them",
)
