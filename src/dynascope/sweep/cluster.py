"""Packs on Dask: a cluster of this machine's cores, or one that runs already. The only file that knows Dask."""

import gc
import logging
import math
import os
import queue
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dynascope.files import scratch_folder
from dynascope.schema import read_json
from dynascope.sweep.batches import Head, as_batch
from dynascope.sweep.gpus import gpus
from dynascope.sweep.pack_runner import BATCH_SECONDS, Done, run_batch
from dynascope.sweep.plan import Task
from dynascope.sweep.source import home_module, source_digest
from dynascope.sweep.stacks import Failure, Gathering
from dynascope.sweep.workload import Workload

try:
    import dask
    import distributed
except ImportError as error:
    raise ValueError(
        'scheduler must be "here" where Dask is not installed; to use all cores or a cluster, '
        "install it: pip install 'dynascope[sweep]'"
    ) from error

WAKE = 5.0  # seconds between looks at who has joined
ALLOWED_DEATHS = 10  # of workers on this machine before their batch is split, or their pack given up
PARTS = 16  # of a batch that is split
LEAST_SECONDS = 0.1  # of work in a batch: to send it costs a tenth of that
MOST_TASKS = 10_000  # in a batch: some megabytes to send
ALLOWED_STARTS = 5  # of a cluster whose workers die while it starts
_ROLES = ("client", "scheduler", "worker")  # that prove who they are
if TYPE_CHECKING:
    _Future = distributed.Future[Done]
else:
    _Future = distributed.Future
Pack = Sequence[Task]


def run_on_cluster(
    workload: Workload,
    packs: Sequence[Pack],
    client: distributed.Client,
    *,
    code: str,
    check: Callable[[bool], None] = lambda arrived: None,
) -> Iterator[tuple[Head, bytes]]:
    """Yield batches of results and what they hold, as they come.

    Packs travel in batches of about a second of work, as far as it is known from the batch before; a worker that has
    worked so long hands back the rest. The scheduler holds as many batches as workers have threads: so results do not
    pile up, and a batch that kills its worker is not confused with one that waited behind it. A batch whose worker dies
    is run again elsewhere; one that takes worker after worker with it is split, down to the pack at fault, which is
    given up.

    check: called again and again, and told whether a batch has come in; raises where no more can be expected
    """
    # bytes, which the scheduler need not be able to open, and which Dask does not search for tasks of its own
    parcel = distributed.protocol.pickle.dumps((workload, code))
    most = None  # configurations that fit into memory at once, where more did not
    waiting, suspects = deque(packs), deque[list[Pack]]()
    running: dict[_Future, list[Pack]] = {}
    arrived: queue.Queue[_Future] = queue.Queue()
    seconds = math.inf  # that a pack took, of the batch that came last

    def submit() -> None:
        able = _with_gpu(client) if workload.gpu else 0
        while (waiting or suspects) and len(running) < (threads := able or _threads(client)):
            batch = suspects.popleft() if suspects else _next_batch(waiting, seconds, threads)
            key = f"batch-{batch[0][0].key}-{time.time():.6f}"
            content = distributed.protocol.pickle.dumps(batch)
            needs = {"GPU": 1} if able else None
            future = client.submit(_run_parcel, parcel, content, most, key=key, resources=needs)
            running[future] = batch
            future.add_done_callback(arrived.put)

    submit()
    while running:
        try:
            future = arrived.get(timeout=WAKE)
        except queue.Empty:
            check(False)
            submit()  # workers may have joined
            continue
        batch = running.pop(future)
        done = _done(future, batch, workload.name, code)
        future.release()
        if done is None:
            suspects.extend(_parts(batch))
        else:
            seconds, most = done.head.seconds / done.packs or math.inf, _least(most, done.most)
            waiting.extendleft(reversed(batch[done.packs :]))
        submit()  # before the results are written, so that workers need not wait for the disk
        if done is not None:
            yield done.head, done.batch
        check(done is not None)


def _next_batch(waiting: deque[Pack], seconds: float, threads: int) -> list[Pack]:
    """Take a second's work, or less where little is left, so that all workers have some; one pack at first.

    >>> _next_batch(deque([[1], [2], [3]]), math.inf, 2)
    [[1]]
    >>> len(_next_batch(deque([[each] for each in range(400)]), 0.01, 1)), len(_next_batch(deque([[1]] * 400), 0.01, 4))
    (100, 50)
    """
    share = max(math.ceil(len(waiting) / (2 * threads)), int(LEAST_SECONDS / seconds))
    most, size = max(1, min(share, int(BATCH_SECONDS / seconds))), 0
    batch: list[Pack] = []
    while waiting and len(batch) < most and size < MOST_TASKS:
        batch.append(waiting.popleft())
        size += len(batch[-1])
    return batch


def _parts(batch: list[Pack]) -> list[list[Pack]]:
    """A batch that has killed its workers, split: fewer deaths than one by one or in halves until the pack at fault."""
    length = math.ceil(len(batch) / PARTS)
    return [batch[at : at + length] for at in range(0, len(batch), length)]


