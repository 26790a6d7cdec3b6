"""A page to look at while networks train: Bokeh's server on this machine, behind a token."""

from dynascope.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
