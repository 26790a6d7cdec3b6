"""Statistics that know no model: means and errors, resampled trials, smoothed derivatives, tails."""
