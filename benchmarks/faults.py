"""Kill every command that writes, at random moments, and see that nothing is lost, unreadable, different or left over.

A command is ended by SIGKILL (one time in six SIGTERM or SIGINT), up to three times in a row: anywhere in its duration,
or aimed at a change to the disk. Then it is called again, and what it leaves is compared byte by byte with what an
undisturbed run leaves. The same is done on a full disk and in a read-only folder; workers of a sweep are killed in each
phase; and bits are flipped in, or ends cut off, files of every kind. What was counted stays in state.jsonl: a campaign
that is stopped goes on where it was.
"""

import argparse
import os
import sys
import warnings
from pathlib import Path


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path, default=Path("results/faults"), help="where the campaign works")
    options.add_argument("--commands", help="some of the commands and faults, a,b,c; all if not given")
    options.add_argument("--kills", type=int, default=60, help="of a command, about; cheap ones get twice as many")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    given.folder = given.folder.absolute()
    given.folder.mkdir(parents=True, exist_ok=True)
    # before JAX and matplotlib are imported; children find what was compiled for the undisturbed run
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": str(given.folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "SOURCE_DATE_EPOCH": "0",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
    }
    warnings.filterwarnings("ignore", message=".*fork", category=RuntimeWarning)
    from campaign.running import conduct  # noqa: PLC0415 (workers import this file, and need none of it)

    return conduct(given.folder, given.commands, kills=given.kills, seed=given.seed)


if __name__ == "__main__":
    sys.exit(main())
