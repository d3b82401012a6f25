"""Tables of Apache Phoenix: a thousand rows that its own client made are read, queried and written back."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.codecs import phoenix
from hbmodel.errors import TableNotFound
from hbmodel.store import Family, Put
from tests.support.beds import Bed, cells_of
from tests.support.phoenix_rows import rows_of_upserts

ROWS = 500

TABLES = [
    """CREATE TABLE METRICS (
        host VARCHAR NOT NULL, at DATE NOT NULL, n INTEGER NOT NULL,
        cpu DOUBLE, note VARCHAR, amount DECIMAL(20, 4), up BOOLEAN, zone CHAR(4), total UNSIGNED_LONG, seen TIMESTAMP,
        CONSTRAINT pk PRIMARY KEY (host, at DESC, n)) COLUMN_ENCODED_BYTES = 0, SALT_BUCKETS = 8""",
    """CREATE TABLE PRICES (
        code VARCHAR NOT NULL, price DECIMAL(20, 4) NOT NULL, kind CHAR(3) NOT NULL, day TIMESTAMP NOT NULL,
        note VARCHAR, size SMALLINT,
        CONSTRAINT pk PRIMARY KEY (code DESC, price, kind, day DESC)) COLUMN_ENCODED_BYTES = 0""",
]


@hb.model(table="METRICS", family="0", external=True, exists=hb.flag("_0", b"x"), salt=hb.salts.JavaHashSalt(8))
class Metric:
    host: hb.Key[str] = hb.key(phoenix.Varchar)
    at: hb.Key[datetime] = hb.key(phoenix.Date, desc=True)
    n: hb.Key[int] = hb.key(phoenix.Integer)
    cpu: hb.Column[float | None] = hb.column("CPU", phoenix.Double, default=None)
    note: hb.Column[str | None] = hb.column("NOTE", default=None)
    amount: hb.Column[Decimal | None] = hb.column("AMOUNT", phoenix.Decimal, default=None)
    up: hb.Column[bool | None] = hb.column("UP", phoenix.Boolean, default=None)
    zone: hb.Column[str | None] = hb.column("ZONE", phoenix.Char(4), default=None)
    total: hb.Column[int | None] = hb.column("TOTAL", phoenix.UnsignedLong, default=None)
    seen: hb.Column[datetime | None] = hb.column("SEEN", phoenix.Timestamp, default=None)


@hb.model(table="PRICES", family="0", external=True, exists=hb.flag("_0", b"x"))
class Price:
    code: hb.Key[str] = hb.key(phoenix.Varchar, desc=True)
    price: hb.Key[Decimal] = hb.key(phoenix.Decimal)
    kind: hb.Key[str] = hb.key(phoenix.Char(3))
    day: hb.Key[datetime] = hb.key(phoenix.Timestamp, desc=True)
    note: hb.Column[str | None] = hb.column("NOTE", default=None)
    size: hb.Column[int | None] = hb.column("SIZE", phoenix.SmallInt, default=None)


EPOCH = datetime(2024, 2, 1, tzinfo=UTC)


def row_key(obj: Any) -> bytes:
    """The row key of an object."""
    model = type(obj)
    return hb.row_key(model, **{name: getattr(obj, name) for name in hb.schema.schema_of(model).layout.names})


def _maybe(draw: random.Random, value: Any) -> Any:
    return None if draw.random() < 0.3 else value


def metrics() -> list[Metric]:
    """Objects with values of every type, and None."""
    draw = random.Random(7)
    made = {}
    for _ in range(ROWS):
        obj = Metric(
            host=draw.choice(["web", "web1", "db é", "a", "z" * 30]),
            at=EPOCH + timedelta(milliseconds=draw.randrange(-(10**12), 10**10)),
            n=draw.choice([0, 1, -1, 2**31 - 1, -(2**31), 256]),
            cpu=_maybe(draw, draw.choice([0.0, -1.5, 3e300, draw.random()])),
            note=_maybe(draw, draw.choice(["ok", "ä", "it is"])),
            amount=_maybe(draw, Decimal(draw.randrange(-(10**9), 10**9)).scaleb(-draw.randrange(5))),
            up=_maybe(draw, draw.random() < 0.5),
            zone=_maybe(draw, draw.choice(["eu", "us-1", "x"])),
            total=_maybe(draw, draw.choice([0, 2**63 - 1, draw.randrange(10**6)])),
            seen=_maybe(draw, EPOCH + timedelta(milliseconds=draw.randrange(10**10))),
        )
        made[row_key(obj)] = obj
    return list(made.values())


def prices() -> list[Price]:
    """Objects whose keys have text, decimals and times in both directions."""
    draw = random.Random(8)
    made = {}
    for _ in range(ROWS):
        obj = Price(
            code=draw.choice(["A", "AB", "B", "ü"]),
            price=draw.choice([Decimal(0), Decimal("-1.5"), Decimal(draw.randrange(10**6)).scaleb(-2)]),
            kind=draw.choice(["a", "abc", "b"]),
            day=EPOCH + timedelta(seconds=draw.randrange(10**6)),
            note=_maybe(draw, "n"),
            size=_maybe(draw, draw.randrange(-(2**15), 2**15)),
        )
        made[row_key(obj)] = obj
    return list(made.values())


def literal(value: Any) -> str:
    """A value in SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"TO_TIMESTAMP('{value:%Y-%m-%d %H:%M:%S.%f}')"
    return f"{value:f}" if isinstance(value, Decimal) else repr(value)


