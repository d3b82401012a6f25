"""Counters and map columns that get other names while their cells stay, by the same rules as columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import frozen

import hbmodel as hb
from hbmodel.mapping.schema import schema_of
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.registry.table_from_registry import TableFromRegistry
from tests.support.beds import fresh
from tests.tables.test_renames import SESSION, declare, open_session


@frozen
class Kind:
    """A kind of column: the function that declares it, and values of such a column."""

    name: str
    function: Any
    hint: Any
    values: tuple[Any, Any]

    def __call__(self, alias: str | None = None, was: str | None = None, **options: Any) -> tuple[Any, Any]:
        """Returns the annotation and the declaration of such a column."""
        given = () if alias is None else (alias,)
        return self.hint, self.function(*given, renamed_from=was, **options)

    def store(self, session: hb.Session, model: type[Any], name: str, value: Any) -> None:
        """Writes a value of the object that `written` made."""
        field = getattr(model, name)
        match self.name:
            case "counter":
                session.increment_key(model, field, value, **KEY)
            case "map":
                session.put_entries(session.get(model, **KEY), field, value)
            case _:
                session.update_key(model, **KEY, **{name: value})
        session.commit()

    def stored(self, session: hb.Session, model: type[Any], name: str) -> Any:
        """Reads the value."""
        field = getattr(model, name)
        return session.entries(field, **KEY).all() if self.name == "map" else getattr(session.get(model, **KEY), name)


COLUMN = Kind("column", hb.column, hb.Column[str | None], ("first", "second"))
COUNTER = Kind("counter", hb.counter, hb.Column[int], (3, 40))
MAP = Kind("map", hb.map_column, hb.Map[str, int], ({"one": 1}, {"two": 2}))
KINDS = (COLUMN, COUNTER, MAP)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])

TABLE = "renamed_cells"
KEY = {"owner": "ann", "id": 1}
SHAPES: dict[str, dict[str, Any]] = {
    "tall": {},
    "versioned": {"versioned": True},
    "indexed": {"indexed": True},
    "wide": {"wide": True},
    "wide, with a kind": {"wide": True, "kind": b"p"},
    "wide and versioned": {"wide": True, "versioned": True},
}


def model(
    *, wide: bool = False, versioned: bool = False, indexed: bool = False, kind: bytes | None = None, **fields: Any
) -> type[Any]:
    """A model of the table with further fields. A column is None unless it is written."""
    columns = {
        "owner": (hb.Key[str], hb.key()),
        "id": (hb.Key[int], hb.key(in_qualifier=wide)),
        "text": (hb.Column[str], hb.column("t")),
        **({"version": (hb.Column[int], hb.version())} if versioned else {}),
        **({"by_text": (None, hb.index("text"))} if indexed else {}),
    }
    return declare(TABLE, {**columns, **fields}, **({} if kind is None else {"kind": kind}))


def of(kind: Kind, alias: str | None, was: str | None = None) -> tuple[Any, Any]:
    """A field of a kind; a column has a default, as counters and maps have."""
    return kind(alias, was, **({"default": None} if kind is COLUMN else {}))


@pytest.fixture
def store() -> Iterator[hb.Store]:
    with fresh() as opened:
        yield opened


def written(store: hb.Store, declared: type[Any], kinds: dict[str, Kind]) -> None:
    """Creates the table of a model, and an object with the first value in its first field, and so on."""
    hb.create_tables(store, declared)
    session = open_session(store)
    session.add(declared(**KEY, text="t"))
    session.commit()
    for at, (name, kind) in enumerate(kinds.items()):
        kind.store(session, declared, name, kind.values[at])


def registered(store: hb.Store, declared: type[Any]) -> dict[str, list[str]]:
    """Returns the registered names of the counters, maps and columns, each with its earlier names."""
    found = Registry(store).read(schema_of(declared))
    assert found is not None
    was = found.layout.get("was", {})
    return {place: [spec["name"], *was.get(place, ())] for place, spec in found.layout["columns"].items()}


def refused(store: hb.Store, declared: type[Any]) -> str:
    """Checks that nothing accepts a model, and returns the error of a read."""
    for call in (hb.create_tables, hb.alter):
        with pytest.raises(hb.SchemaMismatch):
            call(store, declared)
    assert "refused" in {each.effect for each in hb.diff(store, declared, sample=0)}
    with pytest.raises(hb.SchemaMismatch) as caught:
        open_session(store).get(declared, **KEY)
    return str(caught.value)


@each_kind
@pytest.mark.parametrize("shape", SHAPES)
def test_fields_that_exchange_their_names_must_say_so(store: hb.Store, kind: Kind, shape: str) -> None:
    """Without it, each would read the cells of the other."""
    options = SHAPES[shape]
    before = model(a=of(kind, "x"), b=of(kind, "y"), **options)
    unsaid = model(a=of(kind, "y"), b=of(kind, "x"), **options)
    said = model(a=of(kind, "y", "b"), b=of(kind, "x", "a"), **options)
    half = model(a=of(kind, "y", "b"), b=of(kind, "x"), **options)
    written(store, before, {"a": kind, "b": kind})
    call = f'hb.{kind.function.__name__}(renamed_from="b")'
    assert f"column d:y a: if it was called b before, declare {call}" in refused(store, unsaid)
    refused(store, half)
    old = hb.Session(store, **{**SESSION, "lease": 60})  # learns nothing of the rename
    assert kind.stored(old, before, "a") == kind.values[0]
    for register in (hb.create_tables, hb.alter):
        register(store, said)
        assert registered(store, said) == {
            "d:t": ["text"],
            "d:x": ["b", "a"],
            "d:y": ["a", "b"],
        }
    assert not hb.diff(store, said)
    assert not hb.diff(store, before)
    new = open_session(store)
    assert [kind.stored(new, said, name) for name in "ba"] == list(kind.values)
    kind.store(old, before, "a", kind.values[1])
    expected = {"column": kind.values[1], "counter": 43, "map": {"one": 1, "two": 2}}[kind.name]
    assert kind.stored(open_session(store), said, "b") == kind.stored(old, before, "a") == expected
    assert kind.stored(open_session(store), before, "b") == kind.values[1]  # a program from before starts again


@each_kind
def test_the_name_of_another_field_must_be_said(store: hb.Store, kind: Kind) -> None:
    """The model has one of the two fields: the name says one cell, and the alias the other."""
    written(store, model(a=of(kind, "x"), b=of(kind, "y")), {"a": kind, "b": kind})
    refused(store, model(a=of(kind, "y")))
    said = model(a=of(kind, "y", "b"))
    hb.create_tables(store, said)
    assert kind.stored(open_session(store), said, "a") == kind.values[1]


@each_kind
@pytest.mark.parametrize("said", [True, False], ids=["said", "seen"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_field_gets_another_name(store: hb.Store, kind: Kind, said: bool, shape: str) -> None:
    options = SHAPES[shape]
    before = model(a=of(kind, "x"), b=of(kind, "y"), **options)
    after = model(new=of(kind, "x", "a" if said else None), b=of(kind, "y"), **options)
    written(store, before, {"a": kind})
    old = hb.Session(store, **{**SESSION, "lease": 60})
    assert str(hb.diff(store, after)) == (f"~ {TABLE}: column d:x: renamed a -> new (its bytes stay the same)")
    assert kind.stored(open_session(store), after, "new") == kind.values[0]
    hb.create_tables(store, after)
    assert registered(store, after)["d:x"] == (["new", "a"] if said else ["a"])
    assert hb.alter(store, after).left == hb.diff(store, after)
    assert registered(store, after)["d:x"] == ["new", "a"]
    assert not hb.diff(store, after)
    assert not hb.diff(store, before)
    hb.create_tables(store, before)
    assert registered(store, before)["d:x"] == ["new", "a"]
    for session in (old, open_session(store)):
        assert kind.stored(session, before, "a") == kind.values[0]
    assert kind.stored(open_session(store), after, "new") == kind.values[0]
    third = model(third=of(kind, "x"), b=of(kind, "y"), **options)
    hb.alter(store, third)
    assert registered(store, third)["d:x"] == ["third", "a", "new"]
    for declared, name in ((before, "a"), (after, "new"), (third, "third")):
        assert kind.stored(open_session(store), declared, name) == kind.values[0]


@each_kind
def test_a_name_that_is_registered_need_not_be_said_any_more(store: hb.Store, kind: Kind) -> None:
    written(store, model(a=of(kind, "x"), b=of(kind, "y")), {"a": kind, "b": kind})
    hb.create_tables(store, model(a=of(kind, "y", "b"), b=of(kind, "x", "a")))
    plain = model(a=of(kind, "y"), b=of(kind, "x"))
    hb.create_tables(store, plain)
    assert not hb.diff(store, plain)
    assert [kind.stored(open_session(store), plain, name) for name in "ba"] == list(kind.values)


@each_kind
def test_programs_from_before_use_a_table_that_a_later_one_created(store: hb.Store, kind: Kind) -> None:
    """In a new store, the registry learns the earlier names from the declaration alone."""
    after = model(a=of(kind, "y", "b"), b=of(kind, "x", "a"))
    written(store, after, {"b": kind, "a": kind})
    assert registered(store, after) == {"d:t": ["text"], "d:x": ["b", "a"], "d:y": ["a", "b"]}
    before = model(a=of(kind, "x"), b=of(kind, "y"))
    assert not hb.diff(store, before)
    hb.create_tables(store, before)
    assert [kind.stored(open_session(store), before, name) for name in "ab"] == list(kind.values)


@each_kind
@pytest.mark.parametrize("kept", [True, False], ids=["the name stays", "the name changes"])
def test_a_field_with_another_alias_is_refused_and_says_what_to_declare(
    store: hb.Store, kind: Kind, kept: bool
) -> None:
    """Reads would not find its cells. An alias that is left out is the name of the attribute."""
    written(store, model(a=of(kind, None)), {"a": kind})
    moved = model(a=of(kind, "z")) if kept else model(new=of(kind, None, "a"))
    function, renamed = kind.function.__name__, "" if kept else ', renamed_from="a"'
    assert f'its values are in d:a: declare hb.{function}("a"{renamed})' in refused(store, moved)
    mended = model(a=of(kind, "a")) if kept else model(new=of(kind, "a", "a"))
    hb.create_tables(store, mended)
    assert kind.stored(open_session(store), mended, "a" if kept else "new") == kind.values[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [(COLUMN, MAP), (COLUMN, COUNTER), (COUNTER, MAP)],
    ids=["column and map", "column and counter", "counter and map"],
)
@pytest.mark.parametrize("said", [True, False], ids=["said", "seen"])
def test_fields_of_two_kinds_exchange_their_names(store: hb.Store, one: Kind, other: Kind, said: bool) -> None:
    """No other rename is possible, as with columns of two codecs: each cell keeps its kind."""
    before = model(a=of(one, "x"), b=of(other, "y"))
    after = model(a=of(other, "y", "b" if said else None), b=of(one, "x", "a" if said else None))
    written(store, before, {"a": one, "b": other})
    assert [each.effect for each in hb.diff(store, after)] == ["safe", "safe"]
    (hb.create_tables if said else hb.alter)(store, after)
    assert registered(store, after) == {"d:t": ["text"], "d:x": ["b", "a"], "d:y": ["a", "b"]}
    for declared, first, second in ((after, "b", "a"), (before, "a", "b")):
        session = open_session(store)
        assert one.stored(session, declared, first) == one.values[0]
        assert other.stored(session, declared, second) == other.values[1]


@pytest.mark.parametrize("one", KINDS, ids=[kind.name for kind in KINDS])
@pytest.mark.parametrize("other", KINDS, ids=[kind.name for kind in KINDS])
def test_fields_of_two_kinds_do_not_exchange_their_cells(store: hb.Store, one: Kind, other: Kind) -> None:
    """The names stay where they are: the kind of each cell would change."""
    written(store, model(a=of(one, "x"), b=of(other, "y")), {"a": one, "b": other})
    if one is not other:
        assert f"column d:x kind: declared {other.name}, live {one.name}" in refused(
            store, model(a=of(other, "x", "b"), b=of(one, "y", "a"))
        )


def entries(alias: str, *codecs: Any, hint: Any = hb.Map[str, int], was: str | None = None) -> tuple[Any, Any]:
    """A map column with codecs."""
    return hint, hb.map_column(alias, *codecs, renamed_from=was)


INT8, INT32 = hb.codecs.Int8, hb.codecs.Int32


@pytest.mark.parametrize("said", [True, False], ids=["said", "seen"])
@pytest.mark.parametrize(
    ("changed", "part"),
    [
        (lambda was: entries("x", hb.Text, INT32, was=was), "codec"),
        (lambda was: entries("x", INT8, INT8, hint=hb.Map[int, int], was=was), "key"),
    ],
    ids=["values", "keys"],
)
def test_a_renamed_map_whose_codec_also_changes(store: hb.Store, changed: Any, part: str, said: bool) -> None:
    """The declaration is refused for its codec: the entries are stored with the other one."""
    before = model(a=entries("x", hb.Text, INT8))
    written(store, before, {"a": MAP})
    assert f"column d:x {part}: declared" in refused(store, model(new=changed("a" if said else None)))
    assert registered(store, before)["d:x"] == ["a"]


def test_a_map_with_another_codec_is_replaced_under_the_same_name(store: hb.Store) -> None:
    """The old map may stay declared under another name until its entries are moved."""
    before = model(a=entries("x", hb.Text, INT8))
    written(store, before, {"a": MAP})
    large = entries("y", hb.Text, INT32)
    (new,) = hb.diff(store, model(a=large), sample=0)
    assert (new.effect, "d:x" in str(new.why)) == ("safe", True)
    assert 'hb.map_column("x", renamed_from="a")' in refused(
        store, model(a=entries("y", hb.Text, INT32), c=MAP("z", "a"))
    )
    both = model(old=entries("x", hb.Text, INT8, was="a"), a=large)
    hb.create_tables(store, both)
    assert registered(store, both) == {"d:t": ["text"], "d:x": ["old", "a"], "d:y": ["a"]}
    session = open_session(store)
    MAP.store(session, both, "a", {"many": 100_000, **MAP.stored(session, both, "old")})
    assert MAP.stored(open_session(store), model(a=large), "a") == {"many": 100_000, "one": 1}
    assert MAP.stored(open_session(store), before, "a") == {"one": 1}


def test_two_maps_are_renamed_in_one_call(store: hb.Store) -> None:
    """Their names move on by one; the name of the last one is new."""
    written(store, model(a=MAP("x"), b=MAP("y")), {"a": MAP, "b": MAP})
    assert 'declare hb.map_column(renamed_from="a")' in refused(store, model(b=MAP("x"), c=MAP("y")))
    after = model(b=MAP("x", "a"), c=MAP("y", "b"))
    hb.alter(store, after)
    assert registered(store, after) == {"d:t": ["text"], "d:x": ["b", "a"], "d:y": ["c", "b"]}
    assert [MAP.stored(open_session(store), after, name) for name in "bc"] == list(MAP.values)


def test_the_entries_of_a_renamed_map_are_paged_anew(store: hb.Store) -> None:
    before, after = model(a=MAP("x")), model(new=MAP("x", "a"))
    written(store, before, {"a": MAP})
    session = open_session(store)
    MAP.store(session, before, "a", {"two": 2})
    token = session.entries(before.a, **KEY).page(1).next_token
    assert token is not None
    hb.create_tables(store, after)
    assert open_session(store).entries(before.a, **KEY).page(1, after=token).items == [("two", 2)]
    with pytest.raises(hb.errors.TokenError):
        open_session(store).entries(after.new, **KEY).page(1, after=token)


@pytest.mark.parametrize("indexed", [True, False])
def test_a_predicate_names_a_renamed_counter(store: hb.Store, indexed: bool) -> None:
    before = model(a=COUNTER("x"), indexed=indexed)
    after = model(new=COUNTER("x", "a"), indexed=indexed)
    written(store, before, {"a": COUNTER})
    hb.create_tables(store, after)
    for declared, field in ((before, before.a), (after, after.new)):
        query = open_session(store).query(declared).where(declared.text == "t", field == COUNTER.values[0])
        assert query.allow_full_scan().count() == 1
        assert open_session(store).query(declared).where(field > 3).allow_full_scan().count() == 0


def external(**counters: tuple[str, str | None]) -> type[Any]:
    """A model of a table that other programs write too, with counters: alias and former name of each."""
    fields = {name: COUNTER(alias, was) for name, (alias, was) in counters.items()}
    return declare(
        TABLE, {"id": (hb.Key[str], hb.key()), "text": (hb.Column[str], hb.column("t")), **fields}, external=True
    )


def test_counters_of_an_external_table(store: hb.Store) -> None:
    """An exchange of names must be said. An alias may be corrected, if the declaration does not say otherwise."""
    before = external(a=("x", None), b=("y", None))
    hb.create_tables(store, before, create_external=True)
    with pytest.raises(hb.SchemaMismatch, match=r'declare hb\.counter\(renamed_from="b"\)'):
        hb.create_tables(store, external(a=("y", None), b=("x", None)))
    with pytest.raises(hb.SchemaMismatch, match=r'declare hb\.counter\("x", renamed_from="a"\)'):
        hb.create_tables(store, external(new=("z", "a"), b=("y", None)))
    swapped = external(a=("y", "b"), b=("x", "a"))
    hb.create_tables(store, swapped)
    assert registered(store, swapped) == {"d:t": ["text"], "d:x": ["b", "a"], "d:y": ["a", "b"]}
    corrected = external(a=("z", None), b=("x", None))
    hb.create_tables(store, corrected)
    assert not hb.diff(store, corrected)


@pytest.mark.parametrize("was", ["a", "", 3])
@pytest.mark.parametrize("kind", [COUNTER, MAP], ids=["counter", "map"])
def test_a_former_name_that_cannot_be(kind: Kind, was: Any) -> None:
    with pytest.raises(hb.DeclarationError, match="renamed_from takes the former name of the field") as caught:
        model(a=of(kind, "x", was))
    assert caught.value.field == "a"


@pytest.mark.parametrize(("one", "other"), [(COUNTER, MAP), (MAP, MAP), (COLUMN, MAP)])
def test_two_fields_cannot_have_had_one_name(one: Kind, other: Kind) -> None:
    with pytest.raises(hb.DeclarationError, match="each name only once"):
        model(a=of(one, "x", "c"), b=of(other, "y", "c"))


def test_a_model_for_another_table_keeps_the_former_names(store: hb.Store) -> None:
    after = hb.schema.with_table(model(a=COUNTER("y", "b"), b=COUNTER("x", "a"), m=MAP("n", "l")), "renamed_elsewhere")
    hb.create_tables(store, after)
    assert registered(store, after) == {
        "d:t": ["text"],
        "d:x": ["b", "a"],
        "d:y": ["a", "b"],
        "d:n": ["m", "l"],
    }


def test_a_table_as_the_registry_knows_it_has_the_latest_names(store: hb.Store) -> None:
    written(store, model(a=COUNTER("x"), m=MAP("n")), {"a": COUNTER})
    hb.create_tables(store, model(new=COUNTER("x", "a"), entries=MAP("n", "m")))
    found = TableFromRegistry.find(Registry(store), TABLE)
    assert {*found.schema.by_name, *found.schema.maps_by_name} == {
        "owner",
        "id",
        "text",
        "new",
        "entries",
    }
