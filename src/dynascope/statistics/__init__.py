"""Statistics that know no paper: means and their errors."""
