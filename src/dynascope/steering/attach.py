"""Steer a watched run: one knob is turned at each scheduled measurement, by the law of control."""

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType

from dynascope.checks import Given, scalar
from dynascope.monitor.beliefs import Signal, sureness
from dynascope.monitor.measuring import Numbers
from dynascope.monitor.probing import Inputs
from dynascope.monitor.reading import VARIABLES
from dynascope.monitor.running import Run
from dynascope.monitor.tasks import Task
from dynascope.monitor.telling import guarded, tell
from dynascope.monitor.wrappers import agreed, spread
from dynascope.records import Json
from dynascope.steering.in_a_row import in_a_row
from dynascope.steering.knobs import Dropout, Knob
from dynascope.steering.law import GAIN, Law, Place, place_of, value_of
from dynascope.steering.other_layers import beginning, law_for


class Steering:
    """What turns a knob of a watched run; `steer` makes it. Use it in a `with` block beside the run, or as it is.

    `value` is the knob's value now; `state_dict` and `load_state_dict` keep the place in a checkpoint.
    """

    def __init__(self, run: Run, knob: Knob, law: Law, unlabelled: Inputs | None) -> None:
        self._run, self._knob, self._law, self._unlabelled = run, knob, law, unlabelled
        self._told: set[object] = set()
        self._task = run.task
        if not self._before():
            self._start()
        self._place = Place.at(place_of(knob.value, knob.limits, knob.scale, knob.noise))

    @property
    def value(self) -> float:
        """What the knob is set to."""
        return self._knob.value

    def begin(self) -> None:
        """Take up where the run's journal says that the knob stood; `steer` calls it."""
        if before := self._before():
            self._restore(before[-1])
        self._share()
        self._note(None)

    def _before(self) -> list[dict[str, Json]]:
        """What the run's journal has of this knob."""
        return [each for each in self._run.turns if each["knob"] == self._knob.name]

    def _start(self) -> None:
        """Turn the knob to where it begins, and say so where it can only stay there."""
        was, most = self._knob.value, self._knob.limits[1]
        self._set(beginning(self._law, self._knob.name, was, most, lambda: _in_a_row(self._run, self._knob)))
        if self._knob.value == most > was:
            tell(f"{self._knob.name} begins at the most that is allowed, {most:g}, and stays there; at_most gives room")

    def measured(self, step: int, numbers: Numbers | None) -> None:
        """Turn the knob after a measurement; the run calls it, in every process of a distributed one."""
        seen: list[Signal] = []
        if numbers is not None:
            guarded(lambda: seen.append(self._look(numbers)), f"dynascope could not steer at step {step}", self._told)
        if seen and self._law.gain:
            self._place = self._law.turn(self._place, step, seen[0])
            self._set(value_of(float(self._place.u[0]), self._knob.limits, self._knob.scale, self._knob.noise))
        self._share()
        self._note(seen[0] if seen else None)

    def _share(self) -> None:
        """Process 0 of a distributed run measures, and tells the others."""
        if spread():
            self._set(agreed(lambda: self._knob.value))

    def _look(self, numbers: Numbers) -> Signal:
        """What the probe shows, and the inputs without labels."""
        seen = Signal.read(numbers)
        if self._unlabelled is None:
            return seen
        with self._run.charged():
            return replace(seen, beside=sureness(self._run.look(self._unlabelled)[None]))

    def _set(self, value: float) -> None:
        if value != self._knob.value:
            self._knob.set(value)

    def _note(self, seen: Signal | None) -> None:
        if self._task is None:
            return
        shown = {} if seen is None else {name: float(each[0]) for name, each in vars(seen).items() if each is not None}
        self._run.acted({"kind": "turn", **self.state_dict(), **shown})

    def state_dict(self) -> dict[str, Json]:
        """Where the knob and the law stand, as plain numbers."""
        return {"knob": self._knob.name, "value": self._knob.value, "state": self._place.as_json()}

    def load_state_dict(self, state: object) -> None:
        """Go on from what `state_dict` gave, in the same run or in one that is resumed."""
        if not isinstance(state, Mapping) or not {"knob", "value", "state"} <= set(state):
            raise ValueError(f"state must be what state_dict gave, with knob, value and state, got {state!r}")
        if state["knob"] != self._knob.name:
            raise ValueError(f"state must be that of the knob {self._knob.name}, got one of {state['knob']!r}")
        self._restore(state)
        self._note(None)

    def _restore(self, state: Mapping[str, Json]) -> None:
        self._place = Place.from_json(state["state"])
        self._set(scalar("value", state["value"]))

    def __enter__(self) -> "Steering":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def steer(
    run: Given[Run],
    knob: Given[Knob],
    *,
    unlabelled: Given[Inputs | None] = None,
    steps: Given[int | None] = None,
    gain: Given[float] = GAIN,
    target: Given[float | None] = None,
) -> Steering:
    """Turn one knob of a run while it trains, so that the load curve of the network keeps its best shape.

    This changes training, on purpose: without `steer`, `watch` leaves it as it is, bit for bit. At each scheduled
    measurement the bend of the load curve, of what the network itself believes, says whether there is too little noise
    (concave) or too much (convex), and the knob is turned accordingly. It needs no validation set.

    run: made by `watch` with every=N, "epoch" or "log"; a cadence by the clock could not be resumed exactly.
    knob: of `dynascope.steering`: Dropout(model), LearningRate(optimizer), WeightDecay(optimizer), …
    unlabelled: inputs that are not trained on, without labels. How much surer the network is on the probe than on
        these then counts, too: worth it where inputs are noisy.
    steps: length of the run; the last tenth then settles at what was found.
    gain: of the knob's range for each e-fold of training time; 0 measures and leaves the knob alone.
    target: the bend to hold. Not given: 0 where layers are linear maps; others go by their doubts, and dropout that is
        0 begins where it leaves 0.4 of a signal, behind all layers in a row.

    Every turn is a line of the run's journal; `run.record` has the knob over steps under its name. A run that is
    resumed in its folder goes on where it was; else keep `state_dict` in your checkpoint. Under
    DistributedDataParallel call it in every process. More: docs/steer.md.

    >>> import torch
    >>> from torch import nn
    >>> from dynascope import watch
    >>> from dynascope.steering import Dropout
    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(*(part for _ in range(3) for part in (nn.Linear(2, 2), nn.ReLU(), nn.Dropout(0.1))))
    >>> x, y = torch.randn(20, 2), torch.arange(20) % 2
    >>> with watch(net, probe=(x, y), every=5) as run, steer(run, Dropout(net, at_most=0.5)):
    ...     for _ in range(10):
    ...         run.step()
    >>> run.record["dropout"].values.tolist()
    [0.1, 0.1, 0.1]
    """
    if not isinstance(run, Run):
        raise ValueError(f"run must be a run that watch made, got {type(run).__name__}")
    if not isinstance(knob, Knob):
        raise ValueError(
            "knob must be one of dynascope.steering (Dropout, LearningRate, WeightDecay, …), or have name, value, "
            f"limits, scale, noise and set, got {type(knob).__name__}"
        )
    if knob.name in VARIABLES or knob.name in ("step", "time", "layer"):
        raise ValueError(f"knob must have a name that the record has not, got {knob.name!r}")
    law = law_for(run.kinds, gain, target, steps)
    if run.by_the_clock:
        raise ValueError(
            "run must be measured at stated steps to be steered, not by the clock (every=None, max_overhead=…), or it "
            "could not be resumed exactly; use watch(…, every=20)"
        )
    if spread() and not run.sharded:  # the first process alone knows the run: what it refuses all refuse
        agreed(lambda: _require(run, unlabelled))
    else:
        _require(run, unlabelled)
    if not knob.limits[0] <= knob.value <= knob.limits[1]:
        raise ValueError(
            f"knob must start within its limits, {knob.name} is {knob.value:g}, allowed are {knob.limits[0]:g} to "
            f"{knob.limits[1]:g}; set it, or choose at_least and at_most around it"
        )
    steering = Steering(run, knob, law, unlabelled)
    run.follow(steering)
    steering.begin()
    return steering


