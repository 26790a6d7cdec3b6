"""Sweeps whose workers are jobs of a real Slurm, or reached through a real sshd: killed, refused, replaced."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_experiments import digests, walk, whereabouts

from dynascope.sweep import Slurm, Ssh, status, sweep
from dynascope.sweep.folder import RESULTS, SweepFolder

dask = pytest.importorskip("dask")
psutil = pytest.importorskip("psutil")
pytest.importorskip("dask_jobqueue")
GRID = {"drift": [each / 10 for each in range(20)]}
LATE = 300.0  # seconds after which a wait on a machine under load has failed


def until(what, said):
    """Wait for what must come, however busy the machine is."""
    late = time.monotonic() + LATE
    while not (found := what()):
        assert time.monotonic() < late, said
        time.sleep(0.05)
    return found


def finished(out):
    return len(SweepFolder(out).keys(RESULTS))


def jobs():
    """Jobs of Slurm that run now."""
    listed = subprocess.run(["squeue", "-h", "-t", "running", "-o", "%A"], capture_output=True, text=True, check=True)
    return listed.stdout.split()


@pytest.fixture
def begin(environment):
    """A function that starts a sweep of 400 tasks of 20 ms, as a user would type it."""
    begun = []

    def start(out, *options):
        drifts = ",".join(map(repr, GRID["drift"]))
        words = ["small_experiments:walk", "--grid", f"drift={drifts}", "--seeds", "20", "--set", "pause=0.02"]
        program = subprocess.Popen(
            [sys.executable, "-m", "dynascope", "sweep", *words, "--out", str(out), *options],
            env=environment | {name: os.environ[name] for name in ("SLURM_CONF", "PATH") if name in os.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        begun.append(program)
        return program

    yield start
    for each in begun:
        each.kill()
        each.wait()
        each.stdout.close()


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Digests of that sweep, undisturbed, in this process."""
    out = tmp_path_factory.mktemp("calm")
    sweep(walk, GRID, out, seeds=20, fixed={"pause": 0.02}, scheduler="here")
    return digests(out)


@pytest.mark.ci
def test_jobs_of_slurm_are_where_and_as_large_as_asked_for(tmp_path, slurm):
    place = Slurm(jobs=2, partition="short", walltime="00:30:00", memory="500MB", listen="127.0.0.1")
    (tmp_path / "meet").mkdir()
    fixed = {"meet": str(tmp_path / "meet"), "people": 2}
    table = sweep(whereabouts, {"x": list(range(60))}, tmp_path / "o ut", fixed=fixed, scheduler=place)
    assert (table["outcome"] == "finished").all()
    assert set(table["slurm_job_partition"].values) == {"short"}
    assert set(table["slurm_mem_per_node"].values) == {"477"}  # 500 MB in MiB
    assert len(set(table["slurm_job_id"].values)) == 2
    until(lambda: not jobs(), "the jobs do not end with the sweep")
    assert sorted(path.name for path in (tmp_path / "o ut").iterdir()) == [".lock", "results", "sweep.json"]


@pytest.mark.ci
@pytest.mark.parametrize(("scheduler", "place"), [("slurm", "sweeps/jobs"), ("ssh", "sweeps/hosts")])
def test_the_commands_of_the_page_run_as_they_stand(tmp_path, monkeypatch, slurm, ssh, scheduler, place):
    """Beside what is not so here: an sshd that listens elsewhere, and jobs that can reach loopback only."""
    page = (Path(__file__).parents[2] / "docs" / "sweep.md").read_text()
    (line,) = re.findall(rf"^dynascope (sweep .*--scheduler {scheduler} .*)$", page, re.MULTILINE)
    more = ["--ssh", ssh] if scheduler == "ssh" else ["--listen", "127.0.0.1"]
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "dynascope", *shlex.split(line), *more], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "20 of 20 tasks finished" in done.stdout
    assert done.stderr == ""
    assert status(tmp_path / place)["finished"] == 20


