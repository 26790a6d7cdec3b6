"""Every figure and equation of the papers as an experiment with claims and verdicts."""
