"""Claims on what features show: layerwise chapters 1 and 2, appendix D."""
