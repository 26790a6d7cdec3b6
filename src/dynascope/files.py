"""Files that are written whole or not at all, and what programs leave that were killed while they wrote."""

import os
import platform
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> Path:
    """Let `write(temporary_path)` make a file, then move it to `path` in one step.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "a.txt", lambda place: place.write_text("hello")).read_text()
    'hello'
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"{str(path)!r} cannot be written: something that is no file is in its place")
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent)
    temporary = path.with_name(_temporary_name(path.stem, path.suffix))
    try:
        write(temporary)
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:  # a full disk does not say where
        raise OSError(error.errno, f"{error.strerror or error}, while writing", str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
    return path


def sync_folder(path: Path) -> None:
    """Let what was made or renamed in a folder reach the disk.

    >>> sync_folder(Path())
    """
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def scratch_folder(name: str, place: Path | None = None) -> Iterator[Path]:
    """A folder for the time being, where the system keeps such folders or in `place`; `remove_leftovers` knows it.

    >>> with scratch_folder("work") as folder:
    ...     list(folder.iterdir())
    []
    """
    folder = (place or Path(tempfile.gettempdir())) / _temporary_name(name)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _temporary_name(stem: str, suffix: str = "") -> str:
    """A name that says whose it is, so that what a killed program leaves can be told from work under way."""
    return f".{stem}.{platform.node()}-{os.getpid()}-{uuid.uuid4().hex}{suffix}"


def remove_leftovers(folder: Path) -> None:
    """Remove what programs were making in a folder when they were killed on this machine.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = write_text(Path(folder) / "a.txt", "hello")
    ...     _ = (Path(folder) / f".a.{platform.node()}-99999999-{uuid.uuid4().hex}.txt").write_text("hel")
    ...     remove_leftovers(Path(folder))
    ...     os.listdir(folder)
    ['a.txt']
    """
    for name in os.listdir(folder):
        found = re.fullmatch(rf"\..+\.{re.escape(platform.node())}-(\d+)-[0-9a-f]{{32}}(\.\w+)?", name)
        if found and not _runs(int(found[1])):
            with suppress(OSError):  # of another user, or removed by another program
                shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 only asks
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def write_text(path: Path, text: str) -> Path:
    """Write a text file whole or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(Path(folder) / "a.txt", "hello").read_text()
    'hello'
    """
    return write_whole(path, lambda place: place.write_text(text, encoding="utf-8"))


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse now what could not be written after the work, and leave no folder behind.

    >>> check_writable("/proc/nowhere/run.nc")
    Traceback (most recent call last):
    ValueError: '/proc/nowhere/run.nc' cannot be written: its folder cannot be made or written to
    """
    folder = Path(path).absolute().parent
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK) and (Path(path).is_file() or not Path(path).exists())
        for each in missing:
            with suppress(OSError):  # another program may have begun to use it
                each.rmdir()
    except OSError:
        writable = False
    if not writable:
        raise ValueError(f"{str(path)!r} cannot be written: its folder cannot be made or written to")