def _in_a_row(run: Run, knob: Knob) -> int | None:
    """How many layers of a dropout knob a signal passes, if it can be told; one of the user's own is not counted.

    Of several inputs one may pass beside, such as a mask, without being the signal: then it cannot.
    """
    if not isinstance(knob, Dropout) or run.inputs != 1:
        return None
    with run.charged():
        return in_a_row(knob.layers, run.look)


def _require(run: Run, unlabelled: Inputs | None) -> None:
    if run.task is not None:
        _require_curve(run, run.task)
        if unlabelled is not None:
            _require_inputs(run, run.task, unlabelled)


def _require_inputs(run: Run, task: Task, unlabelled: Inputs) -> None:
    """Refuse inputs that the network cannot take: what it says of them itself does not name the argument."""
    try:
        if task.places is not None:
            raise ValueError("positions of the probe have labels each, and those of other inputs are not known")
        run.look(unlabelled)
    except (ValueError, RuntimeError, TypeError, IndexError) as error:
        raise ValueError(
            f"unlabelled must be inputs as those of the probe, without labels, that the network can take: {error}"
        ) from error


def _require_curve(run: Run, task: Task) -> None:
    """Refuse runs whose load curve says nothing, and say what is lost where a test set is looked at."""
    if not task.separates:
        raise ValueError("run must be one of classes (classification, binary): for other tasks no rule has been tested")
    if len(run.layers) < 3:
        raise ValueError(
            f"run must have a load curve of 3 layers or more, the input among them, got {run.layers}: fewer have no "
            "bend; name them with watch(…, layers=[…]), or train a deeper network"
        )
    if "test_loss" in run.record:
        tell(
            "steering looks at the train part of the probe alone; its test part is no longer a test set if you choose "
            "a run by it"
        )
