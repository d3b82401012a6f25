"""What `diff` finds of columns that live rows hold and no model has, and of members of enumerations that one side
does not know.
"""

from __future__ import annotations

import enum
from contextlib import nullcontext
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.store import Put
from tests.support.beds import HBASE, Bed, cells_of, fresh, rows_of
from tests.support.own_codec import OneByte

EVERYWHERE = pytest.mark.parametrize("bed", ["memory", "embedded", *HBASE], indirect=True)


def told(found: hb.tables.Diff) -> dict[str, str]:
    """What is said of each column or member."""
    return {each.what: str(each) for each in found if each.kind in {"column", "member"}}


def with_columns(*names: str, table: str = "held", **options: Any) -> Any:
    """A model with these columns, each also in an index where the options say so."""
    body: dict[str, Any] = {name: hb.column(name, default="") for name in names}
    body |= {"key": hb.key(), **options.pop("body", {})}
    body["__annotations__"] = {
        "key": hb.Key[str],
        **dict.fromkeys(names, hb.Column[str]),
        **options.pop("hints", {}),
    }
    return hb.model(table=table, **options)(type("Held", (), body))


BOTH, ONE = with_columns("a", "b"), with_columns("a")

MAY_BE_REQUIRED = (
    "the registry has it as {}, and an earlier model may require it: a program with such a model raises IncompleteRow "
    "when it reads a row that this model writes, so before you remove the field, give its column a default in all "
    "programs"
)


@EVERYWHERE
def test_columns_that_no_field_has_are_found_in_a_sample(bed: Bed) -> None:
    session = bed.use(BOTH)
    session.add_all(BOTH(key=f"k{n}", a="x", b="y" if n % 2 else "") for n in range(6))
    session.commit()
    assert not hb.diff(bed.store, BOTH)
    found = hb.diff(bed.store, ONE)
    assert told(found) == {
        "column d:b": "= held: column d:b: in 6 of 6 sampled rows (no field maps it: reads ignore it, and deleting "
        f"the object deletes it too; {MAY_BE_REQUIRED.format('b')})"
    }
    (difference,) = found
    assert (difference.kind, difference.effect, difference.declared, difference.family) == ("column", "left", None, "d")
    assert not hb.diff(bed.store, ONE, sample=0)
    assert not hb.alter(bed.store, ONE).left
    assert all(hb.diff(bed.store, ONE, sample=count) for count in (6, 100))


REQUIRED = {"body": {"r": hb.column("r")}, "hints": {"r": hb.Column[str]}}


def test_a_required_column_that_the_model_no_longer_has_is_reported_before_there_are_rows() -> None:
    with fresh(with_columns("a", **REQUIRED)) as store:
        assert told(hb.diff(store, ONE)) == {
            "column d:r": f"= held: column d:r: not declared ({MAY_BE_REQUIRED.format('r')})"
        }
        (difference,) = hb.diff(store, ONE)
        assert (difference.effect, difference.declared, difference.family) == ("left", None, "d")
        assert not hb.diff(store, ONE, sample=0)
        with hb.Session(store) as session:
            session.add(ONE(key="new", a="x"))
        assert not hb.diff(store, ONE)  # all rows of a model that requires the column have it


def test_a_field_that_was_renamed_without_its_alias_is_recognized() -> None:
    with fresh(BOTH) as store:
        with hb.Session(store) as session:
            session.add(BOTH(key="k", a="x", b="y"))
        found = told(hb.diff(store, with_columns("a", "c")))
        assert found["column d:c"] == "+ held: column d:c: missing"
        declare = 'hb.column("b", renamed_from="b")'
        assert found["column d:b"].endswith(f"in all programs; if c is its new name, declare c as {declare})")
        required = with_columns("a", body={"c": hb.column()}, hints={"c": hb.Column[str]})
        with pytest.raises(hb.SchemaMismatch) as caught:
            hb.alter(store, required)
        assert f"if its name was b before, declare {declare}" in str(caught.value)
        for hint, default in ((hb.Column[int], 0), (hb.Column[str | None], None)):  # a renamed field keeps its type
            other = with_columns("a", body={"c": hb.column(default=default)}, hints={"c": hint})
            assert "new name" not in str(hb.diff(store, other))
        said = with_columns("a", body={"c": hb.column("b", default="", renamed_from="b")}, hints={"c": hb.Column[str]})
        hb.alter(store, said)
        assert not hb.diff(store, said)


