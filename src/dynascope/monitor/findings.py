"""What rules about a run's health read and say: the signs in its record, and a finding with evidence and bound."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr

from dynascope.records import attribute

# name -> (dimensions after step, what it is): the variables of a run's record that say how healthy it is
VARIABLES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "loss_mean": ((), "mean training loss since the last measurement"),
    "loss_least": ((), "least training loss since the last measurement"),
    "loss_greatest": ((), "greatest training loss since the last measurement"),
    "loss_rise": ((), "greatest rise of the training loss from one step to the next since the last measurement"),
    "loss_fall": ((), "greatest fall of the training loss from one step to the next since the last measurement"),
    "losses_not_finite": ((), "training losses so far that are not finite"),
    "first_not_finite": ((), "step of the first training loss that is not finite"),
    "learning_rate": ((), "learning rate, the largest of all groups"),
    "gradient_norm": ((), "norm of all gradients"),
    "gradient_size": (("weight",), "root mean square of gradients"),
    "gradient_change": ((), "change of gradients from a measurement to the next step"),
    "silent": (("weight",), "share of rows without gradient"),
    "weight_size": (("weight",), "root mean square of weights"),
    "update_ratio": (("weight",), "change by a step relative to the weights"),
    "layer_size": (("layer",), "how many numbers a layer gives for a sample"),
    "constant": (("layer",), "share of numbers that are the same for all samples"),
    "saturated": (("layer",), "share of numbers at either end of the layer's range"),
    "one_answer": ((), "share of the class that is predicted most"),
    "probabilities": ((), "whether outputs are probabilities already"),
    "input_size": ((), "root mean square of the inputs"),
    "leaked": ((), "share of the probe that is among the training data"),
}


@dataclass(frozen=True)
class Finding:
    """What is wrong with a run: since which step, by which numbers, against which bound, and what to do about it.

    >>> Finding("stuck", 90, "probe loss 2.3", "a fall by 5 %", "raise the learning rate").sentence
    'stuck at step 90: probe loss 2.3; bound: a fall by 5 %. Try: raise the learning rate.'
    """

    name: str
    step: int
    evidence: str
    bound: str
    advice: str

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        return f"{self.name} at step {self.step}: {self.evidence}; bound: {self.bound}. Try: {self.advice}."


LOSS = "no probe loss"
TOLD = "run.step was not told the loss"


class NotJudged(Exception):
    """A rule lacks what it looks at."""


class Signs:
    """A record as rules read it: arrays with the step first."""

    def __init__(self, record: xr.Dataset) -> None:
        self.record, self.steps = record, record["step"].values
        known = attribute(record, "parameters") if "parameters" in record.attrs else {}
        self.options = attribute(record, "options") if "options" in record.attrs else {}
        self.answers = int(self.options.get("answers", len(known.get("classes") or ())))

    def of(self, name: str, missing: str) -> np.ndarray:
        """A variable; where it was never measured, the rule is not judged."""
        values = self.record[name].values if name in self.record else np.full(len(self.steps), np.nan)
        if np.isnan(values).all():
            raise NotJudged(missing)
        return np.asarray(values, float)

    def after(self, measurements: int) -> None:
        """Rules on a course need some of it."""
        if len(self.steps) <= measurements:
            raise NotJudged(f"fewer than {measurements + 1} measurements")

    @property
    def chance(self) -> float:
        """The loss of a guess, log K."""
        if self.answers < 2:
            raise NotJudged("no classes to guess among, or their number is unknown")
        return math.log(self.answers)

    @property
    def guess(self) -> float:
        """What one answer for all has on the probe: log K, or the spread of the numbers that are to be learnt."""
        return float(self.options.get("loss_of_the_mean") or self.chance)

    def name(self, dim: str, place: int) -> str:
        """Of a layer or weight."""
        return str(self.record[dim].values[place])
