"""The place of models: each family under sliders, solved as they move."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.layouts import column
from bokeh.models import LayoutDOM, Select, Slider

from dynascope.live.chain_model import ChainModel
from dynascope.live.curves import Curves
from dynascope.live.families import FAMILIES, spring_block_run
from dynascope.live.families.description import Fitted
from dynascope.live.families.spring_block import phases
from dynascope.live.panels import WIDGET, as_text
from dynascope.live.sending import later, remember
from dynascope.live.shelf import Shelf

_NONE = ("", "—")
_LOOK = 2000  # milliseconds between two looks for new runs
_SLOW = ":host { animation: shown 0s 0.4s backwards } @keyframes shown { from { visibility: hidden } }"


class Models:
    """What one browser sees of a family."""

    def __init__(self, doc: Document, shelf: Shelf, workers: Executor, given: Mapping[str, str]) -> None:
        self._doc, self._shelf, self._workers = doc, shelf, workers
        name = given["family"] if given.get("family") in FAMILIES else next(iter(FAMILIES))
        self._family = FAMILIES[name]
        self._busy, self._others, self._run = False, dict[str, float](), ""
        self._fitted: Fitted | None = None
        values = self._family.read_state(given)
        self._sliders = {name: self._slider(name, value) for name, value in values.items()}
        self._code, self._said, self._state = (
            as_text("code", table=True),
            as_text("fitted"),
            as_text("state", bold=True),
        )
        self._state.stylesheets = [*self._state.stylesheets, _SLOW]
        self._chain = None
        if self._family is spring_block_run.FAMILY:
            self._chain = ChainModel(doc, values, given.get("time"), self._go)
        self._view = self._chain or Curves(self._family)
        shown = {"place": "models", "family": name, **values} | ({"time": self._chain.time} if self._chain else {})
        doc.template_variables["here"] = shown
        room: list[LayoutDOM] = [
            *self._sliders.values(),
            *([self._choice(given.get("run"))] if self._family.fit else []),
        ]
        parts = self._view.parts(column(*room, sizing_mode="stretch_width"))
        with doc.models.freeze():
            for part in (self._state, *parts, self._said, self._code):
                doc.add_root(part)
        self._state.text = "solving; the first time, which compiles the model, takes some seconds …"
        doc.on_event("document_ready", lambda _event: self._begin(given))

    def _slider(self, name: str, value: float) -> Slider:
        least, greatest, step, _ = self._family.sliders[name]
        slider = Slider(
            start=least, end=greatest, step=step, value=value, title=name.replace("_", " "), format="0[.][0000]"
        )
        slider.stylesheets = [WIDGET]
        slider.on_change("value", lambda _attr, _old, _new: self._solve())
        remember(name, slider, "value", "cb_obj.value")
        return slider

    def _choice(self, wanted: str | None) -> Select:
        names = list(self._shelf.runs)
        value = wanted if wanted in names else ""
        choice = Select(title="a recorded run over it", options=[_NONE, *names], value=value, stylesheets=[WIDGET])
        choice.on_change("value", lambda _attr, _old, new: self._lay_over(new, keep=False))
        remember("run", choice, "value", "cb_obj.value")
        self._doc.add_periodic_callback(partial(self._offer, choice), _LOOK)
        return choice

    def _offer(self, choice: Select) -> None:
        """Let runs be chosen that were found since."""
        if (found := [_NONE, *self._shelf.runs]) != choice.options:
            choice.options = found

    def _begin(self, given: Mapping[str, str]) -> None:
        self._solve()
        if (run := given.get("run")) and self._family.fit is not None:
            self._lay_over(run, keep=bool(set(given) & set(self._sliders)))

    def _go(self, wanted: Mapping[str, float]) -> None:
        """Move sliders to some values, as far as they go, and solve once for all of them."""
        busy, self._busy = self._busy, True
        for name, value in wanted.items():
            least, greatest, step, _ = self._family.sliders[name]
            rounded = round(value) if step == 1 else float(f"{value:.4g}")
            self._sliders[name].value = float(np.clip(rounded, least, greatest))
        self._busy = busy
        self._solve()

    @property
    def _values(self) -> dict[str, float]:
        return self._family.read_state({name: str(each.value) for name, each in self._sliders.items()})

    def _later(self, work: Callable[[], Any], then: Callable[[Future[Any]], None]) -> None:
        later(self._doc, self._workers, work, then)

    def _solve(self) -> None:
        """Solve for the sliders as they are; moves that come meanwhile are one, when that is done."""
        if not self._busy:
            self._busy, values, fitted = True, self._values, self._fitted
            self._state.text = self._state.text or "solving …"
            self._later(partial((fitted or self._family).solve, values), partial(self._show, values, fitted))

    def _show(self, values: Mapping[str, float], fitted: Fitted | None, solved: Future[Any]) -> None:
        self._busy = False
        if error := solved.exception():
            self._state.text = f"not solved: {error}"
        else:
            self._state.text = ""
            self._view.show(solved.result())
            self._code.text = (fitted or self._family).lines(values)
        if self._chain is not None:
            self._chain.mark(values)
            self._renew_phases(values)
        if self._values != values or self._fitted is not fitted:
            self._solve()

    def _renew_phases(self, values: Mapping[str, float]) -> None:
        """Solve for the phase diagram where another slider than its axes was moved."""
        others = {name: value for name, value in values.items() if name not in ("noise", "friction_right")}
        if others != self._others:
            self._others = others
            self._later(partial(phases, values), partial(self._show_phases, others))

    def _show_phases(self, others: Mapping[str, float], solved: Future[Any]) -> None:
        if self._chain is None or others != self._others:
            return
        if error := solved.exception():
            self._state.text = f"phases are not solved: {error}"
        else:
            self._chain.show_phases(solved.result())

    def _lay_over(self, name: str, *, keep: bool) -> None:
        """Fit a run and draw it over the model; its parameters go into the sliders unless an address set them."""
        self._run, self._fitted = name, None
        self._view.lay_over(None)
        run = self._shelf.runs.get(name)
        if run is None or self._family.fit is None:
            self._said.text = f"there is no run {name!r} here" if name else ""
            self._solve()
            return
        self._said.text = f"{name} is fitted, which takes some seconds …"
        self._later(partial(self._family.fit, run.folder), partial(self._laid_over, name, keep))

    def _laid_over(self, name: str, keep: bool, found: Future[Any]) -> None:
        if name != self._run:
            return
        if error := found.exception():
            self._said.text = f"{name} is not fitted: {error}"
            self._solve()
            return
        self._fitted = fitted = found.result()
        self._said.text = f"{name}: {fitted.sentence}"
        self._view.lay_over(fitted)
        self._go({} if keep else fitted.values)
