"""See, model and forecast how neural networks learn.

The names in `__all__`, typed in `__init__.pyi`, are the public interface; everything else may change between versions.
All of them are loaded on first use, so that importing the package stays quick.
"""

from dynascope.lazy import attach

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = attach(
    __name__,
    __file__,
    former={
        "calibrate_emergence": "dynascope.estimate_emergence",
        "etf_distance": "dynascope.measure.etf_distance",
        "fit_chain": "dynascope.estimate_chain",
        "separating_direction": "dynascope.measure.separating_direction",
        "simplex_etf": "dynascope.measure.simplex_etf",
    },
)
