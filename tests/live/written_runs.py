"""Runs that are written by hand; as a program, one that goes on until it is killed."""

import sys
import time

import numpy as np

from dynascope.monitor.journal import Journal

EVIL = "<script>alert(1)</script>"
LAYERS = ["input", "conv1", "conv2", "fc"]


def start(layers=LAYERS):
    settings = {"model": "Net", "task": "classification", "answers": 3, "samples": 150, "slow": 10}
    return {"kind": "start", "layers": layers, "classes": [0, 1, 2], "settings": settings, "device": "cpu"}


def measure(step, layers=4):
    """A measurement as a run writes it, whose loss and loads fall."""
    loss = 0.2 + 1.0 / np.sqrt(1 + step / 20)
    loads = np.linspace(1.5, 1.5 - 3 * (1.2 - loss), layers) + 0.1 * np.sin(np.arange(layers))
    numbers = {"load": loads.tolist(), "train_loss": loss, "probe_loss": 1.1 * loss, "probe_accuracy": 1 - loss / 2}
    numbers |= {"nc1": loss, "nc2_angle": loss / 3, "nc3": loss / 2, "nc4": loss / 9}
    if step % 100 == 0:
        numbers |= {"minimum_feature_distance": 0.5 * loss, "intra": 1.0, "inter": 0.3 + loss / 5}
        numbers |= {"elasticity": (np.eye(3) + loss * 0.3).tolist()}
    return {"kind": "measure", "step": step, "time": step * 0.01, "numbers": numbers}


def turn(step, value):
    return {"kind": "turn", "step": step, "knob": "learning_rate", "value": value, "state": {}, "bend": 0.1}


if __name__ == "__main__":
    with Journal(sys.argv[1]) as journal:
        journal.append(start())
        for step in range(0, 100_000, 10):
            journal.append(measure(step))
            time.sleep(0.2)
