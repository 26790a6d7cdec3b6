"""Sweeps on Dask: workers that are killed, programs that are stopped, schedulers that run elsewhere or not at all."""

import gc
import importlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from small_experiments import deadly, digests, walk

from dynascope.sweep import gather, status, sweep
from dynascope.sweep.folder import RESULTS, SweepFolder

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")
HERE = Path(__file__).parent
GRID = {"drift": np.linspace(0, 1, 50).tolist()}


def workers_of(process):
    """Processes that Dask's nannies started, and start again when they die."""
    found = psutil.Process(process).children(recursive=True)
    return [each for each in found if "spawn_main" in " ".join(each.cmdline())]


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """A function that gives the digests of an undisturbed run of 50 tasks for each seed, in this process."""

    @cache
    def run(seeds):
        out = tmp_path_factory.mktemp("calm")
        sweep(walk, GRID, out, seeds=seeds, fixed={"pause": 0.02}, scheduler="here")
        return digests(out)

    return run


@pytest.mark.ci
@pytest.mark.parametrize(("deaths", "seeds"), [(1, 1), (4, 4)])
def test_workers_killed_at_random_moments_leave_the_same_digests(tmp_path, calm, deaths, seeds):
    killed, over = [], threading.Event()

    def kill_some():
        moments = random.Random(3)
        after = 1
        while not over.wait(moments.uniform(0.0, 0.02)) and (seeds > 1 or not killed):
            finished = len(SweepFolder(tmp_path).keys(RESULTS))
            if finished < after:
                continue
            for victim in moments.sample(workers_of(os.getpid()), 1):
                victim.send_signal(signal.SIGKILL)
                killed.append(finished)
            after = finished + moments.randint(10, 30)

    killer = threading.Thread(target=kill_some)
    killer.start()
    try:
        sweep(walk, GRID, tmp_path, seeds=seeds, fixed={"pause": 0.02}, workers=min(seeds, 2))
    finally:
        over.set()
        killer.join()
    assert len(killed) >= deaths, f"only {len(killed)} workers were killed"
    assert digests(tmp_path) == calm(seeds)


STOPPED = """
import sys
from small_experiments import walk
from dynascope.sweep import sweep
if __name__ == "__main__":
    grid = {"drift": [each / 10 for each in range(10)]}
    sweep(walk, grid, sys.argv[1], seeds=4, fixed={"pause": 0.05, "log": sys.argv[2]}, workers=2)
"""


@pytest.mark.ci
def test_a_program_stopped_half_way_goes_on_and_computes_nothing_twice(tmp_path, environment):
    (tmp_path / "program.py").write_text(STOPPED)
    out, log = tmp_path / "out", tmp_path / "log"
    program = [sys.executable, tmp_path / "program.py", str(out), str(log)]
    process = subprocess.Popen(program, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(SweepFolder(out).keys(RESULTS)) < 15 and time.monotonic() < deadline:
        time.sleep(0.01)
    workers = workers_of(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(workers) == 2
    psutil.wait_procs(workers, timeout=10)
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in workers), "orphans"
    with SweepFolder(out).locked():
        finished = {tuple(map(float, line.split())) for line in log.read_text().splitlines()}
        kept = SweepFolder(out).keys(RESULTS)
    assert 15 <= len(kept) <= len(finished) < 40
    grid = {"drift": [each / 10 for each in range(10)]}
    log.unlink()
    table = sweep(walk, grid, out, seeds=4, fixed={"pause": 0.05, "log": str(log)}, scheduler="here")
    assert len(log.read_text().splitlines()) == 40 - len(kept)
    assert (table["outcome"] == "finished").all()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """The commands of docs/sweep.md; without openssl the tests go on without TLS."""
    folder = tmp_path_factory.mktemp("certificates")
    if shutil.which("openssl") is None:
        return None
    text = (HERE.parent.parent / "docs" / "sweep.md").read_text()
    commands = [line for line in text.replace("\\\n", " ").splitlines() if line.startswith("openssl")]
    for command in commands:
        subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory, certificates, environment):
    """A scheduler and a worker in processes of their own; their address and the environment that reaches them."""
    folder = tmp_path_factory.mktemp("scheduler")
    secure = (
        [
            f"--tls-{name}={certificates}/{file}"
            for name, file in (("ca-file", "ca.pem"), ("cert", "dask.pem"), ("key", "dask.key"))
        ]
        if certificates
        else []
    )
    protocol = "tls" if certificates else "tcp"
    file = folder / "scheduler.json"
    common = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    scheduler = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "distributed.cli.dask_scheduler",
            "--host",
            f"{protocol}://127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            file,
            *secure,
        ],
        **common,
    )
    worker = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "distributed.cli.dask_worker",
            "--scheduler-file",
            file,
            "--nthreads",
            "1",
            "--memory-limit",
            "0",
            "--no-dashboard",
            "--local-directory",
            folder,
            *secure,
        ],
        env=environment,
        **common,
    )
    deadline = time.monotonic() + 60
    while not (file.exists() and file.read_text().endswith("}")) and time.monotonic() < deadline:
        time.sleep(0.05)
    yield file, certificates
    for process in (worker, scheduler):
        process.terminate()
        process.wait()


