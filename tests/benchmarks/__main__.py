"""`make bench`: starts a real HBase (or takes the gateway in HBMODEL_BENCH_URL) and prints a line for each comparison, then JSON."""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from typing import Any

from tests.benchmarks.cases import run_all


def main() -> None:
    from hbmodel.localhbase import LocalHBase

    url = os.environ.get("HBMODEL_BENCH_URL")
    running: Any = LocalHBase() if url is None else nullcontext()
    with running as hbase:
        results = run_all(url if url is not None else hbase.url, rows=int(os.environ.get("HBMODEL_BENCH_ROWS", "20000")))
    json.dump([result.as_json() for result in results], sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
