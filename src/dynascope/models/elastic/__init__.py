"""Locally elastic dynamics: training on one sample moves the features of all others, most those of its class.

`strengths` are the two functions of time that drive the model, `geometry` says along which directions they act,
`mean_path` follows the class means exactly, `estimate` reads the strengths off measured class means.
"""
