"""Tables that other programs write: the bytes of their cells are read and written unchanged."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.protocol.server_timed.unindexed_batch import ATOMIC_ROWS
from hbmodel.store import Family, Put
from tests.support.beds import HBASE, Bed, fresh
from tests.support.examples import examples
from tests.support.random_queries import COLUMN_CODECS


@hb.model(table="uid", family="id", external=True)
class Uid:
    """As OpenTSDB keeps its names."""

    name: hb.Key[str] = hb.key()
    metrics: hb.Column[bytes | None] = hb.column("metrics", default=None)
    label: hb.Column[str | None] = hb.column("label", default=None)
    count: hb.Column[int | None] = hb.column("count", hb.Int64, default=None)
    kind: hb.Column[str] = hb.column("kind", default="")


CELLS = {b"id:metrics": b"\x00\x00\x01", b"id:label": b"", b"id:kind": b"k"}


def stored(bed: Bed, name: str) -> dict[bytes, bytes] | None:
    """The cells of a row."""
    (row,) = bed.store.get("uid", [name.encode()])
    return None if row is None else {column: cell.value for column, cell in row.columns.items()}


@pytest.fixture
def session(bed: Bed) -> hb.Session:
    """A session on a table with rows of another program."""
    session = bed.use(Uid)
    others = {"cpu": b"\x00\x00\x01", "zero": b"\x00", "empty": b"", "one": b"\x01", "twice": b"\x00\x00"}
    bed.store.put("uid", [Put(name.encode(), {**CELLS, b"id:metrics": value}) for name, value in others.items()])
    bed.store.put("uid", [Put(b"none", {b"id:kind": b"k"})])
    return session


def test_cells_are_read_as_they_are(session: hb.Session) -> None:
    read = {uid.name: (uid.metrics, uid.label) for uid in session.query(Uid).allow_full_scan()}
    assert read == {
        "cpu": (b"\x00\x00\x01", ""),
        "zero": (b"\x00", ""),
        "empty": (b"", ""),
        "one": (b"\x01", ""),
        "twice": (b"\x00\x00", ""),
        "none": (None, None),
    }
    assert session.get(Uid, name="zero") == Uid(name="zero", metrics=b"\x00", label="", kind="k")


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        (Uid.metrics == b"\x00\x00\x01", ["cpu"]),
        (Uid.metrics == b"\x00", ["zero"]),
        (Uid.metrics == b"", ["empty"]),
        (Uid.metrics.is_(None), ["none"]),
        (Uid.label == "", ["cpu", "empty", "one", "twice", "zero"]),
        (Uid.label.is_(None), ["none"]),
        (Uid.metrics.startswith(b"\x00"), ["cpu", "twice", "zero"]),
        (Uid.metrics.in_([b"", b"\x01", None]), ["empty", "none", "one"]),
        (Uid.metrics < b"\x01", ["cpu", "empty", "twice", "zero"]),
        (~(Uid.metrics == b""), ["cpu", "none", "one", "twice", "zero"]),
    ],
)
def test_conditions_compare_the_bytes(session: hb.Session, condition: Any, names: list[str]) -> None:
    assert sorted(uid.name for uid in session.query(Uid).where(condition).allow_full_scan()) == names


def test_values_are_written_as_other_programs_write_them(bed: Bed, session: hb.Session) -> None:
    session.add(Uid(name="new", metrics=b"\x00\x00\x02", label="", count=3))
    session.add(Uid(name="bare", kind="k"))
    session.commit()
    assert stored(bed, "new") == {
        b"id:metrics": b"\x00\x00\x02",
        b"id:label": b"",
        b"id:count": (3 + 2**63).to_bytes(8, "big"),
        b"id:kind": b"",
    }
    assert stored(bed, "bare") == {b"id:kind": b"k"}


def test_a_put_over_a_row_deletes_the_cells_of_none(bed: Bed, session: hb.Session) -> None:
    session.add(Uid(name="cpu", kind="k"))
    session.commit()
    assert stored(bed, "cpu") == {b"id:kind": b"k"}
    assert session.get(Uid, name="cpu") == Uid(name="cpu", kind="k")


def flat(items: Any) -> Iterator[Any]:
    """The changes of a call, from the lists in which they were passed."""
    for item in items:
        if isinstance(item, list | tuple):
            yield from flat(item)
        else:
            yield item


@pytest.mark.parametrize("rows", [1, ATOMIC_ROWS + 1])
def test_no_put_writes_an_empty_value_for_none(bed: Bed, session: hb.Session, rows: int) -> None:
    """Where the put and the delete are two calls, a crash between them must not leave a value that no program wrote."""
    session.add_all(Uid(name=f"row {number}", count=1) for number in range(rows))
    session.commit()
    bed.store.calls.clear()
    session.add_all(Uid(name=f"row {number}", kind="k") for number in range(rows))
    session.commit()
    put = [item for call in bed.store.calls for item in flat(call.items) if isinstance(item, Put)]
    assert len(put) == rows
    assert all(mutation.cells.keys() == {b"id:kind"} for mutation in put)
    assert stored(bed, "row 0") == {b"id:kind": b"k"}


def test_rows_that_never_change_need_no_deletes(bed: Bed) -> None:
    session = bed.use(Logged)
    session.add_all(Logged(number=number, note="n") for number in range(3))
    session.commit()
    assert {call.name for call in bed.store.calls if call.writes and call.table == "logged_elsewhere"} == {"put"}


def test_an_update_tells_none_from_an_empty_value(bed: Bed, session: hb.Session) -> None:
    if not bed.atomic:  # such a row has no cell that an update could check, and its last one might be deleted
        session.update(Uid(name="zero"), label=None)
        with pytest.raises(hb.CapabilityError, match="no column of an external table can be updated to None"):
            session.commit()
        assert stored(bed, "zero") == {**CELLS, b"id:metrics": b"\x00"}
        return
    for name, value in (("cpu", ""), ("zero", None), ("one", "\0")):
        found = session.get(Uid, name=name)
        assert found is not None
        assert session.update(found, label=value).label == value
    session.commit()
    assert stored(bed, "cpu") == CELLS
    assert stored(bed, "zero") == {b"id:metrics": b"\x00", b"id:kind": b"k"}
    assert stored(bed, "one") == {b"id:metrics": b"\x01", b"id:label": b"\0", b"id:kind": b"k"}


@hb.model(table="held_elsewhere", family="d", external=True)
class Held:
    """With a column that is never empty, which `rekey` and `insert` check."""

    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s", hb.UInt32)
    note: hb.Column[bytes | None] = hb.column("n", default=None)


def test_rekey_and_insert_keep_the_bytes(atomic_bed: Bed) -> None:
    session, size = atomic_bed.use(Held), {b"d:s": bytes(4)}
    notes = {"none": size, "empty": size | {b"d:n": b""}, "zero": size | {b"d:n": b"\0\0"}}
    atomic_bed.store.put("held_elsewhere", [Put(name.encode(), cells) for name, cells in notes.items()])
    for name in notes:
        found = session.get(Held, name=name)
        assert found is not None
        assert session.rekey(found, name=name + "2").note == found.note
        session.insert(hb.evolve(found, name=name + "3"))
    for name, cells in notes.items():
        for row in atomic_bed.store.get("held_elsewhere", [name.encode() + b"2", name.encode() + b"3"]):
            assert row is not None
            assert {column: cell.value for column, cell in row.columns.items()} == cells


@hb.model(table="logged_elsewhere", family="d", external=True, immutable=True)
class Logged:
    """With an index that covers a column that may be None."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    page: hb.Column[str | None] = hb.column("p", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_page = hb.index("page", covers=("note",))


