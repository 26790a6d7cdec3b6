"""What the monitor says about training runs with a fault put in."""

NAMES = ("faults",)
