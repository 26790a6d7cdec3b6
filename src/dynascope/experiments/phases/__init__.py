"""Load curves of real networks over nonlinearity and noise, and the chain beside them.

`load_curves` is what all phase diagrams run, one pack of networks at a time; it can be swept over a cluster as it is.
"""