def test_entries_tell_none_from_an_empty_value(bed: Bed) -> None:
    session = bed.use(Logged)
    rows = {1: {b"d:p": b"", b"d:n": b""}, 2: {b"d:n": b""}, 3: {b"d:p": b"\0"}, 4: {b"d:p": b"x", b"d:n": b"\0"}}
    bed.store.put("logged_elsewhere", [Put(number.to_bytes(4, "big"), cells) for number, cells in rows.items()])
    hb.indexes.repair_index(bed.store, Logged, "by_page")
    expected = [
        Logged(number=2, note=""),
        Logged(number=1, page="", note=""),
        Logged(number=3, page="\0"),
        Logged(number=4, page="x", note="\0"),
    ]
    own = [
        Logged(number=12, note=""),
        Logged(number=11, page="", note=""),
        Logged(number=13, page="\0"),
        Logged(number=14, page="x", note="\0"),
    ]
    session.add_all(own)
    session.commit()
    for number, cells in rows.items():
        (row,) = bed.store.get("logged_elsewhere", [(number + 10).to_bytes(4, "big")])
        assert row is not None
        assert {column: cell.value for column, cell in row.columns.items()} == cells
    found = session.query(Logged).use_index("by_page").allow_full_scan().all()
    assert sorted(found, key=lambda one: one.number) == sorted([*expected, *own], key=lambda one: one.number)
    assert session.query(Logged).where(Logged.page == "").count() == 2
    assert session.query(Logged).where(Logged.page.is_(None)).count() == 2
    assert hb.indexes.verify_index(bed.store, Logged, "by_page").sound