def test_a_required_column_in_rows_is_reported_although_another_model_cannot_be_rebuilt() -> None:
    full = with_columns("a", **REQUIRED)
    other = with_columns("z", family="o", body={"key": hb.key(OneByte())}, hints={"key": hb.Key[int]})
    with fresh(full, other) as store:
        with hb.Session(store) as session:
            session.add(full(key="k", a="x", r="y"))
        store.put("held", [Put(b"k", {b"d:unknown": b"x"})])
        found = told(hb.diff(store, ONE))
        assert [*found] == ["column d:r"]  # `d:unknown` may be a column of the other model
        assert found["column d:r"].endswith(f"{MAY_BE_REQUIRED.format('r')})")


def test_a_column_that_may_be_none_is_required_by_no_model() -> None:
    optional = {"body": {"r": hb.column("r")}, "hints": {"r": hb.Column[str | None]}}
    with fresh(with_columns("a", **optional)) as store:
        assert not hb.diff(store, ONE)
        with hb.Session(store) as session:
            session.add(with_columns("a", **optional)(key="k", a="x", r="y"))
        assert told(hb.diff(store, ONE))["column d:r"].endswith("; the registry has it as r)")


def test_other_programs_columns_are_told_without_a_name() -> None:
    with fresh(ONE) as store:
        store.put("held", [Put(b"k", {b"d:a": b"x", b"d:by \xff": b"y"})])
        assert "the registry" not in told(hb.diff(store, ONE))["column d:by \xff"]


def test_a_column_that_was_blanked_or_deleted_is_held_no_longer() -> None:
    with fresh(BOTH) as store:
        with hb.Session(store) as session:
            session.add_all([BOTH(key="one", a="x", b="y"), BOTH(key="two", a="x", b="y")])
        store.put("held", [Put(b"one", {b"d:b": b""})])
        with hb.Session(store) as session:
            session.delete_key(ONE, key="two")
        assert not hb.diff(store, ONE)


def test_a_external_table_may_hold_any_columns() -> None:
    with fresh(BOTH) as store:
        with hb.Session(store) as session:
            session.add(BOTH(key="one", a="x", b="y"))
        assert not hb.diff(store, with_columns("a", external=True))


@pytest.mark.parametrize("number", [0, 5, 1_500])
def test_cells_of_maps_and_of_the_system_are_a_model_s_own(number: int) -> None:
    @hb.model(table="with_map", exists=hb.flag("e"))
    class Mapped:
        key: hb.Key[str] = hb.key()
        notes: hb.Map[int, str] = hb.map_column("n", hb.Int32, hb.Text)
        a: hb.Column[str] = hb.column("a", default="")

        by_a = hb.index("a")

    with fresh(Mapped) as store:
        with hb.Session(store) as session:
            session.add(Mapped(key="k", notes=dict.fromkeys(range(number), "x"), a="x"))
        assert not hb.diff(store, Mapped)
        store.put("with_map", [Put(b"k", {b"d:b": b"x"})])
        assert list(told(hb.diff(store, Mapped))) == ["column d:b"]


@hb.model(table="pets_held", family="p", kind=b"p")
class Pet:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(hb.Text, in_qualifier=True)
    species: hb.Column[str] = hb.column("s")


