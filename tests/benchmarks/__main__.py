"""`make bench`: prints a line for each comparison with code written by hand on a real HBase, then JSON.

It starts its own HBase, or uses the gateways in HBMODEL_BENCH_URL and HBMODEL_BENCH_THRIFT2_URL. `--only get page` runs
the comparisons whose names hold one of these texts, in seconds where an HBase runs already.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import nullcontext
from typing import Any

from tests.benchmarks.cases import run_all


def main() -> None:
    from hbmodel.localhbase import LocalHBase

    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="TEXT", help="run the comparisons whose names hold one of these"
    )
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the tables that are read")
    parser.add_argument("--warm-up", type=float, default=8.0, metavar="SECONDS", help="of each comparison, unmeasured")
    chosen = parser.parse_args()
    urls = os.environ.get("HBMODEL_BENCH_URL"), os.environ.get("HBMODEL_BENCH_THRIFT2_URL")
    running: Any = LocalHBase() if None in urls else nullcontext()
    with running as hbase:
        first, second = urls if hbase is None else (hbase.url, hbase.thrift2_url)
        results = run_all(
            first, second, chosen.rows, lambda name: any(text in name for text in chosen.only), chosen.warm_up
        )
    json.dump([result.as_json() for result in results], sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