# --- any bytes --------------------------------------------------------------------------------------------------------


@pytest.mark.lengthy
@settings(max_examples=examples(60))
@given(
    st.sampled_from(COLUMN_CODECS),
    st.booleans(),
    st.lists(st.one_of(st.none(), st.binary(max_size=9), st.sampled_from([b"", b"\0", b"\0\0", b"\x01"])), max_size=6),
)
def test_what_is_read_is_written_with_the_same_bytes(
    codec: hb.Codec[Any], nullable: bool, data: list[bytes | None]
) -> None:
    """Or the error names the field."""
    hint: Any = Any if not nullable else Any | None
    body = {
        "k": hb.key(hb.UInt32),
        "x": hb.column("x", codec, **({"default": None} if nullable else {})),
        "__annotations__": {"k": hb.Key[int], "x": hb.Column[hint]},
        "__module__": __name__,
    }
    model: Any = hb.model(table="any", external=True)(type("AnyBytes", (), body))
    with fresh(model) as store:
        session = hb.Session(store)
        for number, value in enumerate(data):
            if value is None:
                continue
            key = number.to_bytes(4, "big")
            store.put("any", [Put(key, {b"d:x": value})])
            try:
                found = session.get(model, k=number)
            except (hb.DecodingError, hb.IncompleteRow) as error:
                named = error.field == "x"
                assert named
                continue
            assert found is not None
            assert found.x is not None
            if not codec.canonical:
                continue
            session.add(hb.evolve(found, k=number + 100))
            session.commit()
            (row,) = store.get("any", [(number + 100).to_bytes(4, "big")])
            assert row is not None
            assert row.columns[b"d:x"].value == value


# --- declarations -----------------------------------------------------------------------------------------------------


