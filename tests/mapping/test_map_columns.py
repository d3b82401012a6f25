"""Map columns: their golden bytes, what the registry keeps, what objects hold, and every mistake in their
declarations.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.rows.cells_of_update import cells_of_changes
from hbmodel.mapping.rows.mapper import changed_copy, take
from hbmodel.store import Row
from hbmodel.store.embedded.cells import StoredCell, StoredRow
from hbmodel.tables.registry.layout_differences import canonical_json, compare_layouts


@hb.model(table="pets")
class Pet:
    owner: hb.Key[str] = hb.key()
    kind: hb.Column[str] = hb.column("k")
    notes: dict[str, str] = hb.map_column("n")
    weights: hb.Map[int, float | bytes] = hb.map_column("w", hb.codecs.UInt16, hb.Bytes, factory=dict)


@hb.model(table="pets", kind=b"p")
class Seen:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    kind: hb.Column[str] = hb.column("k")
    at: hb.Map[int, bool] = hb.map_column("s")

    by_kind = hb.index("kind")


def row_of(cells: dict[bytes, bytes]) -> Row:
    return StoredRow(b"ann", {column: StoredCell(value, 1) for column, value in cells.items()})


def test_golden_bytes() -> None:
    _, row, cells = take(
        hb.schema.schema_of(Pet), Pet(owner="ann", kind="dog", notes={"a": "x", "é": ""}, weights={258: b"\x00"})
    )
    assert row == b"ann"
    assert cells == {b"d:k": b"dog", b"d:na": b"x", "d:né".encode(): b"\x00", b"d:w\x01\x02": b"\x00\x00"}
    _, place, cells = take(hb.schema.schema_of(Seen), Seen(owner="ann", name="rex", kind="dog", at={1: True}))
    assert place == b"ann\x00\x01rex\x00\x01"
    assert cells == {b"d:k": b"dog", b"d:s": b"\x01", b"d:s\x80\x00\x00\x00\x00\x00\x00\x01": b"\x01"}
    assert hb.schema.schema_of(Pet).row_columns == (b"d:_l", b"d:_t", b"d:_v", b"d:k", b"d:n", b"d:w")


def test_no_cell_says_when_entries_were_put_where_none_are() -> None:
    _, _, cells = take(hb.schema.schema_of(Seen), Seen(owner="ann", name="rex", kind="dog"))
    assert cells == {b"d:k": b"dog"}


def test_removed_entries_are_empty_cells() -> None:
    assert cells_of_changes(hb.schema.schema_of(Seen), {"kind": "cat", "at": {2: None}}) == {
        b"d:k": b"cat",
        b"d:s": b"\x01",
        b"d:s\x80\x00\x00\x00\x00\x00\x00\x02": b"",
    }


def test_the_registry_keeps_them_among_the_columns() -> None:
    assert canonical_json(hb.schema.schema_of(Pet).layout_spec["columns"]) == (
        b'{"d:k":{"codec":{"codec":"text"},"kind":"column","name":"kind","null":"marker","nullable":false},'
        b'"d:n":{"codec":{"codec":"text"},"key":{"codec":"text"},"kind":"map","name":"notes","null":"marker","nullable":true},'
        b'"d:w":{"codec":{"codec":"bytes"},"key":{"bits":16,"codec":"int","signed":false},"kind":"map","name":"weights",'
        b'"null":"marker","nullable":true}}'
    )


def declared(**fields: Any) -> Any:
    """A model with a key, a column and these fields, each a declaration and its annotation."""
    options = fields.pop("options", {})
    names = {"k": hb.key(), "c": hb.column("c"), **{name: declaration for name, (declaration, _) in fields.items()}}
    types = {"k": hb.Key[int], "c": hb.Column[int], **{name: hint for name, (_, hint) in fields.items()}}
    return hb.model(table="t", **options)(type("Bad", (), {**names, "__annotations__": types, "__module__": __name__}))


def test_layouts_that_differ_are_found() -> None:
    def layout(**fields: Any) -> Any:
        return hb.schema.schema_of(declared(**fields)).layout_spec

    texts = layout(m=(hb.map_column("m"), dict[str, str]))
    assert compare_layouts(texts, layout()) == []
    assert compare_layouts(texts, texts) == []
    assert len(compare_layouts(texts, layout(m=(hb.map_column("m"), dict[str, int])))) == 1
    assert len(compare_layouts(texts, layout(m=(hb.map_column("m"), dict[int, str])))) == 1
    # another kind, no key, and None
    assert len(compare_layouts(texts, layout(m=(hb.column("m"), hb.Column[str])))) == 3
    assert len(compare_layouts(texts, layout(mine=(hb.column("mine"), hb.Column[str])))) == 1
    assert len(compare_layouts(layout(mine=(hb.column("mine"), hb.Column[str])), texts)) == 1


Declaration = Callable[[], Any]
TEXTS = dict[str, str]
MISTAKES: dict[str, tuple[Declaration, str]] = {
    "annotation": (lambda: declared(m=(hb.map_column("m"), int)), "A map column must be annotated"),
    "key annotation": (lambda: declared(m=(hb.map_column("m"), hb.Key[TEXTS])), "A map column must be annotated"),
    "no types": (lambda: declared(m=(hb.map_column("m"), dict)), "A map column must be annotated"),
    "key of None": (lambda: declared(m=(hb.map_column("m"), dict[str | None, int])), "Neither the keys nor the values"),
    "value of None": (
        lambda: declared(m=(hb.map_column("m"), dict[str, int | None])),
        "Neither the keys nor the values",
    ),
    "key without a codec": (
        lambda: declared(m=(hb.map_column("m"), dict[list[str], int])),
        "This type has no default codec",
    ),
    "value without a codec": (
        lambda: declared(m=(hb.map_column("m"), dict[str, list[str]])),
        "This type has no default codec",
    ),
    "codec that keys cannot have": (
        lambda: declared(m=(hb.map_column("m", hb.Json(list[str])), dict[list[str], int])),
        "map column needs a key codec",
    ),
    "codec without an order": (
        lambda: declared(m=(hb.map_column("m", hb.codecs.Reversed(hb.Int32)), dict[int, int])),
        "needs a key codec",
    ),
    "codec of another type": (
        lambda: declared(m=(hb.map_column("m", hb.Int32), TEXTS)),
        r"do not have the type in the annotation: change",
    ),
    "value codec of another type": (
        lambda: declared(m=(hb.map_column("m", hb.Text, hb.codecs.Int8), TEXTS)),
        r"do not have the type in the annotation: change",
    ),
    "no codec": (lambda: declared(m=(hb.map_column("m", str), TEXTS)), "A codec must be a Codec"),  # type: ignore[arg-type]
    "empty alias": (lambda: declared(m=(hb.map_column(""), TEXTS)), "needs an alias"),
    "system's alias": (lambda: declared(m=(hb.map_column("_m"), TEXTS)), "reserved for system cells"),
    "alias that begins another": (
        lambda: declared(m=(hb.map_column("m"), TEXTS), x=(hb.column("mx"), hb.Column[int])),
        "a prefix",
    ),
    "alias that another begins": (lambda: declared(m=(hb.map_column("cm"), TEXTS)), "must not be a prefix"),
    "alias of a column": (lambda: declared(m=(hb.map_column("c"), TEXTS)), "must not be a prefix"),
    "alias of a counter": (
        lambda: declared(m=(hb.map_column("m"), TEXTS), x=(hb.counter("mm"), hb.Column[int])),
        "must not be a prefix",
    ),
    "two maps": (
        lambda: declared(m=(hb.map_column("m"), TEXTS), n=(hb.map_column("mn"), TEXTS)),
        "must not be a prefix",
    ),
    "flag": (
        lambda: declared(m=(hb.map_column("m"), TEXTS), options={"exists": hb.flag("me")}),
        "must not be a prefix",
    ),
    "name": (lambda: declared(**{"m" * 101: (hb.map_column("m"), TEXTS)}), "at most 100 bytes"),
    "called self": (lambda: declared(self=(hb.map_column("m"), TEXTS)), "cannot be called self"),
    "factory": (
        lambda: declared(m=(hb.map_column("m", factory=lambda: {1: 2}), TEXTS)),
        "A map column of a new object is an empty",
    ),
    "immutable": (
        lambda: declared(m=(hb.map_column("m"), TEXTS), options={"immutable": True}),
        "An immutable model cannot have map",
    ),
    "external": (lambda: declared(m=(hb.map_column("m"), TEXTS), options={"external": True}), "external table"),
    "family that ends": (
        lambda: declared(m=(hb.map_column("m"), TEXTS), options={"family": hb.family("d", ttl=timedelta(days=1))}),
        "A model with map columns cannot have a family with a TTL",
    ),
    "in an index": (lambda: declared(m=(hb.map_column("m"), TEXTS), i=(hb.index("m"), None)), "cannot be in an index"),
    "each of an index": (
        lambda: declared(m=(hb.map_column("m"), TEXTS), i=(hb.index(hb.each("m")), None)),
        "cannot be in an index",
    ),
    "covered": (
        lambda: declared(m=(hb.map_column("m"), TEXTS), i=(hb.index("c", covers=("m",)), None)),
        "cannot be in an index",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found_at_the_decorator(name: str) -> None:
    declare, message = MISTAKES[name]
    with pytest.raises(hb.DeclarationError, match=message):
        declare()


def test_a_model_needs_more_than_map_columns() -> None:
    with pytest.raises(hb.DeclarationError, match="needs at least one"):

        @hb.model(table="t")
        class Bad:
            k: hb.Key[int] = hb.key()
            m: dict[str, str] = hb.map_column("m")


def test_no_map_column_beside_an_empty_alias() -> None:
    with pytest.raises(hb.DeclarationError, match="A model whose column has an empty alias has no other cells"):

        @hb.model(table="t")
        class Bad:
            k: hb.Key[int] = hb.key()
            n: hb.Key[int] = hb.key(in_qualifier=True)
            c: hb.Column[int] = hb.column("")
            m: dict[str, str] = hb.map_column("m")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: Pet.notes == {},
        lambda: Pet.notes != {},
        lambda: Pet.notes < {},  # type: ignore[operator]
        lambda: "a" in Pet.notes,
        lambda: Pet.weights.between(1, 2),  # type: ignore[attr-defined]
        lambda: bool(Pet.notes),
    ],
)
def test_it_is_no_field_of_predicates(ask: Callable[[], Any]) -> None:
    with pytest.raises(hb.QueryError, match="A map column cannot be compared"):
        ask()


def test_objects() -> None:
    new = Pet(owner="ann", kind="dog")
    assert (new.notes, new.weights) == ({}, {})
    assert repr(new) == "Pet(owner='ann', kind='dog', notes={}, weights={})"
    schema = hb.schema.schema_of(Pet)
    read = changed_copy(new, {})
    assert read == new
    vars(read).pop("notes")
    assert read.notes is hb.types.NotLoaded
    # what may not be loaded has no part in equality
    assert read == new == Pet(owner="ann", kind="dog", notes={"a": "b"})
    assert repr(read) == "Pet(owner='ann', kind='dog', notes=NotLoaded, weights={})"
    for same in (
        hb.evolve(read),
        hb.evolve(read, kind="cat"),
        copy.deepcopy(read),
        pickle.loads(pickle.dumps(read)),
        changed_copy(read, {"kind": "cat"}),
    ):
        assert same.notes is hb.types.NotLoaded
        assert take(schema, same)[2].keys() == {b"d:k"}
    assert changed_copy(new, {"kind": "cat"}).notes == {}
    constructed = attrs.evolve(read)
    assert constructed == read
    assert constructed.notes is hb.types.NotLoaded
    with pytest.raises(hb.SessionError, match=r"add \.load\(Model\.field\)"):
        take(schema, constructed)
    assert pickle.loads(pickle.dumps(hb.types.NotLoaded)) is hb.types.NotLoaded
    assert repr(Pet.notes) == "Pet.notes"


@pytest.mark.parametrize("use", [lambda m: m["a"], list, len, bool, lambda m: "a" in m, dict])
def test_entries_that_were_not_read_cannot_be_used(use: Callable[[Any], Any]) -> None:
    with pytest.raises(hb.SessionError, match="not read with its object"):
        use(hb.types.NotLoaded)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"": "a"}, "A map key must have at least one byte, and at most 32,767"),
        ({"a" * 32_767: "a"}, "at most 32,767"),
        ({None: "a"}, "A map key must have at least one byte, and at most 32,767"),
        ({"a": None}, "cannot hold None"),
        ({1: "a"}, "does not have the type"),
        ({"a": 1}, "does not have the type"),
        ({"a": "x" * (10 * 1024 * 1024)}, "The value is too large"),
        ([("a", "b")], "A map column must be given a mapping"),
    ],
)
def test_entries_that_cannot_be_stored(entries: Any, message: str) -> None:
    with pytest.raises(hb.EncodingError, match=message) as caught:
        take(hb.schema.schema_of(Pet), Pet(owner="ann", kind="dog", notes=entries))
    assert (caught.value.details["table"], caught.value.details["field"]) == ("pets", "notes")


@pytest.mark.parametrize("cells", [{b"d:n\xff": b"x"}, {b"d:na": b"\xff"}])
def test_entries_that_cannot_be_read(cells: dict[bytes, bytes]) -> None:
    with pytest.raises(hb.DecodingError) as caught:
        hb.schema.schema_of(Pet).maps_by_name["notes"].entries(row_of(cells).columns)
    assert caught.value.details["field"] == "notes"


@pytest.mark.lengthy
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8"))))
def test_entries_read_back(notes: dict[str, str]) -> None:
    of = hb.schema.schema_of(Pet).maps_by_name["notes"]
    cells = of.cells(notes)
    notes.pop("gone", None)
    read = of.entries(row_of({**cells, b"d:k": b"", b"d:n": b"\x01", b"d:ngone": b""}).columns)
    assert list(read.items()) == sorted(notes.items(), key=lambda item: item[0].encode())
    assert of.settled(notes, b"ann") == notes