@hb.model(table="pets_held", family="p", kind=b"p")
class PetOfLater:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(hb.Text, in_qualifier=True)
    species: hb.Column[str] = hb.column("s")
    weight: hb.Column[int] = hb.column("w", default=0)


@hb.model(table="pets_held", family="p", kind=b"v")
class Visit:
    owner: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), in_qualifier=True)
    cost: hb.Column[int] = hb.column("c")


@EVERYWHERE
def test_rows_of_several_kinds_are_known_by_the_registry(bed: Bed) -> None:
    session = bed.use(PetOfLater, Visit)
    session.add_all(PetOfLater(owner="ann", name=name, species="cat", weight=3) for name in ("flup", "miez"))
    session.add(Visit(owner="ann", at=datetime.fromisoformat("2026-03-01T12:00:00Z"), cost=3))
    session.commit()
    assert not hb.diff(bed.store, PetOfLater)
    assert not hb.diff(bed.store, Visit)
    assert list(told(hb.diff(bed.store, Pet))) == ["column p:w"]


def test_of_a_neighbour_that_only_its_own_program_reads_nothing_is_said() -> None:
    class Odd(type(hb.Text)):  # type: ignore[misc]
        spec = {"codec": "odd"}  # noqa: RUF012

    with fresh(with_columns("a", kind=b"a")) as store:

        @hb.model(table="held", kind=b"b")
        class Neighbour:
            key: hb.Key[str] = hb.key(Odd())
            c: hb.Column[str] = hb.column("c")

        hb.create_tables(store, Neighbour)
        with hb.Session(store) as session:
            session.add(Neighbour(key="k", c="x"))
        assert not hb.diff(store, with_columns("a", kind=b"a"))


@pytest.mark.lengthy
@given(
    st.sets(st.sampled_from("abcd")),
    st.sets(st.sampled_from("abcd")),
    st.lists(st.sets(st.sampled_from("abcd"), min_size=1), max_size=5),
)
def test_found_is_what_is_held_and_not_declared(old: set[str], new: set[str], rows: list[set[str]]) -> None:
    before, after = with_columns(*sorted(old | {"e"})), with_columns(*sorted(new | {"e"}))
    with fresh(before) as store:
        store.put(
            "held", [Put(b"k%d" % at, {f"d:{name}".encode(): b"x" for name in row}) for at, row in enumerate(rows)]
        )
        held = {name: sum(name in row for row in rows) for name in "abcd"}
        expected = {
            f"column d:{name}": f"in {count} of {len(rows)}"
            for name, count in held.items()
            if count and name not in new
        }
        if not rows:  # no row shows that a column is not required
            expected = {f"column d:{name}": "not declared" for name in old - new}
        live = {each.what: each.live for each in hb.diff(store, after) if each.declared is None}
        assert {what: said.removesuffix(" sampled rows") for what, said in live.items()} == expected


# --- required columns -------------------------------------------------------------------------------------------------


def requiring(*names: str, wide: bool = False, **options: Any) -> Any:
    """A model that requires these columns, the numbers among them with a codec whose values are never empty. The
    objects of a wide one share a row.
    """
    hints = {name: hb.Column[int] if name in "bd" else hb.Column[str] for name in names}
    body: dict[str, Any] = {name: hb.column(name, hb.codecs.UInt8 if name in "bd" else hb.Text) for name in names}
    body |= {
        **({"owner": hb.key(), "key": hb.key(in_qualifier=True)} if wide else {"key": hb.key()}),
        **options.pop("body", {}),
        "__annotations__": {
            **({"owner": hb.Key[str]} if wide else {}),
            "key": hb.Key[str],
            **hints,
            **options.pop("hints", {}),
        },
    }
    return hb.model(table="required", **options)(type("Requiring", (), body))


VERSIONED: dict[str, Any] = {"body": {"version": hb.version()}, "hints": {"version": hb.Column[int]}}
INDEXED: dict[str, Any] = {"body": {"by_e": hb.index("e")}}


