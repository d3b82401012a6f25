"""Raw access: row keys of objects and objects of rows, beside sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Put, Scan
from hbmodel.store.embedded.cells import StoredCell, StoredRow
from hbmodel.store.ranges import KeyRange

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@hb.model(table="events", salt=hb.HashSalt(16, by=("model",)))
class Event:
    model: hb.Key[int] = hb.key(hb.codecs.UInt8)
    at: hb.Key[datetime] = hb.key(desc=True)
    name: hb.Column[str] = hb.column("n")
    note: hb.Column[str | None] = hb.column("x:_l", default=None)

    by_name = hb.index("name")


@hb.model(table="plain", exists=hb.flag("e"))
class Plain:
    k: hb.Key[str] = hb.key()
    note: hb.Column[str | None] = hb.column("x:_l", default=None)


@hb.model(table="drawn", salt=hb.RandomSalt(4), immutable=True)
class Drawn:
    k: hb.Key[int] = hb.key()
    a: hb.Column[int] = hb.column("a")


def stored(key: bytes, **cells: bytes) -> StoredRow:
    return StoredRow(key, {f"d:{name}".encode(): StoredCell(value, 1) for name, value in cells.items()})


def test_the_row_key_is_the_one_that_sessions_write() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Event)
        with hb.Session(store) as session:
            session.add(Event(model=7, at=NOON, name="x"))
        key = hb.row_key(Event, at=NOON, model=7)
        ((rows,),) = store.scan("events", [Scan(KeyRange.exactly(key))])
        assert [row.row for row in rows] == [key]
        assert hb.decode(Event, rows[0]) == Event(model=7, at=NOON, name="x")
        (entries,) = store.scan("events.by_name", [Scan()])
        assert len(next(iter(entries))) == 1


def test_row_keys_have_the_documented_bytes() -> None:
    assert hb.row_key(Plain, k="a\0b") == b"a\0b"
    assert hb.row_key(Event, model=7, at=datetime(1970, 1, 1, tzinfo=UTC))[1:] == b"\x07" + b"\x7f" + b"\xff" * 7


@pytest.mark.parametrize(
    ("key", "error", "name"),
    [
        ({"model": 7}, hb.errors.IncompleteKey, "missing"),
        ({"model": 7, "at": NOON, "name": "x"}, hb.errors.UnknownField, "field"),
        ({"model": "7", "at": NOON}, hb.EncodingError, "field"),
    ],
)
def test_a_key_that_is_none(key: dict[str, Any], error: type[hb.HbmodelError], name: str) -> None:
    with pytest.raises(error) as caught:
        hb.row_key(Event, **key)
    assert caught.value.details[name] is not None
    assert caught.value.table == "events"


def test_a_drawn_bucket_is_not_known() -> None:
    with pytest.raises(hb.CapabilityError, match="Under RandomSalt the row key cannot be") as caught:
        hb.row_key(Drawn, k=1)
    assert caught.value.table == "drawn"


def test_dead_rows_are_none() -> None:
    key = hb.row_key(Event, model=7, at=NOON)
    assert hb.decode(Event, stored(key, n=b"x", _l=b"\x01")) == Event(model=7, at=NOON, name="x")
    assert hb.decode(Event, stored(key, n=b"", _l=b"\x00nonce...")) is None
    assert hb.decode(Event, stored(key, n=b"x")) == Event(model=7, at=NOON, name="x"), "from before the first index"
    assert hb.decode(Plain, stored(b"a", e=b"\x01")) == Plain(k="a")
    assert hb.decode(Plain, stored(b"a", e=b"claim")) is None


def test_a_column_that_looks_like_the_liveness_cell_is_none() -> None:
    assert hb.decode(Plain, StoredRow(b"a", {b"d:e": StoredCell(b"\x01", 1), b"d:x:_l": StoredCell(b"n", 1)})) == Plain(
        k="a", note="n"
    )


def test_rows_that_the_model_did_not_write() -> None:
    key = hb.row_key(Event, model=7, at=NOON)
    with pytest.raises(hb.IncompleteRow) as incomplete:
        hb.decode(Event, stored(key, _l=b"\x01"))
    assert incomplete.value.field == "name"
    with pytest.raises(hb.DecodingError) as damaged:
        hb.decode(Event, stored(key[:-1], n=b"x"))
    assert (damaged.value.table, damaged.value.key) == ("events", key[:-1])


def test_what_is_no_model() -> None:
    for call in (lambda: hb.row_key(int, k=1), lambda: hb.decode(int, stored(b"a", n=b"x"))):
        with pytest.raises(hb.DeclarationError):
            call()


def test_the_stores_own_calls_stand_beside_sessions() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Plain)
        store.put("plain", [Put(hb.row_key(Plain, k="a"), {b"d:e": b"\x01", b"d:x:_l": b"n"})])
        assert hb.Session(store).get(Plain, k="a") == Plain(k="a", note="n")
