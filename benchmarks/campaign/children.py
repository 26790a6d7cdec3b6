"""One child for each run of a command: forked from a parent that has imported everything, and ended at a chosen moment.

JAX starts its threads with its first computation, so the parent never computes.
"""

import atexit
import gc
import importlib
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from campaign.swept import DONE

_ENDS = 60.0  # seconds within which a child that was asked to stop does so
_POLITE = {signal.SIGINT, signal.SIGTERM}
_MODIFY = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")
_EVENT = b"."


@dataclass(frozen=True)
class Place:
    """Folders of one trial: where the command works, what it logs, where temporary files go."""

    root: Path

    @property
    def out(self) -> Path:
        """Where the command is called."""
        return self.root / "out"

    @property
    def scratch(self) -> Path:
        """TMPDIR."""
        return self.root / "tmp"

    @property
    def done(self) -> Path:
        """Pieces of work that were begun, a line each."""
        return self.root / "done"

    @property
    def told(self) -> Path:
        """Pieces of work that were reported as finished, a line each."""
        return self.root / "told"

    @property
    def modules(self) -> Path:
        """What was imported."""
        return self.root / "modules"

    @property
    def log(self) -> Path:
        """What the command said."""
        return self.root / "log"


@dataclass(frozen=True)
class Blow:
    """How a child is ended: by which signal, after so many seconds, or at its n-th change to the disk, and a delay."""

    signal: int = signal.SIGKILL
    after: float = 0.0
    event: int | None = None


@dataclass(frozen=True)
class Ending:
    """What became of a child: exit status, or minus the signal; seconds, changes to the disk, workers left."""

    status: int
    seconds: float
    events: int
    struck: bool
    orphans: bool = False

    @property
    def ended_by_blow(self) -> bool:
        """Whether it was ended before its own end."""
        return self.struck and self.status in (-9, -15, -2, 130, 143)


class Child:
    """A process that works on a place."""

    def __init__(self, work: Callable[[], int], place: Place, blow: Blow | None = None) -> None:
        reading, writing = os.pipe()
        self.begun, self.events, self.blow = time.perf_counter(), 0, blow
        gc.freeze()  # what a collector has not touched is not copied
        signal.pthread_sigmask(signal.SIG_BLOCK, _POLITE)  # a blow that falls before the child is ready waits
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            _live(work, place, writing, blow)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _POLITE)
        os.close(writing)
        self.reading = reading

    def wait(self) -> Ending:
        """Strike at the chosen moment, and see it end."""
        blow, struck = self.blow, False
        while True:
            due = None
            if blow and not struck and blow.event is None:
                due = max(0.0, self.begun + blow.after - time.perf_counter())
            elif struck:
                due = _ENDS
            ready, _, _ = select.select([self.reading], [], [], due)
            if ready:
                part = os.read(self.reading, 4096)
                self.events += len(part)
                if not part:
                    break
                if blow and not struck and blow.event is not None and self.events > blow.event:
                    time.sleep(blow.after)
                    struck = blow.after == 0.0 or self._strike(blow.signal)  # without a delay it strikes itself
            elif struck:
                self._strike(signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise RuntimeError(f"the command did not end within {_ENDS:g} s of signal {blow and blow.signal}")
            elif blow:
                struck = self._strike(blow.signal)
        os.close(self.reading)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return Ending(status, time.perf_counter() - self.begun, self.events, struck)

    def _strike(self, number: int) -> bool:
        os.kill(self.pid, number)  # a child that has ended waits to be asked for its status, so its number is its own
        return True


def run(work: Callable[[], int], place: Place, blow: Blow | None = None) -> Ending:
    """Let a child do the work, to its end or to the blow, and wait until nothing of it runs any more."""
    ending = Child(work, place, blow).wait()
    late = time.perf_counter() + _ENDS
    while _group_runs(place) and time.perf_counter() < late:
        time.sleep(0.02)
    return replace(ending, orphans=_group_runs(place))


def import_as(place: Place) -> None:
    """Import what the last child has imported, so that the next ones need not."""
    for name in place.modules.read_text().splitlines():
        if name not in sys.modules:
            with suppress(Exception):  # modules that others make up
                importlib.import_module(name)


def _group_runs(place: Place) -> bool:
    """Whether a process still works in the place: workers of a command that was killed."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.readlink(f"/proc/{entry}/cwd").startswith(str(place.root)):
                    return True
            except OSError:
                continue
    return False


def _live(work: Callable[[], int], place: Place, pipe: int, blow: Blow | None) -> None:
    """What the child does; it never returns."""
    status = 70
    try:
        log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(place.out)
        os.environ["TMPDIR"], os.environ[DONE], tempfile.tempdir = str(place.scratch), str(place.done), None
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _count_changes(place, pipe, blow)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _POLITE)
        status = _status(work)
        sys.stdout.flush()
        sys.stderr.flush()
        place.modules.write_text("\n".join(sys.modules))
        atexit._run_exitfuncs()
    except KeyboardInterrupt:  # a signal that came before the command began, or while it ended
        status = 130
    except SystemExit as error:
        status = int(error.code or 0)
    finally:
        os._exit(status)


def _status(work: Callable[[], int]) -> int:
    """The exit status of a command, or of a program that ends like one."""
    try:
        return work()
    except SystemExit as error:
        return int(error.code or 0) if not isinstance(error.code, str) else 1
    except KeyboardInterrupt:
        return 130
    except (ValueError, OSError) as error:
        print("error:", error, file=sys.stderr)
        return 2
    except BaseException:
        traceback.print_exc()
        return 1


def _count_changes(place: Place, pipe: int, blow: Blow | None) -> None:
    """Tell the parent of every change to the disk just before it is made; an undelayed blow falls right there."""
    write, sync, own = os.write, os.fsync, os.getpid()
    own_files = {str(path) for path in (place.done, place.told, place.modules, place.log)}
    seen = 0

    def changing() -> bool:
        """Whether this is the moment."""
        nonlocal seen
        if os.getpid() != own:
            return False
        write(pipe, _EVENT)
        seen += 1
        return blow is not None and blow.event == seen - 1

    def strike() -> None:
        if blow and blow.after == 0.0:
            os.kill(own, blow.signal)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        path = arguments[0] if arguments else None
        if event == "open":
            flags = arguments[2]
            if not (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
                return
        elif event not in _MODIFY:
            return
        inside = isinstance(path, str | os.PathLike) and str(place.root) in os.path.abspath(path)
        if inside and os.path.abspath(path) not in own_files and changing():
            strike()

    def written(file: int, content: bytes) -> int:
        """Writes are torn where the blow falls on one."""
        if changing():
            write(file, content[: len(content) // 2])
            strike()
            return write(file, content[len(content) // 2 :]) + len(content) // 2
        return write(file, content)

    def torn(write_all: Callable[..., int]) -> Callable[..., int]:
        def written(path: Path, content: bytes | str, **options: str) -> int:
            if changing():
                write_all(path, content[: len(content) // 2], **options)
                strike()
            return write_all(path, content, **options)

        return written

    def synced(file: int) -> None:
        if changing():
            strike()
        sync(file)

    os.write, os.fsync = written, synced
    Path.write_bytes, Path.write_text = torn(Path.write_bytes), torn(Path.write_text)
    sys.addaudithook(hook)