@EVERYWHERE
def test_rows_that_lack_a_required_column_are_found_in_a_sample(bed: Bed) -> None:
    old, new = requiring("e"), requiring("e", "b")
    defaulted = requiring("e", body={"b": hb.column("b", hb.codecs.UInt8, default=0)}, hints={"b": hb.Column[int]})
    session = bed.use(old)
    session.add_all(old(key=f"k{n}", e="x") for n in range(3))
    session.commit()
    refused = (
        "! required: column d:b: missing in 3 of 3 sampled rows (the column is new and required, so programs with this "
        "model could not read these rows: give it a default, register and deploy the model, fill the rows, and then "
        "make the column required)"
    )
    missing = (
        "= required: column d:b: missing in 3 of 3 sampled rows (the column is required, and reading a row that "
        "lacks it raises IncompleteRow: give the column a default, and fill the rows before you make it required)"
    )
    assert str(hb.diff(bed.store, new)).splitlines() == [refused, "+ required: column d:b: missing"]
    assert [each.effect for each in hb.diff(bed.store, new, sample=0)] == ["safe"]
    with pytest.raises(hb.SchemaMismatch) as caught:
        hb.alter(bed.store, new)
    assert caught.value.differences == [refused]
    hb.alter(bed.store, defaulted)
    assert str(hb.diff(bed.store, new)) == missing
    assert not hb.alter(bed.store, new).applied
    with pytest.raises(hb.IncompleteRow, match="lacks a required column: give the field a default, or put"):
        hb.Session(bed.store).get(new, key="k0")
    with hb.Session(bed.store) as again:
        again.add_all(new(key=f"k{n}", e="x", b=1) for n in range(3))
    assert not hb.diff(bed.store, new)
    with hb.Session(bed.store) as late:
        late.add(old(key="k9", e="x"))  # by a program from before
    (difference,) = hb.diff(bed.store, new)
    assert difference.live == "missing in 1 of 4 sampled rows"


@pytest.mark.lengthy
@given(
    st.sampled_from([{}, VERSIONED, INDEXED, {"exists": hb.flag("f")}]),
    st.booleans(),
    st.sets(st.sampled_from("abcd")),
    st.lists(st.dictionaries(st.sampled_from("abcde"), st.booleans()), max_size=4),
)
def test_what_is_found_to_be_missing_is_what_reads_miss(
    options: Any, wide: bool, new: set[str], rows: list[dict[str, bool]]
) -> None:
    old, model = requiring("e", wide=wide, **options), requiring(*sorted(new), "e", wide=wide, **options)
    owner, what = ({"owner": "o"}, "objects") if wide else ({}, "rows")
    with fresh(old) as store:
        with hb.Session(store) as session:
            session.add_all(old(**owner, key=f"k{at}", e="") for at, row in enumerate(rows) if row.get("e"))
        for at, row in enumerate(rows):
            place, prefix = ("o", f"k{at}\0\1") if wide else (f"k{at}", "")
            if row:
                cells = {f"d:{prefix}{name}".encode(): b"1" * filled for name, filled in row.items()}
                store.put("required", [Put(place.encode(), cells)])
        told = {
            effect: {
                each.what[-1]: each.live
                for each in hb.diff(store, model)
                if (each.declared, each.effect) == ("required", effect)
            }
            for effect in ("left", "refused")
        }
        # A new column is looked for in the objects of the old model: reads may leave out those that lack it.
        before = [row for row in rows if row.get("e") or ("e" in row and not options)]
        missing = {name: sum(lacks(row, name) for row in before) for name in new}
        unread = {name for name in new if missing[name] == len(before) > 0}
        assert told["refused"] == dict.fromkeys(unread, f"missing in {len(before)} of {len(before)} sampled {what}")
        with pytest.raises(hb.SchemaMismatch) if unread else nullcontext():
            hb.alter(store, model)
        session = hb.Session(store)
        hb.create_tables(store, model)
        objects, lacking = 0, 0
        for at, row in enumerate(rows):
            try:
                objects += session.get(model, **owner, key=f"k{at}") is not None
            except hb.IncompleteRow:
                objects += 1
                lacking += lacks(row, "e")
                assert any(lacks(row, name) for name in (*new, "e"))
        assert told["left"] == {
            **{
                name: f"missing in {count} of {len(before)} sampled {what}"
                for name, count in missing.items()
                if 0 < count < len(before)
            },
            **({"e": f"missing in {lacking} of {objects} sampled {what}"} if lacking else {}),
        }


