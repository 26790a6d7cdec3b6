"""What is read of runs while they go on, and where they stand."""

import os
import shutil
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from written_runs import LAYERS, measure, start, turn

from dynascope.live import shelf
from dynascope.live.chain import springs
from dynascope.live.judging import judge
from dynascope.live.shelf import Shelf
from dynascope.live.tailing import Course
from dynascope.monitor import journal, open_run
from dynascope.monitor.journal import NAME, Journal


@pytest.fixture
def written(tmp_path):
    with Journal(tmp_path / "run") as file:
        file.append(start())
        for step in range(0, 200, 10):
            file.append(measure(step))
        yield tmp_path / "run", file


def test_a_course_is_the_record_of_the_run(written):
    folder, file = written
    course = Course(folder)
    file.append(turn(190, 0.1))
    file.append(measure(200))
    course.read_on()
    record = open_run(folder)
    assert course.layers == LAYERS
    assert list(course.columns["step"]) == record["step"].values.tolist()
    for name, own in {
        "train_loss": "train_loss",
        "bend": "bend",
        "linearity": "straightness",
        "intra": "intra",
    }.items():
        np.testing.assert_allclose(course.columns[own], record[name].values, rtol=1e-9)
    np.testing.assert_array_equal(course.loads, record["loads"].values[-1])
    assert course.turns == {"learning_rate": [(190, 0.1)]}
    assert course.matrix.shape == (3, 3)


def test_a_run_that_was_continued_replaces_what_it_measures_again(written):
    folder, file = written
    course = Course(folder)
    file.append(start())
    file.append(measure(100))
    course.read_on()
    assert course.renewed == 1
    assert list(course.columns["step"]) == open_run(folder)["step"].values.tolist() == list(range(0, 110, 10))


def write(folder, *entries):
    with Journal(folder) as file:
        for each in entries:
            file.append(each)


def test_turns_of_a_run_that_was_continued_replace_later_ones(written):
    folder, file = written
    for each in (turn(100, 0.1), turn(150, 0.2), turn(100, 0.05) | {"knob": "dropout"}, start(), turn(120, 0.3)):
        file.append(each)
    course = Course(folder)
    assert course.turns == {"learning_rate": [(100, 0.1), (120, 0.3)], "dropout": [(100, 0.05)]}
    record = open_run(folder)
    assert record["learning_rate"].sel(step=[110, 120, 190]).values.tolist() == [0.1, 0.3, 0.3]


@pytest.mark.parametrize("steps", [range(0, 50, 10), range(0, 200, 10), range(0, 900, 10)])
def test_a_journal_that_another_one_replaces_is_read_anew(written, tmp_path, steps):
    folder, file = written
    course = Course(folder)
    file.close()
    write(tmp_path / "other", start(["a", "b", "c"]), *(measure(step, layers=3) for step in steps))
    os.replace(tmp_path / "other" / NAME, folder / NAME)
    course.read_on()
    assert course.layers == ["a", "b", "c"]
    assert list(course.columns["step"]) == list(steps)
    assert course.renewed == 1


def test_a_journal_that_is_copied_again_with_more_in_it_is_read_on(written, tmp_path):
    folder, file = written
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    course = Course(copy)
    file.append(measure(200))
    shutil.copy(folder / NAME, tmp_path / "part")
    os.replace(tmp_path / "part", copy / NAME)  # as rsync does
    course.read_on()
    assert (len(course), course.renewed) == (21, 0)


def test_the_newest_number_may_be_none_at_all(tmp_path):
    bad = measure(10)
    bad["numbers"] |= {"train_loss": float("nan"), "nc1": float("inf")}
    del bad["numbers"]["nc3"]
    write(tmp_path, start(), measure(0), bad)
    latest = Course(tmp_path).latest
    assert np.isnan(latest["train_loss"])
    assert latest["nc1"] == np.inf
    assert latest["nc3"] == measure(0)["numbers"]["nc3"]
    assert latest["straightness"] == pytest.approx(open_run(tmp_path)["linearity"].values[-1])


def test_a_line_that_is_not_finished_is_waited_for(written):
    folder, _ = written
    course = Course(folder)
    line = journal._line(measure(200))
    for part in (line[:50], line[50:]):
        assert len(course) == 20
        with (folder / NAME).open("ab") as stream:
            stream.write(part)
        course.read_on()
    assert len(course) == 21


