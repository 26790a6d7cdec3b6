"""Shared settings: no plotting window, and hypothesis without deadlines (compilation takes its time)."""

import os

import hypothesis
import matplotlib as mpl

mpl.use("Agg")
hypothesis.settings.register_profile("dynascope", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("dynascope")
os.environ["COLUMNS"] = "200"  # rich tables of the command line are not folded