@pytest.mark.ci
def test_jobs_killed_again_and_again_and_their_client_leave_the_same_digests(tmp_path, slurm, begin, calm):
    """First the client is killed: its jobs end. The same command goes on; jobs that are cancelled are replaced."""
    options = ["--scheduler", "slurm", "--jobs", "2", "--listen", "127.0.0.1"]
    client = begin(tmp_path, *options)
    until(lambda: finished(tmp_path) or client.poll() is not None, "no result comes in")
    client.kill()
    said, _ = client.communicate()
    assert client.returncode == -signal.SIGKILL, said
    until(lambda: not jobs(), "jobs outlive the program that asked for them")
    before = SweepFolder(tmp_path).keys(RESULTS)
    assert 0 < len(before) < 400
    client, killed = begin(tmp_path, *options), 0
    for number in range(4):
        enough = min(len(before) + 60 * (number + 1), 395)
        until(lambda: finished(tmp_path) >= enough or client.poll() is not None, "it does not go on")  # noqa: B023
        victims = jobs()[:1]
        signals = ["--signal=KILL", "--full"] if number % 2 else []  # as at the end of a job's time, or at once
        subprocess.run(["scancel", *signals, *victims], check=bool(victims))
        killed += len(victims)
    said, _ = client.communicate(timeout=LATE)
    assert client.returncode == 0, said
    assert killed >= 2
    assert "400 of 400 tasks finished" in said
    assert before < SweepFolder(tmp_path).keys(RESULTS)
    assert digests(tmp_path) == calm


@pytest.mark.ci
def test_a_job_whose_time_is_over_loses_nothing_and_is_followed_by_another(tmp_path, slurm, monkeypatch):
    """Workers leave before their job is killed; what they had finished is there, and new jobs do the rest."""
    monkeypatch.setattr("dynascope.sweep.crews.walltime_seconds", lambda text: 45)  # Slurm rounds up to minutes
    table = sweep(
        whereabouts,
        {"x": list(range(240))},
        tmp_path,
        fixed={"pause": 0.25},
        scheduler=Slurm(jobs=1, listen="127.0.0.1"),
    )
    assert (table["outcome"] == "finished").all()
    assert len(set(table["slurm_job_id"].values)) >= 2
    heads = [batch.head for batch in SweepFolder(tmp_path).heads()]
    keys = [key for head in heads for key in head.keys]
    assert len(keys) == len(set(keys)) == 240, "nothing that came in is computed again"


@pytest.mark.ci
def test_jobs_that_die_at_once_are_given_up_with_the_end_of_their_log(tmp_path, slurm, monkeypatch):
    monkeypatch.setattr("dynascope.sweep.crews.ALLOWED_DEATHS", 1)
    monkeypatch.setattr("dynascope.sweep.cluster.WAKE", 0.2)
    words = r"3 workers were started and ended one after another while no result came.*ends: .*/nowhere/python"
    with dask.config.set({"jobqueue.slurm.python": "/nowhere/python"}), pytest.raises(ConnectionError, match=words):
        sweep(walk, GRID, tmp_path, scheduler=Slurm(jobs=1, listen="127.0.0.1"))


@pytest.mark.ci
def test_a_partition_that_does_not_exist_is_said_in_the_words_of_slurm(tmp_path, slurm):
    with pytest.raises(ConnectionError, match=r"(?s)Slurm refuses a job: .*Invalid partition name"):
        sweep(walk, GRID, tmp_path, scheduler=Slurm(jobs=2, partition="none", listen="127.0.0.1"))
    assert not jobs()


def _far_workers(ssh):
    """Programs that the sshd of this session has started."""
    port, found = re.search(r"Port (\d+)", Path(ssh.split()[-1]).read_text())[1], []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if each.cmdline()[-1:] == ["dynascope.sweep.ssh_worker"]:
                found += [each] if each.environ().get("SSH_CONNECTION", "").endswith(f" {port}") else []
    return found


def _command_lines():
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            yield " ".join(each.cmdline())