@pytest.mark.ci
def test_memory_stays_flat_over_ten_thousand_records(tmp_path):
    with Journal(tmp_path) as file:
        file.append(start())
        course = Course(tmp_path)

        def go_on(first, last):
            with (tmp_path / NAME).open("ab") as stream:
                stream.write(b"".join(journal._line(measure(step)) for step in range(first, last)))
            for _ in range(20):
                course.read_on()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        before = go_on(0, 1000)
        after = go_on(1000, 10_000)
        tracemalloc.stop()
    assert len(course) == 10_000
    assert len(course.entries) <= 258
    assert len(course.curves) <= 12
    assert after - before < 9000 * 16 * 8 * 1.5 + 2e5  # the columns and nothing else


def test_where_a_run_stands(written, monkeypatch):
    folder, file = written
    now = (folder / NAME).stat().st_mtime
    monkeypatch.setattr(shelf, "time", SimpleNamespace(time=lambda: now))
    run = next(iter(Shelf([folder.parent]).runs.values()))
    assert (run.word, run.step) == ("running", 190)
    os.utime(folder / NAME, times=(now - 40,) * 2)
    run.look()
    assert run.sentence.startswith("silent for 40 s, though its process lives")
    file.close()
    run.look()
    assert run.sentence.startswith("killed: silent for 40 s")
    with Journal(folder) as again:
        again.append({"kind": "end", "step": 190})
    run.look()
    assert run.sentence == "closed · step 190"


def test_a_run_that_is_continued_after_its_end_is_running_at_once(written):
    folder, file = written
    file.append({"kind": "end", "step": 190})
    runs = Shelf([folder.parent]).runs
    assert runs["run"].word == "closed"
    file.append(start())
    runs["run"].look()
    assert runs["run"].word == "running"


def test_a_run_whose_folder_becomes_a_link_is_gone(written, tmp_path):
    folder, file = written
    runs, course = Shelf([tmp_path / "run"]), Course(folder)
    file.close()
    write(tmp_path / "secret", start(), measure(5))
    shutil.rmtree(folder)
    folder.symlink_to(tmp_path / "secret")
    runs.look()
    assert runs.runs == {}
    runs.put(runs.find())
    assert runs.runs == {}
    with pytest.raises(FileNotFoundError):
        course.read_on()


def test_a_pipe_is_no_journal(tmp_path):
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / NAME)
    assert Shelf([tmp_path]).runs == {}  # to open it would wait for ever


def _not_permitted(_):
    raise PermissionError


def test_a_journal_that_may_not_be_read_is_left_out_until_it_may(written, monkeypatch):
    folder, _ = written
    monkeypatch.setattr(journal, "held", _not_permitted)  # the superuser may read whatever there is
    runs = Shelf([folder.parent])
    assert runs.runs == {}
    monkeypatch.undo()
    runs.put(runs.find())
    assert list(runs.runs) == ["run"]


def test_a_run_that_is_deleted_leaves_the_shelf(written):
    folder, _ = written
    runs = Shelf([folder.parent])
    shutil.rmtree(folder)
    runs.look()
    assert runs.runs == {}
    assert runs.first is None


def test_a_journal_that_holds_other_things_is_shown_as_far_as_it_goes(tmp_path):
    odd = {"load": [[1.0], "a"], "train_loss": "much", "elasticity": 3, "nc1": None}
    with Journal(tmp_path) as file:
        file.append({"kind": "measure", "step": 0, "time": 0.0, "numbers": {}})  # before its beginning
        file.append(start())
        file.append(measure(1))
        file.append({"kind": "measure", "step": 2, "time": 0.0, "numbers": odd})
    with (tmp_path / NAME).open("ab") as stream:
        stream.write(b"nonsense\n")
    course = Course(tmp_path)
    assert list(course.columns["step"]) == [1.0, 2.0]
    assert np.isnan(course.columns["train_loss"][1])
    found = judge(course.entries, np.zeros(0), np.zeros(0), ended=False)
    assert found.lines[0].startswith("not judged:")


def test_verdicts_and_forecast_are_those_of_the_run(written):
    folder, _ = written
    course = Course(folder)
    steps, losses = (np.array(course.columns[name]) for name in ("step", "train_loss"))
    going_on = judge(course.entries, steps, losses, ended=False)
    assert going_on.band["step"][0] > 190
    assert (going_on.band["low"] <= going_on.band["high"]).all()
    ended = judge(course.entries, steps, losses, ended=True)
    assert not len(ended.band["step"])
    assert any(line.startswith("load: ") for line in ended.lines)


def test_springs_lead_from_block_to_block():
    x, y = springs(np.array([2.0, 1.0, 0.5]))
    assert (x[0], y[0], x[-1], y[-1]) == (0.0, 2.0, 2.0, 0.5)
    assert y[np.flatnonzero(x == 1.0)].tolist() == [1.0, 1.0]
    assert springs(np.zeros(0))[0].size == 0
