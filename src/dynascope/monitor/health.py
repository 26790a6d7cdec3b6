"""Whether a run is healthy: a pure function from its record to findings. Needs no PyTorch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import xarray as xr

from dynascope.monitor import courses, rules
from dynascope.monitor.findings import Finding, NotJudged, Signs
from dynascope.records import Json

EXAMINED = 256  # measurements that are looked at while a run goes on

# in the order of what is likelier a cause, for those that show at the same step
RULES: Mapping[str, Callable[[Signs], Finding | None]] = {
    "probe leak": rules.leak,
    "softmax twice": rules.softmax_twice,
    "inputs out of scale": rules.input_scale,
    "start out of range": rules.start,
    "layers left out": rules.frozen,
    "wrong direction": courses.wrong_direction,
    "gradients not cleared": rules.uncleared,
    "weights vanish": rules.vanished_weights,
    "too much noise": courses.noisy_training,
    "updates too large": rules.large_updates,
    "updates too small": rules.small_updates,
    "dead units": rules.dead,
    "saturated units": rules.saturated,
    "vanishing gradients": rules.vanishing,
    "exploding gradients": rules.exploding,
    "diverged": courses.diverged,
    "batches differ": courses.forgetting,
    "label noise fitted": courses.fitted_noise,
    "overfitting": courses.overfitted,
    "stuck": courses.stuck,
}


_ON_DEMAND = {"probe leak"}  # judged only where it is asked for


@dataclass(frozen=True)
class Health:
    """What was found, in the order in which it showed, and which faults were not judged, and why."""

    findings: tuple[Finding, ...]
    unjudged: Mapping[str, str]
    step: int

    @property
    def verdict(self) -> str:
        """One word or two: what showed first, "healthy", "nothing found so far" where more is to be judged.

        >>> Health((), {"stuck": "no probe loss"}, 90).verdict
        'nothing found so far'
        """
        if self.findings:
            return self.findings[0].name
        if len(self.unjudged) == len(RULES):
            return "not judged"
        return "healthy" if set(self.unjudged) <= _ON_DEMAND else "nothing found so far"

    @property
    def line(self) -> str:
        """The first line that a person reads.

        >>> Health((), {}, 90).line
        'healthy: none of 20 faults up to step 90'
        """
        reasons: dict[str, list[str]] = {}
        for name, reason in self.unjudged.items():
            reasons.setdefault(reason, []).append(name)
        open_ = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
        left = f"; not judged: {open_}" if open_ else ""
        if self.findings:
            return "; ".join(f"{each.name} at step {each.step}" for each in self.findings) + left
        judged = len(RULES) - len(self.unjudged)
        return f"{self.verdict}: none of {judged} faults up to step {self.step}{left}" if judged else left[2:]

    def to_json(self) -> dict[str, Json]:
        """Verdict, line and step; findings with evidence, bound and advice; what was not judged, and why.

        >>> Health((), dict.fromkeys(RULES, "no measurement yet"), 0).to_json()["verdict"]
        'not judged'
        """
        findings = [asdict(each) for each in self.findings]
        said = {"verdict": self.verdict, "line": self.line, "step": self.step}
        return said | {"findings": findings, "not_judged": dict(self.unjudged)}


def examine(record: xr.Dataset) -> Health:
    """Judge the health of a run by its record so far. What was not measured is not judged.

    >>> run = xr.Dataset({"probe_loss": ("step", [1.0, float("nan")])}, coords={"step": [0, 10]})
    >>> examine(run.assign_attrs(parameters='{"classes": [0, 1]}')).findings[0].sentence.split(";")[0]
    'diverged at step 10: probe loss nan'
    """
    if not record.sizes.get("step"):
        return Health((), dict.fromkeys(RULES, "no measurement yet"), 0)
    signs = Signs(record)
    found, unjudged = [], {}
    for name, rule in RULES.items():
        try:
            finding = rule(signs)
        except NotJudged as reason:
            unjudged[name] = str(reason)
            continue
        if finding is not None:
            found.append(finding)
    return Health(tuple(sorted(found, key=lambda each: each.step)), unjudged, int(signs.steps[-1]))


def thinned(entries: Sequence[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    """Some of a journal's entries, evenly spaced and the newest, so that looking at each measurement stays cheap.

    >>> len(thinned([{"kind": "start"}, *[{"kind": "measure"}] * 1000]))
    251
    """
    starts = [entry for entry in entries if entry["kind"] != "measure"]
    measured = [entry for entry in entries if entry["kind"] == "measure"]
    step = -(-len(measured) // EXAMINED)
    return [*starts, *reversed(measured[::-1][::step])] if step else starts