@pytest.mark.ci
def test_workers_reached_by_ssh_work_are_replaced_and_end_with_their_client(tmp_path, ssh, begin, calm):
    options = ["--scheduler", "ssh", "--hosts", "localhost,localhost", "--ssh", ssh]
    client = begin(tmp_path, *options)
    until(lambda: finished(tmp_path) or client.poll() is not None, "no result comes in")
    workers = until(lambda: _far_workers(ssh), "there are no workers")
    assert len(workers) == 2, client.poll()
    assert not any("PRIVATE KEY" in line for line in _command_lines())
    keys = [key for each in workers for key in Path("/tmp").glob(f".dynascope-worker.*-{each.pid}-*/key.pem")]
    assert keys
    assert all(key.stat().st_mode & 0o777 == 0o600 and key.parent.stat().st_mode & 0o777 == 0o700 for key in keys)
    client.kill()
    client.communicate()
    until(lambda: not _far_workers(ssh), "workers outlive the program that asked for them")
    before = finished(tmp_path)
    assert 0 < before < 400

    client = begin(tmp_path, *options)
    until(lambda: finished(tmp_path) > before or client.poll() is not None, "it does not go on")
    for victim in _far_workers(ssh)[:1]:
        victim.kill()
    said, _ = client.communicate(timeout=LATE)
    assert client.returncode == 0, said
    assert digests(tmp_path) == calm
    until(lambda: not _far_workers(ssh), "workers outlive the sweep")


@pytest.mark.ci
def test_two_workers_for_each_host_run_there(tmp_path, ssh):
    place = Ssh(["localhost"], workers=2, command=ssh)
    (tmp_path / "meet").mkdir()
    fixed = {"meet": str(tmp_path / "meet"), "people": 2}
    table = sweep(whereabouts, {"x": list(range(60))}, tmp_path / "out", fixed=fixed, scheduler=place)
    assert all(table["ssh_connection"].values != "")
    assert len(set(table["process"].values)) == 2


@pytest.mark.ci
def test_a_host_that_refuses_is_said_in_the_words_of_ssh(tmp_path, ssh, monkeypatch):
    monkeypatch.setattr("dynascope.sweep.crews.ALLOWED_DEATHS", 1)
    monkeypatch.setattr("dynascope.sweep.crews.PAUSE", 0.2)
    monkeypatch.setattr("dynascope.sweep.cluster.WAKE", 0.2)
    with pytest.raises(ConnectionError, match=r"ended one after another.*Connection refused"):
        sweep(walk, GRID, tmp_path, scheduler=Ssh(["localhost"], command=f"{ssh} -p 1"))
    assert status(tmp_path)["finished"] == 0


@pytest.mark.ci
def test_what_is_missing_on_this_machine_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"needs scancel on the PATH of this machine"):
        sweep(walk, GRID, tmp_path / "out", scheduler=Slurm(jobs=1, listen="127.0.0.1"))
    with pytest.raises(ValueError, match="command must be a program on the PATH of this machine, got 'ssh'"):
        sweep(walk, GRID, tmp_path / "out", scheduler=Ssh(["localhost"]))
    with pytest.raises(ValueError, match=r"listen must be an IPv4 address of this machine, got '203\.0\.113\.1'"):
        sweep(walk, GRID, tmp_path / "out", scheduler=Ssh(["localhost"], listen="203.0.113.1"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Slurm(jobs=0), "jobs must be"),
        (
            lambda: Slurm(jobs=1, walltime="soon"),
            "walltime must be hours:minutes:seconds, minutes or days-hours, got 'so",
        ),
        (lambda: Slurm(jobs=1, walltime="00:00"), "walltime must be above 0"),
        (lambda: Slurm(jobs=1, memory="much"), "memory must be an amount such as 4GB or 500MB, got 'much'"),
        (lambda: Slurm(jobs=1, partition="a b"), "partition must be a word without spaces"),
        (lambda: Slurm(jobs=1, workers=2, gpu=True), "workers must be 1 where each job has a GPU, got 2"),
        (lambda: Ssh([]), r"hosts must be a list of at least one host, got \[\]"),
        (lambda: Ssh("node1"), "hosts must be a list of at least one host, got 'node1'"),
        (lambda: Ssh(["-oProxyCommand=evil"]), "hosts must be a word without spaces that does not begin with -"),
        (lambda: Ssh(["a"], command=" "), "command must be a program with its options"),
    ],
)
def test_what_cannot_be_meant_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
