"""GPUs, simulated by an nvidia-smi of the test's own: one worker each, packs that fit, and memory that is full."""

import os
import sys

import numpy as np
import pytest
from small_experiments import whereabouts

from dynascope.experiments.registry import find, names
from dynascope.sweep import Slurm, Ssh, Workload, sweep
from dynascope.sweep.gpus import Gpu, Room, gpus, is_out_of_memory
from dynascope.sweep.pack_runner import run_pack
from dynascope.sweep.workload import as_workload

pytest.importorskip("distributed")
MEMORY = 1000  # MiB of each


@pytest.fixture
def two_gpus(tmp_path, monkeypatch):
    """An nvidia-smi that knows two GPUs, and picks those that are asked for."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        f'one="GPU-aa, {MEMORY}"; two="GPU-bb, {MEMORY}"\n'
        'case "$*" in *--id=GPU-aa|*--id=0) echo "$one";; *--id=GPU-bb|*--id=1) echo "$two";;\n'
        '*--id=GPU-cc) exit 6;; *) echo "$one"; echo "$two";; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def places(pack):
    """Which GPU ran a pack, and how large it was."""
    own = whereabouts(meet=pack[0]["meet"], people=pack[0]["people"])
    return [own.assign(size=len(pack)) for _ in pack]


DEFAULTS = {"x": 0, "meet": "", "people": 2}
ON_GPU = Workload(places, DEFAULTS, seconds=1000.0, gpu=True, memory=float(100 << 20))  # eight fit


@pytest.fixture
def meet(tmp_path):
    """Where as many workers as are expected meet before they go on."""
    (tmp_path / "meet").mkdir()
    return {"meet": str(tmp_path / "meet")}


@pytest.mark.ci
def test_each_gpu_gets_one_worker_and_packs_that_fit(tmp_path, two_gpus, meet):
    table = sweep(ON_GPU, {"x": list(range(60))}, tmp_path / "out", fixed=meet, pack_seconds=10_000.0)
    assert (table["outcome"] == "finished").all()
    owners = dict(zip(table["process"].values.tolist(), table["cuda_visible_devices"].values.tolist(), strict=True))
    assert sorted(owners.values()) == ["GPU-aa", "GPU-bb"], "one process for each GPU"
    assert set(table["size"].values.tolist()) == {5}, "ten need 1000 MiB, of which 800 can be filled"


@pytest.mark.ci
def test_tasks_that_need_a_gpu_go_to_workers_that_have_one(tmp_path, meet):
    """A cluster of two workers with a GPU and two without: these do nothing where GPUs are needed, else all work."""
    distributed = pytest.importorskip("distributed")
    shared = {"nthreads": 1, "memory_limit": 0, "dashboard": False, "local_directory": str(tmp_path / "scratch")}
    own = [*(Gpu(f"GPU-{name}", 1 << 30).worker() for name in ("aa", "bb")), {}, {}]
    with distributed.SpecCluster(
        {number: {"cls": distributed.Nanny, "options": shared | each} for number, each in enumerate(own)},
        {"cls": distributed.Scheduler, "options": {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1", "port": 0}},
        silence_logs=50,
    ) as cluster:
        grid = {"x": list(range(40))}
        table = sweep(ON_GPU, grid, tmp_path / "gpu", fixed=meet, scheduler=cluster, pack_seconds=1000.0)
        assert set(table["cuda_visible_devices"].values) == {"GPU-aa", "GPU-bb"}
        assert len(set(table["process"].values)) == 2
        table = sweep(Workload(places, DEFAULTS), grid, tmp_path / "any", fixed=meet | {"people": 4}, scheduler=cluster)
        assert len(set(table["process"].values)) == 4


class OutOfMemoryError(RuntimeError):
    """As PyTorch names its own."""


def limited(error, limit=5):
    """An experiment whose packs must not be larger than `limit`, and the sizes that were tried."""
    tried = []

    def run(pack):
        tried.append(len(pack))
        if len(pack) > limit:
            raise error
        return [{"y": 2 * each["x"]} for each in pack]

    return run, tried


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        pytest.param(
            RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes."),
            marks=pytest.mark.ci,
        ),
        pytest.param(MemoryError(), marks=pytest.mark.ci),
    ],
)
def test_memory_that_is_full_halves_the_pack_and_those_that_follow(tmp_path, error):
    run, tried = limited(error)
    workload = Workload(run, {"x": 0}, seconds=1.0, gpu=True)
    table = sweep(workload, {"x": list(range(64))}, tmp_path, scheduler="here", pack_seconds=16.0)
    assert table["y"].values.tolist() == [2 * x for x in range(64)]
    assert tried == [16, 8, *[4] * 16], "each later pack is split at once"


def test_other_errors_do_not_make_packs_smaller(tmp_path):
    run, tried = limited(ValueError("odd"), limit=15)
    workload = Workload(run, {"x": 0}, seconds=1.0)
    sweep(workload, {"x": list(range(32))}, tmp_path, scheduler="here", pack_seconds=16.0)
    assert tried == [16, 8, 8, 16, 8, 8]


def test_memory_that_is_too_small_for_one_configuration_is_its_failure():
    run, tried = limited(OutOfMemoryError("CUDA out of memory"), limit=0)
    outcomes = run_pack([{"x": 1}, {"x": 2}], Room(Workload(run, {"x": 0})))
    assert [outcome.error for outcome in outcomes] == ["OutOfMemoryError: CUDA out of memory"] * 2
    assert tried == [2, 1, 1]


def test_errors_of_the_frameworks_themselves_are_recognised():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    assert is_out_of_memory(torch.cuda.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory"))
    assert not is_out_of_memory(jax.errors.JaxRuntimeError("INVALID_ARGUMENT: shapes"))


def test_gpus_are_those_that_are_visible(two_gpus, monkeypatch):
    assert gpus() == [Gpu("GPU-aa", MEMORY << 20), Gpu("GPU-bb", MEMORY << 20)]
    for visible, found in (
        ("1", ["1"]),
        ("GPU-aa", ["GPU-aa"]),
        ("0,1", ["0", "1"]),
        ("", []),
        ("-1", []),
        ("GPU-cc", []),
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert [each.name for each in gpus()] == found
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("PATH", "/nowhere")
    assert gpus() == []


def test_packs_are_longer_where_a_gpu_will_run_them(tmp_path, two_gpus):
    run, tried = limited(ValueError(), limit=10**6)
    grid = {"x": list(range(100))}
    sweep(Workload(run, {"x": 0}, seconds=10.0), grid, tmp_path / "core", scheduler="here")
    assert set(tried) == {3, 2}
    tried.clear()
    sweep(Workload(run, {"x": 0}, seconds=10.0, gpu=True), grid, tmp_path / "gpu", scheduler="here")
    assert tried == [100]


def test_more_workers_than_gpus_are_refused(tmp_path, two_gpus):
    with pytest.raises(ValueError, match="workers must be at most 2, one for each GPU of this machine, got 3"):
        sweep(ON_GPU, {"x": [1]}, tmp_path, workers=3)


def test_experiments_that_train_networks_use_a_gpu():
    used = {name: as_workload(find(name)).gpu for name in names()}
    assert used == {name: "torch" in find(name).needs for name in names()}
    assert set(used.values()) == {True, False}


@pytest.mark.parametrize("bad", [-1.0, np.nan, "much"])
def test_bad_memory(bad):
    with pytest.raises(ValueError, match="memory of run must be a number of bytes above 0"):
        Room(Workload(limited(None)[0], {"x": 0}, name="run", gpu=True, memory=bad), memory=100).split([{"x": 1}])
    with pytest.raises(ValueError, match="memory must be left out where gpu is False"):
        Workload(len, {"x": 0}, memory=1.0)


@pytest.mark.ci
def test_a_host_reached_by_ssh_has_a_worker_for_each_of_its_gpus(tmp_path, two_gpus, meet, ssh, monkeypatch):
    """What is far is found there: the program that ssh starts asks the nvidia-smi of its own path."""
    place = Ssh(["localhost"], command=ssh)
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nPATH={tmp_path / "bin"}:$PATH exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    table = sweep(ON_GPU, {"x": list(range(60))}, tmp_path / "out", fixed=meet, scheduler=place, pack_seconds=5000.0)
    assert set(table["cuda_visible_devices"].values) == {"GPU-aa", "GPU-bb"}


@pytest.mark.ci
def test_jobs_of_slurm_have_a_gpu_each(tmp_path, slurm, meet):
    """The Slurm of the tests takes two devices of this machine for GPUs."""
    place = Slurm(jobs=2, gpu=True, listen="127.0.0.1")
    grid = {"x": list(range(60))}
    table = sweep(ON_GPU, grid, tmp_path / "out", fixed=meet, scheduler=place, pack_seconds=3000.0)
    jobs = set(zip(table["slurm_job_id"].values, table["cuda_visible_devices"].values, strict=True))
    assert sorted(gpu for _, gpu in jobs) == ["0", "1"]
