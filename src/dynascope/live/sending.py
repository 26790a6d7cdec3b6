"""From a run that is read on to the browser: what is new, and nothing else."""

import numpy as np
from bokeh.models import ColumnDataSource

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
