"""Figures and equations of the paper on deep linear networks."""
