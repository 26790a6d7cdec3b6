"""What goes to the browser: of a run what is new and nothing else; of long work what came of it, when it is done.

And what stays there: the state of a page in its address.
"""

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.models import ColumnDataSource, CustomJS, Model

from dynascope.live.tailing import Course


def send(course: Course, source: ColumnDataSource, renewed: int, shown: int) -> tuple[int, int]:
    """Stream the records that a source does not have; all of them only where earlier ones were replaced.

    renewed, shown: what the call before this one gave, (-1, 0) at first
    """
    if course.renewed != renewed:
        source.data = {name: np.array(column) for name, column in course.columns.items()}
    elif len(course) > shown:
        source.stream({name: column[shown:].tolist() for name, column in course.columns.items()})
    return course.renewed, len(course)


def remember(name: str, model: Model, event: str, value: str, **known: Any) -> None:
    """Keep something in the address of the page, under a name, whenever a model changes.

    value: what is kept, in JavaScript, with `cb_obj` for the model and the names of `known`
    """
    code = CustomJS(args={"name": name, **known}, code=f"window.remember(name, {value})")
    model.js_on_change(event, code)


def later(doc: Document, workers: Executor, work: Callable[[], Any], then: Callable[[Future[Any]], None]) -> None:
    """Work in a thread, so that all pages go on meanwhile, and let one of them take what comes of it."""

    def done(future: Future[Any]) -> None:
        with contextlib.suppress(Exception):  # the page may be closed by now, whatever Bokeh says then
            doc.add_next_tick_callback(partial(then, future))

    workers.submit(work).add_done_callback(done)