def declared(**options: Any) -> None:
    """Declares an external model with a column that may be None."""
    body = {
        "k": hb.key(hb.UInt32),
        "x": hb.column("x", **options),
        "__annotations__": {"k": hb.Key[int], "x": hb.Column[str | None]},
        "__module__": __name__,
    }
    hb.model(table="any", external=True)(type("Declared", (), body))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"default": None, "null": "marker"}, "an absent cell, since an empty cell is a value of its own"),
        ({}, "an absent cell: give default=None"),
        ({"default": "x"}, "an absent cell: give default=None"),
        ({"default": None, "versions": 3}, "would hide its older versions"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(hb.DeclarationError, match=message) as caught:
        declared(**options)
    assert caught.value.field == "x"


@hb.model(table="external_wide", family="d", external=True)
class Part:
    """An object in a wide row; each of its cells may be absent."""

    owner: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    text: hb.Column[str | None] = hb.column("t", default=None)
    note: hb.Column[bytes | None] = hb.column("n", default=None)


def test_objects_of_a_wide_row_tell_none_from_an_empty_value(bed: Bed) -> None:
    session = bed.use(Part)
    if not bed.atomic:  # a put with deletes of cells is then not one mutation
        session = hb.Session(bed.store, atomic_rows=False)
    values: list[tuple[str | None, bytes | None]] = [("", None), (None, b""), ("\0", b"\0\0"), ("x", b"")]
    parts = [Part(owner="o", number=number, text=text, note=note) for number, (text, note) in enumerate(values)]
    session.add_all(parts)
    session.commit()
    (row,) = bed.store.get("external_wide", [b"o"])
    assert row is not None
    assert {column: cell.value for column, cell in row.columns.items()} == {
        b"d:" + part.number.to_bytes(4, "big") + alias: value
        for part in parts
        for alias, value in ((b"t", None if part.text is None else part.text.encode()), (b"n", part.note))
        if value is not None
    }
    assert session.query(Part).where(Part.owner == "o").all() == parts
    assert session.query(Part).where(Part.owner == "o", Part.text == "").all() == parts[:1]
    assert session.query(Part).where(Part.owner == "o", Part.text.is_(None)).all() == parts[1:2]
    session.add(Part(owner="o", number=2, text=""))
    session.commit()
    assert session.get(Part, owner="o", number=2) == Part(owner="o", number=2, text="")
    session.delete(parts[0])
    session.commit()
    assert [part.number for part in session.query(Part).where(Part.owner == "o")] == [1, 2, 3]


# --- salts ------------------------------------------------------------------------------------------------------------


def salted(salt: hb.salts.Salt, *cases: object) -> Any:
    """A salted external model over the table of another program, one for each case."""
    table = f"salted_{zlib.crc32(repr(cases or salt).encode())}"

    @hb.model(table=table, family="d", external=True, salt=salt)
    class Host:
        name: hb.Key[str] = hb.key()
        part: hb.Key[int] = hb.key(hb.UInt32)
        value: hb.Column[str] = hb.column("v")

    return Host


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        (hb.HashSalt(4), hb.HashSalt(4, by="name")),
        (hb.HashSalt(4, by="name"), hb.HashSalt(4)),
        (hb.HashSalt(16), hb.HashSalt(4)),
        (hb.salts.DigestSalt(1), hb.HashSalt(256)),
        (hb.salts.JavaHashSalt(4), hb.HashSalt(4)),
    ],
)
def test_a_row_in_the_wrong_bucket_is_refused(bed: Bed, declared: hb.salts.Salt, found: hb.salts.Salt) -> None:
    theirs, ours = salted(found, declared, found), salted(declared, declared, found)
    bed.use(ours)
    table = hb.schema.schema_of(ours).table
    keys = [hb.row_key(theirs, name=f"h{number}", part=number) for number in range(20)]
    bed.store.put(table, [Put(key, {b"d:v": b"x"}) for key in keys])
    query = hb.Session(bed.store).query(ours).allow_full_scan()
    for read in (query.all, query.count, query.select(ours.part).all, lambda: query.page(20)):
        with pytest.raises(hb.DecodingError, match="not in the salt bucket that the model computes") as caught:
            read()
        assert caught.value.table == table
        assert caught.value.key in keys
        assert caught.value.expected != caught.value.found


@pytest.mark.parametrize(
    "salt",
    [
        hb.HashSalt(4),
        hb.HashSalt(4, by="name"),
        hb.HashSalt(4, by="part"),
        hb.salts.DigestSalt(2, by="name"),
        hb.salts.JavaHashSalt(4),
    ],
)
def test_rows_in_their_buckets_are_read(bed: Bed, salt: hb.salts.Salt) -> None:
    model = salted(salt)
    session = bed.use(model)
    objects = [model(name=f"h{number}", part=number, value="x") for number in range(20)]
    session.add_all(objects)
    session.commit()
    assert session.query(model).allow_full_scan().count() == 20
    assert [session.get(model, name=one.name, part=one.part) for one in objects] == objects


@hb.model(table="salted_wide", family="d", external=True, salt=hb.HashSalt(4))
class SaltedPart:
    """An object of a salted wide row."""

    owner: hb.Key[bytes] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    value: hb.Column[str] = hb.column("v")


def test_objects_of_salted_wide_rows_are_read(bed: Bed) -> None:
    session = bed.use(SaltedPart)
    parts = [
        SaltedPart(owner=owner, number=number, value="x") for owner in (b"a", b"\0", b"a\0\xffb") for number in (1, 2)
    ]
    session.add_all(parts)
    session.commit()
    assert session.query(SaltedPart).allow_full_scan().count() == 6
    for part in parts:
        assert session.query(SaltedPart).where(SaltedPart.owner == part.owner).first() is not None
        assert session.get(SaltedPart, owner=part.owner, number=part.number) == part
    right = hb.row_key(SaltedPart, owner=b"a", number=1)
    bed.store.put("salted_wide", [Put(bytes([right[0] ^ 1]) + b"a", {b"d:\0\0\0\x07v": b"x"})])
    with pytest.raises(hb.DecodingError, match="not in the salt bucket"):
        session.query(SaltedPart).allow_full_scan().all()


