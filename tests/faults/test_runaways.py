"""What needs more memory or time than the machine has is refused before it begins, with the numbers."""

import resource

import numpy as np
import pytest

from dynascope import DeepLinear, LocallyElastic, ModeEquation, Multilinear, ScalarNetwork, SpringBlock
from dynascope.budget import require_room, unlimited
from dynascope.data import SparseParity, geomnist, modular_arithmetic
from dynascope.networks import MLP, Ensemble
from dynascope.statistics.resampling import bootstrap_weights

HUGE = 10**12


@pytest.fixture(autouse=True)
def little_memory():
    """No test of a runaway may run away: 4 GB beside what is taken already."""
    kept = resource.getrlimit(resource.RLIMIT_DATA)
    with open("/proc/self/status") as stream:
        taken = next(int(line.split()[1]) for line in stream if line.startswith("VmData")) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (taken + 4 * 2**30, kept[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, kept)


@pytest.mark.parametrize(
    "options",
    [
        ("deep-linear", "--trials", "60000", "--width", "300"),
        ("deep-linear", "--width", "1000000"),
        ("deep-linear", "--depth", "1000000000"),
        ("scalar-network", "--trials", HUGE),
        ("scalar-network", "--width", HUGE),
        ("spring-block", "--trials", "100000000"),
        ("spring-block", "--noise", "0:1:10000", "--friction-right", "0:1:10000"),
        ("spring-block", "--save-points", HUGE, "--duration", "1e7"),
        ("elastic", "--samples", HUGE),
        ("elastic", "--classes", "100000"),
        ("elastic", "--save-points", HUGE),
        ("elastic", "--discrete", "--batch-size", HUGE),
        ("mode", "--trials", "1000000000"),
        ("multilinear", "--trials", HUGE),
        ("multilinear", "--skills", HUGE),
        ("multilinear", "--skills", HUGE, "--data", "10"),
    ],
)
def test_simulations_that_do_not_fit(command, options):
    code, out, err = command("simulate", *options)
    words = " ".join(err.split())
    assert code == 2, out + err
    assert "GB of memory, and" in words
    assert "--no-limit" in words


@pytest.mark.parametrize("options", [("--trials", 10**9), ("--per-class", 10**9), ("--steps", HUGE)])
def test_imitations_that_do_not_fit(command, options):
    code, out, err = command("imitate", *options)
    assert code == 2, out + err
    assert "--no-limit" in err


def test_simulations_that_take_too_long(command):
    code, _, err = command("simulate", "spring-block", "--duration", "2e7", "--trials", "10000")
    assert code == 2
    assert "hours, and at most 168 are allowed" in " ".join(err.split())


@pytest.mark.parametrize(
    "run",
    [
        lambda: SpringBlock(blocks=10**6).simulate(trials=4000),
        lambda: LocallyElastic().separation_probability([1.0], HUGE, start=np.eye(3)),
        lambda: DeepLinear().initial_weights(10**9),
        lambda: ModeEquation(temperature=np.full(10**6, 0.1)).simulate(trials=1000),
        lambda: ScalarNetwork().simulate(trials=10**400),
        lambda: Multilinear().simulate(batch_size=HUGE),
        lambda: bootstrap_weights(10, HUGE, 0),
        lambda: geomnist(per_class=10**9),
        lambda: SparseParity().sample(HUGE),
        lambda: modular_arithmetic(10**6 + 3),
        lambda: Ensemble(MLP(4, 2), trials=HUGE),
        lambda: Ensemble(MLP(4, 2, width=1000, depth=9), trials=10**5).train(np.ones((4, 4)), [0, 1, 0, 1], 10),
        lambda: Ensemble(MLP(4, 2), trials=2).train(np.ones((4, 4)), [0, 1, 0, 1], HUGE),
    ],
)
def test_functions_that_do_not_fit(run):
    with pytest.raises(ValueError, match=r"dynascope\.budget\.unlimited\(\)"):
        run()


def test_the_limit_can_be_lifted_and_comes_back():
    with unlimited():
        require_room({"trials": HUGE}, HUGE)
        with unlimited(False):
            require_room({"trials": HUGE}, HUGE)
    with pytest.raises(ValueError, match="trials = 1e\\+12 need about"):
        require_room({"trials": HUGE}, HUGE)


def test_flags_lift_the_limit(command, monkeypatch):
    monkeypatch.setattr("dynascope.budget.free_memory", lambda: 10**3)
    asked = ("simulate", "mode", "--trials", "2", "--duration", "0.1", "--out", "a.nc")
    assert command(*asked)[0] == 2
    assert command(*asked, "--no-limit")[0] == 0
