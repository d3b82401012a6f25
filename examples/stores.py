"""The store that an example runs on, chosen by its option `--store`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

import hbmodel as hb


@contextmanager
def opened(console: Console, name: str) -> Iterator[hb.Store]:
    """Opens a store: `embedded`, `hbase` or a URL. At the end, everything that was started or created for the store is
    removed.
    """
    if name == "embedded":
        with tempfile.TemporaryDirectory() as directory, hb.connect(f"embedded:{directory}/example.db") as store:
            yield store
    elif name == "hbase":
        from hbmodel.localhbase import LocalHBase

        console.print("Starting HBase; the first time its jars are downloaded ...")
        with LocalHBase() as hbase, hb.connect(hbase.thrift2_url) as store:
            yield store
    else:
        with hb.connect(name) as store:
            yield store
