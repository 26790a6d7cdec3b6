"""Statistics that know no model: means and errors, resampled trials, local derivatives, stages of learning."""
