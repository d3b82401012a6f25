"""Reads a partition of a query in another process."""

from __future__ import annotations

import os
from typing import Any

import hbmodel as hb


def read_part(url: str, part: hb.types.QueryPartition[Any]) -> tuple[int, list[Any], int]:
    """Returns the id of the process, the items of a partition, and their count."""
    with hb.connect(url) as store:
        query = hb.Session(store).read_partition(part)
        return os.getpid(), query.all(), query.count()
