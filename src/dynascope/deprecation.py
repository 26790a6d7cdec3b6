"""Names of the version before this one: each still works for one version, with a DeprecationWarning."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def warn_renamed(old: str, new: str, *, level: int = 3) -> None:
    """Say that a name has changed, at the line of the caller's caller (or further out).

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_renamed("fit", "train")
    >>> str(caught[0].message)
    'fit is now called train; the old name will go in the next version'
    """
    message = f"{old} is now called {new}; the old name will go in the next version"
    warnings.warn(message, DeprecationWarning, stacklevel=level)


def renamed(old: str, new: Callable[P, R]) -> Callable[P, R]:
    """Make the old name of a function or method: it warns and calls the new one.

    >>> with warnings.catch_warnings(action="ignore"):
    ...     renamed("largest", max)(1, 2)
    2
    """

    @functools.wraps(new)
    def called_by_old_name(*args: P.args, **kwargs: P.kwargs) -> R:
        warn_renamed(old, new.__name__)
        return new(*args, **kwargs)

    called_by_old_name.__name__ = old
    return called_by_old_name


def renamed_arguments(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function, or a class, also take some keyword arguments by their old names, given as old="new".

    >>> @renamed_arguments(copies="trials")
    ... def train(trials=1):
    ...     return trials
    >>> with warnings.catch_warnings(action="ignore"):
    ...     train(copies=3)
    3
    >>> train(copies=3, trials=3)
    Traceback (most recent call last):
    TypeError: train() was given trials twice: copies is its old name
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if isinstance(function, type):
            function.__init__ = decorate(function.__init__)  # type: ignore[misc]
            return function

        @functools.wraps(function)
        def with_old_names(*args: P.args, **kwargs: P.kwargs) -> R:
            for old, new in names.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{function.__name__}() was given {new} twice: {old} is its old name")
                    warn_renamed(old, new)
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return with_old_names

    return decorate


def once_first(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a method also take the keyword argument `name`, a word, where it once stood: in front of all others.

    >>> class Model:
    ...     @once_first("method")
    ...     def simulate(self, duration=1.0, *, method="sgd"):
    ...         return method, duration
    >>> with warnings.catch_warnings(action="ignore"):
    ...     Model().simulate("gd", 2.0)
    ('gd', 2.0)
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def with_old_order(*args: Any, **kwargs: Any) -> R:
            if len(args) > 1 and isinstance(args[1], str):
                warn_renamed(f"{function.__name__}({args[1]!r}, …)", f"{function.__name__}(…, {name}={args[1]!r})")
                args, kwargs = (args[0], *args[2:]), {**kwargs, name: args[1]}
            return function(*args, **kwargs)

        return with_old_order

    return decorate
