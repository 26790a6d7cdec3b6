"""Sweeps in this process: what is computed, what is not computed again, what comes back."""

import functools
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from small_experiments import PACKED, fragile, walk

from dynascope import SpringBlock, digest, load, save
from dynascope.experiments.registry import find, names
from dynascope.sweep import Workload, asked, gather, status
from dynascope.sweep import sweep as sweep_anywhere
from dynascope.sweep.folder import SweepFolder
from dynascope.sweep.plan import as_text
from dynascope.sweep.workload import as_workload

sweep = functools.partial(sweep_anywhere, scheduler="here")


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def test_a_table_over_the_grid(tmp_path):
    table = sweep(walk, {"drift": [0.0, 0.5], "noise": [1, 2, 4]}, tmp_path, seeds=3, fixed={"steps": 4})
    assert table["position"].dims == ("drift", "noise", "seed", "time")
    for drift, noise, seed in [(0.0, 1.0, 0), (0.5, 4.0, 2), (0.5, 2.0, 1)]:
        exact = walk(drift, noise, 4, seed)
        point = table.sel(drift=drift, noise=noise, seed=seed)
        np.testing.assert_array_equal(point["position"], exact["position"])
        assert point["end"].item() == exact["end"].item()
    assert set(table["outcome"].values.ravel()) == {"finished"}
    assert load(save(table, tmp_path / "table.nc")).identical(table)
    _, record = next(SweepFolder(tmp_path).records())
    assert '"configuration": {"drift"' in record.attrs["sweep"]


def test_what_is_finished_is_not_computed_again(tmp_path):
    log = tmp_path / "log"
    first = functools.partial(sweep, walk, fixed={"log": str(log)}, out=tmp_path / "out")
    first({"drift": [0.0, 1.0]}, seeds=2)
    assert len(lines(log)) == 4
    again = first({"drift": [0.0, 1.0]}, seeds=2)
    assert len(lines(log)) == 4
    wider = first({"drift": [0.0, 1.0, 2.0]}, seeds=3)
    assert len(lines(log)) == 9, "of nine, five are new"
    assert len(set(lines(log))) == 9
    xr.testing.assert_identical(wider["end"].sel(drift=[0.0, 1.0], seed=[0, 1]), again["end"])
    assert status(tmp_path / "out")["tasks"] == 9


def test_packs_depend_neither_on_what_is_finished_nor_on_who_asks(tmp_path):
    log = tmp_path / "log"
    grid, fixed = {"steps": [3, 5], "drift": [0.0, 0.5, 1.0]}, {"log": str(log)}
    sweep(PACKED, grid, tmp_path / "a", seeds=2, fixed=fixed)
    packs = lines(log)
    assert [len(pack.split()) for pack in packs] == [3, 3, 3, 3]
    SweepFolder(tmp_path / "a").batches.unlink()
    sweep(PACKED, grid, tmp_path / "a", seeds=2, fixed=fixed)
    assert lines(log)[4:] == packs
    sweep(PACKED, grid, tmp_path / "b", seeds=2, fixed=fixed, pack_seconds=100)
    assert [len(pack.split()) for pack in lines(log)[8:]] == [6, 6]
    a, b = gather(tmp_path / "a"), gather(tmp_path / "b")
    assert digest(a) == digest(b)
    assert a.sizes == {"steps": 2, "drift": 3, "seed": 2, "time": 5}
    assert a["position"].sel(steps=3, time=5).isnull().all(), "shorter walks are aligned by their time"


def test_a_task_that_raises_keeps_its_traceback_and_the_others_go_on(tmp_path):
    with pytest.warns(RuntimeWarning, match="2 of 6 tasks failed; `dynascope sweep status .*` says why"):
        table = sweep(fragile, {"x": [1.0, 2.0, 3.0]}, tmp_path, seeds=2)
    assert table["outcome"].sel(x=2.0).values.tolist() == ["failed", "failed"]
    assert table["double"].sel(seed=0).values.tolist() == pytest.approx([2.0, np.nan, 6.0], nan_ok=True)
    assert table["name"].values.tolist() == [["run 0", "run 1"], ["", ""], ["run 0", "run 1"]]
    assert table["sign"].dtype == table["count"].dtype == np.float64
    save(table, tmp_path / "table.nc")
    found = status(tmp_path)
    assert (found["finished"], found["failed"], found["missing"]) == (4, 2, 0)
    assert found["failures"][0]["configuration"] == {"x": 2.0, "seed": 0}
    assert found["failures"][0]["error"] == "ZeroDivisionError: x is two"
    assert 'raise ZeroDivisionError("x is two")' in found["failures"][0]["traceback"]


def test_one_bad_configuration_does_not_take_its_pack_with_it(tmp_path):
    able = Workload(fragile_packs, {"x": 1.0}, seconds=1.0)
    with pytest.warns(RuntimeWarning, match="1 of 7 tasks failed"):
        table = sweep(able, {"x": np.arange(7.0)}, tmp_path)
    assert (table["outcome"] == "failed").values.tolist() == [x == 2 for x in range(7)]
    assert np.nansum(table["double"]) == 2 * (21 - 2)


def fragile_packs(pack):
    return [fragile(each["x"]) for each in pack]


def test_a_pack_with_too_few_results_or_none_that_is_a_dataset_fails(tmp_path):
    with pytest.warns(RuntimeWarning, match="2 of 2 tasks failed"):
        sweep(Workload(too_few, {"x": 1.0}, seconds=1.0), {"x": [1.0, 2.0]}, tmp_path / "a")
    assert (
        "run must return 1 datasets, one for each configuration, got 0"
        in status(tmp_path / "a")["failures"][0]["error"]
    )
    with pytest.warns(RuntimeWarning, match="1 of 1 tasks failed"):
        table = sweep(list_of, {"x": [1.0]}, tmp_path / "b")
    error = status(tmp_path / "b")["failures"][0]["error"]
    assert "must return an xarray.Dataset or a dict of numbers, got list" in error
    assert list(table.data_vars) == ["outcome"]


