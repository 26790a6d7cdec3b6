"""The public names are a contract: a change here is a change for users."""

import inspect
import pkgutil

import pytest

import dynascope
from dynascope import (
    LocallyElastic,
    SpringBlock,
    cli,
    forecasting,
    live,
    measure,
    monitor,
    networks,
    plots,
    steering,
    sweep,
)

PACKAGES = [dynascope, cli, forecasting, live, measure, monitor, networks, plots, steering, sweep]


def test_public_names():
    assert dynascope.__all__ == [
        "DeepLinear",
        "DiagonalNetwork",
        "Ensemble",
        "LocallyElastic",
        "ModeEquation",
        "Multilinear",
        "PowerLaw",
        "Sampled",
        "ScalarNetwork",
        "SpringBlock",
        "TwoLayerLinear",
        "advise",
        "digest",
        "estimate_chain",
        "estimate_elasticity",
        "estimate_emergence",
        "estimate_strengths",
        "forecast",
        "grid",
        "imitate",
        "learnability",
        "learning_stages",
        "load",
        "load_curve",
        "relative_difference",
        "save",
        "separable",
        "steer",
        "watch",
    ]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_package_has_the_names_of_its_stub_and_shows_no_others(package):
    assert package.__all__
    assert all(hasattr(package, name) for name in package.__all__)
    assert [name for name in dir(package) if not name.startswith("__")] == package.__all__


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dynascope.nothing  # noqa: B018 (looking it up is the test)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_no_function_shares_its_name_with_a_module(package):
    assert not {each.name for each in pkgutil.iter_modules(package.__path__)} & set(package.__all__)


def test_every_public_name_has_a_docstring_with_an_example():
    for name in dynascope.__all__:
        assert ">>>" in (getattr(dynascope, name).__doc__ or ""), name
    for name, method in [*vars(SpringBlock).items(), *vars(LocallyElastic).items()]:
        if not name.startswith("_") and inspect.isfunction(method):
            assert ">>>" in (method.__doc__ or ""), name


def test_spring_block_defaults():
    defaults = {name: p.default for name, p in inspect.signature(SpringBlock).parameters.items()}
    assert defaults == {
        "blocks": 7,
        "stiffness": 1.0,
        "friction_right": 0.1,
        "friction_left": 0.2,
        "noise": 0.01,
        "target": 1.0,
    }
    simulate = {
        name: p.default
        for name, p in inspect.signature(SpringBlock.simulate).parameters.items()
        if name not in ("self", "unknown")
    }
    assert simulate == {
        "duration": 100.0,
        "dt": 0.01,
        "trials": 100,
        "seed": 0,
        "save_points": 101,
        "dynamics": "overdamped",
        "damping": None,
        "noise_decay": 0.0,
        "shared_noise": False,
        "truncate": None,
        "stop_tolerance": None,
        "start": None,
        "precision": "float64",
        "progress": None,
    }