# --- rows without the declared cells ----------------------------------------------------------------------------------


@hb.model(table="stats", family="0", families=(hb.family("x"),), external=True)
class Stat:
    """Some of the columns of a table; the rows may have none of them."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    cpu: hb.Column[str | None] = hb.column("CPU", default=None)
    disk: hb.Column[str | None] = hb.column("DISK", default=None, family="x")


@hb.model(table="stats_marked", family="0", external=True, exists=hb.flag("_0", b"x"))
class Marked:
    """With the cell that each row has."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    cpu: hb.Column[str | None] = hb.column("CPU", default=None)
    ident: hb.Column[str | None] = hb.column("_id", default=None)
    coded: hb.Column[str | None] = hb.column(b"\x80\x0b", default=None)


@hb.model(table="stats_seen", family="0", external=True)
class Seen:
    """With a required column."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    cpu: hb.Column[str] = hb.column("CPU")
    disk: hb.Column[str | None] = hb.column("DISK", default=None)


@hb.model(table="stats_own", family="0", external=True, exists="cpu")
class Own:
    """Only some of the rows are objects."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    cpu: hb.Column[str] = hb.column("CPU")
    disk: hb.Column[str | None] = hb.column("DISK", default=None)


def key(number: int) -> bytes:
    return number.to_bytes(4, "big")


OTHERS: list[dict[bytes, bytes]] = [
    {b"0:_0": b"x"},
    {b"0:_0": b"x", b"0:CPU": b"c"},
    {b"0:_0": b"", b"0:ZZ": b"z"},
    {b"0:_0": b"\x00", b"0:AA": b"a"},
    {b"0:_0": b"x", b"0:CPU": b"", b"0:ZZ": b"z"},
]


def filled(bed: Bed, model: type[Any], rows: list[dict[bytes, bytes]] = OTHERS) -> hb.Session:
    """A session on a table with these rows of another program."""
    session = bed.use(model)
    bed.store.put(hb.schema.schema_of(model).table, [Put(key(number), cells) for number, cells in enumerate(rows)])
    return session


def ways(session: hb.Session, model: Any, numbers: list[int], every: int) -> dict[str, list[int]]:
    """The numbers of the objects that each kind of read finds."""
    query = session.query(model).allow_full_scan()
    page, paged = query.page(2), []
    while True:
        paged += page.items
        if page.next_token is None:
            break
        page = query.page(2, after=page.next_token)
    gets = [session.get(model, number=number) for number in range(every)]
    many = session.get_many(model, [{"number": number} for number in range(every)])
    return {
        "all": [one.number for one in query],
        "reversed": [one.number for one in query.reversed()][::-1],
        "pages": [one.number for one in paged],
        "limit": [one.number for one in query.limit(every + 1)],
        "select": [number for (number,) in query.select(model.number)],
        "select of a column": [number for number, _ in query.select(model.number, model.cpu)],
        "get": [one.number for one in gets if one is not None],
        "get_many": [one.number for one in many if one is not None],
        "first": [] if (first := query.first()) is None else [first.number, *numbers[1:]],
        "count": numbers if query.count() == len(numbers) else [-1, query.count()],
    }


@pytest.mark.parametrize("model", [Stat, Marked])
@pytest.mark.every_store
def test_rows_without_the_declared_cells_are_rows(bed: Bed, model: Any) -> None:
    session, numbers = filled(bed, model), list(range(len(OTHERS)))
    found = ways(session, model, numbers, len(OTHERS))
    assert found == dict.fromkeys(found, numbers)
    query = session.query(model).allow_full_scan()
    assert [one.cpu for one in query] == [None, "c", None, None, ""]
    assert [one.number for one in query.where(model.cpu.is_(None))] == [0, 2, 3]
    assert query.where(model.cpu.is_(None)).count() == 3
    assert [one.number for one in query.where(model.cpu == "c")] == [1]
    assert session.get(model, number=len(OTHERS)) is None


