"""The place of models: each family under sliders, solved as they move."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any
from urllib.parse import urlencode

import numpy as np
from bokeh.document import Document
from bokeh.layouts import column
from bokeh.models import CustomJS, LayoutDOM, Select, Slider

from dynascope.live.chain_model import ChainModel
from dynascope.live.curves import Curves
from dynascope.live.families import FAMILIES, spring_block
from dynascope.live.fitting import Fitted, fit
from dynascope.live.panels import WIDGET, as_text
from dynascope.live.sending import later
from dynascope.live.shelf import Shelf

_NONE = "—"
_ADDRESS = """
const url = new URL(window.location.href);
for (const [name, slider] of Object.entries(sliders)) url.searchParams.set(name, slider.value);
window.history.replaceState(null, "", url);
"""
_RUN = """
const url = new URL(window.location.href);
if (cb_obj.value === none) url.searchParams.delete("run"); else url.searchParams.set("run", cb_obj.value);
window.history.replaceState(null, "", url);
"""


class Models:
    """What one browser sees of a family."""

    def __init__(self, doc: Document, shelf: Shelf, workers: Executor, given: Mapping[str, str], home: str) -> None:
        self._doc, self._shelf, self._workers, self._home = doc, shelf, workers, home
        self._name = given["family"] if given.get("family") in FAMILIES else next(iter(FAMILIES))
        self._family = FAMILIES[self._name]
        self._busy, self._others, self._run = False, dict[str, float](), ""
        values = self._family.read_state(given)
        self._sliders = {name: self._slider(name, value) for name, value in values.items()}
        for each in self._sliders.values():
            each.js_on_change("value", CustomJS(args={"sliders": self._sliders}, code=_ADDRESS))
        self._code, self._address, self._said = as_text("code", table=True), as_text("address"), as_text("fitted")
        chain = self._family is spring_block.FAMILY
        self._chain = ChainModel(doc, values, self._go) if chain else None
        self._view = self._chain or Curves(self._family)
        room: list[LayoutDOM] = [*self._sliders.values(), *([self._choice(given.get("run"))] if chain else [])]
        parts = self._view.parts(column(*room, sizing_mode="stretch_width"))
        with doc.models.freeze():
            for part in (*parts, *([self._said] if chain else []), self._code, self._address):
                doc.add_root(part)
        doc.on_event("document_ready", lambda _event: self._begin(given))

    def _slider(self, name: str, value: float) -> Slider:
        least, greatest, step, _ = self._family.sliders[name]
        slider = Slider(
            start=least, end=greatest, step=step, value=value, title=name.replace("_", " "), format="0[.][0000]"
        )
        slider.stylesheets = [WIDGET]
        slider.on_change("value", lambda _attr, _old, _new: self._solve())
        return slider

    def _choice(self, wanted: str | None) -> Select:
        names = [_NONE, *self._shelf.runs]
        choice = Select(title="a recorded run over it", options=names, value=wanted if wanted in names else _NONE)
        choice.stylesheets = [WIDGET]
        choice.on_change("value", lambda _attr, _old, new: self._lay_over(new, keep=False))
        choice.js_on_change("value", CustomJS(args={"none": _NONE}, code=_RUN))
        return choice

    def _begin(self, given: Mapping[str, str]) -> None:
        self._solve()
        if self._chain is not None and given.get("run") in self._shelf.runs:
            self._lay_over(given["run"], keep=bool(set(given) & set(self._sliders)))

    def _go(self, wanted: Mapping[str, float]) -> None:
        """Move sliders to the values that they offer nearest to some, and solve once for all of them."""
        busy, self._busy = self._busy, True
        for name, value in wanted.items():
            least, greatest, step, _ = self._family.sliders[name]
            self._sliders[name].value = round(float(np.clip(round(value / step) * step, least, greatest)), 6)
        self._busy = busy
        self._solve()

    @property
    def _values(self) -> dict[str, float]:
        return {name: each.value for name, each in self._sliders.items()}

    def _later(self, work: Callable[[], Any], then: Callable[[Future[Any]], None]) -> None:
        later(self._doc, self._workers, work, then)

    def _solve(self) -> None:
        """Solve for the sliders as they are; moves that come meanwhile are one, when that is done."""
        if not self._busy:
            self._busy, values = True, self._values
            self._later(partial(self._family.solve, values), partial(self._show, values))

    def _show(self, values: Mapping[str, float], solved: Future[Any]) -> None:
        self._busy = False
        if error := solved.exception():
            self._code.text = f"not solved: {error}"
        else:
            self._view.show(solved.result())
            self._code.text = self._family.lines(values)
        run = {"run": self._run} if self._run else {}
        state = {"place": "models", "family": self._name, **{name: f"{value:g}" for name, value in values.items()}}
        self._address.text = f"for a colleague, who adds a token of their own: {self._home}?{urlencode(state | run)}"
        if self._chain is not None:
            self._chain.mark(values)
            self._renew_phases(values)
        if self._values != values:
            self._solve()

    def _renew_phases(self, values: Mapping[str, float]) -> None:
        """Solve for the phase diagram where another slider than its axes was moved."""
        others = {name: value for name, value in values.items() if name not in ("noise", "friction_right")}
        if others != self._others:
            self._others = others
            self._later(partial(spring_block.phases, values), partial(self._show_phases, others))

    def _show_phases(self, others: Mapping[str, float], solved: Future[Any]) -> None:
        if self._chain is not None and others == self._others and solved.exception() is None:
            self._chain.show_phases(solved.result())

    def _lay_over(self, name: str, *, keep: bool) -> None:
        """Fit a run and draw it over the chain; its parameters go into the sliders unless an address set them."""
        self._run = name if name in self._shelf.runs else ""
        self._said.text = f"{name} is fitted …" if self._run else ""
        if self._chain is not None:
            self._chain.lay_over(None)
        if self._run:
            self._later(partial(fit, self._shelf.runs[name].folder), partial(self._laid_over, name, keep))

    def _laid_over(self, name: str, keep: bool, found: Future[Fitted]) -> None:
        if self._chain is None or name != self._run:
            return
        if error := found.exception():
            self._said.text = f"{name} is not fitted: {error}"
            return
        fitted = found.result()
        self._said.text = f"{name}: {fitted.sentence}"
        self._chain.lay_over(fitted)
        self._go({} if keep else fitted.values)
