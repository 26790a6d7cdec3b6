"""Equations and figures of the locally elastic SDE."""