def too_few(pack):
    return []


def list_of(x):
    return [x]


def test_failures_are_run_again_only_when_asked_and_finished_results_of_older_code_stay(tmp_path, monkeypatch):
    log = tmp_path / "log"

    def run(x, broken=True, log=str(log)):
        with open(log, "a") as stream:
            stream.write(f"{x}\n")
        if MENDED["no"] and x == 2:
            raise ValueError("broken")
        return {"y": x}

    with pytest.warns(RuntimeWarning, match="1 of 3 tasks failed"):
        sweep(run, {"x": [1, 2, 3]}, tmp_path / "out")
    with pytest.warns(RuntimeWarning, match="1 of 3 tasks failed"):
        sweep(run, {"x": [1, 2, 3]}, tmp_path / "out")
    assert lines(log) == ["1", "2", "3"], "not without being asked"
    monkeypatch.setitem(MENDED, "no", False)
    table = sweep(run, {"x": [1, 2, 3]}, tmp_path / "out", retry=True)
    assert lines(log) == ["1", "2", "3", "2"]
    assert table["y"].values.tolist() == [1, 2, 3]
    assert len(eval(table.attrs["options"])["code"]) == 2, "the table says that two versions of the code made it"
    sweep(run, {"x": [1, 2, 3]}, tmp_path / "out")
    assert len(lines(log)) == 6, "without retry, results of other code do not count"


MENDED = {"no": True}


def test_what_was_asked_can_be_asked_again(tmp_path):
    sweep(walk, {"drift": [0.0, 1.0]}, tmp_path / "a", seeds=[5, 7], fixed={"steps": 2})
    request = asked(tmp_path / "a")
    assert request["reference"] == {"name": "small_experiments:walk"}
    assert (request["grid"], request["seeds"]) == ({"drift": [0.0, 1.0]}, [5, 7])
    sweep(walk, [{"drift": 1.0}, {"noise": 3.0}], tmp_path / "b", seeds=2)
    for name in ("a", "b"):
        before, request = SweepFolder(tmp_path / name).read_plan()[0], asked(tmp_path / name)
        sweep(walk, request["grid"], tmp_path / name, seeds=request["seeds"], fixed=request["fixed"])
        assert SweepFolder(tmp_path / name).read_plan()[0] == before


def test_results_named_like_the_grid_are_refused_and_kept(tmp_path):
    def clash(drift, time=1.0):
        return xr.Dataset({"a": ("drift", [drift])})

    with pytest.raises(ValueError, match="results must not have a dimension or variable 'drift'"):
        sweep(clash, {"drift": [1.0]}, tmp_path)
    assert status(tmp_path)["finished"] == 1


def test_coordinates_of_results(tmp_path):
    def layers(depth, slope=0.1):
        return xr.Dataset(
            {"load": ("layer", np.arange(depth) * slope)},
            coords={"slope": slope, "rate": depth / 10, "unit": "bits", "layer": np.arange(depth)},
        )

    table = sweep(layers, {"depth": [2, 3], "slope": [0.0, 0.5]}, tmp_path)
    assert table["load"].dims == ("depth", "slope", "layer")
    assert table["unit"].item() == "bits"
    assert table["rate"].values.tolist() == [[0.2, 0.2], [0.3, 0.3]]
    mixed = sweep(layers, [{"depth": 2}, {"depth": 1, "slope": 1.0}], tmp_path)
    assert mixed["load"].dims == ("configuration", "layer")
    assert mixed["slope"].values.tolist() == [0.1, 1.0]


def test_a_model_family_and_an_experiment_of_the_registry(tmp_path):
    quick = {"duration": 1.0, "trials": 2, "save_points": 2}
    table = sweep(SpringBlock, {"noise": [0.0, 0.1]}, tmp_path / "model", seeds=2, fixed=quick)
    exact = SpringBlock(noise=0.1).simulate(**quick, seed=1)
    np.testing.assert_array_equal(table["energy"].sel(noise=0.1, seed=1), exact["energy"])
    experiment = find("spring_block/phase_diagram")
    small = {"duration": 1.0, "rows": 2, "columns": 2}
    table = sweep(experiment, {"trials": [2, 3], "dynamics": ["overdamped"]}, tmp_path / "figure", fixed=small)
    assert table["energy"].sizes["trial"] == 3
    assert table["energy"].dims[:2] == ("trials", "dynamics")


def test_every_experiment_of_the_registry_has_an_address():
    for name in names():
        able = as_workload(find(name), "smoke")
        as_text(able.defaults)
        assert able.defaults, name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pack_seconds": 0}, "pack_seconds must be above 0"),
        ({"timeout": "long"}, "timeout must be a real number"),
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"retry": "yes"}, "retry must be True or False"),
        ({"trust_network": 1}, "trust_network must be True or False"),
    ],
)
def test_bad_options(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        sweep(walk, {"drift": [0.0]}, tmp_path, **options)


def test_without_dask_sweeps_run_here_and_say_how_to_use_all_cores(tmp_path, environment):
    code = (
        "import sys; sys.modules['distributed'] = sys.modules['dask'] = None;"
        "from dynascope.sweep import sweep; from small_experiments import walk;"
        "print(sweep(walk, {'drift': [0.0]}, sys.argv[1], scheduler='here')['end'].size);"
        "sweep(walk, {'drift': [1.0]}, sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "1\n"
    assert "pip install 'dynascope[sweep]'" in done.stderr.splitlines()[-1]
