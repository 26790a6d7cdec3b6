"""A Slurm of one node in a folder: munge, controller and node as processes of this program, on ports of their own."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
_PATIENCE = 90.0  # seconds that a machine under load may take to start it
_CONFIGURATION = """
ClusterName=sweeps
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
KillWait=2
MinJobAge=2
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=8000 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=ALL MaxTime=INFINITE State=UP
"""


_GPUS = """
Name=gpu File=/dev/null
Name=gpu File=/dev/zero
"""


def missing() -> list[str]:
    """Programs of Slurm that this machine has not."""
    return [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]


@contextlib.contextmanager
def slurm(folder: Path):
    """Start it; yields the variables by which sbatch and its kin find it."""
    user, host = pwd.getpwuid(os.getuid()).pw_name, socket.gethostname().split(".")[0]
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(mode=0o700)
    (folder / "munge" / "key").touch(mode=0o600)
    (folder / "munge" / "key").write_bytes(os.urandom(1024))
    configuration = folder / "slurm.conf"
    configuration.write_text(_CONFIGURATION.format(host=host, ports=_free_ports(2), user=user, folder=folder))
    (folder / "gres.conf").write_text(_GPUS)  # two devices that every machine has stand for GPUs
    own = {"SLURM_CONF": str(configuration), "PATH": _PATH}
    munge = folder / "munge"
    places = [f"--{name}-file={munge / name}" for name in ("key", "pid", "log", "seed")]
    with contextlib.ExitStack() as stack:
        for command in (
            ["munged", "--foreground", "--force", f"--socket={munge / 'socket'}", *places],
            ["slurmctld", "-D", "-c"],
            ["slurmd", "-D", "-N", host],
        ):
            stack.enter_context(_process(command, own, folder / f"{command[0]}.log"))
            _until(lambda: command[0] != "munged" or (munge / "socket").exists(), folder)  # noqa: B023
        _until(lambda: "idle" in _said(["sinfo", "-h", "-o", "%T"], own), folder)
        yield own
        _said(["scancel", "--user", user], own)
        _until(lambda: not _said(["squeue", "-h"], own).strip(), folder)


@contextlib.contextmanager
def _process(command: list[str], own: dict[str, str], log: Path):
    program = shutil.which(command[0], path=_PATH)
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [program, *command[1:]], env=os.environ | own, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _said(command: list[str], own: dict[str, str]) -> str:
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=False)
    return done.stdout


def _until(what, folder: Path) -> None:
    late = time.monotonic() + _PATIENCE
    while not what():
        if time.monotonic() > late:
            ends = [f"{path.name}: {path.read_text(errors='replace')[-1000:]}" for path in sorted(folder.glob("*.log"))]
            raise TimeoutError("Slurm does not start or end here\n" + "\n".join(ends))
        time.sleep(0.05)


def _free_ports(many: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(many)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]