@pytest.mark.every_store
def test_a_row_without_a_required_column_is_an_error(bed: Bed) -> None:
    session = filled(bed, Seen)
    query = session.query(Seen).allow_full_scan()
    for read in (
        query.all,
        query.select(Seen.cpu).all,
        lambda: query.page(3),
        lambda: session.get(Seen, number=0),
        lambda: session.get_many(Seen, [{"number": 0}]),
    ):
        with pytest.raises(hb.IncompleteRow) as caught:
            read()
        assert (caught.value.table, caught.value.key, caught.value.field) == ("stats_seen", key(0), "cpu")
    assert query.count() == len(OTHERS)
    assert session.get(Seen, number=1) == Seen(number=1, cpu="c")
    assert [one.number for one in query.where(Seen.cpu == "c")] == [1]


@pytest.mark.every_store
def test_a_required_column_can_say_which_rows_are_objects(bed: Bed) -> None:
    session = filled(bed, Own, [*OTHERS, {b"0:DISK": b"d"}, {b"0:CPU": b"last"}])
    numbers = [1, 4, 6]
    found = ways(session, Own, numbers, len(OTHERS) + 2)
    assert found == dict.fromkeys(found, numbers)
    last = session.get(Own, number=6)
    assert last is not None
    session.delete(last)
    session.delete(Own(number=4, cpu=""))
    session.commit()
    assert session.query(Own).allow_full_scan().all() == [Own(number=1, cpu="c")]
    assert bed.store.get("stats_own", [key(4)])[0] is not None


@pytest.mark.every_store
def test_a_row_of_other_cells_can_be_updated_and_put(bed: Bed) -> None:
    session = filled(bed, Stat)
    assert session.update(Stat(number=2), cpu="new") == Stat(number=2, cpu="new")
    session.commit()
    session.add(Stat(number=0, disk="d"))
    session.commit()
    assert [(one.cpu, one.disk) for one in session.query(Stat).allow_full_scan()][:3] == [
        (None, "d"),
        ("c", None),
        ("new", None),
    ]
    (row,) = bed.store.get("stats", [key(2)])
    assert row is not None
    assert {column: cell.value for column, cell in row.columns.items()} == {**OTHERS[2], b"0:CPU": b"new"}


@pytest.mark.every_store
def test_a_delete_that_would_leave_a_row_is_refused(bed: Bed) -> None:
    session = filled(bed, Stat, [{b"0:CPU": b"c"}, {b"0:CPU": b"c", b"0:ZZ": b"z"}, {b"0:ZZ": b"z"}, {b"x:DISK": b"d"}])
    for number in range(4):
        session.delete(Stat(number=number))
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    refused = {outcome.key: outcome.error for outcome in caught.value.failures}
    assert refused.keys() == {key(1), key(2)}
    error = refused[key(1)]
    assert isinstance(error, hb.CapabilityError)
    assert "show that the row exists" in error.message
    assert error.details["columns"] == [b"0:ZZ"]
    assert session.query(Stat).allow_full_scan().all() == [Stat(number=1, cpu="c"), Stat(number=2)]


@pytest.mark.every_store
def test_a_flag_has_the_value_of_the_other_program(bed: Bed) -> None:
    session = filled(bed, Marked)
    session.add(Marked(number=9, ident="i", coded="k"))
    session.commit()
    (row,) = bed.store.get("stats_marked", [key(9)])
    assert row is not None
    assert {column: cell.value for column, cell in row.columns.items()} == {
        b"0:_0": b"x",
        b"0:_id": b"i",
        b"0:\x80\x0b": b"k",
    }
    assert session.get(Marked, number=9) == Marked(number=9, ident="i", coded="k")
    for number in (*range(5), 9):
        with pytest.raises(hb.RowExists):
            session.insert(Marked(number=number))
    session.insert(Marked(number=10, cpu="c"))
    assert session.update(Marked(number=3), cpu="three").cpu == "three"
    session.commit()
    session.delete(Marked(number=0))
    session.commit()
    assert [one.number for one in session.query(Marked).allow_full_scan()] == [1, 2, 3, 4, 9, 10]
    session.update(Marked(number=2), cpu="two")
    with pytest.raises(
        hb.CapabilityError, match="must check that the row still exists"
    ):  # HBase's check cannot tell it from an absent cell
        session.commit()
    (row,) = bed.store.get("stats_marked", [key(10)])
    assert row is not None
    assert row.columns[b"0:_0"].value == b"x"