def test_only_objects_of_the_own_kind_can_lack_a_required_column() -> None:
    def kinds(*names: str) -> tuple[Any, Any]:
        return requiring(*names, wide=True, kind=b"a"), requiring("e", wide=True, kind=b"b")

    (old, other), (new, _) = kinds("e"), kinds("e", "a")
    with fresh(old, other) as store:
        session = hb.Session(store)
        session.add_all(other(owner="o", key=f"k{n}", e="x") for n in range(3))
        session.commit()
        assert [each.effect for each in hb.diff(store, new)] == ["safe"]
        session.add_all(old(owner=owner, key=f"k{n}", e="x") for owner in "op" for n in range(2))
        session.commit()
        refused, _ = hb.diff(store, new)
        assert (refused.effect, refused.live) == ("refused", "missing in 4 of 4 sampled objects")


def lacks(row: dict[str, bool], name: str) -> bool:
    """Whether a row lacks a required column, whose cell is never empty."""
    return not row.get(name)


@pytest.mark.parametrize("filled", [True, False])
def test_a_first_required_column_would_hide_all_rows(filled: bool) -> None:
    old = with_columns("a")
    new = with_columns("a", body={"b": hb.column("b")}, hints={"b": hb.Column[str]})
    with fresh(old) as store:
        with hb.Session(store) as session:
            session.add_all(old(key=f"k{n}", a="x" * filled) for n in range(3))
        store.put("held", [Put(b"other", {b"d:other": b"x"})])  # which is no object
        assert hb.Session(store).get(new, key="k0") is None
        refused, *_ = [each for each in hb.diff(store, new) if each.effect == "refused"]
        assert (refused.what, refused.live) == ("column d:b", "missing in 3 of 3 sampled rows")
        with pytest.raises(hb.SchemaMismatch):
            hb.alter(store, new)
        store.put("held", [Put(next(iter(rows_of(store, "held"))), {b"d:b": b"y"})])  # by another program
        told = [(each.effect, each.live) for each in hb.diff(store, new) if each.what == "column d:b"]
        assert told == [("left", "missing in 2 of 3 sampled rows"), ("safe", None)]
        hb.alter(store, new)


def test_a_sample_is_a_number() -> None:
    with fresh(ONE) as store:
        for wrong in (-1, "5", True, None):
            with pytest.raises(hb.DeclarationError, match="sample must be a whole number of at least"):
                hb.diff(store, ONE, sample=wrong)  # type: ignore[arg-type]


# --- members ----------------------------------------------------------------------------------------------------------

MEMBERS = {"NEW": "new", "SENT": "sent", "BACK": "back", "LOST": "lost"}


def with_members(*names: str, in_key: bool = False) -> Any:
    state = enum.Enum("State", {name: MEMBERS[name] for name in names})  # type: ignore[misc]
    body: dict[str, Any] = {
        "key": hb.key(hb.EnumOf(state)) if in_key else hb.key(),
        "state": hb.column("s", hb.EnumOf(state)),
    }
    body["__annotations__"] = {"key": hb.Key[Any] if in_key else hb.Key[str], "state": hb.Column[Any]}
    return hb.model(table="enumerated")(type("Thing", (), body))


