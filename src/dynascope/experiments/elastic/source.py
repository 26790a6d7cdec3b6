"""Items of the paper on the locally elastic SDE."""

from functools import partial

from dynascope.experiments.sources import Source

elastic = partial(Source, "elastic")  # elastic("5") is equation (5)
