"""A real sshd on loopback, with keys and a port of its own, and the client's configuration that leads to it."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("sshd", "ssh", "ssh-keygen")
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
_SERVER = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/own_key.pub
PidFile {folder}/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
MaxStartups 100
"""
_CLIENT = """
Host *
    Port {port}
    User {user}
    IdentityFile {folder}/own_key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking yes
"""


def missing() -> list[str]:
    """Programs that this machine has not."""
    return [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]


@contextlib.contextmanager
def sshd(folder: Path):
    """Start it; yields the configuration for `ssh -F`."""
    for name in ("host_key", "own_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "server").write_text(_SERVER.format(port=port, folder=folder))
    (folder / "client").write_text(_CLIENT.format(port=port, folder=folder, user=getpass.getuser()))
    key = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text("".join(f"[{name}]:{port} {key}" for name in ("localhost", "127.0.0.1")))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # as the service does where it is started
    program = shutil.which("sshd", path=_PATH)  # which it asks for by its full path
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen([program, "-D", "-e", "-f", str(folder / "server")], stderr=log)
    try:
        late = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.monotonic() > late:
                raise RuntimeError(f"sshd does not start: {(folder / 'sshd.log').read_text()}")
            time.sleep(0.05)
        yield folder / "client"
    finally:
        process.terminate()
        process.wait(60)
