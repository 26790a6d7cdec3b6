"""Claims and figures on the multilinear model: layerwise, chapters 4 and 5, appendices B and C."""