def upsert(obj: Any) -> str:
    """The statement that writes an object."""
    fields = {f.name: f for f in hb.schema.schema_of(type(obj)).fields}
    values = [
        f"TO_DATE('{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03}', 'yyyy-MM-dd HH:mm:ss.SSS')"
        if fields[name].codec == phoenix.Date
        else literal(value)
        for name, value in ((name, getattr(obj, name)) for name in fields)
    ]
    return f"UPSERT INTO {hb.schema.schema_of(type(obj)).table} ({', '.join(fields)}) VALUES ({', '.join(values)})"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Any, Sequence[tuple[bytes, Mapping[bytes, bytes]]]]:
    """The rows of Phoenix for the objects of each model."""
    objects = [*metrics(), *prices()]
    rows = rows_of_upserts(TABLES, [upsert(obj) for obj in objects], tmp_path_factory.mktemp("jars"))
    return {
        model: [row for obj, row in zip(objects, rows, strict=True) if type(obj) is model] for model in (Metric, Price)
    }


@pytest.mark.slow
@pytest.mark.hbase
@pytest.mark.parametrize(("model", "objects"), [(Metric, metrics), (Price, prices)])
def test_rows_of_phoenix_are_read_and_written_byte_for_byte(
    bed: Bed,
    made: Mapping[Any, Sequence[tuple[bytes, Mapping[bytes, bytes]]]],
    model: Any,
    objects: Callable[[], list[Any]],
) -> None:
    store, table = bed.store, hb.schema.schema_of(model).table
    wanted = objects()
    with suppress(TableNotFound):
        hb.tables.forget(store, table, existing=True)
    with suppress(TableNotFound):
        store.delete_table(table)
    store.create_table(table, [Family(b"0")])
    store.put(table, [Put(key, cells) for key, cells in made[model]])
    adoption = hb.tables.adopt(store, model, sample=10 * ROWS)
    assert not adoption.findings
    assert (adoption.adopted, adoption.objects) == (True, len(wanted))

    session = hb.Session(store)
    by_key = sorted(wanted, key=lambda obj: row_key(obj)[hb.schema.schema_of(model).salt.width :])
    assert session.query(model).allow_full_scan().all() == by_key
    names = hb.schema.schema_of(model).layout.names
    keys = [tuple(getattr(obj, name) for name in names) for obj in wanted]
    assert session.get_many(model, keys) == wanted

    draw = random.Random(9)
    for _ in range(50):
        one, other = draw.choice(wanted), draw.choice(wanted)
        low, high = sorted((getattr(one, names[1]), getattr(other, names[1])))
        query = session.query(model).where(
            getattr(model, names[0]) == getattr(one, names[0]), getattr(model, names[1]).between(low, high)
        )
        expected = [
            obj
            for obj in by_key
            if getattr(obj, names[0]) == getattr(one, names[0]) and low <= getattr(obj, names[1]) <= high
        ]
        assert query.all() == expected
        assert query.count() == len(expected)

    for obj in wanted:
        session.delete(obj)
    session.commit()
    assert cells_of(store, table) == {}
    session.add_all(wanted)
    session.commit()
    assert cells_of(store, table) == {key: dict(cells) for key, cells in made[model]}
    hb.tables.forget(store, table, existing=True)
    store.delete_table(table)