def _least(*known: int | None) -> int | None:
    """The smallest number that is known, if any is."""
    return min((each for each in known if each is not None), default=None)


def _with_gpu(client: distributed.Client) -> int:
    """Workers that have a GPU for themselves."""
    assert client.scheduler is not None, "it is connected"
    try:
        workers = client.sync(client.scheduler.identity)["workers"].values()
    except (OSError, distributed.CancelledError) as error:
        raise ConnectionError(f"the scheduler went away ({error}); finished results are kept") from error
    return sum(bool(each["resources"].get("GPU")) for each in workers)


def _threads(client: distributed.Client) -> int:
    """Threads of all workers; one while there are none yet."""
    try:
        return max(1, sum(map(int, client.nthreads().values())))
    except (OSError, distributed.CancelledError) as error:
        raise ConnectionError(f"the scheduler went away ({error}); finished results are kept") from error


def _run_parcel(parcel: bytes, batch: bytes, most: int | None) -> Done:
    """Run a batch on a worker, which must hold the same source as the program that asked."""
    workload, code = distributed.protocol.pickle.loads(parcel)
    if home_module(workload.origin) != "__main__" and source_digest(workload.origin) != code:
        raise RuntimeError(f"a worker has another version of {workload.name}")
    return run_batch(workload, distributed.protocol.pickle.loads(batch), code, most)


def _done(future: _Future, batch: list[Pack], name: str, code: str) -> Done | None:
    """What a worker made of a batch; None where it died of one that can be split."""
    try:
        return future.result()
    except distributed.KilledWorker as error:
        if len(batch) > 1:
            return None
        words = f"the worker died {error.allowed_failures + 1} times while it ran this pack of {len(batch[0])}"
        found = Gathering(code)
        for task in batch[0]:
            found.add(task, Failure(f"{words}: too little memory, or killed from outside", str(error)))
        return Done(1, *as_batch(found, 0.0))
    except (distributed.CancelledError, OSError) as error:
        raise ConnectionError(f"the scheduler went away ({error}); finished results are kept") from error
    except Exception as error:  # what the experiment itself raises comes back as a failure
        raise ValueError(
            f"the workers cannot run {name}; they need the same packages and modules as this program "
            f"({type(error).__name__}: {error})"
        ) from error


@contextmanager
def connected(
    scheduler: object, *, workers: int | None, timeout: float, trust_network: bool, gpu: bool = False
) -> Iterator[distributed.Client]:
    """Connect to a scheduler: an address, a scheduler file, a client or cluster of Dask; None starts one here.

    gpu: whether workers that are started here get a GPU each, if this machine has some
    """
    with ExitStack() as stack:
        if isinstance(scheduler, distributed.Client):
            yield scheduler
            return
        if scheduler is None:
            target: object = stack.enter_context(_local_cluster(workers, gpu))
        else:
            target = scheduler if hasattr(scheduler, "scheduler_address") else address_of(scheduler, trust_network)
        _forget_clients()
        try:
            client = distributed.Client(target, timeout=timeout, set_as_default=False)
        except (OSError, TimeoutError) as error:
            raise ConnectionError(
                f"no scheduler answers at {target} within {timeout:g} seconds; is it running, and can this machine "
                f"reach it? ({str(error) or type(error).__name__})"
            ) from error
        except TypeError as error:  # Dask without certificates
            raise ValueError(
                f"scheduler {target} needs certificates: name them in DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
                "…__CLIENT__CERT and …__CLIENT__KEY, as docs/sweep.md shows"
            ) from error
        yield stack.enter_context(client)


SETTINGS = {
    "distributed.deploy.lost-worker-timeout": "1h",  # a slow machine takes its time to restart
    "distributed.scheduler.http.routes": [],  # pages that anyone on this machine could open
    "distributed.worker.http.routes": [],
}


@contextmanager
def started(
    workers: Sequence[dict[str, object]], scratch: Path, security: distributed.Security, host: str = "127.0.0.1"
) -> Iterator[distributed.SpecCluster]:
    """Start a scheduler in this process, and processes with one thread as workers; none has a dashboard.

    workers: what each has for itself, options of Dask's `Nanny`
    """
    settings = SETTINGS | {"temporary-directory": str(scratch)}  # of the scheduler, too
    with dask.config.set(settings), _whole(workers, scratch, security, host) as cluster:
        yield cluster


@contextmanager
def _local_cluster(workers: int | None, gpu: bool) -> Iterator[distributed.SpecCluster]:
    """Start one process with one thread for each core, or for each GPU, on the loopback interface.

    They speak TLS with certificates made for this run alone: loopback is open to everyone on the machine, and Dask
    runs whatever it receives.
    """
    own = [each.worker() for each in gpus()] if gpu else []
    if own and workers is not None and workers > len(own):
        raise ValueError(
            f"workers must be at most {len(own)}, one for each GPU of this machine, got {workers}; an experiment that "
            "must not use them runs where CUDA_VISIBLE_DEVICES is empty"
        )
    own = own[:workers] or [{}] * (workers or os.cpu_count() or 1)
    with scratch_folder("dynascope-sweep") as scratch, started(own, scratch, certificates(scratch)) as cluster:
        yield cluster


