"""Wide models: their golden bytes, the description that the registry keeps, and every mistake in their declarations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.encoding.object_keys import ObjectKeyForm
from hbmodel.errors import CapabilityError, DeclarationError, KeyTooLong
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder, entries_of, take, take_slow
from hbmodel.store import Row
from hbmodel.store.embedded.cells import StoredCell, StoredRow
from hbmodel.store.ranges import KeyRange
from hbmodel.tables.registry.layout_differences import canonical_json, compare_layouts, difference_line

NOON = datetime(2026, 11, 22, 12, 0, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


@hb.model(table="pets", family="p", kind=b"p")
class Pet:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(hb.Text, in_qualifier=True)
    species: hb.Column[str] = hb.column("s")
    age: hb.Column[int | None] = hb.column("a", hb.codecs.UInt8, default=None)

    by_species = hb.index("species")


@hb.model(table="pets", family="p", kind=b"o")
class Owner:
    owner: hb.Key[str] = hb.key()
    city: hb.Column[str] = hb.column("c")


@hb.model(table="followers", salt=hb.HashSalt(16))
class Follower:
    star: hb.Key[int] = hb.key(hb.UInt32)
    since: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True, in_qualifier=True)
    fan: hb.Key[str] = hb.key(in_qualifier=True)
    seen: hb.Column[bool] = hb.column("")


@hb.model(table="pets", row=b"pets")
class Classic:
    name: hb.Key[str] = hb.key(hb.codecs.Delimited("|"), in_qualifier=True)
    colour: hb.Column[str] = hb.column("colour")
    size: hb.Column[int | None] = hb.column("size", hb.codecs.JavaInt, default=None)


@hb.model(table="readings", salt=hb.HashSalt(4, by=("sensor",)))
class Reading:
    sensor: hb.Key[int] = hb.key(hb.codecs.UInt16)
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=HOUR)
    value: hb.Column[int] = hb.column("v", hb.codecs.UInt8)


@hb.model(table="newest")
class Newest:
    sensor: hb.Key[int] = hb.key(hb.codecs.UInt16)
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True, row_span=HOUR)
    probe: hb.Key[int | None] = hb.key(hb.codecs.UInt8, in_qualifier=True)
    value: hb.Column[int] = hb.column("v", hb.codecs.UInt8)


@hb.model(table="offsets")
class Offset:
    day: hb.Key[str] = hb.key()
    topic: hb.Key[str] = hb.key(in_qualifier=True)
    value: hb.Column[int] = hb.column("", hb.codecs.UInt8)


def stored(obj: Any) -> list[tuple[bytes, bytes, bytes]]:
    """The cells that an object becomes: row key, column and value; the generated code and the plain one agree."""
    schema = hb.schema.schema_of(type(obj))
    assert schema.wide is not None
    taken = take(schema, obj)
    assert taken == take_slow(schema, obj)
    _, place, cells = taken
    row, prefix = schema.wide.form.cut(place)
    assert schema.wide.form.join(row, prefix) == place
    found = []
    for column, value in cells.items():
        family, _, alias = column.partition(b":")
        qualifier = prefix + alias
        assert schema.wide.prefix_end(qualifier) == len(prefix)
        assert family == schema.wide.family
        found.append((row, family + b":" + qualifier, value))
    return found


GOLDEN = [
    (
        Pet(owner="ann", name="flu", species="cat"),
        [(b"ann", b"p:pflu\x00\x01s", b"cat"), (b"ann", b"p:pflu\x00\x01a", b"")],
    ),
    (
        Pet(owner="a\x00n", name="f\x00", species="cat", age=3),
        [
            (b"a\x00n", b"p:pf\x00\xff\x00\x01s", b"cat"),
            (b"a\x00n", b"p:pf\x00\xff\x00\x01a", b"\x03"),
        ],
    ),
    (Owner(owner="ann", city="Graz"), [(b"ann", b"p:oc", b"Graz")]),
    (
        Follower(star=7, since=NOON, fan="bob", seen=True),
        [
            (b"\x0f\x00\x00\x00\x07", b"d:" + bytes.fromhex("7fffffff94fd26ba") + b"bob", b"\x01"),
        ],
    ),
    (
        Classic(name="rex", colour="brown", size=5),
        [
            (b"pets", b"d:rex|colour", b"brown"),
            (b"pets", b"d:rex|size", b"\x00\x00\x00\x05"),
        ],
    ),
    (Reading(sensor=7, at=NOON, value=9), [(bytes.fromhex("000007800000006b02d940"), b"d:\x00\x05v", b"\x09")]),
    (
        Newest(sensor=7, at=NOON, probe=1, value=9),
        [(bytes.fromhex("00077fffffff94fd26bf"), b"d:\xff\xfa\x01\x01v", b"\x09")],
    ),
    (
        Newest(sensor=7, at=NOON, probe=None, value=9),
        [(bytes.fromhex("00077fffffff94fd26bf"), b"d:\xff\xfa\x00v", b"\x09")],
    ),
    (Offset(day="monday", topic="a\x00\x01", value=9), [(b"monday", b"d:a\x00\x01", b"\x09")]),
]


@pytest.mark.parametrize(("obj", "cells"), GOLDEN, ids=lambda given: type(given).__name__)
def test_golden_bytes(obj: Any, cells: list[tuple[bytes, bytes, bytes]]) -> None:
    assert stored(obj) == cells


@pytest.mark.parametrize("obj", [obj for obj, _ in GOLDEN], ids=lambda given: type(given).__name__)
def test_objects_read_back(obj: Any) -> None:
    schema = hb.schema.schema_of(type(obj))
    _, place, cells = take(schema, obj)
    row: Row = StoredRow(place, {column: StoredCell(value, 1) for column, value in sorted(cells.items())})
    reader = RowDecoder.of(schema, indexed=False)
    assert reader.make(reader.values(row)) == obj
    assert reader.make(reader.values_slow(row)) == obj
    key = {name: getattr(obj, name) for name in schema.layout.names}
    assert KeyMapper.rows_code(schema)(key) == KeyMapper(schema).plain_rows(key) == [place]


def test_entries_hold_the_key_fields_and_lead_to_the_place() -> None:
    schema = hb.schema.schema_of(Pet)
    values, place, _ = take(schema, Pet(owner="ann", name="flu", species="cat"))
    entries = entries_of(schema, values, place)
    assert entries == {"by_species": (b"cat\x00\x01ann\x00\x01flu",)}
    index = schema.indexes["by_species"]
    assert KeyMapper(schema).rows_of_entry_code(index)(entries["by_species"][0]) == [place]
    assert KeyMapper(schema).row_of_entry(index, entries["by_species"][0]) == [place]


def test_the_row_key_of_an_object_is_that_of_its_row() -> None:
    assert hb.row_key(Pet, owner="ann", name="flu") == b"ann"
    assert hb.row_key(Classic, name="rex") == b"pets"
    assert hb.row_key(Follower, star=7, since=NOON, fan="bob") == b"\x0f\x00\x00\x00\x07"
    with pytest.raises(CapabilityError, match="A row of a wide model may contain several objects"):
        hb.decode(Pet, StoredRow(b"ann", {}))


def test_what_a_store_must_know() -> None:
    wide = hb.schema.schema_of(Pet).wide
    assert wide is not None
    assert (wide.form, wide.family, wide.kind) == (ObjectKeyForm(kind=b"p"), b"p", b"p")
    assert hb.schema.schema_of(Pet).kind == b"p"
    assert hb.schema.schema_of(Classic).row == b"pets"
    reading = hb.schema.schema_of(Reading).wide
    assert reading is not None
    assert reading.form == ObjectKeyForm(salt=1)
    owner = hb.schema.schema_of(Owner).wide
    assert owner is not None
    assert [owner.prefix_end(q) for q in (b"oc", b"o", b"pflu\x00\x01s", b"")] == [1, 1, None, None]
    assert wide.prefix_end(b"pflu") is None
    behind = KeyRange(wide.form.join(b"ann", b"pflu\x00\x01") + b"\x00", None)
    assert [(piece.rows.start, piece.first, piece.stop) for piece in wide.slices(behind)] == [
        (b"ann", b"pflu\x00\x02", b"q"),
        (b"ann\x00", b"p", b"q"),
    ]


# --- what HBase would not store ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pet(owner="", name="flu", species="cat"), "A row key must not be empty"),
        (lambda: Offset(day="monday", topic="", value=9), "A key whose qualifier would be empty cannot be stored"),
        (lambda: Pet(owner="a" * 32_768, name="flu", species="cat"), "A row key must not be longer than 32,767 bytes"),
        (
            lambda: Pet(owner="ann", name="a" * 32_765, species="cat"),
            "key fields in a qualifier must not be longer than 32,767 bytes",
        ),
    ],
)
def test_rows_and_qualifiers_that_cannot_be(make: Callable[[], Any], message: str) -> None:
    obj = make()
    schema = hb.schema.schema_of(type(obj))
    with pytest.raises(KeyTooLong, match=message):
        take(schema, obj)
    with pytest.raises(KeyTooLong, match=message):
        KeyMapper.rows_code(schema)({name: getattr(obj, name) for name in schema.layout.names})


def test_row_and_prefix_have_a_limit_each() -> None:
    stored(Pet(owner="a" * 32_767, name="b" * 32_764, species="cat"))
    stored(Pet(owner="\x00" * 32_767, name="b", species="cat"))


# --- the registry's description ---------------------------------------------------------------------------------------


def test_layouts_say_where_key_fields_stand() -> None:
    assert canonical_json(hb.schema.schema_of(Pet).layout_spec) == (
        b'{"columns":{"p:a":{"codec":{"bits":8,"codec":"int","signed":false},"kind":"column","name":"age","null":"marker","nullable":true},'
        b'"p:s":{"codec":{"codec":"text"},"kind":"column","name":"species","null":"marker","nullable":false}},'
        b'"exists":null,"format":1,'
        b'"key":[{"codec":{"codec":"text"},"desc":false,"name":"owner","nullable":false},'
        b'{"codec":{"codec":"text"},"desc":false,"name":"name","nullable":false,"part":"column"}],'
        b'"kind":"p","salt":{"by":[],"salt":"none"}}'
    )
    assert hb.schema.schema_of(Classic).layout_spec["row"] == "pets"
    assert "kind" not in hb.schema.schema_of(Classic).layout_spec
    reading = hb.schema.schema_of(Reading).layout_spec
    assert reading["key"][1]["split"] == 3_600_000_000
    assert reading["salt"] == {"salt": "hash", "buckets": 4, "by": ["sensor"]}
    assert hb.schema.schema_of(Follower).layout_spec["salt"]["by"] == ["star"]


def test_layouts_of_tall_models_are_as_they_were() -> None:
    @hb.model(table="tall", salt=hb.HashSalt(2))
    class Tall:
        a: hb.Key[int] = hb.key(desc=True)
        b: hb.Column[str | None] = hb.column("b", default=None)

    assert hb.schema.schema_of(Tall).wide is None
    assert canonical_json(hb.schema.schema_of(Tall).layout_spec) == (
        b'{"columns":{"d:b":{"codec":{"codec":"text"},"kind":"column","name":"b","null":"marker","nullable":true}},"exists":null,"format":1,'
        b'"key":[{"codec":{"bits":64,"codec":"int","signed":true},"desc":true,"name":"a","nullable":false}],'
        b'"salt":{"buckets":2,"by":["a"],"salt":"hash"}}'
    )
    spec = hb.schema.schema_of(Tall).layout.spec
    assert list(spec) == ["format", "fields", "tail"]


def test_differences_name_the_place() -> None:
    @hb.model(table="pets", family="p")
    class TallPet:
        owner: hb.Key[str] = hb.key()
        name: hb.Key[str] = hb.key()
        species: hb.Column[str] = hb.column("s")

    found = compare_layouts(hb.schema.schema_of(Pet).layout_spec, hb.schema.schema_of(TallPet).layout_spec)
    assert [difference_line(*each) for each in found] == [
        "key: declared (name text in the qualifier), live (name text)",
        "kind: declared p, live nothing",
    ]


def test_the_cost_of_keys_counts_the_qualifier() -> None:
    told = hb.describe(Reading)
    assert (told.key_bytes, told.cells, told.cell_overhead) == (1 + 2 + 8 + 2, 1, 13 + 2 + 20)
    assert hb.describe(Classic).fixed_key_bytes == len(b"pets|")
    assert hb.describe(Pet).fixed_key_bytes == len(b"p\x00\x01")


# --- mistakes ---------------------------------------------------------------------------------------------------------

Declaration = Callable[[], object]
MISTAKES: list[Any] = []


def mistake(message: str, **details: Any) -> Callable[[Declaration], Declaration]:
    """Says what the error of a declaration must hold."""

    def keep(declare: Declaration) -> Declaration:
        MISTAKES.append(pytest.param(declare, message, details, id=declare.__name__))
        return declare

    return keep


def declare(options: dict[str, Any] | None = None, /, **body: Any) -> None:
    """A model with a row field `a` and a column field `b`, unless `body` says otherwise."""
    fields: dict[str, Any] = {
        "a": hb.key(hb.Text),
        "b": hb.key(hb.Text, in_qualifier=True),
        "c": hb.column("c", hb.Text),
        **body,
    }
    fields = {name: spec for name, spec in fields.items() if spec is not None}
    hints = {
        name: hb.Key[str] if getattr(spec, "kind", "") == "key" else hb.Column[str] for name, spec in fields.items()
    }
    hints |= {
        name: hb.Key[datetime] for name, spec in fields.items() if isinstance(getattr(spec, "codec", None), hb.Datetime)
    }
    hints |= {
        name: hb.Column[int] for name, spec in fields.items() if getattr(spec, "kind", "") in {"counter", "version"}
    }
    hints = {name: hint for name, hint in hints.items() if type(fields[name]).__name__ != "IndexSpec"}
    hb.model(**{"table": "t", **(options or {})})(
        type("Bad", (), {**fields, "__annotations__": hints, "__module__": __name__})
    )


AT = {"codec": hb.Datetime("s")}


@mistake("random salt")
def random_salt_with_column_fields() -> None:
    declare({"salt": hb.RandomSalt(4), "immutable": True})


@mistake("random salt")
def random_salt_with_a_kind() -> None:
    declare({"salt": hb.RandomSalt(4), "immutable": True, "kind": b"p"}, b=None)


@mistake("fields of the row key", unknown=["b"])
def salt_by_a_column_field() -> None:
    declare({"salt": hb.HashSalt(4, by=("b",))})


@mistake("A constant row cannot have a salt")
def salt_of_a_constant_row() -> None:
    declare({"salt": hb.HashSalt(4), "row": b"x"}, a=None)


@mistake("one column family")
def two_families() -> None:
    declare(d=hb.column("d", hb.Text, family="x"))


@mistake("one column family")
def two_families_of_a_kind() -> None:
    declare({"kind": b"p"}, b=None, d=hb.column("d", hb.Text, family="x"))


@mistake('null="delete" cannot be used on a wide', field="d")
def nulls_deleted() -> None:
    @hb.model(table="t")
    class Bad:
        a: hb.Key[str] = hb.key()
        b: hb.Key[str] = hb.key(in_qualifier=True)
        d: hb.Column[str | None] = hb.column("d", default=None, null="delete")


@mistake("must not be empty", field="c")
def empty_alias_of_a_tall_model() -> None:
    declare(b=None, c=hb.column("", hb.Text))


@mistake("must not be empty", field="c")
def empty_alias_of_a_tall_model_with_a_kind() -> None:
    declare({"kind": b"p"}, b=None, c=hb.column("", hb.Text))


@mistake("must not be empty", field="n")
def empty_alias_of_a_counter() -> None:
    declare(c=None, n=hb.counter(""))


@mistake("must be the only column of its model", field="c")
def empty_alias_and_another() -> None:
    declare(c=hb.column("", hb.Text), d=hb.column("d", hb.Text))


@mistake("cannot have indexes, a flag or a TTL", field="c")
def empty_alias_and_an_index() -> None:
    declare(c=hb.column("", hb.Text), by_c=hb.index("c"))


@mistake("cannot have indexes, a flag or a TTL", field="c")
def empty_alias_and_a_flag() -> None:
    declare({"exists": hb.flag("e")}, c=hb.column("", hb.Text))


@mistake('or a TTL, which need another cell: give the column an alias, such as hb.column("v")', field="c")
def empty_alias_and_a_ttl() -> None:
    declare({"family": hb.family("d", ttl=HOUR)}, c=hb.column("", hb.Text))


@mistake("must be the only column of its model", field="c")
def empty_alias_and_a_version() -> None:
    declare(c=hb.column("", hb.Text), v=hb.version())


@mistake("begin with '_'", field="c")
def alias_of_system_cells() -> None:
    declare(c=hb.column("_v", hb.Text))


@mistake("same column alias", field="d", other="c")
def two_columns_of_one_alias() -> None:
    declare(d=hb.column("c", hb.Text))


@mistake("give them in_qualifier=True", field="d")
def row_field_behind_a_column_field() -> None:
    declare(c=hb.column("c", hb.Text), d=hb.key(hb.Text))


@mistake("give them in_qualifier=True", field="d")
def row_field_behind_a_split_field() -> None:
    declare(b=hb.key(hb.Datetime("s"), row_span=HOUR), d=hb.key(hb.Text))


@mistake("give them in_qualifier=True", field="d")
def two_split_fields() -> None:
    declare(b=hb.key(hb.Datetime("s"), row_span=HOUR), d=hb.key(hb.Datetime("s"), row_span=HOUR))


@mistake("give them in_qualifier=True", field="d")
def split_field_behind_a_column_field() -> None:
    declare(d=hb.key(hb.Datetime("s"), row_span=HOUR))


@mistake("A field with a row span is stored in the row key and", field="b")
def split_field_in_the_qualifier() -> None:
    declare(b=hb.key(hb.Datetime("s"), in_qualifier=True, row_span=HOUR))


@mistake("Only times can have a row span", field="a")
def text_split() -> None:
    declare(a=hb.key(hb.Text, row_span=HOUR))


@mistake("whole units", field="b", unit="s")
def buckets_of_no_whole_units() -> None:
    declare(b=hb.key(hb.Datetime("s"), row_span=timedelta(milliseconds=1500)))


@mistake("whole units", field="b", found="3600")
def buckets_of_no_duration() -> None:
    declare(b=hb.key(hb.Datetime("s"), row_span=3600))  # type: ignore[call-overload]


@mistake("cannot be None", field="b")
def split_field_of_none() -> None:
    @hb.model(table="t")
    class Bad:
        b: hb.Key[datetime | None] = hb.key(hb.Datetime("s"), nullable=True, row_span=HOUR)  # type: ignore[call-overload]
        c: hb.Column[int] = hb.column("c")


@mistake("exactly one byte", found="b'pp'")
def kind_of_two_bytes() -> None:
    declare({"kind": b"pp"})


@mistake("exactly one byte", found="b''")
def kind_of_no_byte() -> None:
    declare({"kind": b""})


@mistake("exactly one byte", found="'p'")
def kind_as_text() -> None:
    declare({"kind": "p"})


@mistake("as bytes", found="'pets'")
def row_as_text() -> None:
    declare({"row": "pets"}, a=None)


@mistake("as bytes", found="0 bytes")
def empty_row() -> None:
    declare({"row": b""}, a=None)


@mistake("as bytes", found="32768 bytes")
def row_too_long() -> None:
    declare({"row": b"a" * 32_768}, a=None)


@mistake("The row key is constant", field="a")
def constant_row_and_row_fields() -> None:
    declare({"row": b"pets"})


@mistake("The row key is constant", field="b")
def constant_row_and_a_split_field() -> None:
    declare({"row": b"pets"}, a=None, b=hb.key(hb.Datetime("s"), row_span=HOUR))


@mistake("A row key needs a field", field="b")
def no_row_field() -> None:
    declare(a=None)


@mistake("in_qualifier must be True or False", field="b", found="'qualifier'")
def no_boolean() -> None:
    declare(b=hb.key(hb.Text, in_qualifier="qualifier"))  # type: ignore[call-overload]


@mistake("cannot be part of a key", field="b")
def structured_column_field() -> None:
    declare(b=hb.key(hb.Json(str), in_qualifier=True))


@pytest.mark.parametrize(("declaration", "message", "details"), MISTAKES)
def test_mistakes_fail_at_the_decorator(declaration: Declaration, message: str, details: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError) as caught:
        declaration()
    assert message in caught.value.message
    assert caught.value.details["model"] == "Bad"
    for name, value in details.items():
        assert caught.value.details[name] == value


def test_the_declaration_that_mistakes_are_made_in_is_right() -> None:
    declare()
    declare({"kind": b"p", "salt": hb.HashSalt(4, by=("a",)), "exists": hb.flag("e")}, by_c=hb.index("c"))
    declare({"row": b"pets"}, a=None)
    declare(c=hb.column("", hb.Text))
    declare(b=hb.key(hb.Datetime("s"), row_span=HOUR), d=hb.key(hb.Text, in_qualifier=True))
    declare(b=hb.key(hb.Datetime("s"), row_span=HOUR), c=hb.column("", hb.Text))


# --- through a session ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("obj", "cells"), GOLDEN, ids=lambda given: type(given).__name__)
def test_a_session_stores_the_golden_bytes(obj: Any, cells: list[tuple[bytes, bytes, bytes]]) -> None:
    schema, key = hb.schema.schema_of(type(obj)), cells[0][0]
    with hb.connect("memory:") as store:
        hb.create_tables(store, type(obj))
        with hb.Session(store) as session:
            session.add(obj)
        (row,) = store.get(schema.table, [key])
        assert row is not None
        own = {column: cell.value for column, cell in row.columns.items() if not column.endswith((b"_v", b"_l"))}
        assert own == {column: value for _, column, value in cells if value or schema.indexes}
        assert hb.Session(store).get(type(obj), **{name: getattr(obj, name) for name in schema.layout.names}) == obj


def test_kinds_share_a_row() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Pet, Owner)
        session = hb.Session(store)
        ann, pets = (
            Owner(owner="ann", city="Graz"),
            [Pet(owner="ann", name=name, species="cat") for name in ("flu", "tom")],
        )
        for obj in (pets[0], ann, pets[1]):
            session.add(obj)
            session.commit()
        assert len(store.get("pets", [b"ann"])) == 1
        assert session.query(Pet).where(Pet.owner == "ann").all() == pets
        assert session.query(Owner).allow_full_scan().all() == [ann]
        session.delete(ann)
        session.commit()
        assert session.get(Owner, owner="ann") is None
        assert session.query(Pet).where(Pet.species == "cat").all() == pets
        session.delete_key(Pet, owner="ann", name="flu")
        session.add(ann)
        session.commit()
        assert session.query(Pet).allow_full_scan().all() == pets[1:]
        assert session.get(Owner, owner="ann") == ann
