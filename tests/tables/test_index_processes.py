"""A build whose work is spread over the processes of a pool."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import hbmodel as hb
from tests.support.spawned_builder import TIMES, Grouped, Plain, begin_together, build


@pytest.mark.lengthy
def test_processes_of_a_pool_share_a_build(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'store.db'}"
    with hb.connect(url) as store:
        hb.create_tables(
            store, Plain, splits=hb.tables.AtKeys([hb.row_key(Plain, number=n) for n in range(50, 400, 50)])
        )
        with hb.Session(store) as session:
            session.bulk_add([Plain(number=n, group=n % 7) for n in range(400)])
        hb.create_tables(store, Grouped)
        with pytest.raises(hb.StoreError, match="open one in each process"):
            pickle.dumps(store)
        spawned = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, spawned, begin_together, (spawned.Barrier(2),)) as processes:
            built = list(processes.map(build, [url] * 2))
        assert [(readable, rows) for _, readable, rows, _ in built] == [(True, 400)] * 2
        assert len({process for process, *_ in built}) == 2
        entries = [put for *_, put in built]
        assert sum(entries) >= 400  # a range whose claim was lost is built twice
        assert min(entries) > 0, "one process did all the work"
        assert hb.indexes.verify_index(store, Grouped, "by_group", times=TIMES).entries == 400
        session = hb.Session(store)
        assert session.query(Grouped).where(Grouped.group == 3).use_index("by_group").count() == 57
