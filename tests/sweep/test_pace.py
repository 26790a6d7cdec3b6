"""What a sweep will take is said before it starts, as far as it can be known, and while it runs."""

import functools
import threading
import time

import pytest
from small_experiments import PACKED, walk

from dynascope.sweep import status
from dynascope.sweep import sweep as sweep_anywhere
from dynascope.sweep.batches import Head
from dynascope.sweep.folder import SweepFolder
from dynascope.sweep.pace import estimate, seconds_each, seconds_left
from dynascope.sweep.running import watch_status

sweep = functools.partial(sweep_anywhere, scheduler="here")


def test_time_and_cost_are_said_before_the_start_where_they_are_known(tmp_path, capsys):
    sweep(PACKED, {"drift": [0.0, 1.0, 2.0]}, tmp_path, seeds=120, price=2.0)  # ten seconds each, it says
    assert capsys.readouterr().err == "360 tasks: about 60.0 min of work on one core, cost about 2\n"
    sweep(PACKED, {"drift": [0.0, 1.0, 2.0]}, tmp_path, seeds=120, price=2.0)
    assert capsys.readouterr().err == "", "nothing is left to do"


def test_where_nothing_is_known_the_first_tasks_tell_and_finished_ones_later(tmp_path, capsys):
    grid = functools.partial(sweep, walk, out=tmp_path, fixed={"pause": 0.05}, price=0)
    grid({"drift": [0.0, 1.0]})
    assert capsys.readouterr().err == "", "the first batch was all"
    grid({"drift": [float(each) for each in range(6)]})
    said = capsys.readouterr().err
    assert said.startswith("4 tasks: about 0.")
    assert float(said.split()[3]) >= 0.2
    with pytest.raises(ValueError, match=r"price must be at least 0.0, got -1"):
        sweep(walk, {"drift": [0.0]}, tmp_path, price=-1)


def test_nothing_is_said_without_a_terminal_or_a_price(tmp_path, capsys):
    sweep(PACKED, {"drift": [0.0, 1.0]}, tmp_path)
    assert capsys.readouterr().err == ""


def test_the_pace_is_that_of_all_workers_in_the_last_minute():
    heads = [Head(["a"], {}, 10.0, ended=0.0)]  # slow, long ago
    heads += [Head(["b", "c"], {}, 1.0, ended=100.0 + each / 2) for each in range(8)]  # two workers, two tasks a second
    assert seconds_each(heads) == pytest.approx(18 / 17)
    assert seconds_left(heads, 32, now=103.5) == pytest.approx(32 * 4.5 / 16)
    assert seconds_left(heads, 32, now=500.0) is None
    assert seconds_each([]) is None
    assert seconds_left([], 3) is None


def test_few_tasks_do_not_use_all_workers():
    assert estimate(2, 60.0, 8, None) == "2 tasks: about 2.0 min of work on one core, 60 s on 8 workers"
    assert estimate(2, 60.0, None, None) == "2 tasks: about 2.0 min of work on one core"


def test_a_sweep_is_watched_until_it_ends(tmp_path):
    grid = {"drift": [float(each) for each in range(30)]}
    running = threading.Thread(target=sweep, args=(walk, grid, tmp_path), kwargs={"fixed": {"pause": 0.05}})
    running.start()
    while not (tmp_path / "sweep.json").exists() or not SweepFolder(tmp_path).is_locked():
        time.sleep(0.01)
    seen = list(watch_status(tmp_path, 0.1))
    running.join()
    finished = [found["finished"] for found in seen]
    assert finished == sorted(finished)
    assert finished[-1] == 30
    between = [found for found in seen if 0 < found["finished"] < 30]
    assert between, finished
    assert all(found["left_seconds"] > 0.0 for found in between)
    assert status(tmp_path)["work_seconds"] > 30 * 0.05
    assert list(watch_status(tmp_path, 60.0))[-1]["missing"] == 0, "what has ended is said once"