def _whole(
    workers: Sequence[dict[str, object]], scratch: Path, security: distributed.Security, host: str
) -> distributed.SpecCluster:
    """Start the cluster beside this thread: who interrupts it waits until there is something to close."""
    with ThreadPoolExecutor(1) as beside:
        starting = beside.submit(_started, workers, scratch, security, host)
        try:
            return starting.result()
        except BaseException:
            if not starting.done() or not starting.exception():
                starting.result().close()
            raise


def _started(
    workers: Sequence[dict[str, object]], scratch: Path, security: distributed.Security, host: str
) -> distributed.SpecCluster:
    """Start the cluster; where workers are killed meanwhile, Dask gives up, and it is started again."""
    common = {"host": host, "protocol": "tls://", "security": security, "dashboard": False}
    scheduler = {
        "allowed_failures": ALLOWED_DEATHS,
        "dashboard_address": "127.0.0.1:0",  # Dask listens there all the same, else to the whole network
        "port": 0,
    }
    # nothing is spilled: Dask would write pickles to disk
    worker = common | {"nthreads": 1, "memory_limit": 0, "local_directory": str(scratch), "silence_logs": "CRITICAL"}
    for left in reversed(range(ALLOWED_STARTS)):
        _forget_clients()
        try:
            return distributed.SpecCluster(
                {number: {"cls": distributed.Nanny, "options": worker | own} for number, own in enumerate(workers)},
                {"cls": distributed.Scheduler, "options": common | scheduler},
                security=security,
                silence_logs=logging.CRITICAL,
            )
        except (RuntimeError, OSError, TimeoutError, ValueError) as error:
            cause = str(error) or type(error).__name__
            if not left:
                raise ConnectionError(
                    f"workers could not be started on this machine, {ALLOWED_STARTS} times ({cause}); too little "
                    'memory? Try fewer workers, or scheduler="here"'
                ) from error
    raise AssertionError("not reached")


def _forget_clients() -> None:
    """Collect clients that could not connect: found while Dask starts a loop, they wait for it, and it for them."""
    gc.collect()


def certificates(scratch: Path) -> distributed.Security:
    """Certificates for one run, in files: of those in memory Dask makes files anywhere for a moment."""
    try:
        made = distributed.Security.temporary()
    except ImportError as error:
        raise ValueError(
            'scheduler must be "here" where cryptography is not installed, which makes the workers safe from others on '
            "this machine; install it: pip install 'dynascope[sweep]'"
        ) from error
    return in_files(scratch, made.tls_client_key, made.tls_ca_file)


def in_files(scratch: Path, key: str, certificate: str) -> distributed.Security:
    """One key and one certificate, by which all processes of a run know each other, written to a folder."""
    files = {"key": scratch / "key.pem", "cert": scratch / "certificate.pem"}
    for path, text in zip(files.values(), (key, certificate), strict=True):
        path.touch(mode=0o600)
        path.write_text(text)
    own = {f"tls_{role}_{kind}": str(path) for role in _ROLES for kind, path in files.items()}
    return distributed.Security(require_encryption=True, tls_ca_file=str(files["cert"]), **own)


def address_of(scheduler: object, trust_network: bool) -> str:
    """Read and check the address of a scheduler, given as text or as the JSON file that Dask's scheduler writes.

    >>> address_of("127.0.0.1:8786", trust_network=False)
    'tls://127.0.0.1:8786'
    >>> address_of("tcp://127.0.0.1:8786", trust_network=False)
    Traceback (most recent call last):
    ValueError: scheduler must be reached by tls://, got 'tcp://127.0.0.1:8786': Dask runs whatever it receives, from \
anyone on the network or the machine; set up TLS (docs/sweep.md), or say that all of them are trusted (trust_network, \
--trust-network)
    """
    text = str(scheduler)
    if text.endswith(".json"):
        text = _from_file(Path(text))
    text = text if "://" in text else f"tls://{text}"
    try:
        parts = urlsplit(text)
        complete = bool(parts.hostname and parts.port) and parts.scheme in ("tcp", "tls")
    except ValueError:
        complete = False
    if not complete:
        raise ValueError(
            'scheduler must be "here", an address such as tls://host:8786, the .json file that a scheduler wrote, or '
            f"Slurm(jobs=…) or Ssh([…]), got {str(scheduler)!r}"
        )
    if parts.scheme == "tcp" and not trust_network:
        raise ValueError(
            f"scheduler must be reached by tls://, got {text!r}: Dask runs whatever it receives, from anyone on the "
            "network or the machine; set up TLS (docs/sweep.md), or say that all of them are trusted (trust_network, "
            "--trust-network)"
        )
    return text


@dataclass(frozen=True)
class _SchedulerFile:
    """What is used of the file that Dask's scheduler writes."""

    address: str


def _from_file(path: Path) -> str:
    try:
        return read_json(path, _SchedulerFile).address
    except (OSError, ValueError) as error:
        raise ValueError(f"scheduler must be a file that Dask's scheduler wrote, got {str(path)!r}") from error
