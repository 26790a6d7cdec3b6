"""Packs on Dask: a cluster of this machine's cores, or one that runs already. The only file that knows Dask."""

import ipaddress
import json
import logging
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import xarray as xr

from dynascope.sweep.folder import Failure
from dynascope.sweep.packs import run_on_worker
from dynascope.sweep.plan import Task
from dynascope.sweep.sweepable import Sweepable

try:
    import distributed
except ImportError as error:
    raise ValueError(
        'scheduler must be "here" where Dask is not installed; to use all cores or a cluster, '
        "install it: pip install 'dynascope[sweep]'"
    ) from error

ALLOWED_DEATHS = 10  # of workers on this machine before their pack is given up
Outcome = tuple[Sequence[Task], list[xr.Dataset | Failure]]


def run_on_cluster(
    sweepable: Sweepable, packs: Sequence[Sequence[Task]], client: Any, *, code: str
) -> Iterator[Outcome]:
    """Yield what became of each pack, as they come.

    Only about two packs for each thread are with the scheduler at a time, so that results do not pile up on workers.
    A pack whose worker dies is run again elsewhere; one that takes worker after worker with it is given up.
    """
    waiting = list(reversed(packs))
    running: dict[Any, Sequence[Task]] = {}
    done = distributed.as_completed(loop=client.loop)

    def submit() -> None:
        room = 2 * max(1, sum(client.nthreads().values())) + 1
        while waiting and len(running) < room:
            pack = waiting.pop()
            configurations = [task.configuration for task in pack]
            future = client.submit(run_on_worker, sweepable, configurations, code, pure=False, key=_key(pack))
            running[future] = pack
            done.add(future)

    submit()
    while running:
        future = next(done)
        pack = running.pop(future)
        yield pack, _outcomes(future, pack)
        future.release()
        submit()


def _key(pack: Sequence[Task]) -> str:
    return f"pack-{pack[0].key}-{time.time():.6f}"


def _outcomes(future: Any, pack: Sequence[Task]) -> list[xr.Dataset | Failure]:
    try:
        return list(future.result())
    except distributed.KilledWorker as error:
        words = f"the worker died {error.allowed_failures + 1} times while it ran this pack of {len(pack)}"
        return [Failure(f"{words}: too little memory, or killed from outside", str(error))] * len(pack)
    except (distributed.CancelledError, OSError) as error:
        raise ConnectionError(f"the scheduler went away ({error}); finished results are kept") from error


@contextmanager
def connected(scheduler: Any, *, workers: int | None, timeout: float, trust_network: bool) -> Iterator[Any]:
    """Connect to a scheduler: an address, a scheduler file, a client or cluster of Dask; None starts one here."""
    with ExitStack() as stack:
        if isinstance(scheduler, distributed.Client):
            yield scheduler
            return
        if scheduler is None:
            target: Any = stack.enter_context(_local_cluster(workers))
        else:
            target = scheduler if hasattr(scheduler, "scheduler_address") else address_of(scheduler, trust_network)
        try:
            client = distributed.Client(target, timeout=timeout, set_as_default=False)
        except (OSError, TimeoutError) as error:
            raise ConnectionError(
                f"no scheduler answers at {target} within {timeout:g} seconds; is it running, and can this machine "
                f"reach it? ({str(error) or type(error).__name__})"
            ) from error
        yield stack.enter_context(client)


@contextmanager
def _local_cluster(workers: int | None) -> Iterator[Any]:
    """Start one process with one thread for each core, on the loopback interface, without a dashboard."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            'sweep was called while a worker imports this script: put the call below `if __name__ == "__main__":`'
        )
    with (
        tempfile.TemporaryDirectory(prefix="dynascope-sweep-", ignore_cleanup_errors=True) as scratch,
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            memory_limit=0,  # nothing is spilled: Dask would write pickles to disk
            local_directory=scratch,
            scheduler_kwargs={"allowed_failures": ALLOWED_DEATHS},
        ) as cluster,
    ):
        yield cluster


def address_of(scheduler: Any, trust_network: bool) -> str:
    """Read and check the address of a scheduler, given as text or as the JSON file that Dask's scheduler writes.

    >>> address_of("127.0.0.1:8786", trust_network=False)
    'tcp://127.0.0.1:8786'
    >>> address_of("tcp://10.0.0.7:8786", trust_network=False)
    Traceback (most recent call last):
    ValueError: scheduler must be reached by tls:// over a network, got 'tcp://10.0.0.7:8786': Dask runs whatever it \
receives; set up TLS (docs/sweep.md), or say that the network is trusted (trust_network, --trust-network)
    """
    text = str(scheduler)
    if text.endswith(".json"):
        text = _from_file(Path(text))
    text = text if "://" in text else f"tcp://{text}"
    try:
        parts = urlsplit(text)
        complete = bool(parts.hostname and parts.port) and parts.scheme in ("tcp", "tls")
    except ValueError:
        complete = False
    if not complete:
        raise ValueError(
            'scheduler must be "here", an address such as tls://host:8786, or the .json file that a scheduler wrote, '
            f"got {str(scheduler)!r}"
        )
    if parts.scheme == "tcp" and not trust_network and not _is_loopback(str(parts.hostname)):
        raise ValueError(
            f"scheduler must be reached by tls:// over a network, got {text!r}: Dask runs whatever it receives; "
            "set up TLS (docs/sweep.md), or say that the network is trusted (trust_network, --trust-network)"
        )
    return text


def _from_file(path: Path) -> str:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"scheduler must be a file that Dask's scheduler wrote, got {str(path)!r}") from error


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
