"""Where the statements of this family stand, in few letters."""

from functools import partial

from dynascope.experiments.sources import Source

item = partial(Source, "deep-linear")


def equation(number: str) -> Source:
    """One or more equations.

    >>> str(equation("5"))
    'deep-linear (5)'
    """
    return item(equation=number)


def figure(number: str) -> Source:
    """One or more figures.

    >>> str(figure("7(a), 7(c)"))
    'deep-linear Figure 7(a), Figure 7(c)'
    """
    return item(figure=number)


def proposition(number: str) -> Source:
    """One proposition, or a range.

    >>> str(proposition("3.1"))
    'deep-linear Proposition 3.1'
    """
    return item(theorem=f"Proposition {number}")