def _cluster_here(folder):
    """One worker in a thread of this process."""
    return distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        dashboard_address="127.0.0.1:0",  # None listens at 8787, where another may be
        local_directory=str(folder / "scratch"),
    )


@pytest.mark.ci
def test_a_scheduler_is_found_by_its_address(tmp_path, calm):
    with _cluster_here(tmp_path) as cluster:
        assert cluster.scheduler_address.startswith("tcp://127.0.0.1:")
        sweep(walk, GRID, tmp_path, fixed={"pause": 0.02}, scheduler=cluster.scheduler_address, trust_network=True)
    assert digests(tmp_path) == calm(1)


@pytest.mark.ci
def test_a_worker_hands_back_what_does_not_fit_into_its_time(tmp_path, monkeypatch):
    """Tasks that get a hundred times slower half-way come in batches that are as short as before."""
    monkeypatch.setattr("dynascope.sweep.pack_runner.BATCH_SECONDS", 0.3)
    monkeypatch.setattr("dynascope.sweep.cluster.BATCH_SECONDS", 0.3)
    pauses = [{"drift": float(each), "pause": 0.001 if each < 100 else 0.1} for each in range(130)]
    log = tmp_path / "log"
    with _cluster_here(tmp_path) as cluster:
        table = sweep(walk, pauses, tmp_path / "out", fixed={"log": str(log)}, scheduler=cluster)
    assert (table["outcome"] == "finished").all()
    assert len(log.read_text().splitlines()) == 130, "nothing is computed twice"
    heads = [batch.head for batch in SweepFolder(tmp_path / "out").heads()]
    assert len(heads[0].keys) == 1, "the first batch is small, so that it is known what a task takes"
    assert max(len(head.keys) for head in heads) > 10
    slow = {task.key for task in SweepFolder(tmp_path / "out").read_plan()[0].tasks[100:]}
    assert all(len(slow.intersection(head.keys)) <= 5 for head in heads)


@pytest.mark.ci
def test_a_scheduler_in_another_process_serves_the_same_command_by_its_address(tmp_path, elsewhere, calm, environment):
    file, certificates = elsewhere
    address = json.loads(file.read_text())["address"]
    own = dict(environment)
    if certificates:
        assert address.startswith("tls://")
        for name, path in (("CA_FILE", "ca.pem"), ("CLIENT__CERT", "dask.pem"), ("CLIENT__KEY", "dask.key")):
            own[f"DASK_DISTRIBUTED__COMM__TLS__{name}"] = str(certificates / path)
    drifts = ",".join(map(repr, GRID["drift"]))
    command = ["sweep", "small_experiments:walk", "--grid", f"drift={drifts}", "--seeds", "4", "--set", "pause=0.02"]
    command += [] if certificates else ["--trust-network"]
    done = subprocess.run(
        [sys.executable, "-m", "dynascope", *command, "--scheduler", address, "--out", str(tmp_path)],
        env=own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "200 of 200 tasks finished" in done.stdout
    assert digests(tmp_path) == calm(4)


@pytest.mark.ci
def test_a_task_that_kills_every_worker_is_given_up_and_the_others_finish(tmp_path, monkeypatch):
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            memory_limit=0,
            local_directory=str(tmp_path / "scratch"),
            scheduler_kwargs={"allowed_failures": 0},
        ) as cluster,
        pytest.warns(RuntimeWarning, match="1 of 4 tasks failed"),
    ):
        table = sweep(deadly, {"x": [0, 1, 2, 3]}, tmp_path / "out", scheduler=cluster)
    assert table["x"].sizes == {"x": 4}
    (failure,) = status(tmp_path / "out")["failures"]
    assert failure["configuration"] == {"x": 1}
    assert failure["error"].startswith("the worker died 1 times while it ran this pack")
    assert status(tmp_path / "out")["finished"] == 3


