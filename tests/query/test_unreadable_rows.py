"""Queries that continue after rows that their model cannot read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.schema import schema_of
from hbmodel.protocol.relocation.migration_phases import MOVING
from hbmodel.store import Delete, Put
from hbmodel.store.embedded import EmbeddedStore
from tests.support.beds import Bed, cells_of, fresh
from tests.support.examples import examples
from tests.tables.migration_models import Moved, Visit, visit
from tests.tables.test_migrate import set_phase


@hb.model(table="points", family="d", external=True)
class Point:
    series: hb.Key[str] = hb.key()
    at: hb.Key[int] = hb.key(hb.codecs.UInt16)
    size: hb.Column[int] = hb.column("n", hb.codecs.UInt32)
    label: hb.Column[str] = hb.column("l")


@hb.model(table="salted_points", family="d", external=True, salt=hb.HashSalt(3))
class Salted:
    series: hb.Key[str] = hb.key()
    at: hb.Key[int] = hb.key(hb.codecs.UInt16)
    size: hb.Column[int] = hb.column("n", hb.codecs.UInt32)
    label: hb.Column[str] = hb.column("l")


@hb.model(table="wide_points", family="d", external=True, kind=b"p")
class Wide:
    series: hb.Key[str] = hb.key()
    at: hb.Key[int] = hb.key(hb.codecs.UInt16, in_qualifier=True)
    size: hb.Column[int] = hb.column("n", hb.codecs.UInt32)
    label: hb.Column[str] = hb.column("l")


@hb.model(table="bare_points", family="d", external=True, salt=hb.HashSalt(3, by="series"))
class Bare:
    series: hb.Key[str] = hb.key()
    at: hb.Key[int] = hb.key(hb.codecs.UInt16, in_qualifier=True)
    size: hb.Column[int] = hb.column("", hb.codecs.UInt32)


@hb.model(table="indexed_points", family="d")
class Indexed:
    series: hb.Key[str] = hb.key()
    at: hb.Key[int] = hb.key(hb.codecs.UInt16)
    size: hb.Column[int] = hb.column("n", hb.codecs.UInt32)
    label: hb.Column[str] = hb.column("l")

    by_label = hb.index("label")


@hb.model(table="covered_points", family="d")
class Covered:
    series: hb.Key[str] = hb.key()
    at: hb.Key[int] = hb.key(hb.codecs.UInt16)
    size: hb.Column[int] = hb.column("n", hb.codecs.UInt32)
    label: hb.Column[str] = hb.column("l")

    version: hb.Column[int] = hb.version()

    by_label = hb.index("label", covers=("size",))


@frozen
class Damage:
    """Which rows of a table are damaged, and how.

    Attributes:
        stray: keys of rows, or of objects of wide rows, that cannot be read.
    """

    good: Sequence[tuple[str, int]]
    bad: dict[tuple[str, int], str]
    stray: Sequence[bytes] = ()


def position(model: Any, key: tuple[str, int]) -> bytes:
    return bytes(schema_of(model).layout.pack(key))


def ahead() -> int:
    """A time after that of every cell so far."""
    return int(time.time() * 1000) + 1000


def label(key: tuple[str, int]) -> str:
    return "even" if key[1] % 2 == 0 else "odd"


def load(store: Any, model: Any, damage: Damage) -> None:
    """Writes the rows, and damages some of them as another program would."""
    session, schema = hb.Session(store), schema_of(model)
    keys = sorted({*damage.good, *damage.bad})
    labels = "label" in schema.by_name
    for series, at in keys:
        more = {"label": label((series, at))} if labels else {}
        session.add(model(series=series, at=at, size=at, **more))
    session.commit()
    width = schema.salt.width
    for key, how in damage.bad.items():
        row = hb.row_key(model, series=key[0], at=key[1])
        (read,) = store.get(schema.table, [row])
        own = read.columns
        if schema.wide is not None:
            own = [name for name in own if name.startswith(b"d:" + schema.kind + key[1].to_bytes(2, "big"))]
        size = next(name for name in own if name.endswith(b"n") or model is Bare)
        if how == "cell":
            store.put(schema.table, [Put(row, {size: b"long text"}, read.columns[size].timestamp + 1)])
        elif how == "column":
            store.delete(schema.table, [Delete(row, columns=[size], timestamp=read.columns[size].timestamp)])
        else:
            store.delete(schema.table, [Delete(row)])
            other = bytes([(row[0] + 1) % 3])
            store.put(schema.table, [Put(other + row[width:], {b"d:n": b"\0\0\0\1", b"d:l": b"x"})])
    for stray in damage.stray:
        if schema.wide is not None:
            row, qualifier = schema.wide.form.cut(b"\0" * width + stray)
            bucket = schema.salt.prefix(schema.salt.salt.salt.bucket(row[width:])) if width else b""
            store.put(schema.table, [Put(bucket + row[width:], {b"d:" + qualifier: b"\0\0\0\1"})])
            continue
        store.put(schema.table, [Put(b"\1" * width + stray, {b"d:n": b"\0\0\0\1", b"d:l": b"x"})])


def expected(model: Any, damage: Damage, index: bool = False) -> list[tuple[bytes, bool]]:
    """The positions of all rows in the order of the query, each with whether it can be read."""

    def place(key: tuple[str, int]) -> tuple[str, bytes]:
        return (label(key) if index else "", position(model, key))

    rows = [(place(key), key in damage.bad) for key in {*damage.good, *damage.bad}]
    rows += [(("", stray), True) for stray in damage.stray]
    return [(at, not bad) for (_, at), bad in sorted(rows)]


def at_of(model: Any, error: Any) -> bytes:
    return bytes(error.key[schema_of(model).salt.width :])


KEYS = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 5))
WIDE_STRAYS = {Wide: [b"", b"\1"], Bare: [b"\0", b"\0\1\0", b"\0\1\0\1", b"\0\5n", b"zzzz"]}
"""Qualifiers, without the kind, of which the model has no object."""

STRAYS = st.lists(st.sampled_from([b"a", b"b\0\0", b"zz", b"b\0\0\1\2\3"]), unique=True, max_size=3)
KINDS: dict[Any, tuple[str, ...]] = {
    Point: ("cell", "column"),
    Salted: ("cell", "column", "bucket"),
    Wide: ("cell", "column"),
    Bare: ("cell",),
    Indexed: ("cell", "column"),
}


def stray_place(model: Any, series: bytes, qualifier: bytes) -> bytes:
    """The key of an object in the row of a series that has this qualifier, without salt."""
    form = schema_of(model).wide.form
    return bytes(form.join(b"\0" * form.salt + series, form.kind + qualifier)[form.salt :])


@st.composite
def damages(draw: st.DrawFn, model: Any) -> Damage:
    keys = draw(st.lists(KEYS, unique=True, max_size=14))
    hows = st.sampled_from((None, None, *KINDS[model]))
    drawn = {key: draw(hows) for key in keys}
    stray = draw(STRAYS) if model in {Point, Salted} else []
    if model in WIDE_STRAYS:
        places = st.tuples(st.sampled_from([b"a", b"b", b"d"]), st.sampled_from(WIDE_STRAYS[model]))
        stray = [stray_place(model, *place) for place in draw(st.lists(places, unique=True, max_size=4))]
    return Damage([k for k, how in drawn.items() if how is None], {k: h for k, h in drawn.items() if h}, stray)


def until(rows: list[tuple[bytes, bool]], objects: int | None) -> list[tuple[bytes, bool]]:
    """The rows up to the last of a number of objects."""
    if objects is None:
        return rows
    seen = 0
    for at, (_, good) in enumerate(rows):
        seen += good
        if seen == objects:
            return rows[: at + 1]
    return rows


def check(store: Any, model: Any, damage: Damage, data: st.DataObject) -> None:
    index = model is Indexed and data.draw(st.booleans(), label="index")
    backwards = data.draw(st.booleans(), label="backwards")
    limit = data.draw(st.none() | st.integers(1, 6), label="limit")
    offset = data.draw(st.sampled_from([0, 0, 1, 3]), label="offset")
    size = data.draw(st.integers(1, 6), label="size")
    rows = expected(model, damage, index)
    query = hb.Session(store).query(model).allow_full_scan().use_index("by_label" if index else "primary")
    if backwards:
        query, rows = query.reversed(), rows[::-1]
    plain = query
    if offset:
        query = query.offset(offset)
    if limit is not None:
        query = query.limit(limit)
    rows = until(rows, None if limit is None else offset + limit)
    objects = [at for at, good in rows if good][offset:]
    errors = [at for at, good in rows if not good]
    skipped = 0
    events: list[tuple[bytes, bool]] = []

    def report(error: Any) -> None:
        events.append((at_of(model, error), False))

    def place(item: Any) -> bytes:
        return position(model, (item.series, item.at))

    for item in query.on_unreadable(report):
        events.append((place(item), True))
    passed = [at for at, good in rows if good][:offset]
    assert events == [row for row in rows if row[0] not in passed]
    assert list(map(place, query.on_unreadable("skip").all())) == objects
    assert query.on_unreadable("skip").count() == len(objects)
    assert query.on_unreadable("skip").exists() == bool(objects)
    events.clear()
    pages = []
    token, following = None, query.on_unreadable(report)
    while not pages or token is not None:
        page = following.page(size, after=token)
        assert page.skipped == len(events) - skipped
        assert len(page) == size or page.next_token is None
        skipped, token = len(events), page.next_token
        pages.append(page)
    assert [place(item) for page in pages for item in page] == objects
    assert [at for at, _ in events] == errors
    if len(pages) > 1 and pages[-1].items:
        events.clear()
        seen: list[bytes] = []
        token = pages[-1].previous_token
        while token is not None:
            page = following.page(size, before=token)
            seen = [*map(place, page), *seen]
            token = page.previous_token
        last = place(pages[-1].items[0])
        assert [*seen, *map(place, pages[-1])] == objects
        before = [row for row in rows[: rows.index((last, True))] if not row[1]]
        if not offset:  # otherwise those between the first object of the first page and the skipped ones are left
            assert [at for at, _ in reversed(events)] == [at for at, _ in before]
    if errors:
        with pytest.raises((hb.DecodingError, hb.IncompleteRow)):
            query.all()
    if limit is None and not offset:
        events.clear()
        firsts = plain.use_index("primary").on_unreadable(report).first_of_each(model.series, ["a", "b", "c"])
        each = expected(model, Damage(damage.good, damage.bad))[:: -1 if backwards else 1]
        for series, first in zip("abc", firsts, strict=True):
            own = [at for at, good in each if good and at[:1] == series.encode()]
            assert (None if first is None else place(first)) == (own[0] if own else None)


@pytest.mark.lengthy
@pytest.mark.parametrize("model", list(KINDS))
@settings(max_examples=examples(80), deadline=None)
@given(data=st.data())
def test_objects_and_reported_rows_are_all_rows(model: Any, data: st.DataObject) -> None:
    damage = data.draw(damages(model))
    with fresh(model) as store:
        load(store, model, damage)
        check(store, model, damage, data)


SAMPLE = Damage(
    [(series, at) for series in "abc" for at in (1, 3, 5)],
    {("a", 0): "cell", ("a", 2): "column", ("b", 4): "cell", ("b", 6): "cell", ("c", 9): "column"},
)


def sample_of(model: Any) -> Damage:
    """`SAMPLE` with damages that the rows of the model can have."""
    bad = {key: how if how in KINDS[model] else "cell" for key, how in SAMPLE.bad.items()}
    return Damage(SAMPLE.good, bad, [stray_place(model, b"d", qualifier) for qualifier in WIDE_STRAYS.get(model, ())])


@pytest.mark.every_store
@pytest.mark.parametrize("model", list(KINDS))
def test_on_every_store(bed: Bed, model: Any) -> None:
    session, damage = bed.use(model), sample_of(model)
    load(bed.store, model, damage)
    errors: list[Any] = []
    query = session.query(model).allow_full_scan().on_unreadable(errors.append)
    rows = expected(model, damage)
    assert [position(model, (item.series, item.at)) for item in query] == [at for at, good in rows if good]
    assert [at_of(model, error) for error in errors] == [at for at, good in rows if not good]
    pages, token = [query.page(2)], None
    while (token := pages[-1].next_token) is not None:
        pages.append(query.page(2, after=token))
    assert [len(page) for page in pages] == [2, 2, 2, 2, 1]
    assert sum(page.skipped for page in pages) == 5 + len(damage.stray)
    if damage.stray:
        strict = session.query(model).allow_full_scan().where(model.series == "d")
        for read in (strict.all, strict.count, strict.reversed().all, strict.select(model.at).all):
            with pytest.raises(hb.DecodingError, match="A qualifier cannot be read as the key fields") as refused:
                read()
            assert refused.value.key[schema_of(model).salt.width :] in damage.stray
            assert 'on_unreadable("skip")' in str(refused.value)
        assert session.get(model, series="b", at=3) is not None


def test_stamps_of_sessions_are_no_strange_cells(bed: Bed) -> None:
    session = bed.use(Bare)
    session.add(Bare(series="a", at=1, size=1))
    session.commit()
    row = hb.row_key(Bare, series="a", at=1)
    bed.store.put("bare_points", [Put(row, {b"d:\0\1" + b"_p_pstamp_": b"", b"d:\0\2_p": b""})])
    query = session.query(Bare).where(Bare.series == "a")
    assert [each.at for each in query] == [1]
    assert query.count() == 1
    bed.store.put("bare_points", [Put(row, {b"d:\0_p": b""})])  # what is before is no object's
    with pytest.raises(hb.DecodingError, match="A qualifier cannot be read as the key fields"):
        query.all()


@hb.model(table="chosen_points", family="d", external=True, exists="size")
class Chosen:
    """Cells of two bytes are objects; other cells of the family are not."""

    series: hb.Key[str] = hb.key()
    at: hb.Key[int] = hb.key(hb.codecs.UInt16, in_qualifier=True)
    size: hb.Column[int] = hb.column("", hb.codecs.UInt32)


def test_cells_beside_the_objects_of_a_named_column_are_left_out(bed: Bed) -> None:
    session = bed.use(Chosen)
    names = [b"\0\1", b"\0\1\0\1", b"\0\2", b"meta", b"zz", b"z"]
    bed.store.put("chosen_points", [Put(b"a", {b"d:" + name: b"\0\0\0\1" for name in names})])
    query = session.query(Chosen).where(Chosen.series == "a")
    expected = [1, 2, int.from_bytes(b"zz", "big")]
    assert [each.at for each in query] == expected
    assert [each.at for each in query.reversed()] == expected[::-1]
    assert query.count() == 3
    assert [at for (at,) in query.select(Chosen.at)] == expected
    assert query.page(2).skipped == 0
    session.add(Chosen(series="a", at=1, size=7))
    session.commit()
    session.delete_key(Chosen, series="a", at=2)
    session.commit()
    (row,) = bed.store.get("chosen_points", [b"a"])
    assert row is not None
    assert {column[2:]: cell.value[-1] for column, cell in row.columns.items()} == {
        name: 7 if name == b"\0\1" else 1 for name in names if name != b"\0\2"
    }


@pytest.fixture
def points() -> hb.Store:
    store = fresh(Point)
    load(store, Point, SAMPLE)
    return store


def test_the_error_says_where_and_how_to_go_on(points: hb.Store) -> None:
    query = hb.Session(points).query(Point).where(Point.series == "a")
    with pytest.raises(hb.DecodingError) as refused:
        query.all()
    error = refused.value
    key = hb.row_key(Point, series="a", at=0)
    assert (error.table, error.key, error.field, error.column) == ("points", key, "size", b"d:n")
    assert 'on_unreadable("skip")' in str(error)
    assert "long text" not in str(error)
    (row,) = points.get(error.table, [error.key], [error.column])
    assert row is not None
    assert row.columns[error.column].value == b"long text"
    with pytest.raises(hb.IncompleteRow, match=r"on_unreadable\(.skip.\)") as lacking:
        query.where(Point.at > 1).all()
    assert (lacking.value.field, lacking.value.column) == ("size", b"d:n")


def test_a_whole_page_cannot_be_read() -> None:
    with fresh(Point) as store:
        load(store, Point, Damage([("b", 0)], {("a", at): "cell" for at in range(50)}))
        query = hb.Session(store).query(Point).allow_full_scan().on_unreadable("skip")
        page = query.page(3)
        assert (len(page), page.skipped, page.next_token) == (1, 50, None)
        page = query.where(Point.series == "a").page(3)
        assert (len(page), page.skipped, page.next_token) == (0, 50, None)
        assert query.reversed().page(1).skipped == 50
        assert query.first() is not None
        assert query.one().series == "b"


def test_fields_that_are_not_read_are_not_decoded(points: hb.Store) -> None:
    query = hb.Session(points).query(Point).allow_full_scan().on_unreadable("skip")
    assert (query.select(Point.label).count(), len(query.select(Point.label).all())) == (14, 14)
    assert query.select(Point.size).count() == query.count() == 9


def test_a_condition_on_what_cannot_be_read(points: hb.Store) -> None:
    errors: list[Any] = []
    query = hb.Session(points).query(Point).where(Point.size.in_([1, 2]), Point.label == "odd").allow_full_scan()
    assert {item.size for item in query.on_unreadable(errors.append)} == {1}
    assert len(errors) <= 5


def test_a_token_of_a_query_that_stopped_goes_on(points: hb.Store) -> None:
    query = hb.Session(points).query(Point).where(Point.series == "b")
    token = query.page(1).next_token
    with pytest.raises(hb.DecodingError):
        query.page(5, after=token)
    page = query.on_unreadable("skip").page(5, after=token)
    assert ([item.at for item in page], page.skipped) == ([3, 5], 2)
    assert query.on_unreadable("skip").on_unreadable("raise").terms.on_unreadable is None


def test_the_function_can_end_the_query(points: hb.Store) -> None:
    def enough(error: Exception) -> None:
        raise RuntimeError("enough") from error

    query = hb.Session(points).query(Point).allow_full_scan().on_unreadable(enough)
    for call in (query.all, query.count, lambda: query.page(3)):
        with pytest.raises(RuntimeError, match="enough"):
            call()


def test_reads_by_key_raise(points: hb.Store) -> None:
    session = hb.Session(points)
    with pytest.raises(hb.DecodingError):
        session.get(Point, series="a", at=0)
    with pytest.raises(hb.DecodingError):
        session.get_many(Point, [("a", 0), ("a", 1)])


def test_delete_keeps_no_row_in_silence(points: hb.Store) -> None:
    points.put("points", [Put(b"stray", {b"d:n": b"\0\0\0\1", b"d:l": b"x"})])
    query = hb.Session(points).query(Point).allow_full_scan()
    with pytest.raises(hb.QueryError, match="does not silently leave out rows"):
        query.on_unreadable("skip").delete()
    with pytest.raises((hb.DecodingError, hb.PartialWrite)):
        query.delete()
    kept: list[Any] = []
    query.on_unreadable(kept.append).delete(batch_size=3)
    assert len(kept) == 6
    assert list(cells_of(points, "points")) == [error.key for error in kept]


def test_a_delete_needs_no_cells() -> None:
    with fresh(Point) as store:
        load(store, Point, Damage([("a", 1)], {("a", 2): "cell"}))
        assert hb.Session(store).query(Point).allow_full_scan().delete() == 2
        assert not cells_of(store, "points")


def test_partitions_do_not_take_it_along(points: hb.Store) -> None:
    session = hb.Session(points)
    query = session.query(Point).allow_full_scan()
    with pytest.raises(hb.QueryError, match="read_partition"):
        query.on_unreadable("skip").partitions(2)
    parts = query.partitions(2)
    assert sum(session.read_partition(part).on_unreadable("skip").count() for part in parts) == 9


@pytest.mark.parametrize("wrong", [None, "ignore", 3])
def test_other_arguments_are_refused(points: hb.Store, wrong: Any) -> None:
    with pytest.raises(hb.QueryError, match="on_unreadable"):
        hb.Session(points).query(Point).on_unreadable(wrong)


def test_entries_that_cannot_be_read() -> None:
    with fresh(Covered) as store:
        load(store, Covered, Damage([("a", at) for at in range(6)], {}))
        table = schema_of(Covered).indexes["by_label"].table
        entries = cells_of(store, table)
        first = min(entries)
        column = next(name for name in entries[first] if name.endswith(b":n"))
        store.put(table, [Put(first, {column: b"long text"}, ahead()), Put(b"stray", entries[first])])
        errors: list[Any] = []
        query = hb.Session(store).query(Covered).use_index("by_label").allow_full_scan()
        query = query.select(Covered.at, Covered.size)
        assert query.explain().covering == "verified"
        assert query.on_unreadable(errors.append).all() == [(2, 2), (4, 4), (1, 1), (3, 3), (5, 5)]
        assert [(error.table, error.key) for error in errors] == [(table, first), (table, b"stray")]
        page = query.on_unreadable("skip").page(2)
        assert (page.skipped, query.on_unreadable("skip").page(3, after=page.next_token).skipped) == (1, 1)


def test_map_columns_that_cannot_be_read() -> None:
    @hb.model(table="with_maps", family="d")
    class Owner:
        name: hb.Key[str] = hb.key()
        age: hb.Column[int] = hb.column("a", default=0)
        scores: hb.Map[str, int] = hb.map_column("s", hb.codecs.Text, hb.codecs.UInt16)

    with fresh(Owner) as store:
        session = hb.Session(store)
        session.add_all(Owner(name=name, scores={"x": 1}) for name in "abcdef")
        session.commit()
        for name in (b"b", b"c"):
            entry = next(column for column in cells_of(store, "with_maps")[name] if column.endswith(b"x"))
            store.put("with_maps", [Put(name, {entry: b"long text"}, ahead())])
        errors: list[Any] = []
        query = session.query(Owner).allow_full_scan().load(Owner.scores)
        assert [(one.name, dict(one.scores)) for one in query.on_unreadable(errors.append).limit(3)] == [
            (name, {"x": 1}) for name in "ade"
        ]
        assert [error.key for error in errors] == [b"b", b"c"]
        page = query.on_unreadable("skip").page(2)
        assert ([one.name for one in page], page.skipped) == (["a", "d"], 2)
        assert query.on_unreadable("skip").count() == 4
        firsts = query.on_unreadable("skip").first_of_each(Owner.name, ["a", "b", "f", "a"])
        assert [one and one.name for one in firsts] == ["a", None, "f", "a"]


@pytest.mark.parametrize("backwards", [False, True])
def test_both_tables_of_a_migration(backwards: bool) -> None:
    with EmbeddedStore(None) as store:
        hb.create_tables(store, Visit, Moved)
        filling = hb.Session(store)
        filling.add_all(visit(number) for number in range(8))
        filling.commit()
        set_phase(store, MOVING)
        filling = hb.Session(store)
        filling.add_all(visit(number) for number in range(6, 14))
        filling.commit()
        old, new = hb.row_key(Visit, user=2, number=2), hb.row_key(Moved, user=12 % 7, number=12)
        wrong = {b"d:p": b"\xff"}
        store.put(
            "visits_by_user",
            [Put(b"stray", {**cells_of(store, "visits_by_user")[old], **wrong}), Put(old, wrong, ahead())],
        )
        store.put("visits_by_number", [Put(new, wrong, ahead())])
        errors: list[Any] = []
        query = hb.Session(store).query(Moved).use_index("primary").allow_full_scan().on_unreadable(errors.append)
        query = query.reversed() if backwards else query
        expected = [number for number in reversed(range(14)) if number not in {2, 12}][:: -1 if backwards else 1]
        assert [one.number for one in query] == expected
        keys = sorted(error.key for error in errors)
        assert keys == sorted([b"stray", old, new])
        assert [one.number for one in query.offset(1).limit(3)] == expected[1:4]
        assert query.count() == 12
        for size in (1, 3, 5, 12, 20):
            errors.clear()
            pages = [query.page(size)]
            while pages[-1].next_token is not None:
                pages.append(query.page(size, after=pages[-1].next_token))
            assert [one.number for page in pages for one in page] == expected
            assert sorted(error.key for error in errors) == keys
            assert sum(page.skipped for page in pages) == 3
            back = [pages[-1]]
            while back[-1].previous_token is not None:
                back.append(query.page(size, before=back[-1].previous_token))
            assert [one.number for page in reversed(back) for one in page] == expected


TOPICS = hb.ids.dictionary("topics", hb.UInt32)


@hb.model(table="named", family="d")
class Named:
    number: hb.Key[int] = hb.key(hb.UInt32)
    topic: hb.Column[str] = hb.column("t", TOPICS)

    by_topic = hb.index("topic")


@hb.model(table="named_by_key", family="d")
class NamedByKey:
    topic: hb.Key[str] = hb.key(TOPICS)
    number: hb.Key[int] = hb.key(hb.UInt32)
    size: hb.Column[int] = hb.column("s", default=0)


@pytest.mark.parametrize("model", [Named, NamedByKey])
def test_an_id_without_a_name_is_unreadable(model: Any) -> None:
    with fresh(model) as store:
        session = hb.Session(store)
        session.add_all(model(topic=f"t{number % 2}", number=number) for number in range(4))
        session.commit()
        table, unknown = schema_of(model).table, (999).to_bytes(4, "big")
        if model is Named:
            row = hb.row_key(Named, number=1)
            (own,) = store.get(table, [row])
            assert own is not None
            store.put(table, [Put(row, {b"d:t": unknown}, timestamp=own.columns[b"d:t"].timestamp + 1)])
        else:
            row = unknown + (1).to_bytes(4, "big")
            store.put(table, [Put(row, {b"d:s": bytes(8)})])
        query = session.query(model).use_index("primary").allow_full_scan()
        with pytest.raises(hb.DecodingError, match="no name for a stored id"):
            query.all()
        errors: list[hb.DecodingError | hb.errors.IncompleteRow] = []
        kept = [(each.topic, each.number) for each in query.on_unreadable(errors.append)]
        assert [(error.key, error.field, error.id) for error in errors] == [(row, "topic", 999)]
        expected = [("t0", 0), ("t0", 2), ("t1", 3)] + ([("t1", 1)] if model is NamedByKey else [])
        assert sorted(kept) == sorted(expected)
        found = session.query(model).where(model.topic.in_(["t0", "t1"])).on_unreadable("skip")
        assert sorted((each.topic, each.number) for each in found) == sorted(expected)
        pages = [query.on_unreadable("skip").page(2)]
        while pages[-1].next_token is not None:
            pages.append(query.on_unreadable("skip").page(2, after=pages[-1].next_token))
        assert [(each.topic, each.number) for page in pages for each in page] == kept
        assert sum(page.skipped for page in pages) == 1
