"""What every model family promises, tested once for all of them. A new family is added to FAMILIES."""

import importlib
import json

import equinox as eqx
import jax
import numpy as np
import pytest
import xarray as xr

from dynascope import (
    DeepLinear,
    LocallyElastic,
    ModeEquation,
    Multilinear,
    ScalarNetwork,
    SpringBlock,
    digest,
    grid,
    load,
    save,
)
from dynascope.cli.simulate import FAMILIES as COMMANDS
from dynascope.experiments.registry import names

# family -> (model, a parameter to vary, two values of it, short options of simulate)
FAMILIES = {
    "spring_block": (SpringBlock, "noise", [0.005, 0.02], {"duration": 2.0, "save_points": 3}),
    "elastic": (LocallyElastic, "noise", [0.1, 0.3], {"duration": 2.0, "save_points": 3, "samples": 3}),
    "deep_linear": (DeepLinear, "label_noise", [0.0, 0.3], {"duration": 0.1, "save_points": 3}),
    "linear_modes": (ScalarNetwork, "target", [0.5, 2.0], {"duration": 0.1, "save_points": 3, "batch_size": 4}),
    "multilinear": (Multilinear, "learning_rate", [0.05, 0.2], {"steps": 10, "batch_size": 20, "save_points": 3}),
    "mode": (ModeEquation, "label_noise", [0.1, 0.3], {"duration": 2.0, "save_points": 3}),
}
FOLDERS = {"mode": "deep_linear"}  # where a family lives, if not in a folder of its own name


@pytest.fixture(params=FAMILIES)
def family(request):
    return FAMILIES[request.param]


def test_model_is_frozen_and_keeps_numpy_float64(family):
    model, name, values, _ = family
    instance = model(**{name: values})
    assert isinstance(instance, eqx.Module)
    field = getattr(instance, name)
    assert isinstance(field, np.ndarray)
    assert field.dtype == np.float64
    with pytest.raises(AttributeError):
        setattr(instance, name, 0.0)


def test_result_is_labelled_and_says_what_made_it(family):
    model, name, values, options = family
    run = model(**{name: values}).simulate(trials=3, seed=5, **options)
    assert isinstance(run, xr.Dataset)
    assert run.sizes["trial"] == 3
    assert run["time"].attrs["units"]
    assert not set(run.data_vars) & set(run.dims)
    np.testing.assert_array_equal(run[name], values)
    facts = {key: json.loads(value) for key, value in run.attrs.items()}
    assert facts["model"] == model.__name__
    assert facts["seed"] == 5
    assert facts["precision"] == "float64"
    assert {"parameters", "options", "versions", "commit", "device", "wall_time"} <= facts.keys()


def test_grid_leads_and_dataarrays_keep_their_names(family):
    model, name, values, options = family
    by_name = model(**grid(**{name: values})).simulate(trials=2, **options)
    by_place = model(**{name: np.array(values)}).simulate(trials=2, **options)
    for variable in by_place.data_vars:
        assert by_name[variable].dims[0] == name
        assert by_place[variable].dims[0] == "grid_0"
        np.testing.assert_array_equal(by_name[variable], by_place[variable])


@pytest.mark.parametrize("precision", ["float64", pytest.param("float32", marks=pytest.mark.ci)])
@pytest.mark.parametrize("others", [(5, 33), pytest.param((17, 400), marks=pytest.mark.ci)])
def test_a_trial_does_not_depend_on_the_others(family, others, precision):
    model, _, _, options = family
    few = model().simulate(trials=4, precision=precision, **options).isel(trial=3)
    for trials in others:
        many = model().simulate(trials=trials, precision=precision, **options).isel(trial=3)
        assert few.drop_attrs().identical(many.drop_attrs()), trials


def test_every_grid_point_sees_the_same_noise(family):
    model, name, values, options = family
    together = model(**{name: values}).simulate(trials=3, **options)
    for index, value in enumerate(values):
        alone = model(**{name: value}).simulate(trials=3, **options)
        for variable in alone.data_vars:
            # rounding may differ: the compiler vectorises the two shapes differently
            np.testing.assert_allclose(together[variable][index], alone[variable], rtol=0, atol=1e-13)


def test_same_seed_same_record_other_seed_other_record(family):
    model, _, _, options = family
    first, again, other = (model().simulate(trials=2, seed=seed, **options) for seed in (1, 1, 2))
    assert digest(first) == digest(again)
    assert digest(first) != digest(other)


def test_record_survives_the_disk(family, tmp_path):
    model, name, values, options = family
    run = model(**grid(**{name: values})).simulate(trials=2, **options)
    assert load(save(run, tmp_path / "run.nc")).identical(run)


def test_users_jax_configuration_is_left_alone(family):
    model, _, _, options = family
    before = jax.config.jax_enable_x64
    model().simulate(trials=1, **options)
    assert jax.config.jax_enable_x64 == before


@pytest.mark.parametrize("name", FAMILIES)
def test_family_has_a_citation_claims_and_a_command(name):
    folder = FOLDERS.get(name, name)
    module = importlib.import_module(f"dynascope.models.{folder}")
    bibliography = importlib.resources.files("dynascope").joinpath("references.bib").read_text()
    assert f"{{{module.CITE}," in bibliography
    assert names(folder)
    assert FAMILIES[name][0] in COMMANDS.values()
