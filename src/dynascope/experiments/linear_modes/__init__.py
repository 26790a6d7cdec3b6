"""Claims and figures on linear models, diagonal, two-layer and scalar linear networks."""
