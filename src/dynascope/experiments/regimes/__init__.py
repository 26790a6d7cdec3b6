"""Lazy or rich, extended or minimal features, in networks that are really trained: layerwise chapters 2, 3, 6 and 7."""
