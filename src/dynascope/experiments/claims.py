"""A claim: what a paper states, what was measured, and whether the two agree."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri

Verdict = Literal["reproduced", "erratum", "not reproduced", "not run"]


@dataclass(frozen=True)
class Claim:
    """One checkable statement of a paper.

    `relation` says how `measured` must stand to `expected`; each is a list, one entry per case. A tolerance is
    three standard errors plus a stated discretisation bound. `published` is the printed value where it differs.
    """

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

    def equals(
        self,
        measured: Any,
        expected: Any,
        tolerance: Any,
        *,
        rival: Any = None,
        standard_error: Any = None,
        note: str = "",
    ) -> "Claim":
        """Judge `measured = expected` within the tolerance.

        With a `rival` statement, the standard error must be at most a fifth of the gap between the two, or the
        claim counts as not reproduced: the measurement could not tell them apart.

        >>> Claim("a", "paper (1)", "x is 1").equals(1.01, 1.0, 0.02).verdict
        'reproduced'
        """
        measured, expected, tolerance = _same_length(measured, expected, tolerance)
        agrees = bool(np.all(np.abs(measured - expected) <= tolerance))
        if rival is not None and not _resolves(expected, rival, standard_error):
            agrees, note = (
                False,
                f"{note} The standard error is too large to tell the statements apart.".strip(),
            )
        return self._judged("=", measured, expected, tolerance, "reproduced" if agrees else "not reproduced", note)

    def exceeds(self, measured: Any, bound: Any, tolerance: Any, *, note: str = "") -> "Claim":
        """Judge `measured > bound` by more than the tolerance.

        >>> Claim("a", "paper (1)", "x is positive").exceeds(0.1, 0.0, 0.2).verdict
        'not reproduced'
        """
        measured, bound, tolerance = _same_length(measured, bound, tolerance)
        agrees = np.all(measured > bound + tolerance)
        return self._judged(">", measured, bound, tolerance, "reproduced" if agrees else "not reproduced", note)

    def falls_below(self, measured: Any, bound: Any, tolerance: Any, *, note: str = "") -> "Claim":
        """Judge `measured < bound` by more than the tolerance (a negative one allows an excess).

        >>> Claim("a", "paper (1)", "x is negative").falls_below(-0.1, 0.0, 0.05).verdict
        'reproduced'
        """
        measured, bound, tolerance = _same_length(measured, bound, tolerance)
        agrees = np.all(measured < bound - tolerance)
        return self._judged("<", measured, bound, tolerance, "reproduced" if agrees else "not reproduced", note)

    def corrects(
        self,
        measured: Any,
        expected: Any,
        tolerance: Any,
        *,
        published: Any,
        standard_error: Any = 0.0,
        note: str,
    ) -> "Claim":
        """Judge a correction: an erratum if the corrected value agrees and the published one does not.

        >>> Claim("a", "paper (1)", "x is 2").corrects(
        ...     1.0, 1.0, 0.01, published=2.0, standard_error=0.003, note="x is 1"
        ... ).verdict
        'erratum'
        """
        judged = self.equals(measured, expected, tolerance, rival=published, standard_error=standard_error, note=note)
        printed = np.broadcast_to(np.asarray(published, float), np.shape(judged.measured))
        differs = np.all(np.abs(np.asarray(judged.measured) - printed) > np.asarray(judged.tolerance))
        verdict: Verdict = "erratum" if judged.verdict == "reproduced" and differs else "not reproduced"
        return replace(judged, published=tuple(printed.tolist()), verdict=verdict)

    def _judged(
        self,
        relation: Any,
        measured: np.ndarray,
        expected: np.ndarray,
        tolerance: np.ndarray,
        verdict: Verdict,
        note: str,
    ) -> "Claim":
        return replace(
            self,
            relation=relation,
            measured=tuple(measured.tolist()),
            expected=tuple(expected.tolist()),
            tolerance=tuple(tolerance.tolist()),
            verdict=verdict,
            note=note or self.note,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain types for machines.

        >>> Claim("a", "paper (1)", "x is 1").to_json()["verdict"]
        'not run'
        """
        return asdict(self)


def three_errors(standard_error: Any) -> np.ndarray:
    """Three standard errors, or what gives several cases together the same chance of a false alarm.

    For one case this is 3; for n cases the quantile at 1/n of that chance (3.8 for 20), for every one of them.

    >>> float(three_errors(1.0)), float(three_errors(np.ones(20))[0].round(2))
    (3.0, 3.82)
    """
    error = np.asarray(standard_error, float)
    quantile = 3.0 if error.size <= 1 else -ndtri(ndtr(-3.0) / error.size)
    return np.asarray(quantile * error)


def summary(claim: Claim) -> str:
    """One line of numbers: the case that comes closest to failing.

    >>> summary(Claim("a", "paper (1)", "x is 1").equals([1.0, 1.1], 1.0, 0.2))
    '1.1 = 1 ± 0.2 (worst of 2)'
    """
    if not claim.measured:
        return "—"
    measured, expected, tolerance = map(np.asarray, (claim.measured, claim.expected, claim.tolerance))
    margin = {
        "=": tolerance - np.abs(measured - expected),
        ">": measured - expected - tolerance,
        "<": expected - tolerance - measured,
    }[claim.relation]
    scale = np.abs(tolerance) if np.all(tolerance) else 1.0
    worst = int(np.argmin(np.nan_to_num(margin / scale, nan=-np.inf)))
    text = f"{measured[worst]:.4g} {claim.relation} {expected[worst]:.4g}"
    slack = tolerance[worst] * {"=": 1, ">": 1, "<": -1}[claim.relation]
    if slack:
        text += f" {'±' if claim.relation == '=' else '+' if slack > 0 else '−'} {abs(slack):.2g}"
    if claim.published:
        text += f", printed {claim.published[worst]:.4g}"
    return text + (f" (worst of {len(measured)})" if len(measured) > 1 else "")


def _same_length(*values: Any) -> tuple[np.ndarray, ...]:
    """Flatten to equally long lists; NaN never passes as agreement because comparisons with it are false."""
    arrays = np.broadcast_arrays(*(np.asarray(value, float) for value in values))
    if arrays[0].size == 0:
        raise ValueError("a claim needs at least one case to be judged")
    return tuple(np.atleast_1d(array).ravel() for array in arrays)


def _resolves(expected: np.ndarray, rival: Any, standard_error: Any) -> bool:
    if standard_error is None:
        raise ValueError("standard_error must be given where a rival statement is named")
    gap = np.abs(expected - np.asarray(rival, float).ravel())
    return bool(np.all(np.asarray(standard_error, float).ravel() <= gap / 5))
