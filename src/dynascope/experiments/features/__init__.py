"""Measures of features."""

NAMES = (
    "heaviside",
    "definitions",
)
