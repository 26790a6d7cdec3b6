"""A claim: what a paper states and how a record judges it; a finding: what came out.

A judge is a function of a record that returns a `Judgement`, made by one of the comparisons `equal`, `above`, `below`,
`corrected` or by `not_run`. A comparison takes an `Estimate` (mean and standard error over trials) and adds three
standard errors to the stated bound, or plain numbers with a tolerance of their own.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from dynascope.checks import ArrayLike
from dynascope.experiments.sources import Source
from dynascope.statistics.errors import Estimate

Verdict = Literal["reproduced", "erratum", "not reproduced", "not determined", "not run"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "erratum", "not reproduced", "not determined", "not run")
Kind = Literal["printed", "derived", "own"]
KINDS: tuple[Kind, ...] = ("printed", "derived", "own")
Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")
FEWEST = 3  # runs whose spread says anything about their mean


@dataclass(frozen=True)
class Judgement:
    """What a judge found: how `measured` stands to `expected`, one entry per case, and the verdict.

    A tolerance is three standard errors plus a stated discretisation bound. `published` is the printed value where it
    differs.
    """

    verdict: Verdict
    note: str = ""
    relation: Literal["=", ">", "<"] = "="
    expected: tuple[float, ...] = ()
    measured: tuple[float, ...] = ()
    tolerance: tuple[float, ...] = ()
    published: tuple[float, ...] = ()


@dataclass(frozen=True)
class Claim:
    """One checkable statement.

    judge: takes the record, or what the experiment's `read` makes of it
    source: where it stands, if not where its experiment does
    kind: printed, as the paper states it; derived, as follows from what it states; own, ours beside it
    settles_at: the smallest scale whose runs can settle it; at smaller ones it may fail by chance
    why: if it fails, the claims that show why, each as "id, in a few words"

    >>> claim = Claim("a", "x is 1", lambda record: equal(record, 1.0, 0.02), Source("elastic", equation="1"))
    >>> claim.judge(1.01).verdict
    'reproduced'
    """

    id: str
    statement: str
    judge: Callable[[Any], Judgement]
    source: Source | None = None
    kind: Kind = "printed"
    settles_at: Scale = "smoke"
    why: tuple[str, ...] = ()

    @property
    def causes(self) -> dict[str, str]:
        """What `why` says: ids of claims, and the words for each.

        >>> Claim("a", "x is 1", bool, why=("b, y is 0", "c, z is 0")).causes
        {'b': 'y is 0', 'c': 'z is 0'}
        """
        return {name: words for name, _, words in (each.partition(", ") for each in self.why)}


@dataclass(frozen=True)
class Finding:
    """A claim that was judged, in plain values that can be stored: numbers and verdict as in `Judgement`."""

    id: str
    source: str
    statement: str
    relation: Literal["=", ">", "<"] = "="
    expected: tuple[float, ...] = ()
    measured: tuple[float, ...] = ()
    tolerance: tuple[float, ...] = ()
    published: tuple[float, ...] = ()
    verdict: Verdict = "not run"
    note: str = ""
    kind: Kind = "printed"
    settles_at: Scale = "smoke"

    def __post_init__(self) -> None:
        if not len(self.measured) == len(self.expected) == len(self.tolerance):
            raise ValueError("measured, expected and tolerance must be as many numbers")
        if len(self.published) not in (0, len(self.measured)):
            raise ValueError("published must be as many numbers as measured, or none")

    def fails(self, scale: str) -> bool:
        """Whether a run at this scale, which must be one that settles the claim, does not bear it out.

        >>> Finding("a", "elastic (1)", "x is 1", verdict="not reproduced", settles_at="paper").fails("smoke")
        False
        """
        return self.settled_at(scale) and self.verdict in ("not reproduced", "not determined")

    def settled_at(self, scale: str) -> bool:
        """Whether a run at this scale can settle the claim.

        >>> Finding("a", "elastic (1)", "x is 1", settles_at="laptop").settled_at("smoke")
        False
        """
        return scale not in SCALES or SCALES.index(scale) >= SCALES.index(self.settles_at)

    def contradicted(self) -> bool:
        """Whether a claim that is not reproduced misses its bound by more than its tolerance, in some case.

        Else it is within its tolerance: the runs neither bear it out nor speak against it.

        >>> Finding("a", "elastic (1)", "x > 0", ">", (0.0,), (0.1,), (0.2,), verdict="not reproduced").contradicted()
        False
        """
        measured, expected, tolerance = map(np.asarray, (self.measured, self.expected, self.tolerance))
        beyond = {"=": np.abs(measured - expected), ">": expected - measured, "<": measured - expected}[self.relation]
        return self.verdict == "not reproduced" and bool(np.any(beyond > np.abs(tolerance)))

    def to_json(self) -> dict[str, Any]:
        """Return plain types for machines.

        >>> Finding("a", "elastic (1)", "x is 1").to_json()["verdict"]
        'not run'
        """
        return asdict(self)


Measured = Estimate | ArrayLike


def equal(
    measured: Measured,
    expected: ArrayLike,
    tolerance: ArrayLike = 0.0,
    *,
    rival: ArrayLike | None = None,
    error: ArrayLike | None = None,
    note: str = "",
) -> Judgement:
    """Judge `measured = expected` within the tolerance, to which an estimate adds three of its standard errors.

    With a `rival` statement, three errors (of the estimate, or of `error`) must be at most three fifths of the gap
    between the two, or the claim counts as not reproduced: the measurement could not tell them apart.

    >>> equal(1.01, 1.0, 0.02).verdict, equal(Estimate(1.3, 0.1), 1.0, rival=2.0).verdict
    ('reproduced', 'reproduced')
    """
    values, cases, slack = _cases(measured, expected, tolerance)
    verdict = _verdict(np.abs(values - cases) <= slack, values, cases, slack)
    if rival is not None and not _resolves(cases, rival, measured if isinstance(measured, Estimate) else error):
        vague = "The standard error is too large to tell the statements apart."
        verdict, note = "not reproduced", f"{note} {vague}".strip()
    return _judgement(verdict, "=", values, cases, slack, note)


def above(measured: Measured, bound: ArrayLike, tolerance: ArrayLike = 0.0, *, note: str = "") -> Judgement:
    """Judge `measured > bound` by more than the tolerance, to which an estimate adds three of its standard errors.

    >>> above(0.1, 0.0, 0.2).verdict, above(Estimate(0.1, 0.01), 0.0).verdict
    ('not reproduced', 'reproduced')
    """
    values, cases, slack = _cases(measured, bound, tolerance)
    return _judgement(_verdict(values > cases + slack, values, cases, slack), ">", values, cases, slack, note)


def below(measured: Measured, bound: ArrayLike, tolerance: ArrayLike = 0.0, *, note: str = "") -> Judgement:
    """Judge `measured < bound` by more than the tolerance (a negative one allows an excess); as `above`.

    >>> below(-0.1, 0.0, 0.05).verdict
    'reproduced'
    """
    values, cases, slack = _cases(measured, bound, tolerance)
    return _judgement(_verdict(values < cases - slack, values, cases, slack), "<", values, cases, slack, note)


def corrected(
    measured: Measured,
    expected: ArrayLike,
    tolerance: ArrayLike = 0.0,
    *,
    published: ArrayLike,
    error: ArrayLike = 0.0,
    note: str,
) -> Judgement:
    """Judge a correction: an erratum if the corrected value agrees and the published one does not.

    >>> corrected(1.0, 1.0, 0.01, published=2.0, error=0.003, note="x is 1").verdict
    'erratum'
    """
    judged = equal(measured, expected, tolerance, rival=published, error=error, note=note)
    printed = np.broadcast_to(np.asarray(published, float), np.shape(judged.measured))
    differs = np.all(np.abs(np.asarray(judged.measured) - printed) > np.asarray(judged.tolerance))
    verdict = judged.verdict
    if verdict == "reproduced":
        verdict = "erratum" if differs else "not reproduced"
    return replace(judged, published=tuple(printed.tolist()), verdict=verdict)


def not_run(reason: str) -> Judgement:
    """Leave a claim unjudged, and say what it would need.

    >>> not_run("needs MNIST").verdict
    'not run'
    """
    return Judgement("not run", reason)


def three_errors(standard_error: ArrayLike, runs: float = math.inf) -> np.ndarray:
    """Three standard errors, or what gives few runs, and several cases together, the same chance of a false alarm.

    For n cases this is the quantile at 1/n of that chance (3.8 for 20), for every one of them. An error that comes from
    the spread of few runs has Student's quantile (4.1 for 10, 9.2 for 4); with fewer than `FEWEST` it is NaN.

    >>> float(three_errors(1.0)), float(three_errors(np.ones(20))[0].round(2)), float(three_errors(1.0, 10).round(2))
    (3.0, 3.82, 4.09)
    """
    error = np.asarray(standard_error, float)
    chance = ndtr(-3.0) / max(error.size, 1)
    if runs < FEWEST:
        return np.full_like(error, np.nan)
    normal = 3.0 if error.size <= 1 else -ndtri(chance)
    quantile = normal if math.isinf(runs) else -stdtrit(runs - 1, chance)
    return np.asarray(quantile * error)


def summary(finding: Finding | Judgement) -> str:
    """One line of numbers: the case that comes closest to failing.

    >>> summary(equal([1.0, 1.1], 1.0, 0.2))
    '1.1 = 1 ± 0.2 (worst of 2)'
    """
    if not finding.measured:
        return "—"
    measured, expected, tolerance = map(np.asarray, (finding.measured, finding.expected, finding.tolerance))
    margin = {
        "=": tolerance - np.abs(measured - expected),
        ">": measured - expected - tolerance,
        "<": expected - tolerance - measured,
    }[finding.relation]
    scale = np.abs(tolerance) if np.all(tolerance) else 1.0
    worst = int(np.argmin(np.nan_to_num(margin / scale, nan=-np.inf)))
    text = f"{measured[worst]:.4g} {finding.relation} {expected[worst]:.4g}"
    slack = tolerance[worst] * {"=": 1, ">": 1, "<": -1}[finding.relation]
    if slack:
        text += f" {'±' if finding.relation == '=' else '+' if slack > 0 else '−'} {abs(slack):.2g}"
    if finding.published:
        text += f", printed {finding.published[worst]:.4g}"
    return text + (f" (worst of {len(measured)})" if len(measured) > 1 else "")


def _cases(measured: Measured, expected: ArrayLike, tolerance: ArrayLike) -> tuple[np.ndarray, ...]:
    """Flatten to equally long lists: measured, expected, tolerance."""
    if isinstance(measured, Estimate):
        values: ArrayLike = measured.mean
        tolerance = three_errors(measured.error, measured.runs) + np.asarray(tolerance, float)
    else:
        values = measured
    arrays = np.broadcast_arrays(*(np.asarray(each, float) for each in (values, expected, tolerance)))
    if arrays[0].size == 0:
        raise ValueError("a claim needs at least one case to be judged")
    return tuple(np.atleast_1d(array).ravel() for array in arrays)


def _verdict(agrees: np.ndarray, *numbers: np.ndarray) -> Verdict:
    """A case that was measured and fails decides; else one without a number, or an error, leaves it undetermined."""
    known = ~np.isnan(numbers).any(axis=0) & ~np.isinf(numbers[-1])
    if not np.all(agrees[known]):
        return "not reproduced"
    return "reproduced" if np.all(known) else "not determined"


def _judgement(
    verdict: Verdict,
    relation: Literal["=", ">", "<"],
    measured: np.ndarray,
    expected: np.ndarray,
    tolerance: np.ndarray,
    note: str,
) -> Judgement:
    numbers = (tuple(each.tolist()) for each in (expected, measured, tolerance))
    return Judgement(verdict, note, relation, *numbers)


def _resolves(expected: np.ndarray, rival: ArrayLike, error: Estimate | ArrayLike | None) -> bool:
    """Whether three errors are at most three fifths of the gap; what is not known resolves whatever is judged."""
    if error is None:
        raise ValueError("error must be given where a rival statement is named")
    gap = np.abs(expected - np.asarray(rival, float).ravel())
    if isinstance(error, Estimate):
        return not np.any(three_errors(error.error, error.runs).ravel() > 3 / 5 * gap)
    return not np.any(np.asarray(error, float).ravel() > gap / 5)
