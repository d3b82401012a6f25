"""Long runs against trouble: threads over a pool whose connections are cut all the time."""

from __future__ import annotations

import gc
import random
import threading
import time
from typing import Any

import psutil
import pytest

import hbmodel as hb
from tests.support.proxy import Proxy
from tests.support.waiting import comes_true
from tests.support.workers import tables, work

pytestmark = pytest.mark.hbase


def open_sockets() -> int:
    """TCP sockets of this process."""
    gc.collect()
    return len(psutil.Process().net_connections("tcp"))


@pytest.mark.parametrize("seconds", [3, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("gateway", ["thrift1", "thrift2"])
def test_threads_share_a_pool_whose_connections_are_cut_all_the_time(
    hbmodel_hbase: Any, gateway: str, seconds: float
) -> None:
    url = hbmodel_hbase.url if gateway == "thrift1" else hbmodel_hbase.thrift2_url
    cuts = 0
    with tables(url) as options:
        sockets, threads = open_sockets(), threading.active_count()
        with Proxy(url) as proxy:

            def cut() -> None:
                nonlocal cuts
                time.sleep(random.uniform(0, 0.1))
                proxy.cut_one()
                cuts += 1

            with hb.connect(f"{proxy.url}?{options}&pool=4&timeout=10") as store:
                workers = work(store, seconds, cut)
                assert cuts
                done = [worker.done.total() for worker in workers]
                assert all(done), done
                if seconds >= 60:  # in a few seconds a thread does few rounds, or none on a busy machine
                    assert cuts > 2 * seconds
                    # Nobody was starved, and nobody waited for long.
                    assert min(done) > max(done) / 5, done
                    assert max(worker.longest for worker in workers) < 10
                # What is kept open is what the pool may keep.
                gc.collect()
                store.tables()
                assert proxy.falls_to(4)
            assert proxy.falls_to(0)
        assert comes_true(lambda: open_sockets() <= sockets)
        assert comes_true(lambda: threading.active_count() <= threads)
