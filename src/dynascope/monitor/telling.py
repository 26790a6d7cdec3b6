"""What a run has to say while training goes on."""

import sys
import warnings


def tell(text: str, kind: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that led here; where warnings are errors, print: training goes on.

    >>> with warnings.catch_warnings(action="ignore"):
    ...     tell("this run goes to another folder")
    """
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("dynascope."):
        frame, level = frame.f_back, level + 1
    try:
        warnings.warn(text, kind, stacklevel=level)
    except kind:
        print(text, file=sys.stderr)
