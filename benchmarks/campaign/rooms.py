"""Folders where a command cannot write all it wants: a disk that is full, and one that may only be read.

Both are small file systems in memory, which only root may mount. Elsewhere files may not grow beyond a size, and
folders that may only be read are left out.
"""

import os
import random
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from campaign.children import run
from campaign.subjects import Subject
from campaign.trials import Bench, Outcome, Reference, files

_LARGE = "size=512m"


def mountable(folder: Path) -> bool:
    """Whether file systems can be mounted here."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _mounted(folder, "-t", "tmpfs", "tmpfs"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def release(folder: Path) -> None:
    """Undo what a campaign has mounted that was killed."""
    while folder.exists() and str(folder) in Path("/proc/self/mounts").read_text():
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def _mounted(folder: Path, *options: str | Path) -> Iterator[None]:
    _mount(*options, folder)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def full_disk(bench: Bench, subject: Subject, reference: Reference, draw: random.Random) -> Outcome:
    """Run a command where there is room for a part of its files, make room, and run it again."""
    outcome, place = Outcome(), bench.place
    with _mounted(place.out, "-t", "tmpfs", "tmpfs"):
        bench.set_out(subject, older=False)
        room = os.statvfs(place.out)
        used = (room.f_blocks - room.f_bfree) * room.f_frsize
        _mount("-o", f"remount,size={used + draw.randrange(reference.bytes + 1)}", place.out)
        _refused(bench, subject, reference, outcome, subject.run)
        _mount("-o", f"remount,{_LARGE}", place.out)
        bench.finish(subject, reference, outcome, subject.units(place.out))
    outcome.counts["full disk"] += 1
    return outcome


def short_files(bench: Bench, subject: Subject, reference: Reference, draw: random.Random) -> Outcome:
    """Run a command whose files cannot grow beyond a size, then without that limit."""
    outcome, most = Outcome(), draw.randrange(reference.bytes + 1)
    bench.set_out(subject, older=False)

    def limited() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        return subject.run()

    _refused(bench, subject, reference, outcome, limited)
    bench.finish(subject, reference, outcome, subject.units(bench.place.out))
    outcome.counts["full disk"] += 1
    return outcome


def read_only(bench: Bench, subject: Subject, reference: Reference, draw: random.Random) -> Outcome:
    """Run a command where nothing can be written: it must refuse, and leave everything as it was."""
    outcome, place = Outcome(), bench.place
    bench.set_out(subject, older=draw.random() < 0.5)
    before = files(place.out)
    with _mounted(place.out, "--bind", place.out):
        _mount("-o", "remount,bind,ro", place.out)
        _refused(bench, subject, reference, outcome, subject.run, always=True)
    outcome.add("differing", {name for name, held in files(place.out).items() if before.get(name) != held})
    outcome.counts["read-only"] += 1
    return outcome


def _refused(
    bench: Bench,
    subject: Subject,
    reference: Reference,
    outcome: Outcome,
    work: Callable[[], int],
    *,
    always: bool = False,
) -> None:
    """A command does its work, or says in a sentence why not; what it leaves is whole."""
    bench.place.log.unlink(missing_ok=True)
    ending, said = run(work, bench.place), bench.said()
    if not said.strip() and ending.status == reference.status and not always:
        bench.compare(subject, reference, outcome, ending)  # there was room for all of it
    elif ending.status not in ((2,) if always else (2, reference.status)) or "Traceback" in said or not said.strip():
        outcome.add("differing", [f"status {ending.status}, said {said[-300:]!r}"])
    bench.place.told.unlink(missing_ok=True)  # watching goes on without what could not be written, and says so
    bench.look(subject, reference, outcome, set())
