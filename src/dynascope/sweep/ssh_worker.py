"""Workers on a machine reached by ssh: `python -m dynascope.sweep.ssh_worker` reads its order from standard input.

The order is one line of JSON with the certificates of the sweep, which so appear neither on a command line nor in a
file that others may read. Where standard input ends, the program that asked has ended, and so do the workers.
"""

import asyncio
import os
import sys
import threading
from dataclasses import dataclass

import dask
import distributed

from dynascope.files import scratch_folder
from dynascope.schema import parse_json
from dynascope.sweep.cluster import SETTINGS, in_files
from dynascope.sweep.gpus import gpus

DEATH_TIMEOUT = 60  # seconds without a scheduler after which a worker ends


@dataclass(frozen=True)
class Order:
    """What is asked for: workers of a scheduler, with the key and the certificate by which they know each other."""

    address: str
    name: str
    workers: int
    gpu: bool
    key: str
    certificate: str


async def _work(order: Order) -> None:
    """Run workers until their scheduler goes away, or standard input ends."""
    with scratch_folder("dynascope-worker") as scratch, dask.config.set(SETTINGS):
        security = in_files(scratch, order.key, order.certificate)
        own = [each.worker() for each in gpus()] if order.gpu else []
        nannies = [
            distributed.Nanny(
                order.address,
                name=f"{order.name}-{number}",
                security=security,
                nthreads=1,
                memory_limit=0,
                dashboard=False,
                death_timeout=DEATH_TIMEOUT,
                local_directory=str(scratch),
                **options,
            )
            for number, options in enumerate(own or [{}] * order.workers)
        ]
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        threading.Thread(target=_until_end, args=(loop, ended), daemon=True).start()
        try:
            await asyncio.gather(*nannies)
            working = [asyncio.ensure_future(nanny.finished()) for nanny in nannies]
            waiting = asyncio.ensure_future(ended.wait())
            await asyncio.wait([*working, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await asyncio.gather(*(nanny.close(timeout=2) for nanny in nannies), return_exceptions=True)


def _until_end(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    sys.stdin.read()
    loop.call_soon_threadsafe(ended.set)


def main() -> None:
    """Read the order, and work."""
    asyncio.run(_work(parse_json(sys.stdin.readline(), Order, "standard input")))
    sys.stdout.flush()
    os._exit(0)  # the thread that reads standard input would be waited for


if __name__ == "__main__":
    main()
