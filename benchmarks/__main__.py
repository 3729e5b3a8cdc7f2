"""`make bench`: every figure we claim, with the peers beside us in the same run.

Each round measures every gateway once, in turn, so that a noisy minute hits all of them alike; what is printed is the
median of the rounds. Results go to benchmarks/results/: `latest.json` (one row a figure and peer) and one file a run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import process, proxy_cost
from benchmarks.report import Row, print_table, write_results


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (median is kept)")
    parser.add_argument("--seconds", type=float, default=3.0, help="load of one measurement")
    parser.add_argument("--peers", default="all", help="comma-separated names, `all` or `none`")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("rounds and seconds must be positive")
    names = None if options.peers == "all" else set(options.peers.split(",")) - {"none"}
    with tempfile.TemporaryDirectory(prefix="ace-bench-") as name:
        folder = Path(name)
        settings = proxy_cost.Settings(
            folder, process.build_native(folder), options.rounds, options.seconds, names
        )
        rows: list[Row] = proxy_cost.measure(settings)
    path = write_results(rows)
    print_table(rows)
    print(f"\nwritten: {path}")
    return 0 if rows else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except json.JSONDecodeError as error:
        sys.exit(f"the load generator printed no figures: {error}")
