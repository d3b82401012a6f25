"""OpenTSDB's table of ids as a dictionary: ids that OpenTSDB has assigned are read, and both programs
assign new ones.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.codecs import java
from hbmodel.mapping.declare.uid_tables import uid_tables_of
from hbmodel.protocol.driver import perform
from hbmodel.protocol.id_assignment import claim_name
from hbmodel.store import Family, Put
from hbmodel.tables.ids import random_uids
from tests.support import opentsdb
from tests.support.beds import Bed, cells_of, fresh

UIDS = "uids-of-tsdb"
METRICS = hb.ids.opentsdb_uids("metrics", table=UIDS)
TAGK = hb.ids.opentsdb_uids("tagk", table=UIDS)
TAGV = hb.ids.opentsdb_uids("tagv", table=UIDS)
START = datetime(2026, 1, 1, tzinfo=UTC)


@hb.model(
    table="points-of-tsdb", family="t", external=True, salt=hb.salts.JavaHashSalt(20, by=("metric", "key", "tag"))
)
class Point:
    """The points of series with one tag."""

    metric: hb.Key[str] = hb.key(METRICS)
    hour: hb.Key[datetime] = hb.key(java.IntTime)
    key: hb.Key[str] = hb.key(TAGK)
    tag: hb.Key[str] = hb.key(TAGV)
    qualifier: hb.Key[bytes] = hb.key(in_qualifier=True)
    value: hb.Column[bytes] = hb.column("")


def empty(bed: Bed) -> hb.ids.Names:
    """The table of ids, empty."""
    bed.use(Point)
    bed.wipe(UIDS)
    return hb.ids.Names(bed.store)


def created() -> Any:
    """A store with the table of ids."""
    store = fresh()
    store.create_table(UIDS, opentsdb.FAMILIES)
    return store


def assigned(store: Any, kind: str, name: str) -> int:
    uid = opentsdb.run(store, opentsdb.assigned(UIDS, kind, name))
    assert uid is not None
    return int.from_bytes(uid, "big")


def point(metric: str, hours: int = 0, tag: str = "web1") -> Point:
    return Point(
        metric=metric, hour=START + timedelta(hours=hours), key="host", tag=tag, qualifier=b"\x00\x10", value=b"\x2a"
    )


def check_table(store: Any, kind: str = "metrics") -> dict[str, int]:
    """The ids by name; an id that a name has leads back to it, and no two names have one."""
    forward, reverse = f"id:{kind}".encode(), f"name:{kind}".encode()
    cells = cells_of(store, UIDS)
    ids = {row: cells_[forward] for row, cells_ in cells.items() if forward in cells_ and row != b"\x00"}
    assert all(cells[uid][reverse] == name for name, uid in ids.items())
    assert len(set(ids.values())) == len(ids)
    return {name.decode("latin-1"): int.from_bytes(uid, "big") for name, uid in ids.items()}


# --- names and ids ----------------------------------------------------------------------------------------------------


def test_names_that_opentsdb_has_assigned_are_read(bed: Bed) -> None:
    names = empty(bed)
    first = assigned(bed.store, "metrics", "sys.cpu")
    assert [assigned(bed.store, "metrics", name) for name in ("sys.mem", "Wärme")] == [first + 1, first + 2]
    tag = assigned(bed.store, "tagk", "sys.cpu")
    assert names.find(METRICS, ["Wärme", "nothing", "sys.cpu"]) == {"Wärme": first + 2, "sys.cpu": first}
    assert names.claim(METRICS, "sys.mem") == first + 1
    others = hb.ids.Names(hb.Session(bed.store))
    assert [others.name_of(METRICS, first + n) for n in range(3)] == ["sys.cpu", "sys.mem", "Wärme"]
    assert (others.name_of(TAGK, tag), others.id_of(TAGK, "sys.cpu")) == ("sys.cpu", tag)
    assert list(others.starting_with(METRICS)) == ["Wärme", "sys.cpu", "sys.mem"]
    assert list(others.starting_with(METRICS, limit=1)) == ["Wärme"]
    assert list(others.starting_with(METRICS, "W\xe4")) == ["Wärme"]
    with pytest.raises(hb.errors.UnknownName):
        others.id_of(TAGV, "sys.cpu")
    with pytest.raises(hb.DecodingError, match="The dictionary has no name for a stored id"):
        others.name_of(METRICS, first + 3)


def test_new_names_are_assigned_as_opentsdb_assigns_them(bed: Bed) -> None:
    names = empty(bed)
    first = names.claim(METRICS, "é")
    assert names.claim(TAGK, "host") is not None
    assert assigned(bed.store, "metrics", "é") == first
    assert assigned(bed.store, "metrics", "other") == first + 1
    assert names.claim(METRICS, "third") == first + 2
    assert check_table(bed.store) == {"é": first, "other": first + 1, "third": first + 2}


def test_the_bytes_of_the_table() -> None:
    store = created()
    names = hb.ids.Names(store)
    assert (names.claim(METRICS, "é"), names.claim(METRICS, "host"), names.claim(TAGK, "host")) == (1, 2, 1)
    assert cells_of(store, UIDS) == {
        b"\x00": {b"id:metrics": bytes(7) + b"\x02", b"id:tagk": bytes(7) + b"\x01"},
        b"\x00\x00\x01": {b"name:metrics": b"\xe9", b"name:tagk": b"host"},
        b"\x00\x00\x02": {b"name:metrics": b"host"},
        b"host": {b"id:metrics": b"\x00\x00\x02", b"id:tagk": b"\x00\x00\x01"},
        b"\xe9": {b"id:metrics": b"\x00\x00\x01"},
    }
    assert store.tables() == [UIDS]


def test_names_whose_bytes_are_an_id(bed: Bed) -> None:
    """The rows of names and of ids are the same rows, in other families."""
    names = empty(bed)
    first = names.claim(METRICS, "a")
    word = (first + 1).to_bytes(3, "big").decode("latin-1")
    assert names.claim(METRICS, word) == first + 1
    others = hb.ids.Names(bed.store)
    assert (others.name_of(METRICS, first + 1), others.id_of(METRICS, word)) == (word, first + 1)


# --- programs that assign at once -------------------------------------------------------------------------------------


def test_both_assign_the_same_names_at_once(bed: Bed) -> None:
    empty(bed)
    words = [f"word{number}" for number in range(8)]

    def program(number: int) -> list[int]:
        if number % 2:
            names = hb.ids.Names(bed.store)
            return [names.claim(METRICS, word) for word in words]
        return [assigned(bed.store, "metrics", word) for word in words]

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(program, range(6)))
    assert all(ids == found[0] for ids in found)
    assert check_table(bed.store) == dict(zip(words, found[0], strict=True))


@pytest.mark.parametrize("calls", range(1, 4))
def test_opentsdb_dies_between_two_calls(bed: Bed, calls: int) -> None:
    names = empty(bed)
    assert opentsdb.run(bed.store, opentsdb.assigned(UIDS, "metrics", "a"), calls) is None
    other, number = names.claim(METRICS, "b"), names.claim(METRICS, "a")
    assert (assigned(bed.store, "metrics", "a"), assigned(bed.store, "metrics", "b")) == (number, other)
    assert check_table(bed.store) == {"a": number, "b": other}
    again = hb.ids.Names(bed.store)
    assert [again.name_of(METRICS, each) for each in (number, other)] == ["a", "b"]


@pytest.mark.parametrize("calls", range(1, 4))
def test_hbmodel_dies_between_two_calls(bed: Bed, calls: int) -> None:
    empty(bed)
    assert opentsdb.run(bed.store, claim_calls("a"), calls) is None
    other, number = assigned(bed.store, "metrics", "b"), assigned(bed.store, "metrics", "a")
    names = hb.ids.Names(bed.store)
    assert (names.claim(METRICS, "a"), names.claim(METRICS, "b")) == (number, other)
    assert check_table(bed.store) == {"a": number, "b": other}


def claim_calls(name: str) -> Generator[Any, Any, bytes]:
    """The calls of `Names.claim`."""
    number = yield from claim_name(uid_tables_of(METRICS), METRICS.written(name))
    return number.to_bytes(3, "big")


def turns(ours: int, theirs: int) -> Iterator[tuple[int, ...]]:
    """Every order in which two programs can make so many calls."""
    for places in itertools.combinations(range(ours + theirs), ours):
        yield tuple(0 if at in places else 1 for at in range(ours + theirs))


def in_turns(order: tuple[int, ...], words: tuple[str, str], dies: tuple[int, int] | None) -> None:
    """Two programs claim names in an order of their calls; one may die before one of its calls."""
    store = created()
    programs = [claim_calls(words[0]), opentsdb.assigned(UIDS, "metrics", words[1])]
    answers: list[Any] = [None, None]
    used: dict[int, bytes] = {}
    made = [0, 0]
    over = [False, False]
    for at in (*order, *[0] * 6, *[1] * 6):
        over[at] = over[at] or dies == (at, made[at])
        if over[at]:
            continue
        made[at] += 1
        try:
            answers[at] = perform(store, programs[at].send(answers[at]))
        except StopIteration as stop:
            used[at], over[at] = stop.value, True
    ids = check_table(store)
    assert all(ids[words[at]] == int.from_bytes(uid, "big") for at, uid in used.items())
    assert len(used) == 2 or dies is not None
    names = hb.ids.Names(store)
    for word in words:
        assert names.claim(METRICS, word) == assigned(store, "metrics", word)
    assert names.name_of(METRICS, names.id_of(METRICS, words[0])) == words[0]
    check_table(store)


@pytest.mark.lengthy
@pytest.mark.parametrize("words", [("a", "a"), ("a", "b")])
def test_every_order_of_the_calls_of_two_programs(words: tuple[str, str]) -> None:
    """With neither dead, and with each dead before each of its calls."""
    deaths = [None, *itertools.product((0, 1), range(6))]
    for order, dies in itertools.product(turns(4, 4), deaths):
        in_turns(order, words, dies)


# --- the end of the ids -----------------------------------------------------------------------------------------------


def test_ids_come_to_an_end(bed: Bed) -> None:
    table = "few-uids-of-tsdb"
    few = hb.ids.opentsdb_uids("tagv", width=1, table=table)
    hb.create_tables(bed.store, few, create_external=True)
    bed.store.put(table, [Put(b"\x00", {b"id:tagv": (254).to_bytes(8, "big")})])
    names = hb.ids.Names(bed.store)
    assert names.claim(few, "last") == 255
    with pytest.raises(hb.errors.IdsExhausted, match="All ids of this width are in use") as raised:
        names.claim(few, "one more")
    found = raised.value
    assert (found.table, found.column, found.width, found.id) == (table, b"id:tagv", 1, 256)
    assert names.claim(few, "last") == 255
    assert b"one more" not in cells_of(bed.store, table)
    bed.store.delete_table(table)


def test_random_ids_are_drawn(bed: Bed) -> None:
    empty(bed)
    drawn = hb.ids.opentsdb_uids("metrics", table=UIDS, random=True)
    names = hb.ids.Names(bed.store)
    ids = {name: names.claim(drawn, name) for name in ("a", "b", "c", "é")}
    assert check_table(bed.store) == ids
    assert max(ids.values()) > 4
    assert b"\x00" not in cells_of(bed.store, UIDS)
    assert [hb.ids.Names(bed.store).name_of(drawn, number) for number in ids.values()] == list(ids)


def test_a_random_id_that_has_a_name_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = created()
    drawn = hb.ids.opentsdb_uids("metrics", width=1, table=UIDS, random=True)
    names = hb.ids.Names(store)
    sequence = iter([6, 6, 7, *[6] * random_uids.DRAWS])
    monkeypatch.setattr(random_uids.secrets, "randbelow", lambda highest: next(sequence) if highest == 255 else None)
    assert (names.claim(drawn, "a"), names.claim(drawn, "b")) == (7, 8)
    with pytest.raises(hb.errors.IdsExhausted, match="Every random id that was drawn has a name"):
        names.claim(drawn, "c")
    assert check_table(store) == {"a": 7, "b": 8}


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["日本", "€", "", "\x00", "\ud800", "x" * 32_768, b"x", 7])
def test_what_is_no_name(wrong: Any) -> None:
    names = hb.ids.Names(created())
    for ask in (names.claim, names.id_of):
        with pytest.raises(hb.EncodingError):
            ask(METRICS, wrong)
    with pytest.raises(hb.EncodingError, match="OpenTSDB stores names in ISO-8859-1"):
        names.claim(METRICS, "a€")
    with pytest.raises(hb.EncodingError, match="A name in OpenTSDB must have 1 to 32,767 characters"):
        names.claim(METRICS, "\x00")
    with pytest.raises(hb.EncodingError, match="OpenTSDB stores names in ISO-8859-1"):
        names.starting_with(METRICS, "日")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "metric"}, "OpenTSDB has no ids of this kind"),
        ({"kind": None}, "OpenTSDB has no ids of this kind"),
        ({"kind": "tagk", "width": 0}, "The ids of OpenTSDB have 1 to 8 bytes"),
        ({"kind": "tagk", "width": 9}, "The ids of OpenTSDB have 1 to 8 bytes"),
        ({"kind": "tagk", "width": hb.UInt32}, "The ids of OpenTSDB have 1 to 8 bytes"),
        ({"kind": "tagk", "table": ""}, "OpenTSDB's table of ids needs a name"),
        ({"kind": "tagk", "random": True}, "OpenTSDB gives random ids only to metrics"),
        ({"kind": "metrics", "width": 8, "random": True}, "OpenTSDB gives random ids only to metrics"),
        ({"kind": "metrics", "random": 1}, "random must be True or False"),
    ],
)
def test_wrong_declarations(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(hb.DeclarationError, match=message):
        hb.ids.opentsdb_uids(**arguments)


def test_a_missing_table_is_not_created(bed: Bed) -> None:
    missing = hb.ids.opentsdb_uids("metrics", table="uids-of-tsd")

    @hb.model(table="points-with-a-typo", family="t", external=True)
    class Mistyped:
        metric: hb.Key[str] = hb.key(missing)
        value: hb.Column[bytes] = hb.column("v")

    empty(bed)
    bed.store.create_table("points-with-a-typo", [Family(b"t")])
    try:
        for declared in (Mistyped, missing):
            with pytest.raises(hb.errors.TableNotFound, match="OpenTSDB's table of ids does not exist") as raised:
                hb.create_tables(bed.store, declared)
            assert (raised.value.table, raised.value.known[0]) == ("uids-of-tsd", UIDS)
            (difference,) = [each for each in hb.diff(bed.store, declared) if each.table == "uids-of-tsd"]
            assert (difference.kind, difference.effect, difference.live) == ("table", "refused", None)
            with pytest.raises(hb.SchemaMismatch):
                hb.alter(bed.store, declared)
        with pytest.raises(hb.errors.TableNotFound):
            hb.tables.adopt(bed.store, Mistyped)
        with pytest.raises(hb.errors.TableNotFound):
            hb.ids.Names(bed.store).claim(missing, "x")
        assert "uids-of-tsd" not in bed.store.tables()
    finally:
        bed.store.delete_table("points-with-a-typo")


def test_a_table_is_created_only_if_asked_and_never_dropped() -> None:
    store = fresh()
    outcome = hb.create_tables(store, METRICS, TAGK, create_external=True)
    assert outcome.created == [UIDS] == store.tables()
    assert [family.name for family in store.families(UIDS)] == [b"id", b"name"]
    assert hb.create_tables(store, METRICS, create_external=True).existing == [UIDS]
    assert not hb.diff(store, METRICS, TAGK)
    hb.create_tables(store, Point, create_external=True)
    assert hb.drop_tables(store, Point, METRICS) == []
    assert {UIDS, "points-of-tsdb"} <= set(store.tables())


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        ({b"\x00": {b"id:metrics": b"\x00\x00\x01"}}, "counter of metrics: 8 bytes, not 3 bytes"),
        ({b"sys.cpu": {b"id:metrics": b"\x00\x00\x00\x01"}}, "ids of metrics: 3 bytes, not 4 bytes"),
        ({b"\x00\x00\x00\x01": {b"name:metrics": b"sys.cpu"}}, "ids of metrics: 3 bytes, not 4 bytes"),
    ],
)
def test_ids_of_another_width_are_an_error(cells: Any, line: str) -> None:
    store = created()
    store.put(UIDS, [Put(row, columns) for row, columns in cells.items()])
    for ask in (
        lambda: hb.create_tables(store, METRICS),
        lambda: hb.ids.Names(store).claim(METRICS, "x"),
        lambda: hb.ids.Names(store).name_of(METRICS, 1),
    ):
        with pytest.raises(hb.SchemaMismatch, match="The table has no such ids of OpenTSDB") as raised:
            ask()
        assert raised.value.differences == [line]
    assert [(each.kind, each.effect) for each in hb.diff(store, METRICS)] == [("layout", "refused")]
    assert hb.ids.Names(store).claim(TAGK, "x") == 1


def test_another_table_is_an_error(bed: Bed) -> None:
    empty(bed)
    other = hb.ids.opentsdb_uids("metrics", table="points-of-tsdb")
    for ask in (
        lambda: hb.create_tables(bed.store, other, create_external=True),
        lambda: hb.ids.Names(bed.store).claim(other, "x"),
    ):
        with pytest.raises(hb.SchemaMismatch) as raised:
            ask()
        assert raised.value.differences == ["family id: id, not missing", "family name: name, not missing"]
    assert str(next(iter(hb.diff(bed.store, other)))).startswith("! points-of-tsdb: family id: missing")


def test_a_row_of_another_width_does_not_hide_its_neighbours() -> None:
    store = created()
    names = hb.ids.Names(store)
    assert [names.claim(METRICS, word) for word in ("a", "b")] == [1, 2]
    store.put(UIDS, [Put(b"\x00\x00\x01\x00", {b"name:metrics": b"c"})])
    others = hb.ids.Names(store)
    others._cache.checked.add(METRICS)
    assert [others.name_of(METRICS, number) for number in (1, 2)] == ["a", "b"]


def test_programs_must_agree_on_random_ids() -> None:
    drawn = hb.ids.opentsdb_uids("metrics", table=UIDS, random=True)

    @hb.model(table="drawn-points", family="t", external=True)
    class Counted:
        metric: hb.Key[str] = hb.key(METRICS)
        value: hb.Column[bytes] = hb.column("v")

    @hb.model(table="drawn-points", family="t", external=True)
    class Drawn:
        metric: hb.Key[str] = hb.key(drawn)
        value: hb.Column[bytes] = hb.column("v")

    store = fresh(Counted)
    with pytest.raises(hb.SchemaMismatch):
        hb.create_tables(store, Drawn)


def test_a_dictionary_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(METRICS)) == METRICS == hb.ids.opentsdb_uids("metrics", table=UIDS)
    assert hash(METRICS) == hash(hb.ids.opentsdb_uids("metrics", table=UIDS))
    assert len({METRICS, TAGK, TAGV, hb.ids.opentsdb_uids("metrics", table=UIDS, width=4)}) == 4
    assert hb.ids.opentsdb_uids("metrics").table == "tsdb-uid"


# --- models -----------------------------------------------------------------------------------------------------------


def test_points_are_written_and_read_by_name(bed: Bed) -> None:
    empty(bed)
    first = assigned(bed.store, "metrics", "sys.cpu")
    writer = hb.Session(bed.store)
    writer.add_all(point(metric, hour, f"wéb{hour % 2}") for metric in ("sys.cpu", "sys.mem") for hour in range(4))
    writer.commit()
    assert check_table(bed.store) == {"sys.cpu": first, "sys.mem": first + 1}
    assert check_table(bed.store, "tagk").keys() == {"host"}
    assert check_table(bed.store, "tagv").keys() == {"wéb0", "wéb1"}
    session = hb.Session(bed.store)
    points = session.query(Point)
    cpu = points.where(Point.metric == "sys.cpu")
    assert [(each.tag, each.hour.hour) for each in cpu.where(Point.hour < START + timedelta(hours=2))] == [
        ("wéb0", 0),
        ("wéb1", 1),
    ]
    assert session.get(Point, metric="sys.mem", hour=START, key="host", tag="wéb0", qualifier=b"\x00\x10") is not None
    assert points.where(Point.metric == "never.seen").all() == []
    assert points.where(Point.metric.in_(["never.seen", "sys.mem"])).count() == 4
    assert cpu.where(Point.tag == "wéb1").count() == 2
    assert {each.metric for each in points.allow_full_scan()} == {"sys.cpu", "sys.mem"}


def test_two_sessions_write_one_new_name(bed: Bed) -> None:
    empty(bed)
    one, two = hb.Session(bed.store), hb.Session(bed.store)
    one.add(point("new", 0))
    two.add(point("new", 1))
    two.commit()
    one.commit()
    assert len(check_table(bed.store)) == 1
    assert hb.Session(bed.store).query(Point).where(Point.metric == "new").count() == 2


def test_an_id_without_a_name_is_unreadable(bed: Bed) -> None:
    empty(bed)
    session = hb.Session(bed.store)
    session.add_all(point("sys.cpu", hour) for hour in range(3))
    session.add(point("gone", 0))
    session.commit()
    number = hb.ids.Names(session).id_of(METRICS, "gone")
    bed.store.delete(UIDS, [hb.store.Delete(number.to_bytes(3, "big"), columns=(b"name:metrics",))])
    points = hb.Session(bed.store).query(Point).allow_full_scan()
    with pytest.raises(hb.DecodingError, match="The dictionary has no name for a stored id") as raised:
        points.all()
    assert raised.value.field == "metric"
    unreadable: list[Exception] = []
    assert len(points.on_unreadable(unreadable.append).all()) == 3
    assert len(unreadable) == 1


def test_the_rows_of_opentsdb_fit_the_model(bed: Bed) -> None:
    empty(bed)
    names = hb.ids.Names(bed.store)
    metric, key, tag = (names.claim(d, n) for d, n in ((METRICS, "sys.cpu"), (TAGK, "host"), (TAGV, "web1")))
    ids = [number.to_bytes(3, "big") for number in (metric, key, tag)]
    row = ids[0] + int(START.timestamp()).to_bytes(4, "big") + ids[1] + ids[2]
    hashed = 1
    for byte in ids[0] + ids[1] + ids[2]:  # Arrays.hashCode, as RowKey.prefixKeyWithSalt
        hashed = (31 * hashed + (byte if byte < 128 else byte - 256)) & 0xFFFFFFFF
    signed = hashed if hashed < 2**31 else hashed - 2**32
    bucket = abs(signed) % 20
    bed.store.put("points-of-tsdb", [Put(bytes((bucket,)) + row, {b"t:\x00\x10": b"\x2a"})])
    assert hb.Session(bed.store).query(Point).where(Point.metric == "sys.cpu").all() == [point("sys.cpu")]
    assert hb.tables.adopt(bed.store, Point).adopted