def test_explain_says_what_is_read(bed: Bed) -> None:
    query = bed.use(Stat, Marked, Own).query
    assert query(Stat).allow_full_scan().explain().whole == ["0", "x"]
    assert "  cells:   all in 0, x, because" in str(query(Stat).where(Stat.number == 1).explain())
    assert "cells:" not in str(query(Marked).allow_full_scan().explain())
    assert "cells:" not in str(query(Own).allow_full_scan().explain())


@hb.model(table="stats_indexed", family="0", external=True, immutable=True)
class Indexed:
    """With an index over a column that a row may lack."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    cpu: hb.Column[str | None] = hb.column("CPU", default=None)

    by_cpu = hb.index("cpu")


@pytest.mark.every_store
def test_an_index_contains_rows_without_the_declared_cells(bed: Bed) -> None:
    session = filled(bed, Indexed)
    hb.indexes.repair_index(bed.store, Indexed, "by_cpu")
    query = session.query(Indexed).use_index("by_cpu")
    assert [one.number for one in query.where(Indexed.cpu.is_(None))] == [0, 2, 3]
    assert query.allow_full_scan().count() == len(OTHERS)
    assert hb.indexes.verify_index(bed.store, Indexed, "by_cpu").sound


# --- names of columns -------------------------------------------------------------------------------------------------


@hb.model(table="oddly_named", family="d", external=True)
class Odd:
    """Columns whose qualifiers are empty, or begin as a family and a colon."""

    name: hb.Key[str] = hb.key()
    bare: hb.Column[int | None] = hb.column("", hb.UInt32, default=None)
    covered: hb.Column[str | None] = hb.column(b"d:L", default=None)
    other: hb.Column[str] = hb.column("o", default="")


def cells_in(bed: Bed, row: bytes) -> dict[bytes, bytes]:
    (found,) = bed.store.get("oddly_named", [row])
    return {} if found is None else {column: cell.value for column, cell in found.columns.items()}


@pytest.mark.parametrize("bed", ["memory", "limited", "embedded", *HBASE], indirect=True)  # others have wide rows
def test_qualifiers_may_be_empty_or_look_like_a_family(bed: Bed) -> None:
    session = bed.use(Odd)
    bed.store.put("oddly_named", [Put(b"a", {b"d:": b"\0\0\0\1"}), Put(b"b", {b"d:d:L": b"x", b"d:o": b"o"})])
    session.add_all([Odd(name="c", bare=2, covered="y"), Odd(name="d", bare=3, other="p")])
    session.commit()
    assert cells_in(bed, b"c") == {b"d:": b"\0\0\0\2", b"d:d:L": b"y", b"d:o": b""}
    query = session.query(Odd).allow_full_scan()
    everything = [
        Odd(name="a", bare=1),
        Odd(name="b", covered="x", other="o"),
        Odd(name="c", bare=2, covered="y"),
        Odd(name="d", bare=3, other="p"),
    ]
    assert query.all() == everything
    assert session.get_many(Odd, [{"name": name} for name in "abcd"]) == everything
    assert [each.name for each in query.where(Odd.bare >= 2)] == ["c", "d"]
    assert [each.name for each in query.where(Odd.bare.is_(None))] == ["b"]
    assert [each.name for each in query.where(Odd.covered == "y")] == ["c"]
    assert query.select(Odd.bare).all() == [(1,), (None,), (2,), (3,)]
    assert query.select(Odd.covered).reversed().all() == [(None,), ("y",), ("x",), (None,)]
    none = {"bare": None} if bed.atomic else {}  # Thrift1 takes no update to None in such a table
    session.update_key(Odd, name="c", covered="z", **none)
    session.update_key(Odd, name="b", bare=7)
    session.update_key(Odd, name="a", bare=4)
    session.commit()
    left = {} if bed.atomic else {b"d:": b"\0\0\0\2"}
    assert cells_in(bed, b"c") == {b"d:d:L": b"z", b"d:o": b"", **left}
    assert cells_in(bed, b"b") == {b"d:": b"\0\0\0\7", b"d:d:L": b"x", b"d:o": b"o"}
    assert cells_in(bed, b"a")[b"d:"] == b"\0\0\0\4"
    for name in "abd":
        session.delete_key(Odd, name=name)
    session.commit()
    assert [each.name for each in query] == ["c"]
    session.add(Odd(name="a", bare=5))
    session.commit()
    assert session.get(Odd, name="a") == Odd(name="a", bare=5)


# --- no row is unaccounted for ----------------------------------------------------------------------------------------


NAMES = [b"CPU", b"DISK", b"_0", b"_id", b"A", b"\x80\x0b", b"zz", b"0:L", b""]

ALIASES = {"cpu": "CPU", "disk": "DISK", "ident": "_id", "coded": b"\x80\x0b", "index": b"0:L", "bare": ""}

FOREIGN_ROWS = st.lists(
    st.dictionaries(
        st.tuples(st.sampled_from([b"0", b"x", b"y"]), st.sampled_from(NAMES)),
        st.sampled_from([b"", b"\x00", b"x", b"value", bytes(4)]),
        min_size=1,
        max_size=4,
    ),
    max_size=8,
)


@st.composite
def foreign_models(draw: st.DrawFn) -> Any:
    """A model of some of the columns of a table."""
    body: dict[str, Any] = {"number": hb.key(hb.UInt32), "__module__": __name__}
    hints: dict[str, Any] = {"number": hb.Key[int]}
    for name, alias in (
        ("cpu", "CPU"),
        ("disk", "DISK"),
        ("ident", "_id"),
        ("coded", b"\x80\x0b"),
        ("index", b"0:L"),
        ("bare", ""),
    ):
        kind = draw(st.sampled_from(["", "", "nullable", "required", "default"]))
        if not kind and not (name == "bare" and len(hints) == 1):
            continue
        family = draw(st.sampled_from(["0", "x"]))
        options = {"nullable": {"default": None}, "default": {"default": 7}}.get(kind, {})
        body[name] = hb.column(alias, hb.UInt32, family=family, **options)
        hints[name] = hb.Column[int | None] if kind == "nullable" else hb.Column[int]
    body["__annotations__"] = hints
    salt = draw(st.sampled_from([None, None, hb.HashSalt(3)]))
    flag = draw(st.sampled_from([None, None, hb.flag("_0", b"x")]))
    return hb.model(table="foreign", family="0", external=True, salt=salt, exists=flag)(type("Foreign", (), body))


@pytest.mark.lengthy
@settings(max_examples=examples(150))
@given(foreign_models(), FOREIGN_ROWS, st.booleans())
def test_each_row_is_an_object_or_refused(model: Any, rows: list[Any], backwards: bool) -> None:
    """Objects and refused rows are the rows that have a cell in the families, or the flag, and nothing is between."""
    schema = hb.schema.schema_of(model)
    with hb.connect("memory:") as store:
        store.create_table("foreign", [Family(b"0"), Family(b"x"), Family(b"y")])
        hb.create_tables(store, model)
        session = hb.Session(store)
        expected = []
        for number, cells in enumerate(rows):
            row = {family + b":" + name: value for (family, name), value in cells.items()}
            store.put("foreign", [Put(hb.row_key(model, number=number), row)])
            shown = (
                any(column.partition(b":")[0] in schema.family_names for column in row)
                if schema.exists is None
                else schema.exists_column in row
            )
            expected += [number] if shown else []
        accounted, refused = [], False
        for number in range(len(rows)):
            try:
                accounted += [] if session.get(model, number=number) is None else [number]
            except (hb.DecodingError, hb.IncompleteRow) as error:
                refused = True
                assert error.key == hb.row_key(model, number=number)  # noqa: PT017
                accounted.append(number)
        assert accounted == expected
        query = session.query(model).allow_full_scan()
        assert query.count() == len(expected)
        keys = query.select(model.number)
        assert [number for (number,) in (keys.reversed() if backwards else keys)] == (
            expected[::-1] if backwards else expected
        )
        if refused:
            with pytest.raises((hb.DecodingError, hb.IncompleteRow)):
                query.all()
        else:
            assert [one.number for one in query] == expected


@hb.model(table="with_text", family="d", external=True, exists="title")
class WithText:
    """Its text may be empty, as far as the model says."""

    key: hb.Key[str] = hb.key()
    title: hb.Column[str] = hb.column("t")


def test_the_error_of_text_that_may_be_empty_says_how_to_declare_it() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, WithText, create_external=True)
        session = hb.Session(store)
        for call in (
            lambda: session.insert(WithText(key="a", title="x")),
            lambda: session.put(WithText, key="a", title="x"),
        ):
            with pytest.raises(hb.CapabilityError, match=r"text as hb\.codecs\.NonEmpty\(hb\.Text\)"):
                call()
