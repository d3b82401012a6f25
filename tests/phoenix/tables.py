"""Tables of Apache Phoenix, the models of them, random rows, and conditions in SQL and for queries."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from attrs import frozen

import hbmodel as hb
from hbmodel.codecs import java, phoenix
from tests.support.phoenix_sql import Moment

MOMENT = datetime(2024, 2, 1, tzinfo=UTC)


@hb.model(table="READINGS_SQL", family="0", external=True, exists=hb.flag("_0", b"x"), salt=hb.salts.JavaHashSalt(8))
class Reading:
    host: hb.Key[str] = hb.key(phoenix.Varchar)
    at: hb.Key[datetime] = hb.key(phoenix.Date, desc=True)
    n: hb.Key[int] = hb.key(phoenix.Integer)
    cpu: hb.Column[float | None] = hb.column("CPU", phoenix.Double, default=None)
    share: hb.Column[float | None] = hb.column("SHARE", phoenix.Float, default=None)
    note: hb.Column[str | None] = hb.column("NOTE", default=None)
    amount: hb.Column[Decimal | None] = hb.column("AMOUNT", phoenix.Decimal, default=None)
    up: hb.Column[bool | None] = hb.column("UP", phoenix.Boolean, default=None)
    zone: hb.Column[str | None] = hb.column("ZONE", phoenix.Char(4), default=None)
    tiny: hb.Column[int | None] = hb.column("TINY", phoenix.TinyInt, default=None)
    small: hb.Column[int | None] = hb.column("SMALL", phoenix.SmallInt, default=None)
    big: hb.Column[int | None] = hb.column("BIG", phoenix.BigInt, default=None)
    utiny: hb.Column[int | None] = hb.column("UTINY", phoenix.UnsignedTinyInt, default=None)
    usmall: hb.Column[int | None] = hb.column("USMALL", phoenix.UnsignedSmallInt, default=None)
    uint: hb.Column[int | None] = hb.column("UINT", phoenix.UnsignedInt, default=None)
    ulong: hb.Column[int | None] = hb.column("ULONG", phoenix.UnsignedLong, default=None)
    udouble: hb.Column[float | None] = hb.column("UDOUBLE", java.Double, default=None)
    ufloat: hb.Column[float | None] = hb.column("UFLOAT", java.Float, default=None)
    seen: hb.Column[datetime | None] = hb.column("SEEN", phoenix.Timestamp, default=None)
    clock: hb.Column[datetime | None] = hb.column("CLOCK", phoenix.Time, default=None)
    udate: hb.Column[datetime | None] = hb.column("UDATE", phoenix.UnsignedDate, default=None)
    utime: hb.Column[datetime | None] = hb.column("UTIME", phoenix.UnsignedTime, default=None)
    ustamp: hb.Column[datetime | None] = hb.column("USTAMP", phoenix.UnsignedTimestamp, default=None)
    raw: hb.Column[bytes | None] = hb.column("RAW", hb.Bytes, default=None)
    fixed: hb.Column[bytes | None] = hb.column("FIXED", hb.Bytes(4), default=None)


@hb.model(table="SHOP.OFFERS", family="0", external=True, exists=hb.flag("_0", b"x"))
class Offer:
    code: hb.Key[str] = hb.key(phoenix.Varchar, desc=True)
    price: hb.Key[Decimal] = hb.key(phoenix.Decimal)
    kind: hb.Key[str] = hb.key(phoenix.Char(3))
    day: hb.Key[datetime] = hb.key(phoenix.Timestamp, desc=True)
    note: hb.Column[str | None] = hb.column("NOTE", default=None)
    size: hb.Column[int | None] = hb.column("SIZE", phoenix.SmallInt, family="F", default=None)


@hb.model(table="ENTRIES", family="0", external=True, exists=hb.flag(b"\0\0\0\0", b"x"), salt=hb.salts.JavaHashSalt(3))
class Entry:
    """Encoded columns, and key columns that may be NULL beside columns of fixed length: NULL is empty text."""

    account: hb.Key[int] = hb.key(phoenix.Integer)
    label: hb.Key[str] = hb.key(phoenix.Varchar)
    line: hb.Key[int] = hb.key(phoenix.SmallInt, desc=True)
    part: hb.Key[str] = hb.key(phoenix.Varchar)
    amount: hb.Column[int | None] = hb.column(b"\x80\x0b", phoenix.BigInt, default=None)
    note: hb.Column[str | None] = hb.column(b"\x80\x0c", default=None)


@hb.model(table="PATHS", family="0", external=True, exists=hb.flag("_0", b"x"))
class Path:
    """Key columns at the end that may be NULL, as one field with the text before them."""

    tenant: hb.Key[int] = hb.key(phoenix.UnsignedInt)
    rest: hb.Key[bytes] = hb.key(hb.Bytes)
    size: hb.Column[int | None] = hb.column("SIZE", phoenix.Integer, default=None)


@frozen
class Condition:
    """The same condition in SQL and for a query."""

    sql: str
    values: tuple[Any, ...]
    predicate: Any


@frozen
class Table:
    """A table of Phoenix, and the model of it.

    Attributes:
        create: the statement that creates it.
        columns: its columns, those of the key first, in the order of the model's fields.
        order: the order of its key.
        size: how many rows Phoenix makes.
        make: an object of random values.
        conditions: makes conditions of the values of an object.
        row: the SQL row of an object.
        hint: how Phoenix must execute queries to find all rows.
    """

    model: Any
    create: str
    columns: tuple[str, ...]
    order: tuple[str, ...]
    size: int
    make: Callable[[random.Random], Any]
    conditions: Sequence[Callable[[random.Random, Any], Condition]]
    row: Callable[[Any], tuple[Any, ...]]
    hint: str = ""

    @property
    def name(self) -> str:
        """Its name, in HBase and in SQL."""
        return str(hb.schema.schema_of(self.model).table)

    def key_of(self, obj: Any) -> tuple[Any, ...]:
        """The key values of an object."""
        return tuple(getattr(obj, name) for name in hb.schema.schema_of(self.model).layout.names)

    def ordered(self, *, descending: bool = False) -> str:
        """The clause that gives the order of the key, or the opposite."""
        if not descending:
            return f"ORDER BY {', '.join(self.order)}"
        # In the order of the key NULL is first, so here it is last.
        turned = [
            name.removesuffix(" DESC") if name.endswith(" DESC") else f"{name} DESC NULLS LAST" for name in self.order
        ]
        return f"ORDER BY {', '.join(turned)}"


def simple(obj: Any) -> tuple[Any, ...]:
    """The SQL row of an object whose fields are columns. Empty text is NULL."""
    values = (getattr(obj, field.name) for field in hb.schema.schema_of(type(obj)).fields)
    return tuple(None if value == "" else value for value in values)


MOMENTS = {"at": "Date", "clock": "Time", "udate": "Date", "utime": "Time"}
"""The columns of times that are no `TIMESTAMP`."""


def bind(name: str, value: Any) -> Any:
    """A value that a column is compared with."""
    return Moment(value, MOMENTS[name]) if name in MOMENTS and value is not None else value


def path_row(path: Path) -> tuple[Any, ...]:
    """The SQL row of a path."""
    name, part, sub, *_ = [*path.rest.decode().split("\0"), "", ""]
    return path.tenant, name, part or None, sub or None, path.size


def path_rest(name: str, part: str | None, sub: str | None) -> bytes:
    """The end of the key of a path."""
    return f"{name}\0{part or ''}\0{sub or ''}".rstrip("\0").encode()


def _maybe(draw: random.Random, value: Any) -> Any:
    return None if draw.random() < 0.3 else value


def _time(draw: random.Random, unit: timedelta) -> datetime:
    return MOMENT + draw.randrange(10**8) * unit


MILLISECOND, MICROSECOND = timedelta(milliseconds=1), timedelta(microseconds=1)


def reading(draw: random.Random) -> Reading:
    values: dict[str, Any] = {
        "cpu": draw.choice([0.0, -1.5, 3e300, draw.random()]),
        "share": draw.randrange(-100, 100) / 4,
        "note": draw.choice(["ok", "ä", "it's", "a\0b"]),
        "amount": Decimal(draw.randrange(-(10**9), 10**9)).scaleb(-draw.randrange(5)),
        "up": draw.random() < 0.5,
        "zone": draw.choice(["eu", "us-1", "x"]),
        "tiny": draw.randrange(-128, 128),
        "small": draw.randrange(-(2**15), 2**15),
        "big": draw.choice([-(2**63), 2**63 - 1, 0, -1]),
        "utiny": draw.randrange(128),
        "usmall": draw.randrange(2**15),
        "uint": draw.choice([0, 2**31 - 1, 7]),
        "ulong": draw.choice([0, 2**63 - 1, draw.randrange(10**6)]),
        "udouble": draw.choice([0.0, 1.25, 3e300]),
        "ufloat": draw.randrange(100) / 4,
        "seen": _time(draw, -MICROSECOND),
        "clock": _time(draw, MILLISECOND),
        "udate": _time(draw, MILLISECOND),
        "utime": _time(draw, MILLISECOND),
        "ustamp": _time(draw, MICROSECOND),
        "raw": draw.randbytes(draw.randrange(1, 6)),
        "fixed": draw.randbytes(4),
    }
    return Reading(
        host=draw.choice(["web", "web1", "db é", "a", "z" * 30]),
        at=MOMENT + draw.randrange(-(10**12), 10**10) * MILLISECOND,
        n=draw.choice([0, 1, -1, 2**31 - 1, -(2**31), 256]),
        **{name: _maybe(draw, value) for name, value in values.items()},
    )


def offer(draw: random.Random) -> Offer:
    return Offer(
        code=draw.choice(["A", "AB", "B", "ü"]),
        price=draw.choice([Decimal(0), Decimal("-1.5"), Decimal(draw.randrange(10**4)).scaleb(-2)]),
        kind=draw.choice(["a", "abc", "b"]),
        day=_time(draw, MICROSECOND),
        note=_maybe(draw, draw.choice(["n", "other"])),
        size=_maybe(draw, draw.randrange(-(2**15), 2**15)),
    )


def entry(draw: random.Random) -> Entry:
    return Entry(
        account=draw.choice([-1, 0, 7]),
        label=draw.choice(["", "", "in", "out"]),
        line=draw.randrange(-15, 15),
        part=draw.choice(["", "", "a", "b"]),
        amount=_maybe(draw, draw.randrange(-(10**6), 10**6)),
        note=_maybe(draw, draw.choice(["n", "other"])),
    )


def path(draw: random.Random) -> Path:
    part, sub = draw.choice([None, "p", "q", "ü"]), draw.choice([None, None, "s", "t"])
    return Path(
        tenant=draw.randrange(5),
        rest=path_rest(draw.choice("abcdef"), part, sub),
        size=_maybe(draw, draw.randrange(-100, 100)),
    )


EMPTY = frozenset({"label", "part"})
"""Key fields that may be NULL, which is empty text to hbmodel. So SQL is not asked for "less than this, or NULL": on
key columns, Phoenix 5.2.1 takes it for a condition that no row fulfils.
"""


def column(name: str, sql_name: str | None = None) -> list[Callable[[random.Random, Any], Condition]]:
    """Comparisons of a field that is a column of a key or not."""
    sql_name = sql_name or name

    def value(draw: random.Random, obj: Any, field: Any) -> Condition:
        value = getattr(obj, name)
        if value is None or value == "":
            return Condition(f"{sql_name} IS NULL", (), field == value)
        sign = draw.choice(["=", "<", "<=", ">", ">="]) if not isinstance(value, bool) else "="
        predicates = {
            "=": lambda: field == value,
            "<": lambda: field < value,
            "<=": lambda: field <= value,
            ">": lambda: field > value,
            ">=": lambda: field >= value,
        }
        return Condition(
            f"{sql_name} {sign} ?",
            (bind(name, value),),
            predicates[sign]() & (field != "") if name in EMPTY else predicates[sign](),
        )

    def other(draw: random.Random, obj: Any, field: Any) -> Condition:
        value = getattr(obj, name)
        if value is None or value == "":
            return Condition(f"{sql_name} IS NOT NULL", (), ~(field == value))
        if name in EMPTY:
            return Condition(f"{sql_name} <> ?", (bind(name, value),), (field != value) & (field != ""))
        return Condition(f"({sql_name} <> ? OR {sql_name} IS NULL)", (bind(name, value),), field != value)

    def bound(make: Callable[..., Condition]) -> Callable[[random.Random, Any], Condition]:
        return lambda draw, obj: make(draw, obj, getattr(type(obj), name))

    return [bound(value), bound(other)]


def among(name: str, *more: Any) -> Callable[[random.Random, Any], Condition]:
    """A field that has one of several values: that of the object, and more."""

    def made(draw: random.Random, obj: Any) -> Condition:
        values = (getattr(obj, name), *more)
        return Condition(f"{name} IN ({', '.join('?' * len(values))})", values, getattr(type(obj), name).in_(values))

    return made


def begun(name: str) -> Callable[[random.Random, Any], Condition]:
    """A field of text that begins as that of the object does."""

    def made(draw: random.Random, obj: Any) -> Condition:
        value = (getattr(obj, name) or "a")[:1]
        return Condition(f"{name} LIKE ?", (f"{value}%",), getattr(type(obj), name).startswith(value))

    return made


def path_condition(draw: random.Random, obj: Path) -> Condition:
    """A name of a path, with or without its part."""
    _, name, part, sub, _ = path_row(obj)
    whole = Path.rest == path_rest(name, None, None)
    if part is None:
        return Condition("(name = ? AND part IS NULL AND sub IS NULL)", (name,), whole)
    if sub is None or draw.random() < 0.5:
        under = Path.rest.startswith(path_rest(name, part, "x")[:-1])
        exactly = Path.rest == path_rest(name, part, None)
        return Condition("(name = ? AND part = ?)", (name, part), under | exactly)
    return Condition("(name = ? AND part = ? AND sub = ?)", (name, part, sub), Path.rest == obj.rest)


def path_name(draw: random.Random, obj: Path) -> Condition:
    """A name of a path, with every part, or all names up to it."""
    _, name, *_ = path_row(obj)
    under = Path.rest.startswith(f"{name}\0".encode()) | (Path.rest == name.encode())
    if draw.random() < 0.5:
        return Condition("name = ?", (name,), under)
    return Condition("name <= ?", (name,), (Path.rest < name.encode()) | under)


TABLES = {
    table.name: table
    for table in (
        Table(
            model=Reading,
            create="""CREATE TABLE READINGS_SQL (
                host VARCHAR NOT NULL, at DATE NOT NULL, n INTEGER NOT NULL,
                cpu DOUBLE, share FLOAT, note VARCHAR, amount DECIMAL(20, 4), up BOOLEAN, zone CHAR(4),
                tiny TINYINT, small SMALLINT, big BIGINT, utiny UNSIGNED_TINYINT, usmall UNSIGNED_SMALLINT,
                uint UNSIGNED_INT, ulong UNSIGNED_LONG, udouble UNSIGNED_DOUBLE, ufloat UNSIGNED_FLOAT,
                seen TIMESTAMP, clock TIME, udate UNSIGNED_DATE, utime UNSIGNED_TIME, ustamp UNSIGNED_TIMESTAMP,
                raw VARBINARY, fixed BINARY(4),
                CONSTRAINT pk PRIMARY KEY (host, at DESC, n)) COLUMN_ENCODED_BYTES = 0, SALT_BUCKETS = 8""",
            columns=tuple(field.name for field in hb.schema.schema_of(Reading).fields),
            order=("host", "at DESC", "n"),
            size=400,
            make=reading,
            conditions=[
                *column("host"),
                among("host", "a", "nowhere"),
                begun("host"),
                *column("at"),
                *column("n"),
                among("n", 0, 5),
                *(made for field in hb.schema.schema_of(Reading).fields[3:] for made in column(field.name)),
                begun("note"),
            ],
            row=simple,
        ),
        Table(
            model=Offer,
            create="""CREATE TABLE SHOP.OFFERS (
                code VARCHAR NOT NULL, price DECIMAL(20, 4) NOT NULL, kind CHAR(3) NOT NULL, day TIMESTAMP NOT NULL,
                note VARCHAR, f.size SMALLINT,
                CONSTRAINT pk PRIMARY KEY (code DESC, price, kind, day DESC)) COLUMN_ENCODED_BYTES = 0""",
            columns=("code", "price", "kind", "day", "note", "f.size"),
            order=("code DESC", "price", "kind", "day DESC"),
            size=300,
            make=offer,
            conditions=[
                *(made for name in ("code", "price", "kind", "day", "note") for made in column(name)),
                *column("size", "f.size"),
                among("code", "A", "C"),
                among("price", Decimal(0), Decimal(1)),
                begun("kind"),
                begun("code"),
            ],
            row=simple,
            # The skip scan of Phoenix 5.2.1 finds no row for `code = ? AND price IN (?, ?)`, because of `code DESC`.
            hint="/*+ RANGE_SCAN */",
        ),
        Table(
            model=Entry,
            create="""CREATE TABLE ENTRIES (
                account INTEGER NOT NULL, label VARCHAR, line SMALLINT NOT NULL, part VARCHAR,
                amount BIGINT, note VARCHAR,
                CONSTRAINT pk PRIMARY KEY (account, label, line DESC, part)) SALT_BUCKETS = 3""",
            columns=("account", "label", "line", "part", "amount", "note"),
            order=("account", "label", "line DESC", "part"),
            size=200,
            make=entry,
            conditions=[
                *(made for name in ("account", "label", "line", "part", "amount", "note") for made in column(name)),
                among("account", 7, 8),
                among("line", 0, 1, 2, 99),
            ],
            row=simple,
        ),
        Table(
            model=Path,
            create="""CREATE TABLE PATHS (
                tenant UNSIGNED_INT NOT NULL, name VARCHAR NOT NULL, part VARCHAR, sub VARCHAR, size INTEGER,
                CONSTRAINT pk PRIMARY KEY (tenant, name, part, sub)) COLUMN_ENCODED_BYTES = 0""",
            columns=("tenant", "name", "part", "sub", "size"),
            order=("tenant", "name", "part", "sub"),
            size=150,
            make=path,
            conditions=[
                *column("tenant"),
                among("tenant", 3, 4),
                *column("size"),
                path_condition,
                path_condition,
                path_name,
                path_name,
            ],
            row=path_row,
        ),
    )
}
