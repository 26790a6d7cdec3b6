"""The locally elastic model's equations and figures. Source: elastic."""
