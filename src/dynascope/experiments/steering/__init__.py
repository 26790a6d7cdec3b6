"""What is gained when a training turns a knob by its own load curve."""

NAMES = ("chain", "mlps", "architectures", "learning_rate", "weight_decay")
