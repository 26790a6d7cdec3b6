"""The locally elastic model's theorems, equations and figures. Source: elastic."""
