"""Load curves of real networks over nonlinearity and noise, and the chain beside them.

`training` is what all phase diagrams run, one pack of networks at a time; it can be swept over a cluster as it is.
"""
