"""Server filters: the predicates that become filters, and that no filter drops a row that matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import QueryError
from hbmodel.mapping.predicates import Predicate, conjuncts
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.query.ask.query import Query
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.match.planner import plan
from hbmodel.query.match.pushdown import MAX_ALTERNATIVES, server_filter
from hbmodel.store import Put
from hbmodel.store.embedded.cells import StoredCell, StoredRow
from hbmodel.store.filtering.row_filter import RowFilter
from hbmodel.store.filters import And, Filter, Or, RowContains, ValueFilter
from hbmodel.store.wide.object_filters import keys_only
from tests.support.beds import HBASE, open_bed
from tests.support.examples import examples
from tests.support.random_queries import (
    COLUMN_CODECS,
    STRUCTURED,
    RandomModel,
    codec_values,
    conditions,
    models,
    paths,
    predicates,
    stored_keys,
    stored_objects,
)

LIVE = ValueFilter(b"d:_l", ">=", b"\x01")


@hb.model(table="t", exists=hb.flag("e"))
class Row:
    text: hb.Key[str] = hb.key()
    back: hb.Key[str] = hb.key(desc=True)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    fixed: hb.Key[str | None] = hb.key(hb.Text(4), nullable=True)
    utf: hb.Key[str] = hb.key(hb.codecs.JavaUTF)

    must: hb.Column[int] = hb.column("m", hb.codecs.Int8)
    name: hb.Column[str | None] = hb.column("n", default=None)
    plain: hb.Column[str] = hb.column("p", default="none")
    made: hb.Column[str] = hb.column("f", default=attrs.Factory(lambda: "made"))
    short: hb.Column[str | None] = hb.column("s", hb.Text(3), nullable=True, default="x")
    items: hb.Column[list[int] | None] = hb.column("i", hb.Json(list[int]), default=None)
    gone: hb.Column[int | None] = hb.column("g", default=None, null="delete")
    level: hb.Column[int] = hb.column("l", hb.codecs.Int8, default=5)
    java: hb.Column[int] = hb.column("j", hb.codecs.JavaInt)
    stamp: hb.Column[datetime] = hb.column("r", hb.codecs.ReverseStamp)
    views: hb.Column[int] = hb.counter("v")


@hb.model(table="t")
class Indexed:
    key: hb.Key[str] = hb.key()
    name: hb.Column[str] = hb.column("n")
    size: hb.Column[int] = hb.column("s")

    by_name = hb.index("name", covers=("size",))


def blank(column: bytes) -> ValueFilter:
    """The filter for rows without a value in a column with a default."""
    return ValueFilter(column, "=", b"", True)


def made(*predicates: Predicate) -> Filter | None:
    """The filter of a scan of the primary table, without the part that finds existing rows."""
    schema = hb.schema.schema_of(Row)
    residual = [part for predicate in predicates for part in conjuncts(predicate)]
    found = server_filter(schema, schema.layout, residual, on_index=False, indexed=False)
    flag = ValueFilter(b"d:e", "=", b"\x01")
    if found == flag:
        return None
    assert isinstance(found, And)
    assert found.filters[0] == flag
    rest = found.filters[1:]
    return rest[0] if len(rest) == 1 else And(rest)


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        # Equality, with the column's own bytes and what a missing cell reads as.
        (Row.must == 3, ValueFilter(b"d:m", "=", b"\x83")),
        (Row.name == "a'b", ValueFilter(b"d:n", "=", b"a'b")),
        (Row.name == "", ValueFilter(b"d:n", "=", b"\x00")),
        (Row.name == "\0", ValueFilter(b"d:n", "=", b"\x00\x00")),
        (Row.name.is_(None), ValueFilter(b"d:n", "=", b"", True)),
        (Row.plain == "none", Or([blank(b"d:p"), ValueFilter(b"d:p", "=", b"none", True)])),  # the default
        (Row.level == 5, Or([ValueFilter(b"d:l", "=", b"", True), ValueFilter(b"d:l", "=", b"\x85", True)])),
        (Row.level == 4, ValueFilter(b"d:l", "=", b"\x84")),
        (
            Row.level.in_([5, 6]),
            Or(
                [
                    ValueFilter(b"d:l", "=", b"", True),
                    *(ValueFilter(b"d:l", "=", bytes((0x80 + n,)), True) for n in (5, 6)),
                ]
            ),
        ),
        (Row.plain == "some", ValueFilter(b"d:p", "=", b"some")),
        (Row.made == "made", Or([blank(b"d:f"), ValueFilter(b"d:f", "=", b"made", True)])),
        (
            Row.made == "other",
            Or([blank(b"d:f"), ValueFilter(b"d:f", "=", b"other", True)]),
        ),  # a factory may make anything
        (Row.short == "x", ValueFilter(b"d:s", "=", b"x\x00\x00", True)),
        (Row.java == -1, ValueFilter(b"d:j", "=", b"\xff\xff\xff\xff")),
        (Row.stamp == NOON, ValueFilter(b"d:r", "=", hb.codecs.ReverseStamp.encode(NOON))),
        (Row.must.in_([1, 2]), Or([ValueFilter(b"d:m", "=", b"\x81"), ValueFilter(b"d:m", "=", b"\x82")])),
        (Row.name.in_(["a", None]), Or([ValueFilter(b"d:n", "=", b"a", True), ValueFilter(b"d:n", "=", b"", True)])),
        # Order, where the bytes keep it: None is the empty cell, below every value.
        (Row.must < 3, ValueFilter(b"d:m", "<", b"\x83")),
        (Row.must >= 3, ValueFilter(b"d:m", ">=", b"\x83")),
        (Row.name < "b", And([ValueFilter(b"d:n", "!=", b""), ValueFilter(b"d:n", "<", b"b")])),
        (Row.name > "b", ValueFilter(b"d:n", ">", b"b")),
        (Row.name <= "", And([ValueFilter(b"d:n", "!=", b""), ValueFilter(b"d:n", "<=", b"\x00")])),
        (Row.java < 3, None),
        (Row.stamp < NOON, None),
        # Prefixes.
        (
            Row.plain.startswith("no"),
            Or([blank(b"d:p"), And([ValueFilter(b"d:p", ">=", b"no", True), ValueFilter(b"d:p", "<", b"np", True)])]),
        ),
        (
            Row.name.startswith("ÿ"),
            And([ValueFilter(b"d:n", ">=", b"\xc3\xbf"), ValueFilter(b"d:n", "<", b"\xc3\xc0")]),
        ),
        (Row.name.startswith("\0"), None),  # escaped
        (Row.name.startswith(""), None),
        (Row.short.startswith("a\0"), None),
        (Row.short.startswith("long"), None),
        # What the server would get wrong.
        (Row.views == 3, None),
        (Row.views < 3, None),
        (Row.items == [1], None),
        (Row.items.is_(None), None),
        (Row.gone == 3, None),
        (Row.must != 3, None),
        (~(Row.must == 3), None),
        (~Row.name.is_(None), None),
        (Row.must.in_([]), None),
        # Key fields: text that stands in the key as it is.
        (Row.text == "abc", RowContains("abc")),
        (Row.text == "it's", RowContains("it's")),
        (Row.fixed == "ab", RowContains("ab")),
        (Row.utf == "ab", RowContains("ab")),
        (Row.text == "", None),
        (Row.text == "ä", None),
        (Row.text == "a\0b", None),
        (Row.text == "a\nb", None),
        (Row.back == "abc", None),
        (Row.number == 65, None),
        (Row.text.startswith("abc"), None),
        (Row.text.in_(["a", "b"]), None),
        (Row.text != "abc", None),
        # Combinations.
        ((Row.must == 1) | (Row.text == "a"), Or([ValueFilter(b"d:m", "=", b"\x81"), RowContains("a")])),
        ((Row.must == 1) | (Row.views == 1), None),
        ((Row.must == 1) & (Row.views == 1), ValueFilter(b"d:m", "=", b"\x81")),
        (
            ((Row.must == 1) & (Row.views == 1)) | (Row.java == 1),
            Or([And([ValueFilter(b"d:m", "=", b"\x81")]), ValueFilter(b"d:j", "=", b"\0\0\0\1")]),
        ),
        (
            (Row.must == 1) & (Row.java == 1),
            And([ValueFilter(b"d:m", "=", b"\x81"), ValueFilter(b"d:j", "=", b"\0\0\0\1")]),
        ),
    ],
)
def test_filters(predicate: Predicate, expected: Filter | None) -> None:
    assert made(predicate) == expected


def test_long_lists_stay_with_the_client() -> None:
    assert isinstance(made(Row.java.in_(range(MAX_ALTERNATIVES))), Or)
    assert made(Row.java.in_(range(MAX_ALTERNATIVES + 1))) is None
    either = (Row.must == 1) | (Row.plain == "a")
    for number in range(MAX_ALTERNATIVES - 2):
        either = either | (Row.must > number)
    assert isinstance(made(either), Or)
    assert made(either | (Row.must > 1)) is None


def test_rows_that_do_not_exist_stay_on_the_server() -> None:
    schema = hb.schema.schema_of(Indexed)
    assert server_filter(schema, schema.layout, [], on_index=False, indexed=True) == LIVE
    assert server_filter(schema, schema.layout, [], on_index=False, indexed=False) is None
    both = server_filter(schema, schema.layout, [Indexed.size == 1], on_index=False, indexed=True)
    assert both == And([LIVE, ValueFilter(b"d:s", "=", hb.Int64.encode(1))])


def test_of_an_entry_only_the_key_is_filtered() -> None:
    """Covered cells of a writer that crashed hold values that the row does not."""
    schema = hb.schema.schema_of(Indexed)
    layout = schema.indexes["by_name"].layout
    assert server_filter(schema, layout, [Indexed.size == 1], on_index=True, indexed=True) is None
    assert server_filter(schema, layout, [Indexed.key == "abc"], on_index=True, indexed=True) == RowContains("abc")
    assert server_filter(schema, layout, [Indexed.name == "abc"], on_index=True, indexed=True) == RowContains("abc")


# --- nothing that matches is dropped ----------------------------------------------------------------------------------


@pytest.mark.lengthy
@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_no_filter_drops_a_row_that_matches(data: st.DataObject) -> None:
    check_filters(data)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=3_000, deadline=None)
@given(st.data())
def test_no_filter_drops_a_row_that_matches_at_length(data: st.DataObject) -> None:
    check_filters(data)


def check_filters(data: st.DataObject) -> None:
    """For any model, rows and query: of every path the filter, as HBase evaluates it, lets matching rows and entries
    pass.
    """
    of = data.draw(models(versions=True, wide=True))
    schema = of.schema
    indexed = schema.versioned or bool(schema.indexes)
    objects = data.draw(stored_objects(of, indexed, blanks=True))
    predicates, oracle = data.draw(conditions(of))
    asked: Query[Any] = Query(QueryTerms(schema), None).where(*predicates).allow_full_scan()  # type: ignore[arg-type]
    if data.draw(st.booleans()):
        names = data.draw(st.lists(st.sampled_from(sorted(of.pools)), min_size=1, max_size=3))
        asked = asked.select(*[of.expression(name) for name in names])
    for index in paths(schema):
        try:
            chosen = plan(
                asked.terms, list(schema.indexes.values()), indexed, "primary" if index is None else index.name
            )
        except QueryError:
            event("an index that lacks some rows")
            continue
        event(f"{'index' if index else 'primary'}, {'filter' if chosen.filter else 'no filter'}")
        for obj in objects:
            if index is None:
                row = obj.read(chosen.reader.columns)
                assert row is not None or not chosen.reader.anchors, "a projection still finds the row"
                if row is None:
                    continue
                assert chosen.reader.exists(row)
                cells = {column: StoredCell(cell.value, 1) for column, cell in row.columns.items()}
            else:
                cells = {schema.version_column: StoredCell(b"\x01" + bytes(8), 1)}
            if chosen.filter is None or not oracle(obj.values):
                continue
            filtering = RowFilter(chosen.filter, reversed=data.draw(st.booleans()))
            passing = 0
            for key in stored_keys(schema, index, obj):
                if not filtering.rejects(key):
                    kept = filtering.kept(cells)
                    if keys_only(chosen.filter):  # which may leave out all cells but the first
                        assert kept, "a row that passes is found"
                    else:
                        assert kept == cells, "a row that passes is read whole"
                    passing += 1
            assert passing, "some entry of every row that matches is left"


@st.composite
def single_columns(draw: st.DrawFn) -> RandomModel:
    """A model with one column, of any codec, default and form of None."""
    codec, nullable = draw(st.sampled_from(COLUMN_CODECS)), draw(st.booleans())
    values = draw(st.lists(codec_values(codec), min_size=1, max_size=3))
    options: dict[str, Any] = draw(
        st.sampled_from(
            [
                {},
                {"default": attrs.Factory(lambda: values[0])},
                *([] if codec == STRUCTURED else [{"default": values[0]}]),
            ]
        )
    )
    if nullable:
        options = draw(st.sampled_from([options, {"default": None}, {"default": None, "null": "delete"}]))
    body = {"k": hb.key(hb.codecs.UInt8), "c": hb.column("c", codec, **options)}
    hints = {"k": hb.Key[int], "c": hb.Column[Any | None if nullable else Any]}
    cls = type("Single", (), {**body, "__annotations__": hints, "__module__": __name__})
    return RandomModel(hb.model(table="t", exists=hb.flag("e"))(cls), {"c": [*values, None] if nullable else values})


@pytest.mark.lengthy
@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_filters_agree_with_decoding(data: st.DataObject) -> None:
    """Whatever lies in a cell, or does not: a row that reads as a match passes."""
    of = data.draw(single_columns())
    schema, column = of.schema, of.schema.by_name["c"]
    predicate, _ = data.draw(predicates(of))
    found = server_filter(schema, schema.layout, conjuncts(predicate), on_index=False, indexed=False)
    assert found is not None, "of the flag at least"
    accepts, reader = predicate.test(), RowDecoder(schema, indexed=False)
    for cell in [None, b"", *(column.encode_cell(value) for value in of.pools["c"])]:
        cells = {b"d:e": StoredCell(b"\x01", 1), **({} if cell is None else {column.column: StoredCell(cell, 1)})}
        try:
            values = reader.values(StoredRow(b"\x01", cells))
        except (hb.IncompleteRow, hb.DecodingError):
            continue
        filtering = RowFilter(found, reversed=False)
        assert not accepts(values) or (not filtering.rejects(b"\x01") and filtering.kept(cells) == cells)


NAMES = [
    "it's",
    "''",
    "a'b'c",
    "\0",
    "a\0b",
    "\0\xff",
    "ÿ",
    "😀",
    "שלום",
    "\u202ea\u202c",
    "\U0010ffff",
    "A",
    "a",
    "\u0131",  # letters whose lower or upper case is ASCII, or longer
    "\u0130",
    "\u212a",
    "",
    ") OR (",
    "=, 'binary:",
    "\\",
    "%",
    "\n",
]


@hb.model(table="names", salt=hb.HashSalt(3))
class Name:
    first: hb.Key[str] = hb.key()
    second: hb.Key[str] = hb.key(desc=True)
    third: hb.Key[str] = hb.key()
    column: hb.Column[str | None] = hb.column("c'c", default=None)
    data: hb.Column[bytes] = hb.column("d", default=b"\xff")
    level: hb.Column[int | None] = hb.column("l", hb.codecs.Int8, nullable=True, default=-1)
    views: hb.Column[int] = hb.counter("v")

    by_column = hb.index("column", "level")


@pytest.fixture(scope="module", params=["memory", *HBASE])
def names(request: pytest.FixtureRequest) -> Iterator[tuple[hb.Session, list[Name]]]:
    """A session on a separate store with all the odd names, and the objects in it."""
    url = "memory:"
    if request.param != "memory":
        hbase = request.getfixturevalue("hbmodel_hbase")
        url = hbase.url if request.param == "thrift1" else hbase.thrift2_url
    with open_bed(request.param, url) as bed:
        session = bed.use(Name)
        objects = []
        for number, name in enumerate(NAMES):
            for other in (NAMES[(number + 1) % len(NAMES)], NAMES[(number + 5) % len(NAMES)]):
                column = None if number % 4 == 0 else other
                data, level = name.encode() + b"\xff\x00", number % 5 - 2
                objects.append(Name(first=name, second=other, third=name, column=column, data=data, level=level))
        session.add_all(objects)
        session.commit()
        for number, obj in enumerate(objects):
            if number % 3:
                object.__setattr__(obj, "views", session.increment(obj, Name.views, number - 20))
        yield session, objects


Match = Callable[[Name], bool]


def name_condition(draw: st.DrawFn) -> tuple[Predicate, Match]:
    """A condition on the odd names."""
    name, number = draw(st.sampled_from(NAMES)), draw(st.integers(-25, 30))
    field = draw(st.sampled_from(["first", "second", "third", "column"]))
    of: Any = getattr(Name, field)
    found: list[tuple[Predicate, Match]] = [
        (of == name, lambda obj: getattr(obj, field) == name),
        (of != name, lambda obj: getattr(obj, field) != name),
        (of.startswith(name), lambda obj: getattr(obj, field) is not None and getattr(obj, field).startswith(name)),
        (of <= name, lambda obj: getattr(obj, field) is not None and getattr(obj, field) <= name),
        (of > name, lambda obj: getattr(obj, field) is not None and getattr(obj, field) > name),
        (Name.column.is_(None), lambda obj: obj.column is None),
        (Name.column.in_([name, None]), lambda obj: obj.column in {name, None}),
        (Name.data.startswith(name.encode()), lambda obj: obj.data.startswith(name.encode())),
        (Name.data == name.encode() + b"\xff\x00", lambda obj: obj.data == name.encode() + b"\xff\x00"),
        (Name.views < number, lambda obj: obj.views < number),
        (Name.views == number, lambda obj: obj.views == number),
        (Name.level <= number % 3 - 1, lambda obj: obj.level is not None and obj.level <= number % 3 - 1),
    ]
    return draw(st.sampled_from(found))


@st.composite
def name_conditions(draw: st.DrawFn) -> tuple[Predicate, Match]:
    predicate, test = name_condition(draw)
    other, second = name_condition(draw)
    match draw(st.sampled_from(["one", "and", "or", "not"])):
        case "and":
            return predicate & other, lambda obj: test(obj) and second(obj)
        case "or":
            return predicate | other, lambda obj: test(obj) or second(obj)
        case "not":
            return predicate & ~other, lambda obj: test(obj) and not second(obj)
    return predicate, test


@pytest.mark.lengthy
@settings(max_examples=examples(100), deadline=None)
@given(condition=name_conditions(), path=st.sampled_from([None, "primary", "by_column"]), backwards=st.booleans())
@example(condition=(Name.first == "k", lambda obj: obj.first == "k"), path="by_column", backwards=False)
def test_queries_over_odd_names(
    names: tuple[hb.Session, list[Name]], condition: tuple[Predicate, Match], path: str | None, backwards: bool
) -> None:
    session, objects = names
    predicate, matches = condition
    query = session.query(Name).where(predicate).use_index(path).allow_full_scan()
    query = query.reversed() if backwards else query

    def key(obj: Name) -> tuple[str, str, str]:
        return obj.first, obj.second, obj.third

    expected = sorted((obj for obj in objects if matches(obj)), key=key)
    assert sorted(query.all(), key=key) == expected
    assert query.count() == len(expected)
    assert query.exists() == bool(expected)
    assert sorted(query.select(Name.first, Name.second, Name.third).all()) == [key(obj) for obj in expected]


@hb.model(table="blanks", exists=hb.flag("e"))
class Blank:
    """Columns of every kind of default and None; rows of it have each cell absent, empty or written."""

    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    small: hb.Column[int] = hb.column("s", hb.codecs.Int8, default=5)
    made: hb.Column[int] = hb.column("m", hb.codecs.Int8, default=attrs.Factory(lambda: 5))
    maybe: hb.Column[int | None] = hb.column("y", hb.codecs.Int8, default=None)
    other: hb.Column[int | None] = hb.column("o", hb.codecs.Int8, default=5)
    gone: hb.Column[int | None] = hb.column("g", hb.codecs.Int8, default=None, null="delete")
    text: hb.Column[str] = hb.column("t", default="a")
    perhaps: hb.Column[str | None] = hb.column("p", default="a")
    fixed: hb.Column[str] = hb.column("f", hb.Text(3), default="a")
    java: hb.Column[str] = hb.column("j", hb.codecs.JavaUTF, default="a")
    stamp: hb.Column[int] = hb.column("r", hb.codecs.ReverseStampInt, default=5)
    views: hb.Column[int] = hb.counter("v")


BLANKS: Mapping[str, Sequence[Any]] = {
    **{name: [5, 4, 6, 0, None] for name in ("small", "made", "maybe", "other", "gone", "stamp", "views")},
    **{name: ["a", "", "ab", "\0", None] for name in ("text", "perhaps", "fixed", "java")},
}


@pytest.fixture(scope="module", params=["memory", *HBASE])
def blanks(request: pytest.FixtureRequest) -> Iterator[tuple[hb.Session, list[Blank]]]:
    """A session over rows with every state of every cell, and the objects that these read as."""
    url = "memory:"
    if request.param != "memory":
        hbase = request.getfixturevalue("hbmodel_hbase")
        url = hbase.url if request.param == "thrift1" else hbase.thrift2_url
    schema = hb.schema.schema_of(Blank)
    states: list[dict[bytes, bytes]] = [{}, {f.column: b"" for f in schema.columns if f.kind == "column"}]
    for f in schema.columns:
        if f.kind == "column":
            states += [{f.column: b""}]
        for value in BLANKS[f.name]:
            if (value is not None or f.nullable) and not (f.name == "fixed" and value == "\0"):
                states += [{f.column: bytes(f.encode_cell(value))}]
    with open_bed(request.param, url) as bed:
        session = bed.use(Blank)
        bed.store.put(
            "blanks", [Put(hb.row_key(Blank, number=n), {b"d:e": b"\x01", **cells}) for n, cells in enumerate(states)]
        )
        found = session.query(Blank).allow_full_scan().all()
        assert [obj.number for obj in found] == list(range(len(states)))
        yield session, found


@pytest.mark.lengthy
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_queries_over_blank_cells(blanks: tuple[hb.Session, list[Blank]], data: st.DataObject) -> None:
    session, objects = blanks
    schema = hb.schema.schema_of(Blank)
    pools = {
        name: [value for value in pool if value is not None or schema.by_name[name].nullable]
        for name, pool in BLANKS.items()
    }
    predicate, _ = data.draw(predicates(RandomModel(Blank, {**pools, "fixed": ["a", "", "ab"]})))
    accepts = predicate.test()
    expected = [obj.number for obj in objects if accepts(attrs.asdict(obj))]
    query = session.query(Blank).where(predicate).allow_full_scan()
    assert [obj.number for obj in query] == expected
    assert query.count() == len(expected)
    assert query.select(Blank.number).all() == [(number,) for number in expected]