def test_an_unreachable_scheduler_is_said_at_once_and_finished_results_are_kept(tmp_path):
    sweep(walk, {"drift": [0.0]}, tmp_path, scheduler="here")
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{reserved.getsockname()[1]}"
    begun = time.monotonic()
    with pytest.raises(ConnectionError, match=rf"no scheduler answers at {address} within 0.5 seconds; is it running"):
        sweep(walk, {"drift": [0.0, 1.0]}, tmp_path, scheduler=address, timeout=0.5, trust_network=True)
    assert time.monotonic() - begun < 5
    assert status(tmp_path)["finished"] == 1
    assert gather(tmp_path)["outcome"].values.tolist() == ["finished", "missing"]


@pytest.mark.ci
def test_a_client_that_could_not_connect_is_gone_before_the_next_loop_starts(tmp_path, monkeypatch):
    def clients():
        return [each for each in gc.get_objects() if type(each) is distributed.Client]

    def start(*_, **__):
        raise KeyError(len(clients()))

    monkeypatch.setattr(distributed, "SpecCluster", start)
    gc.disable()
    try:
        with pytest.raises(ConnectionError):
            sweep(walk, GRID, tmp_path, scheduler="tcp://127.0.0.1:1", timeout=0.1, trust_network=True)
        assert clients()
        with pytest.raises(KeyError, match="0"):
            sweep(walk, GRID, tmp_path, scheduler=None, workers=1)
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ("tcp://10.1.2.3:8786", "scheduler must be reached by tls://, got 'tcp://10.1.2.3:8786'"),
        ("tcp://127.0.0.1:8786", "scheduler must be reached by tls://"),
        ("example.org:8786", "scheduler tls://example.org:8786 needs certificates"),
        ("tcp://localhost", 'scheduler must be "here", an address such as tls://host:8786'),
        ("http://localhost:8786", 'scheduler must be "here", an address'),
        ("localhost:port", 'scheduler must be "here", an address'),
        ("missing.json", "scheduler must be a file that Dask's scheduler wrote, got 'missing.json'"),
    ],
)
def test_bad_schedulers(tmp_path, scheduler, message):
    with pytest.raises(ValueError, match=message):
        sweep(walk, {"drift": [0.0]}, tmp_path, scheduler=scheduler)


@pytest.mark.ci
def test_a_script_without_a_guard_is_told_so(tmp_path, environment):
    """Workers import the script that starts them: without the guard they would start sweeps of their own."""
    (tmp_path / "program.py").write_text(
        "from small_experiments import walk\nfrom dynascope.sweep import sweep\n"
        f"sweep(walk, {{'drift': [0.0]}}, {str(tmp_path / 'out')!r}, workers=1)\n"
    )
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert 'put the call below `if __name__ == "__main__":`' in done.stderr


@pytest.mark.ci
def test_a_worker_that_has_another_source_or_none_stops_the_sweep(tmp_path, elsewhere, monkeypatch):
    """The worker elsewhere knows small_experiments, but not this module of the test's own."""
    file, certificates = elsewhere
    settings = {}
    if certificates:
        files = {"ca-file": "ca.pem", "client.cert": "dask.pem", "client.key": "dask.key"}
        settings = {f"distributed.comm.tls.{name}": str(certificates / each) for name, each in files.items()}
    (tmp_path / "only_here.py").write_text("def half(x):\n    return {'y': x / 2}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    only_here = importlib.import_module("only_here")
    with dask.config.set(settings):
        with pytest.raises(ValueError, match=r"the workers cannot run half.*No module named 'only_here'"):
            sweep(only_here.half, {"x": [1.0]}, tmp_path / "a", scheduler=str(file))
        monkeypatch.setattr("dynascope.sweep.plan.source_digest", lambda origin: "another source")
        with pytest.raises(ValueError, match="a worker has another version of walk"):
            sweep(walk, {"drift": [0.0]}, tmp_path / "b", scheduler=str(file))
