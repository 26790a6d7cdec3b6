"""Forecasts of runs that were known to their end: published curves, and a set of our own."""

NAMES = ("language", "taskset", "networks")
