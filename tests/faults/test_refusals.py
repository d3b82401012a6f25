"""Refusals that a user can meet, each with its message: it says what is wrong and, if possible, what to do next."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.encoding.key_layout import KeyField, KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.store import Delete, Family, Get, Put, Scan
from hbmodel.store.filters import And, ColumnPrefix, Pagination, RowContains, ValueFilter
from hbmodel.store.thrift1.store import Thrift1Store
from hbmodel.store.thrift2.store import Thrift2Store
from tests.support.beds import fresh

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATE = b"\xff" * 8


class Odd(enum.Enum):
    ONE = 1


def refused(kind: type[hb.HbmodelError], message: str, call: Callable[[], Any]) -> Any:
    return pytest.param(kind, message, call, id=message)


def nullable(data: bytes) -> Any:
    return KeyLayout((KeyField("a", hb.codecs.UInt8, nullable=True), KeyField("b", hb.codecs.UInt8))).unpack(data)


VALUES = [
    refused(hb.EncodingError, "A number has no exact double and would", lambda: hb.Float64.encode(2**53 + 1)),
    refused(hb.EncodingError, "A number is too large for a double", lambda: hb.Float64.encode(10**400)),
    refused(
        hb.EncodingError,
        "A reverse timestamp cannot hold a time",
        lambda: hb.codecs.ReverseStamp.encode(NOON.replace(year=1969)),
    ),
    refused(
        hb.EncodingError,
        "is not an instant: give it one, e.g. tzinfo=UTC",
        lambda: hb.codecs.Timestamp.encode(datetime(2026, 3, 1)),
    ),
    refused(
        hb.EncodingError,
        "A time lies outside the years 1 to 9999 in UTC: store it as a number instead",
        lambda: hb.codecs.Timestamp.encode(
            datetime.max.replace(tzinfo=__import__("datetime").timezone(timedelta(hours=-1)))
        ),
    ),
    refused(
        hb.EncodingError,
        "the years 1 to 9999: store it as a number instead",
        lambda: hb.codecs.Timestamp.encode(FarTime(2026, 3, 1)),
    ),
    refused(
        hb.EncodingError,
        r"A duration is more precise than a microsecond.*hb\.codecs\.Duration\(round=True\)",
        lambda: hb.codecs.Duration.encode(Nano(1)),
    ),
    refused(
        hb.EncodingError,
        r"A time is more precise than a microsecond.*with round=True, as in hb\.Datetime\(\"us\", round=True\)",
        lambda: hb.codecs.Timestamp.encode(fine()),
    ),
    refused(
        hb.QueryError,
        "Values of this codec cannot be searched by prefix: only text and bytes",
        lambda: hb.codecs.Int8.encode_prefix(1),
    ),
    refused(hb.EncodingError, "so the text must not contain it", lambda: hb.codecs.Delimited("|").encode("a|b")),
    refused(
        hb.QueryError, "Delimited text cannot be searched by a", lambda: hb.codecs.Delimited("::").encode_prefix("a:")
    ),
]


class Nano(timedelta):
    nanoseconds = 5


class FineTime(datetime):
    nanosecond = 5


class FarTime(datetime):
    """As pandas has it: seconds of 64 bits."""

    @property
    def year(self) -> int:
        return 20_000


def fine() -> datetime:
    return FineTime(2026, 3, 1, tzinfo=UTC)


STORED = [
    refused(hb.DecodingError, r"Stored bytes are not an IP address\.", lambda: hb.codecs.IPAddress.decode(b"\x05abcd")),
    refused(
        hb.DecodingError,
        "Stored bytes are not an IP address of this version",
        lambda: hb.codecs.IPv4.decode(b"\x06" + bytes(16)),
    ),
    refused(hb.DecodingError, "Stored bytes do not have the length that", lambda: hb.codecs.Int8.decode(b"12")),
    refused(hb.DecodingError, "A stored bool is 00 or 01", lambda: hb.codecs.Bool.decode(b"\x02")),
    refused(hb.DecodingError, "Stored bytes are not a decimal number", lambda: hb.codecs.DecimalNumber.decode(b"\x09")),
    refused(hb.DecodingError, "Stored bytes are not modified UTF-8", lambda: hb.codecs.JavaUTF.decode(b"\x00\x01\xff")),
    refused(hb.DecodingError, "A stored reverse timestamp is negative", lambda: hb.codecs.ReverseStampInt.decode(LATE)),
    refused(hb.DecodingError, "Stored bytes are not decimal digits", lambda: hb.codecs.DecimalText(3).decode(b"abc")),
    refused(hb.DecodingError, "Stored bytes are not lower-case hex digits", lambda: hb.codecs.HexText(2).decode(b"GG")),
    refused(
        hb.DecodingError, "A stored digest does not match", lambda: hb.codecs.DigestPrefixed(hb.Text).decode(bytes(20))
    ),
    refused(
        hb.DecodingError,
        "A stored key continues after its last field",
        lambda: ObjectKeyLayout((KeyField("a", hb.Text),), rows=1).unpack(b"a\0\1b"),
    ),
    refused(hb.DecodingError, "Stored text contains its delimiter", lambda: hb.codecs.Delimited("|").decode(b"a|b")),
    refused(
        hb.DecodingError, "A field has no delimiter after it", lambda: hb.codecs.Delimited("|").decode_part(b"ab", 0)
    ),
    refused(hb.DecodingError, "A field of variable length has no terminator", lambda: hb.Text.decode_part(b"abc", 0)),
    refused(hb.DecodingError, "Stored bytes are not UTF-8", lambda: hb.Text.decode(b"\xff")),
    refused(
        hb.DecodingError, "A stored time lies outside the years 1 to 9999", lambda: hb.codecs.Timestamp.decode(LATE)
    ),
    refused(
        hb.DecodingError, "A stored date lies outside the years 1 to 9999", lambda: hb.codecs.Date.decode(b"\xff" * 4)
    ),
    refused(hb.DecodingError, "A nullable field must begin with 00 or 01", lambda: nullable(b"\x02\x01\x01")),
    refused(
        hb.DecodingError,
        "A nullable field must be 00 alone",
        lambda: KeyLayout((KeyField("a", hb.Text, nullable=True),)).unpack(b"\x00\x01"),
    ),
]


def declared(**options: Any) -> Any:
    """A model with some options."""
    extra = options.pop("fields", {})

    class Thing:
        name: hb.Key[str] = hb.key()
        size: hb.Column[int] = hb.column("s")

    for name, (hint, spec) in extra.items():
        if hint is not None:
            Thing.__annotations__[name] = hint
        setattr(Thing, name, spec)
    return hb.model(**{"table": "refused", **options})(Thing)


VERSION = {"version": (hb.Column[int], hb.version())}

DECLARED = [
    refused(hb.DeclarationError, "A width must be a positive int", lambda: hb.Text(0)),
    refused(hb.DeclarationError, "A codec is needed here", lambda: hb.codecs.DigestPrefixed(int)),  # type: ignore[arg-type]
    refused(hb.DeclarationError, "write its name alone, without parentheses", hb.codecs.Int8),
    refused(hb.DeclarationError, "A dictionary needs a name", lambda: hb.ids.dictionary("", hb.UInt32)),
    refused(hb.DeclarationError, "EnumOf takes an Enum subclass", lambda: hb.EnumOf(int)),  # type: ignore[type-var]
    refused(hb.DeclarationError, "nan must be True or False", lambda: hb.Float64(nan=1)),  # type: ignore[arg-type,operator]
    refused(hb.DeclarationError, "A unit of time must be us, ms or s", lambda: hb.Datetime("ns")),  # type: ignore[arg-type]
    refused(hb.DeclarationError, "round must be True or False", lambda: hb.Datetime("ms", round="yes")),  # type: ignore[arg-type]
    refused(
        hb.DeclarationError, "The digest is shorter than this length", lambda: hb.codecs.DigestPrefixed(hb.Text, 99)
    ),
    refused(hb.DeclarationError, "by takes names of key fields, each once", lambda: hb.HashSalt(4, by=("a", "a"))),
    refused(
        hb.DeclarationError, "two or more different prefixes of equal length", lambda: hb.salts.TextSalt(("a-", "b"))
    ),
    refused(hb.DeclarationError, "A digest salt must have 1 to 3 hex digits", lambda: hb.salts.DigestSalt(4)),
    refused(
        hb.DeclarationError,
        "declare that field with hb.codecs.DigestPrefixed",
        lambda: hb.salts.TextSalt([f"{n:04x}" for n in range(1 << 16)]),
    ),
    refused(
        hb.DeclarationError,
        "The separator after a digest must be text or bytes",
        lambda: hb.codecs.DigestPrefixed(hb.Text, 4, separator=7),
    ),
    refused(hb.errors.RowKeyError, "computed from the key, not chosen at random", lambda: hb.HashSalt(4).draw()),
    refused(hb.DeclarationError, "The namespace hbase is reserved for HBase", lambda: declared(table="hbase:x")),
    refused(
        hb.DeclarationError, "An external table cannot have versions", lambda: declared(external=True, fields=VERSION)
    ),
    refused(
        hb.DeclarationError,
        "To declare a column family with options, write",
        lambda: declared(families=(Family("t"),)),  # type: ignore[arg-type]
    ),
    refused(
        hb.DeclarationError,
        "A unique index has an entry for every row",
        lambda: declared(
            fields={**VERSION, "by": (None, hb.index("size", unique=True, where=lambda thing: thing.size == 1))}
        ),
    ),
    refused(
        hb.DeclarationError,
        "families names a family that no column uses: remove it",
        lambda: declared(families=(hb.family("unused", max_versions=2),)),
    ),
    refused(
        hb.DeclarationError,
        "An external table cannot have map columns",
        lambda: declared(external=True, fields={"notes": (hb.Map[int, str], hb.map_column("n", hb.Int32, hb.Text))}),
    ),
    refused(
        hb.DeclarationError,
        "A table whose cells keep several versions cannot be moved",
        lambda: declared(table="refused_too", replaces=declared(family=hb.family("d", max_versions=3))),
    ),
    refused(
        hb.DeclarationError,
        "A row span is a timedelta of two or more whole units",
        lambda: declared(fields={"at": (hb.Key[datetime], hb.key(hb.Datetime("s"), row_span=timedelta(seconds=1)))}),
    ),
]


@pytest.mark.parametrize(("kind", "message", "call"), [*VALUES, *STORED, *DECLARED])
def test_what_cannot_be_stored_read_or_declared_is_said(
    kind: type[hb.HbmodelError], message: str, call: Callable[[], Any]
) -> None:
    with pytest.raises(kind, match=message):
        call()


# --- stores -----------------------------------------------------------------------------------------------------------

FAMILY = [Family(b"d")]


def on_store(kind: type[hb.HbmodelError], message: str, call: Callable[[hb.Store], Any]) -> Any:
    return pytest.param(kind, message, call, id=message)


def scanned(scan: Scan) -> Callable[[hb.Store], Any]:
    return lambda store: [list(rows) for rows in store.scan("t", [scan])]


REQUESTS = [
    on_store(
        hb.errors.InvalidRequest, "A reversed scan cannot read rows in pieces", scanned(Scan(cells=5, reversed=True))
    ),
    on_store(
        hb.errors.InvalidRequest,
        "A scan with a value filter cannot read",
        scanned(Scan(cells=5, filter=ValueFilter(b"d:a", "=", b"x"))),
    ),
    on_store(hb.errors.InvalidRequest, "Give a list of scans", lambda s: s.scan("t", Scan())),  # type: ignore[arg-type]
    on_store(
        hb.errors.InvalidRequest,
        "Give the range of a scan as Scan",
        scanned(Scan(b"r")),  # type: ignore[arg-type]
    ),
    on_store(
        hb.errors.InvalidRequest,
        "A scan needs a positive batch size and no negative limit",
        scanned(Scan(batch_size=0)),
    ),
    on_store(
        hb.errors.InvalidRequest,
        "A column must have the form family:qualifier",
        scanned(Scan(filter=ValueFilter(b"a", "=", b"x"))),
    ),
    on_store(
        hb.errors.InvalidRequest,
        "A value filter must compare with =",
        scanned(Scan(filter=ValueFilter(b"d:a", "~", b"x"))),  # type: ignore[arg-type]
    ),
    on_store(
        hb.errors.InvalidRequest,
        "A pagination filter takes no negative limit or offset",
        scanned(Scan(filter=And((ColumnPrefix(b"a"), Pagination(-1, 0))))),
    ),
    on_store(
        hb.errors.InvalidRequest,
        "A TTL must be a positive whole number",
        lambda s: s.put("t", [Put(b"r", {b"d:a": b"x"}, ttl=0)]),
    ),
    on_store(
        hb.errors.InvalidRequest,
        "A prefix of qualifiers must be bytes",
        lambda s: s.get_each("t", [Get(b"r", [b"d"], prefix="x")]),
    ),  # type: ignore[arg-type]
    on_store(
        hb.errors.InvalidRequest,
        "An increment must fit in eight bytes",
        lambda s: s.increment("t", b"r", b"d:a", 2**63),
    ),
    on_store(
        hb.errors.InvalidRequest,
        "A column must have the form family:qualifier",
        lambda s: s.put("t", [Put(b"r", {b"a": b"x"})]),
    ),
    on_store(
        hb.errors.InvalidRequest,
        "A cell is larger than the 10 MiB that HBase accepts",
        lambda s: s.put("t", [Put(b"r", {b"d:a": bytes(11 << 20)})]),
    ),
    on_store(
        hb.errors.InvalidRequest,
        "A column must have the form family or family:qualifier",
        lambda s: s.get("t", [b"r"], [b":a"]),
    ),
    on_store(
        hb.errors.InvalidRequest,
        "A column must have the form family:qualifier",
        lambda s: s.delete("t", [Delete(b"r", columns=[b"a"])]),
    ),
    on_store(hb.errors.InvalidRequest, "The name of a namespace must consist of", lambda s: s.create_namespace("a-b")),
    on_store(
        hb.errors.InvalidRequest,
        "The namespace hbase is reserved for HBase",
        lambda s: s.create_table("hbase:t", FAMILY),
    ),
    on_store(
        hb.errors.InvalidRequest,
        "A table cannot have two column families with the same name",
        lambda s: s.create_table("u", FAMILY * 2),
    ),
    on_store(
        hb.errors.InvalidRequest,
        "Only a namespace without tables can be deleted",
        lambda s: s.delete_namespace("default"),
    ),
    on_store(
        hb.errors.InvalidRequest,
        "Only a cell of 8 bytes can be incremented",
        lambda s: s.increment("t", b"short", b"d:a", 1),
    ),
    on_store(hb.errors.InvalidRequest, "A row substring filter takes non-empty ASCII text", lambda s: RowContains("")),
    on_store(
        hb.errors.StoreClosed,
        r"The store was closed: open another one with "
        r"hb\.connect\(\)",
        lambda s: (s.close(), s.tables()),
    ),
]


@pytest.mark.parametrize(("kind", "message", "call"), REQUESTS)
def test_requests_that_can_never_succeed_are_said(
    kind: type[hb.HbmodelError], message: str, call: Callable[[hb.Store], Any]
) -> None:
    with hb.connect("memory:") as store:
        store.create_table("t", FAMILY)
        store.put("t", [Put(b"short", {b"d:a": b"abc"})])
        with pytest.raises(kind, match=message):
            call(store)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("hbase+thrift2://a?pool=0", "The value of an option in the store URL is invalid: see `expected`"),
        ("hbase+thrift2://a?pol=3", "The store URL has an unknown option: remove it, or use a known one"),
        ("hbase+thrift2://a?pool=3&pool=4", "The store URL gives an option twice: give it once"),
        ("hbase+thrift2://a/path", "The store URL may contain hosts"),
        ("embedded:/no/such/directory/a.db", "its directory must exist"),
    ],
)
def test_store_urls_are_judged_in_a_sentence(url: str, message: str) -> None:
    with pytest.raises(hb.StoreError, match=message), hb.connect(url) as store:
        store.tables()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool": 0}, "Pool size and attempts must be positive, and retry_for not negative"),
        ({"ca_file": "x"}, "Certificates and keys need tls=true"),
        ({"timeout": 0}, "Timeouts and ages must be positive"),
        ({"user": "u", "password": "p", "transport": "http"}, "A user and a password are sent over TLS only"),
        ({"path": "/x"}, "A path, a user and a password need transport=http"),
        ({"transport": "http", "path": "x"}, "A path must begin with / and contain"),
        ({"transport": "http", "user": "u", "tls": True}, "Give both a user and a password"),
        (
            {"transport": "http", "user": "u:v", "password": "p", "tls": True},
            "A user name of basic authentication must",
        ),
        ({"tls": True, "key_file": "x"}, "A client key needs the client's certificate"),
        ({"host": "a:b:c"}, "A gateway's address must have the form host"),
    ],
)
def test_options_of_gateways_are_judged_before_any_call(options: dict[str, Any], message: str) -> None:
    with pytest.raises(hb.errors.InvalidRequest, match=message):
        Thrift2Store(**{"host": "localhost", **options})


def test_a_gateway_that_cannot_delete_namespaces_says_which_can() -> None:
    with pytest.raises(hb.CapabilityError, match="The Thrift1 gateway cannot delete a namespace"):
        Thrift1Store("localhost").delete_namespace("n")


def test_a_gateway_that_is_not_there_is_named() -> None:
    with (
        pytest.raises(hb.StoreUnavailable, match="HBase cannot be reached"),
        hb.connect("hbase+thrift2://127.0.0.1:1?attempts=1&connect_timeout=1") as store,
    ):
        store.tables()


# --- sessions and queries ---------------------------------------------------------------------------------------------


@hb.model(table="refusing", family="d")
class Thing:
    name: hb.Key[str] = hb.key()
    day: hb.Column[date] = hb.column("d", default=date(2026, 3, 1))
    price: hb.Column[Decimal] = hb.column("p", default=Decimal(1))
    seen: hb.Column[int] = hb.counter("c")
    notes: hb.Map[int, str] = hb.map_column("n", hb.Int32, hb.Text)


@hb.model(table="refusing_numbers", family="d")
class Numbered:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    size: hb.Column[int] = hb.column("s")


@hb.model(table="refusing_other", family="d")
class Other:
    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")


def in_session(kind: type[hb.HbmodelError], message: str, call: Callable[[hb.Session], Any]) -> Any:
    return pytest.param(kind, message, call, id=message)


def closed_while_reading(session: hb.Session) -> None:
    found = iter(session.query(Thing).allow_full_scan())
    session.close()
    next(found)


CALLS = [
    in_session(hb.SessionError, "A TTL must be a timedelta: ttl=timedelta", lambda s: s.add(Thing(name="a"), ttl=5)),  # type: ignore[arg-type]
    in_session(hb.EncodingError, "The TTL is not positive", lambda s: s.add(Thing(name="a"), ttl=timedelta(0))),
    in_session(
        hb.EncodingError,
        "A TTL must be a whole number of milliseconds",
        lambda s: s.add(Thing(name="a"), ttl=timedelta(microseconds=1500)),
    ),
    in_session(
        hb.SessionError,
        "condition takes a condition",
        lambda s: s.update(Thing(name="a"), condition=True, price=Decimal(2)),
    ),  # type: ignore[arg-type]
    in_session(
        hb.SessionError, "Only a counter can be incremented", lambda s: s.increment(Thing(name="a"), Thing.price)
    ),  # type: ignore[arg-type]
    in_session(
        hb.SessionError,
        "The object has this key already",
        lambda s: s.rekey(Thing(name="a"), name="a"),
    ),
    in_session(
        hb.QueryError,
        "A key must be a mapping of key fields, or a tuple of their values in key order",
        lambda s: s.get_many(Thing, ["a"]),
    ),
    in_session(
        hb.SessionError, "There are no entries to put or to remove", lambda s: s.update(Thing(name="a"), notes={})
    ),
    in_session(
        hb.errors.SessionClosed,
        "The session is closed: open another one",
        lambda s: (s.close(), s.get(Thing, name="a")),
    ),
    in_session(
        hb.QueryError, "deletes whole objects: leave out select", lambda s: s.query(Thing).select(Thing.name).delete()
    ),
    in_session(hb.errors.SessionClosed, "closed", closed_while_reading),
    in_session(
        hb.errors.UnknownField,
        "The field belongs to another model: use fields of the model that is queried",
        lambda s: s.query(Thing).order_by(Other.size),
    ),
    in_session(
        hb.QueryError,
        "reads whole objects: leave out select",
        lambda s: s.query(Thing).load(Thing.notes).select(Thing.name),
    ),
    in_session(hb.QueryError, r"where\(\) got a truth value", lambda s: s.query(Thing).where(True)),  # type: ignore[arg-type]
    in_session(hb.TokenError, "A continuation token must be the", lambda s: s.query(Thing).page(5, after=5)),  # type: ignore[arg-type]
    in_session(
        hb.TokenError,
        "The continuation token is damaged: start from the first page",
        lambda s: s.query(Thing).allow_full_scan().page(5, after="x"),
    ),
    in_session(
        hb.TokenError,
        "empty: pass None for the first page",
        lambda s: s.query(Thing).allow_full_scan().page(5, after=""),
    ),
    in_session(
        hb.TokenError,
        "empty: pass None for the first page",
        lambda s: s.query(Thing).allow_full_scan().page(5, before=""),
    ),
    in_session(
        hb.DeclarationError, "splits must be a split strategy", lambda s: hb.create_tables(s.store, Thing, splits=5)
    ),  # type: ignore[arg-type]
    in_session(hb.DeclarationError, "This must be True or False", lambda s: hb.alter(s.store, Thing, lossy=1)),  # type: ignore[arg-type]
    in_session(hb.DeclarationError, "times must be an hb", lambda s: hb.alter(s.store, Thing, times=5)),  # type: ignore[arg-type]
    in_session(
        hb.DeclarationError,
        "The model does not replace another",
        lambda s: hb.migration.migrate(s.store, Thing),
    ),
    in_session(hb.DeclarationError, "This is not a dictionary", lambda s: hb.ids.Names(s.store).claim(Thing, "a")),  # type: ignore[arg-type]
    in_session(
        hb.DeclarationError,
        "There are fewer values than regions: ask for fewer regions",
        lambda s: hb.tables.split_keys(Numbered, hb.tables.Uniform(300)),
    ),
]


@pytest.mark.parametrize(("kind", "message", "call"), CALLS)
def test_calls_that_cannot_work_are_said(
    kind: type[hb.HbmodelError], message: str, call: Callable[[hb.Session], Any]
) -> None:
    with fresh(Thing, Other) as store:
        session = hb.Session(store)
        session.add_all(Thing(name=name) for name in "bc")
        session.commit()
        with pytest.raises(kind, match=message):
            call(session)


def test_a_row_of_another_program_says_how_to_look_at_it() -> None:
    with fresh(Other) as store:
        store.put("refusing_other", [Put(b"a", {b"d:s": b"x"})])
        with pytest.raises(hb.DecodingError) as error:
            hb.Session(store).get(Other, name="a")
    assert error.value.field == "size"
    assert "hb.diff(store, Model) compares the layouts" in str(error.value).splitlines()[1]
