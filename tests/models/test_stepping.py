"""Stepping on problems whose solution is known: decay, Brownian motion, an explosion."""

import io
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.models import stepping
from dynascope.models.noise import normals
from dynascope.progress import progress_bar


def decay(state, noise, time, parameters, dt):
    return {"x": state["x"] * (1 - parameters["rate"] * dt) + jnp.sqrt(dt) * parameters["spread"] * noise}


def clock(state, noise, time, parameters, dt):
    return {"x": state["x"] + dt * time + 0 * noise}


def explode(state, noise, time, parameters, dt):
    return {"x": state["x"] * (1 + parameters["rate"] * dt) + 0 * noise}


def _march(step, parameters, **options):
    given = {"dt": 0.1, "saves": np.array([0, 10]), "trials": 16, "elements": 1, "seed": 0} | options
    with jax.enable_x64(True):
        start = {"x": jnp.ones((given["elements"], len(parameters["rate"]), 16))}
        return [state["x"] for state in stepping.saved_states(step, start, parameters, **given)]


def test_decay_meets_the_discrete_solution():
    rate = np.array([[0.5], [2.0]])
    start, end = _march(decay, {"rate": rate, "spread": np.zeros((1, 1))})
    np.testing.assert_array_equal(start, 1.0)
    np.testing.assert_allclose(end[0], (1 - rate * 0.1) ** 10 * np.ones(16), rtol=1e-14)


def test_time_is_the_beginning_of_the_step():
    (end,) = _march(clock, {"rate": np.zeros((1, 1))}, saves=np.array([1000]), dt=0.01)
    np.testing.assert_allclose(end, 1 + 0.01**2 * 999 * 1000 / 2, rtol=1e-12)


def test_brownian_motion_has_the_right_spread():
    parameters = {"rate": np.zeros((1, 1)), "spread": np.ones((1, 1))}
    (end,) = _march(decay, parameters, elements=500, saves=np.array([100]), dt=0.04)
    moved = end - 1
    assert abs(moved.mean()) < 3 * 2 / np.sqrt(moved.size)
    assert abs(moved.var() - 4) < 3 * 4 * np.sqrt(2 / moved.size)


def test_path_does_not_depend_on_what_is_saved(monkeypatch):
    parameters = {"rate": np.ones((1, 1)), "spread": np.ones((1, 1))}
    often = _march(decay, parameters, saves=np.arange(0, 301))
    for saves in ([300], [7, 13, 299, 300], [0, 300]):
        seldom = _march(decay, parameters, saves=np.array(saves))
        for save, state in zip(saves, seldom, strict=True):
            np.testing.assert_array_equal(state, often[save])
    monkeypatch.setattr(stepping, "_NOISE_BATCH", 16 * 7)  # seven steps at a time
    np.testing.assert_array_equal(_march(decay, parameters, saves=np.array([300]))[0], often[300])


def test_follow_repeats_march_and_is_differentiable():
    parameters = {"rate": np.full((1, 1), 0.3), "spread": np.full((1, 1), 0.5)}
    saved = _march(decay, parameters, saves=np.arange(1, 21))
    with jax.enable_x64(True):
        rows = normals(0, 0, steps=20, elements=1, trials=16)

        def end(rate):
            path = stepping.follow(
                decay, {"x": jnp.ones((1, 1, 16))}, rows, parameters={"rate": rate, "spread": 0.5}, dt=0.1
            )
            return path["x"]

        np.testing.assert_allclose(end(0.3), np.stack(saved), rtol=1e-14)
        slope = jax.grad(lambda rate: end(rate)[-1].mean())(0.3)
        difference = (end(0.3 + 1e-6)[-1].mean() - end(0.3 - 1e-6)[-1].mean()) / 2e-6
    np.testing.assert_allclose(slope, difference, rtol=1e-7)


def test_explosion_is_named_where_it_begins():
    rate = np.array([[0.0], [90.0]])  # times ten in every step
    with pytest.raises(FloatingPointError, match=r"step 309 \(time 30\.9\) in trial 0 with rate=90") as caught:
        _march(explode, {"rate": rate}, saves=np.array([0, 100, 1000]))
    assert "smaller dt" in str(caught.value)


def blow_up_late_lanes(state, noise, time, parameters, dt):
    lane = jnp.arange(16)
    return {"x": jnp.where(lane >= 3, jnp.inf, state["x"]) + 0 * noise}


def test_lanes_that_only_pad_are_not_looked_at():
    (end,) = _march(blow_up_late_lanes, {"rate": np.zeros((1, 1))}, trials=3, saves=np.array([5]))
    assert end.shape == (1, 1, 3)
    with pytest.raises(FloatingPointError, match=r"step 1 \(time 0\.1\) in trial 3"):
        _march(blow_up_late_lanes, {"rate": np.zeros((1, 1))}, trials=4, saves=np.array([5]))


def test_explosion_is_found_across_batches(monkeypatch):
    monkeypatch.setattr(stepping, "_NOISE_BATCH", 16 * 50)
    with pytest.raises(FloatingPointError, match="step 309 "):
        _march(explode, {"rate": np.array([[90.0]])}, saves=np.array([0, 1000]))


@pytest.mark.ci
def test_memory_does_not_grow_with_unsaved_steps():
    """Measured from outside, because Python's own accounting does not see the compiler's buffers."""
    code = """
        import resource
        from dynascope import SpringBlock
        SpringBlock().simulate(duration={duration}, trials=320, save_points=2)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    peaks = []
    for duration in (20.0, 200.0):  # 18,000 more steps hold 320 MB of noise
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code.format(duration=duration))], capture_output=True, check=True
        )
        peaks.append(int(done.stdout))  # kilobytes
    assert peaks[1] - peaks[0] < 60_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, 0.1, 1), "save_points must be at least 2"),
        ((1.0, 0.1, 3.0), r"a whole number or a list of times, got 3\.0"),
        ((1.0, 0.1, [0.2, 0.21]), "at least one step of dt"),
        ((1.0, 0.1, [0.5, 0.2]), "must increase"),
        ((1.0, 0.1, [0.5, 2.0]), "lie between 0 and duration"),
        ((1.0, 0.1, []), "a whole number or a list of times"),
        ((1e9, 1e-3, 2), r"from 1 to 2\*\*32 - 1 steps"),
    ],
)
def test_save_points_that_make_no_sense(arguments, message):
    with pytest.raises(ValueError, match=message):
        stepping.save_steps(*arguments)


def test_progress_is_silent_off_a_terminal_and_drawn_when_asked(capsys, monkeypatch):
    with progress_bar("quiet", 3) as done:
        done(2)
    assert capsys.readouterr().err == ""
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("quick", 3) as done:
        done(2)
    assert "quick" not in terminal.getvalue()  # not before two seconds have passed
    monkeypatch.setattr("dynascope.progress.PATIENCE", 0.0)
    with progress_bar("slow", 3) as done:
        done(2)
    assert "slow" in terminal.getvalue()
    with progress_bar("asked for", 3, show=True) as done:
        done(2)
    assert "asked for" in terminal.getvalue()
