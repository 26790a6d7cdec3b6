"""The rest of a run, from what was seen of it: curves, candidates that continue them, and how they are combined.

`curves` and `schedules` read what is given, `seen` lays curves of the same steps side by side, `candidates` continue
them, `backtests` lets candidates forecast what was seen already, `evidence` weighs them by that and by what other runs
taught, `refusals` says where nothing can be known, `forecasts` is what users meet, `whatif` compares schedules.
"""

from dynascope.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
