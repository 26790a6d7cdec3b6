"""The command `dynascope`. Every command only calls public functions and prints what they return.

Each command is a file with its name, imported when the command is called.
"""

from dynascope.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
