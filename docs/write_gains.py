"""Write what `advise` expects, from the record of steering/mlps: after it was run anew, or the law was changed.

`dynascope reproduce steering/mlps --scale paper`, then
`python docs/write_gains.py results/steering/mlps/paper/record.nc`.
"""

import sys
from dataclasses import asdict

from dynascope.experiments.steering.gains import benchmark_of
from dynascope.records import load, to_json, write_text
from dynascope.schema import with_sum
from dynascope.steering.advice import BENCHMARK


def main() -> None:
    """Write the table beside the code that reads it."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} RECORD")
    write_text(BENCHMARK, with_sum(to_json(asdict(benchmark_of(load(sys.argv[1]))))))


if __name__ == "__main__":
    main()
