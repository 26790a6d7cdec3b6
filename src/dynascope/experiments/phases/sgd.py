"""spring-block Figure S8(b): Phase diagram of networks on Fashion-MNIST: noise in data and labels, SGD."""

from dynascope.experiments.phases.phase_diagrams import DATA_NOISES, PART, Config, phase_diagram

EXPERIMENT = phase_diagram(
    Config(
        "FIG. S8(b)",
        "data_noise",
        DATA_NOISES,
        seeds=60,
        data="fashion",
        optimizer="sgd",
        batch_size=64,
        epochs=1000,
        depth=5,
        linear_converges=False,
    ),
    laptop={**PART, "values": (0.0, 0.2, 0.4, 0.6), "epochs": 60, "batch_size": 16, "learning_rate": 0.01}
    | {"slopes": (0.0, 0.4, 0.8)},
    smoke={"learning_rate": 0.05, "slopes": (0.0, 0.8), "values": (0.0, 0.6), "seeds": 8},
    adapted="batches of 64, not its default of all 2560 samples, in which 1000 epochs are 1000 small steps; 60 runs, "
    "not 10: curves vary between them",
)
