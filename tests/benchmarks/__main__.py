"""`make bench`: prints a line for each comparison with code written by hand on a real HBase, then JSON.

It starts an HBase of its own, or takes the gateways in HBMODEL_BENCH_URL and HBMODEL_BENCH_THRIFT2_URL. HBMODEL_BENCH_ONLY names
a part of the names of the comparisons to run, HBMODEL_BENCH_ROWS the rows of the tables.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from typing import Any

from tests.benchmarks.cases import run_all


def main() -> None:
    from hbmodel.localhbase import LocalHBase

    urls = os.environ.get("HBMODEL_BENCH_URL"), os.environ.get("HBMODEL_BENCH_THRIFT2_URL")
    rows, only = int(os.environ.get("HBMODEL_BENCH_ROWS", "100000")), os.environ.get("HBMODEL_BENCH_ONLY", "")
    running: Any = LocalHBase() if None in urls else nullcontext()
    with running as hbase:
        first, second = urls if hbase is None else (hbase.url, hbase.thrift2_url)
        results = run_all(first, second, rows, only)
    json.dump([result.as_json() for result in results], sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
