"""The clock stands still and the commit is known, so that files can be compared byte by byte."""

from datetime import UTC, datetime
from types import SimpleNamespace

import matplotlib as mpl

import dynascope.cli.verify
import dynascope.report
from campaign.subjects import QUICK, note_steps
from dynascope import records, results
from dynascope.experiments import experiment
from dynascope.monitor import running
from dynascope.networks import recording
from dynascope.sweep import pack_runner

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def freeze() -> None:
    """Do it, in this process and its children."""
    records.datetime = SimpleNamespace(now=lambda _: _NOW)
    records.round = experiment.round = lambda *_: 0.0  # of the wall time
    for module in (records, results):
        module.source_commit = lambda: "campaign"
    running.time = SimpleNamespace(perf_counter=lambda: 0.0)
    mpl.rcParams["svg.hashsalt"] = "campaign"  # with SOURCE_DATE_EPOCH
    recording._SAVE_SECONDS = 0.05  # networks are saved often
    pack_runner.BATCH_SECONDS = 0.0  # and so are results of a sweep, but for those of workers
    for module in (dynascope.report, dynascope.cli.verify):
        module.names = lambda _family=None: list(QUICK)  # a family of experiments that take a second
    note_steps()
