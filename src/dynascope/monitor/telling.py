"""What a run has to say while training goes on."""

import sys
import warnings
from collections.abc import Callable
from types import TracebackType


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


def guarded(work: Callable[[], object], what: str, told: set[object]) -> None:
    """Do something beside training, which goes on whatever happens; what fails is told, each kind once.

    told: the kinds of failure so far, by error and by the line that raised it.

    >>> with warnings.catch_warnings(action="ignore"):
    ...     guarded(lambda: 1 / 0, "could not divide", set())
    """
    try:
        work()
    except Exception as error:
        kind = (type(error), _origin(error.__traceback__))
        if kind not in told:
            told.add(kind)
            tell(f"{what}; training goes on ({type(error).__name__}: {error})", RuntimeWarning)


def _origin(trace: TracebackType | None) -> object:
    """The line that raised an error."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace and (trace.tb_frame.f_code, trace.tb_lineno)
