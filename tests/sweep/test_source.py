"""An address follows what an experiment computes, and nothing else in its file."""

import importlib
import sys

import pytest

from dynascope.sweep.source import source_digest

MAIN = '''
"""Experiments."""
import functools
import json

import helpers
from helpers import Base, scaled

FACTOR = 2.0
TITLE = "a picture"


def run(x, width=3):
    """Run."""
    return inner(x) + helpers.offset(x)


def inner(x):
    return scaled(x) * FACTOR


def plot(record):  # draws
    return TITLE


class Model(Base):
    rate: float = 1.0

    def step(self, x):
        return inner(x) * self.rate


halved = functools.partial(run, width=2)
'''
HELPERS = """
import math

ORIGIN = 1.0


def scaled(x):
    return 3 * x


def offset(x):
    return math.sqrt(ORIGIN)


def unused(x):
    return 0


class Base:
    def start(self):
        return 0
"""


@pytest.fixture
def digests(tmp_path, monkeypatch):
    """Digests of the experiments in a folder with these two files."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def of(main=MAIN, helpers=HELPERS):
        (tmp_path / "experiments_of_mine.py").write_text(main)
        (tmp_path / "helpers.py").write_text(helpers)
        for name in ("experiments_of_mine", "helpers"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        importlib.import_module("linecache").clearcache()
        module = importlib.import_module("experiments_of_mine")
        return [source_digest(each) for each in (module.run, module.Model, module.halved)]

    yield of
    for name in ("experiments_of_mine", "helpers"):
        sys.modules.pop(name, None)


def test_what_it_uses_counts_however_far_down(digests):
    before = digests()
    assert before == digests()
    for old, new in (("FACTOR = 2.0", "FACTOR = 2.5"), ("scaled(x) * FACTOR", "scaled(x) * FACTOR + 0")):
        assert not set(before) & set(digests(main=MAIN.replace(old, new))), old
    assert not set(before) & set(digests(helpers=HELPERS.replace("3 * x", "4 * x")))
    changed = digests(helpers=HELPERS.replace("ORIGIN = 1.0", "ORIGIN = 2.0"))
    assert (changed[0], changed[2]) != (before[0], before[2])
    assert changed[1] == before[1], "the model does not use the origin"
    assert digests(helpers=HELPERS.replace("return 0\n\n\nclass", "return 9\n\n\nclass")) == before
    of_base = digests(
        helpers=HELPERS.replace("def start(self):\n        return 0", "def start(self):\n        return 1")
    )
    assert of_base[1] != before[1]
    assert of_base[0] == before[0]
    wide = digests(main=MAIN.replace("width=2)", "width=4)"))
    assert wide[2] != before[2]
    assert wide[:2] == before[:2]


def test_what_only_draws_does_not_count(digests):
    before = digests()
    changed = (
        MAIN.replace("a picture", "another").replace("# draws", "# draws nicely").replace('"""Experiments."""', "")
    )
    assert digests(main=changed) == before


def test_functions_without_source_are_told_apart_by_what_they_do():
    def made(text):
        names = {"__name__": "typed_at_a_prompt"}
        exec(text, names)
        return source_digest(names["run"])

    first = made("def run(x):\n    return x + 1")
    assert first == made("def run(x):  # the same\n    return x + 1")
    assert first != made("def run(x):\n    return x + 2")
    assert first != made("def run(x):\n    return x - 1")
    assert made("def half(x):\n    return x / 2\ndef run(x):\n    return half(x)") != made(
        "def half(x):\n    return x / 3\ndef run(x):\n    return half(x)"
    )


def test_values_a_function_closes_over_count():
    def times(factor):
        def run(x):
            return factor * x

        return run

    assert source_digest(times(2)) == source_digest(times(2)) != source_digest(times(3))
