"""Tables created with split keys: every strategy read back from the store, and regions that rows do or do not reach."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from hbmodel.localhbase import LocalHBase
from hbmodel.localhbase.hbase_configuration import JVM_FLAGS
from hbmodel.localhbase.jars import class_path
from hbmodel.localhbase.java import find_java
from hbmodel.store import Delete, Scan
from hbmodel.tables.registry.registry_rows import registry_row
from tests.support.beds import ATOMIC, HBASE, Bed
from tests.support.faulty import Crash, FaultyStore, RecordingStore
from tests.support.tested_version import TESTED

START = datetime(2026, 1, 1, tzinfo=UTC)


@hb.model(table="split_digests")
class Digest:
    digest: hb.Key[str] = hb.key()
    value: hb.Column[int] = hb.column("v")


@hb.model(table="split_events", salt=hb.HashSalt(3, by=("user",)))
class Event:
    user: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    name: hb.Column[str] = hb.column("n")

    by_name = hb.index("name")
    by_time = hb.index(hb.desc("at"))


MODELS: tuple[type[Any], ...] = (Digest, Event)
DIGESTS = [Digest(digest=hashlib.md5(b"%d" % number).hexdigest(), value=number) for number in range(400)]
EVENTS = [
    Event(user=number, at=START + timedelta(hours=number), name=f"{number * 37 % 100:02}") for number in range(100)
]


@pytest.fixture
def empty(bed: Bed) -> Iterator[Bed]:
    """A store without the tables of these models."""
    drop(bed.store)
    yield bed
    drop(bed.store)


def drop(store: hb.Store) -> None:
    tables = store.tables()
    for table in tables:
        if table.startswith("split_"):
            store.delete_table(table)
    if "hbmodel" in tables:
        store.delete("hbmodel", [Delete(registry_row(hb.schema.schema_of(model))) for model in (*MODELS, Salted)])


def starts(store: hb.Store, table: str) -> list[bytes]:
    """Where the regions of a table begin, but the first."""
    regions = store.regions(table)
    assert regions[0].range.start == b""
    assert [region.range.stop for region in regions] == [*(region.range.start for region in regions[1:]), None]
    return [region.range.start for region in regions[1:]]


STRATEGIES: dict[str, tuple[type[Any], str | None, Any]] = {
    "by bucket": (Event, None, hb.ByBucket()),
    "by bucket, then evenly": (Event, None, hb.ByBucket(hb.tables.Uniform(3))),
    "evenly": (Event, None, hb.tables.Uniform(2)),
    "evenly over times": (Event, "by_time", hb.tables.Uniform(4, START, START + timedelta(hours=100))),
    "hexadecimal": (Digest, None, hb.tables.Hexadecimal(10)),
    "from a sample": (Digest, None, hb.tables.FromSample(DIGESTS, 4)),
    "from a sample of an index": (Event, "by_name", hb.tables.FromSample(EVENTS, 4)),
    "by hand": (Digest, None, hb.tables.AtKeys([b"\x00", b"a'\\\n", b"\xff\xff"])),
}


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_table_has_the_regions_that_its_strategy_plans(empty: Bed, name: str) -> None:
    model, index, strategy = STRATEGIES[name]
    schema = hb.schema.schema_of(model)
    table = schema.table if index is None else schema.indexes[index].table
    hb.create_tables(empty.store, model, splits={table: strategy})
    planned = hb.tables.split_keys(model, strategy, index=index)
    assert planned
    assert starts(empty.store, table) == planned
    others = {schema.table, *(each.table for each in schema.indexes.values())} - {table}
    by_default = {"split_events": [b"\x01", b"\x02"]}
    assert {other: starts(empty.store, other) for other in others} == {
        other: by_default.get(other, []) for other in others
    }


@hb.model(table="split_salted", salt=hb.HashSalt(4))
class Salted:
    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")

    by_size = hb.index("size", salt=hb.HashSalt(2))


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ["memory", *HBASE], indirect=True)
def test_a_salted_table_has_a_region_for_each_bucket(empty: Bed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "hbmodel")
    hb.create_tables(empty.store, Salted, Digest)
    found = {table: starts(empty.store, table) for table in ("split_salted", "split_salted.by_size", "split_digests")}
    if empty.store.capabilities.presplit:
        assert found == {
            "split_salted": [b"\x01", b"\x02", b"\x03"],
            "split_salted.by_size": [b"\x01"],
            "split_digests": [],
        }
    else:
        assert set(map(tuple, found.values())) == {()}
    assert not hb.diff(empty.store, Salted, Digest)
    told = [message.split()[1] for message in caplog.messages if "create it through a Thrift2 gateway" in message]
    assert told == ([] if empty.store.capabilities.presplit else ["split_salted.by_size", "split_salted"])


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_many_buckets_share_regions(empty: Bed) -> None:
    def declare(table: str, salt: Any) -> Any:
        @hb.model(table=table, salt=salt)
        class Spread:
            name: hb.Key[str] = hb.key()
            size: hb.Column[int] = hb.column("s")

        return Spread

    fits = [f"{n:03}" for n in range(256)]
    odd = [f"{n:03}" for n in range(257)]
    hb.create_tables(
        empty.store,
        declare("split_many", hb.salts.DigestSalt(3)),
        declare("split_fits", hb.salts.TextSalt(fits)),
        declare("split_odd", hb.salts.TextSalt(odd)),
    )
    assert starts(empty.store, "split_many") == [b"%03x" % n for n in range(16, 4096, 16)]
    assert starts(empty.store, "split_fits") == [prefix.encode() for prefix in fits[1:]]
    assert starts(empty.store, "split_odd") == [prefix.encode() for prefix in odd[2::2]]


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_an_index_that_is_built_has_a_region_for_each_bucket(empty: Bed) -> None:
    @hb.model(table="split_salted", salt=hb.HashSalt(4))
    class Before:
        name: hb.Key[str] = hb.key()
        size: hb.Column[int] = hb.column("s")

    hb.create_tables(empty.store, Before)
    hb.create_tables(empty.store, Salted)
    hb.indexes.build_index(empty.store, Salted, "by_size")
    assert starts(empty.store, hb.schema.schema_of(Salted).indexes["by_size"].table) == [b"\x01"]


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_a_salted_table_may_have_one_region(empty: Bed) -> None:
    hb.create_tables(empty.store, Salted, splits={Salted: hb.tables.AtKeys([])})
    assert starts(empty.store, "split_salted") == []
    (difference,) = hb.diff(empty.store, Salted, splits=hb.ByBucket())
    assert (difference.kind, difference.effect) == ("splits", "left")


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_models_with_different_salts_share_one_region(empty: Bed) -> None:
    def declare(family: str, buckets: int) -> Any:
        @hb.model(table="split_shared", family=family, salt=hb.HashSalt(buckets))
        class Shared:
            name: hb.Key[str] = hb.key()
            size: hb.Column[int] = hb.column("s")

        return Shared

    hb.create_tables(empty.store, declare("a", 2), declare("b", 4))
    assert starts(empty.store, "split_shared") == []
    empty.store.delete_table("split_shared")
    hb.create_tables(empty.store, declare("c", 3), declare("d", 3))
    assert starts(empty.store, "split_shared") == [b"\x01", b"\x02"]


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_objects_in_one_row_have_one_region(empty: Bed) -> None:
    @hb.model(table="split_one_row", row=b"r")
    class Item:
        name: hb.Key[str] = hb.key(in_qualifier=True)
        size: hb.Column[int] = hb.column("s")

    hb.create_tables(empty.store, Item)
    assert starts(empty.store, "split_one_row") == []


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_one_strategy_is_for_every_primary_table(empty: Bed) -> None:
    strategy = hb.tables.AtKeys([b"k"])
    hb.create_tables(empty.store, Digest, Event, splits=strategy)
    found = {table: starts(empty.store, table) for table in empty.store.tables() if table.startswith("split_")}
    assert found == {
        "split_digests": [b"k"],
        "split_events": [b"k"],
        "split_events.by_name": [],
        "split_events.by_time": [],
    }


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_strategies_by_model_and_by_table(empty: Bed) -> None:
    hb.create_tables(
        empty.store, *MODELS, splits={Event: hb.ByBucket(), "split_events.by_name": hb.tables.AtKeys([b"m"])}
    )
    assert starts(empty.store, "split_events") == [b"\x01", b"\x02"]
    assert starts(empty.store, "split_events.by_name") == [b"m"]
    assert starts(empty.store, "split_digests") == []


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_a_table_that_is_there_keeps_its_regions(empty: Bed) -> None:
    hb.create_tables(empty.store, Digest, splits=hb.tables.Hexadecimal(4))
    hb.create_tables(empty.store, Digest, splits=hb.tables.Hexadecimal(8))
    assert len(empty.store.regions("split_digests")) == 4


@pytest.mark.lengthy
def test_tables_have_their_regions_wherever_a_crash_comes() -> None:
    splits = {Event: hb.ByBucket(), "split_events.by_name": hb.tables.AtKeys([b"m"]), Digest: hb.tables.Hexadecimal(4)}
    with FaultyStore(hb.connect("memory:")) as whole:
        hb.create_tables(whole, *MODELS, splits=splits)
    for at, mode in product(range(len(whole.calls)), ("before", "after")):
        with hb.connect("memory:") as store:
            with pytest.raises(Crash):
                hb.create_tables(FaultyStore(store, at, mode, crash=True), *MODELS, splits=splits)
            hb.create_tables(store, *MODELS, splits=splits)
            assert not hb.diff(store, *MODELS, splits=splits)
            with hb.Session(store) as session:
                session.add_all(EVENTS)
            assert hb.Session(store).query(Event).where(Event.name == "37").count() == 1


@pytest.mark.parametrize(
    "splits",
    [
        {"nothing": hb.ByBucket()},
        {Event: hb.ByBucket()},
        {Digest: "by bucket"},
        {Digest: hb.tables.AtKeys([b"a"]), "split_digests": hb.tables.AtKeys([b"b"])},
        hb.ByBucket(),
        [b"a"],
    ],
)
def test_strategies_that_suit_no_table_are_refused_before_anything_is_created(splits: Any) -> None:
    with hb.connect("memory:") as store:
        with pytest.raises(hb.DeclarationError):
            hb.create_tables(store, Digest, splits=splits)
        assert store.tables() == []


# --- a gateway without split keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bed", [HBASE[0]], indirect=True)
def test_a_gateway_without_split_keys_creates_nothing_and_gives_the_line_for_the_shell(empty: Bed) -> None:
    before = empty.store.tables()
    with pytest.raises(hb.CapabilityError, match="run the lines in `hbase shell`") as caught:
        hb.create_tables(empty.store, Digest, splits=hb.tables.Hexadecimal(4))
    assert empty.store.tables() == before
    assert caught.value.tables == ["split_digests"]
    assert caught.value.shell.startswith("create 't")
    assert caught.value.shell.endswith("_split_digests', {NAME => 'd'}, SPLITS => ['40', '80', 'c0']")


@pytest.mark.parametrize("bed", [HBASE[0]], indirect=True)
def test_an_indexed_model_is_sent_to_the_other_gateway(empty: Bed) -> None:
    before = empty.store.tables()
    with pytest.raises(hb.CapabilityError, match="This store cannot create the tables as") as caught:
        hb.create_tables(
            empty.store, Digest, Event, splits={Event: hb.ByBucket(), "split_events.by_name": hb.tables.AtKeys([b"m"])}
        )
    assert empty.store.tables() == before
    assert [line.split("', {")[0].split("_split_")[1] for line in caught.value.shell.splitlines()] == [
        "events.by_name",
        "events",
    ]
    # For an index table alone the line is enough: the primary table is still to be made.
    with pytest.raises(hb.CapabilityError, match="run the lines in `hbase shell`"):
        hb.create_tables(empty.store, Event, splits={"split_events.by_name": hb.tables.AtKeys([b"m"])})


@pytest.mark.parametrize("bed", [HBASE[0]], indirect=True)
def test_split_keys_of_a_table_that_is_there_ask_for_nothing(empty: Bed) -> None:
    hb.create_tables(empty.store, Digest)
    recording = RecordingStore(empty.store)
    hb.create_tables(recording, Digest, splits=hb.tables.Hexadecimal(4))
    assert not any(call.writes for call in recording.calls)


# --- regions that rows reach, and regions that none can ---------------------------------------------------------------

# What HBase itself makes of 00000000 to ffffffff: the regions of a table that its `RegionSplitter` 2.6.1 created, run
# with `-c 10 -f d --firstrow 00000000 --lastrow ffffffff TABLE UniformSplit`, which splits with `Bytes.split`.
_KEYS_BY_HBASE = """
359c0268cf359c02 3b07d4a16e3b07d4 4073a6da0d4073a6 45df7912ac45df78 4b4b4b4b4b4b4b4a
50b71d83ea50b71c 5622efbc895622ee 5b8ec1f5285b8ec0 60fa942dc760fa92
"""
BY_HBASE = [bytes.fromhex(key) for key in _KEYS_BY_HBASE.split()]


def bytes_split(low: bytes, high: bytes, regions: int) -> list[bytes]:
    """`Bytes.split` of HBase: multiples of a whole number, added to the lower key."""
    first, last = int.from_bytes(low, "big"), int.from_bytes(high, "big")
    step = (last - first) // regions
    return [(first + step * number).to_bytes(len(low), "big") for number in range(1, regions)]


def rows_in_regions(store: hb.Store, table: str) -> list[int]:
    """How many rows each region holds, as scans of just its rows find them."""
    scans = store.scan(table, [Scan(region.range) for region in store.regions(table)])
    return [sum(len(batch) for batch in batches) for batches in scans]


def load_digests(store: hb.Store) -> None:
    with hb.Session(store) as session:
        session.add_all(DIGESTS)


def test_the_arithmetic_is_that_of_hbase() -> None:
    assert bytes_split(b"00000000", b"ffffffff", 10) == BY_HBASE


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_ten_hexadecimal_regions_all_receive_rows(empty: Bed) -> None:
    hb.create_tables(empty.store, Digest, splits=hb.tables.Hexadecimal(10))
    load_digests(empty.store)
    counted = rows_in_regions(empty.store, "split_digests")
    assert len(counted) == 10
    assert sum(counted) == len(DIGESTS)
    assert min(counted) > 20
    found = hb.tables.check_regions(empty.store, Digest, sample=DIGESTS, alphabet=b"0123456789abcdef")
    assert all(use.reachable for use in found)
    assert [use.rows for use in found] == counted


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_regions_between_interpolated_bytes_receive_no_rows(empty: Bed) -> None:
    hb.create_tables(empty.store, Digest, splits=hb.tables.AtKeys(BY_HBASE))
    load_digests(empty.store)
    counted = rows_in_regions(empty.store, "split_digests")
    assert len(counted) == 10
    assert [number for number, rows in enumerate(counted) if rows] == [0, 1, 9]
    assert sum(counted) == len(DIGESTS)
    assert counted[0] > 0.3 * len(DIGESTS)
    found = hb.tables.check_regions(empty.store, Digest, sample=DIGESTS, alphabet=b"0123456789abcdef")
    assert [number for number, use in enumerate(found) if use.reachable] == [0, 1, 9]
    assert [use.rows for use in found] == counted


def test_the_shares_of_hexadecimal_regions_are_equal() -> None:
    keys = hb.tables.split_keys(Digest, hb.tables.Hexadecimal(10))
    numbers = [0.0, *(int(key, 16) / 16 ** len(key) for key in keys), 1.0]
    assert all(abs((after - before) * 10 - 1) < 0.2 for before, after in pairwise(numbers))


@pytest.mark.parametrize("bed", ["memory", "embedded", HBASE[1]], indirect=True)
def test_several_programs_may_create_the_tables_at_once(empty: Bed) -> None:
    splits = {Event: hb.ByBucket(), "split_events.by_name": hb.tables.AtKeys([b"m"])}
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: hb.create_tables(empty.store.inner, Event, splits=splits), range(4)))
    created = [table for creation in made for table in creation.created if table != "hbmodel"]
    assert sorted(created) == ["split_events", "split_events.by_name", "split_events.by_time"], "each by one of them"
    assert not hb.diff(empty.store, Event, splits=splits)
    with hb.Session(empty.store) as session:
        session.add_all(EVENTS)
    assert hb.Session(empty.store).query(Event).where(Event.name == "37").count() == 1


@pytest.mark.hbase
def test_those_keys_are_what_a_tool_of_hbase_makes(hbmodel_hbase: Any) -> None:
    if not isinstance(hbmodel_hbase, LocalHBase):
        pytest.skip("needs HBase's configuration, which a named gateway does not give")
    table = f"split_by_tool_{uuid4().hex[:8]}"
    command = [
        str(find_java().path),
        "-Xmx256m",
        *JVM_FLAGS,
        f"-Dhbmodel.log={hbmodel_hbase.directory}/logs/splitter.log",
    ]
    tool = [
        "org.apache.hadoop.hbase.util.RegionSplitter",
        "-c",
        "10",
        "-f",
        "d",
        "--firstrow",
        "00000000",
        "--lastrow",
        "ffffffff",
    ]
    classes = f"{hbmodel_hbase.directory}/conf/gateways:{class_path(TESTED, progress=False)}"
    done = subprocess.run(
        [*command, *tool, table, "UniformSplit"],
        env={**os.environ, "CLASSPATH": classes},
        capture_output=True,
        text=True,
        check=False,
    )
    with hb.connect(hbmodel_hbase.thrift2_url) as store:
        assert table in store.tables(), done.stderr[-1000:]
        assert starts(store, table) == BY_HBASE
        store.delete_table(table)