@EVERYWHERE
def test_a_new_member_says_which_programs_it_breaks_until_it_is_registered(bed: Bed) -> None:
    older, newer = with_members("NEW", "SENT"), with_members("NEW", "SENT", "BACK")
    bed.use(older)
    hb.alter(bed.store, older, drop=True)  # what earlier tests have registered
    found = hb.diff(bed.store, newer)
    (line,) = told(found).values()
    assert line.startswith(
        "+ enumerated: column d:s member BACK: missing (programs whose enumeration lacks it cannot read rows"
    )
    assert found.differences[0].safe
    assert hb.alter(bed.store, newer).applied == found
    assert not hb.diff(bed.store, newer)
    (line,) = told(hb.diff(bed.store, older)).values()
    assert line.startswith(
        "= enumerated: column d:s member BACK: not declared (this model cannot read rows that hold it "
        "(DecodingError): keep"
    )
    hb.create_tables(bed.store, older)
    assert hb.diff(bed.store, older), "a program with the older enumeration forgets nothing"
    assert not hb.diff(bed.store, newer)
    assert hb.alter(bed.store, older, drop=True).left.differences == ()
    assert not hb.diff(bed.store, older)


def test_members_of_keys_and_maps_are_known_too() -> None:
    with fresh(with_members("NEW", in_key=True)) as store:
        assert sorted(told(hb.diff(store, with_members("NEW", "LOST", in_key=True)))) == [
            "column d:s member LOST",
            "key 0 member LOST",
        ]

    def mapped(*names: str) -> Any:
        state = enum.Enum("State", {name: MEMBERS[name] for name in names})  # type: ignore[misc]
        body: dict[str, Any] = {
            "key": hb.key(),
            "a": hb.column("a"),
            "states": hb.map_column("m", hb.Int32, hb.EnumOf(state)),
        }
        body["__annotations__"] = {"key": hb.Key[str], "a": hb.Column[str], "states": hb.Map[int, Any]}
        return hb.model(table="member_maps")(type("Thing", (), body))

    with fresh(mapped("NEW")) as store:
        assert list(told(hb.diff(store, mapped("NEW", "SENT")))) == ["column d:m member SENT"]


def test_a_member_is_known_by_its_value_and_not_by_its_name() -> None:
    renamed = enum.Enum("State", {"FRESH": "new", "SENT": "sent"})

    @hb.model(table="enumerated")
    class Thing:
        key: hb.Key[str] = hb.key()
        state: hb.Column[Any] = hb.column("s", hb.EnumOf(renamed))

    with fresh(with_members("NEW", "SENT")) as store:
        assert not hb.diff(store, Thing)


def test_a_registration_from_before_members_were_kept_says_nothing_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("hbmodel.mapping.schema.members_of", lambda codec: {})
        store = fresh(with_members("NEW"))
        assert all(b'"members":' not in cells.get(b"m:layout", b"") for cells in cells_of(store, "hbmodel").values())
    with store:
        later = with_members("NEW", "SENT")
        assert not hb.diff(store, later)
        hb.create_tables(store, later)
        assert list(told(hb.diff(store, with_members("NEW", "SENT", "LOST")))) == ["column d:s member LOST"]


@pytest.mark.lengthy
@given(st.lists(st.sets(st.sampled_from(sorted(MEMBERS)), min_size=1), min_size=1, max_size=4))
def test_whatever_programs_register_each_finds_what_it_does_not_know(sets: list[set[str]]) -> None:
    with hb.connect("memory:") as store:
        known: set[str] = set()
        for at, names in enumerate(sets):
            model = with_members(*sorted(names))
            if at:
                new, gone = names - known, known - names
                expected = {f"column d:s member {name}": name in new for name in new | gone}
                assert {each.what: each.safe for each in hb.diff(store, model)} == expected
            hb.create_tables(store, model)
            known |= names
            with hb.Session(store) as session:
                session.add(model(key=str(at), state=next(iter(model.state.of.codec.python_type))))
