"""Fields and indexes that get other names while their bytes stay, and programs from before and after that at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from attrs import define
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.store.embedded import EmbeddedStore
from hbmodel.tables.registry.layout_differences import same_spec
from hbmodel.tables.registry.registration import ABSENT
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.registry.table_from_registry import TableFromRegistry
from tests.support.beds import HBASE, Bed, fresh, paired
from tests.support.examples import examples
from tests.support.faulty import RecordingStore

TIMES = hb.indexes.IndexTimes(lease=0.15, longest_call=0.1, clock_bound=2, grace=10)
SESSION: dict[str, Any] = {"lease": 0.15, "longest_call": 0.1, "clock_bound": 2, "grace": 10}


def open_session(store: hb.Store) -> hb.Session:
    return hb.Session(store, **SESSION)


def declare(table: str, fields: Mapping[str, tuple[Any, Any]], **options: Any) -> type[Any]:
    """A model of a table: fields with their annotations and declarations; a declaration without an annotation is an
    index.
    """
    body = {name: declaration for name, (_, declaration) in fields.items()}
    hints = {name: hint for name, (hint, _) in fields.items() if hint is not None}
    return hb.model(table=table, family="d", **options)(type("Declared", (), {**body, "__annotations__": hints}))


@define
class Renamed:
    """One table before and after everything in it has got another name."""

    before: type[Any]
    after: type[Any]


def renamed(*, said: bool = True, versioned: bool = False, table: str = "") -> Renamed:
    """Models of one table whose key fields, columns and indexes have different names."""
    table = table or f"renamed-{uuid4().hex[:10]}"

    def was(name: str) -> dict[str, str]:
        return {"renamed_from": name} if said else {}

    version = {"version": (hb.Column[int], hb.version())} if versioned else {}
    before = {
        "user": (hb.Key[str], hb.key()),
        "at": (hb.Key[int], hb.key(hb.UInt32, desc=True)),
        "topic": (hb.Column[str], hb.column("t")),
        "note": (hb.Column[str | None], hb.column("n", default=None)),
        **version,
        "by_topic": (None, hb.index("topic", "at", covers=("note",), salt=hb.HashSalt(3, by=("topic",)))),
        "by_note": (None, hb.index("note", skip_none=True, where=lambda model: model.topic != "hidden")),
    }
    after = {
        "user_id": (hb.Key[str], hb.key(**was("user"))),
        "moment": (hb.Key[int], hb.key(hb.UInt32, desc=True, **was("at"))),
        "subject": (hb.Column[str], hb.column("t", **was("topic"))),
        "remark": (hb.Column[str | None], hb.column("n", default=None, **was("note"))),
        **version,
        "by_subject": (
            None,
            hb.index("subject", "moment", covers=("remark",), salt=hb.HashSalt(3, by=("subject",)), **was("by_topic")),
        ),
        "by_remark": (
            None,
            hb.index("remark", skip_none=True, where=lambda model: model.subject != "hidden", **was("by_note")),
        ),
    }
    salt = hb.HashSalt(4, by=("user",)), hb.HashSalt(4, by=("user_id",))
    return Renamed(declare(table, before, salt=salt[0]), declare(table, after, salt=salt[1]))


STORES = ("memory", "limited", *HBASE)


@pytest.fixture(params=STORES)
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    if request.param.startswith("thrift"):
        yield Bed(request.param, request.getfixturevalue("real_beds")(request.param).store)
        return
    with RecordingStore(EmbeddedStore(None), limited=request.param == "limited") as store:
        yield Bed(request.param, store)


def write(
    session: hb.Session,
    both: Renamed,
    random: Random,
    expected: dict[tuple[str, int], tuple[str, str | None]],
    old: bool,
) -> None:
    """One write by the program from before or after."""
    key = random.choice("ab"), random.randrange(3)
    topic, note = random.choice(["x", "y", "hidden"]), random.choice([None, "n", "m"])
    model = both.before if old else both.after
    names = ("user", "at", "topic", "note") if old else ("user_id", "moment", "subject", "remark")
    at_key = dict(zip(names[:2], key, strict=True))
    match random.randrange(4):
        case 0:
            session.delete_key(model, **at_key)
            expected.pop(key, None)
        case 1 if key in expected:
            session.update(model(**at_key, **{names[2]: ""}), **{names[2]: topic})
            expected[key] = (topic, expected[key][1])
        case 2 if key in expected:
            session.update(model(**at_key, **{names[2]: ""}), **{names[3]: note})
            expected[key] = (expected[key][0], note)
        case _:
            session.add(model(**at_key, **{names[2]: topic, names[3]: note}))
            expected[key] = (topic, note)
    session.commit()


def check(store: hb.Store, both: Renamed, expected: Mapping[tuple[str, int], tuple[str, str | None]]) -> None:
    """Both programs find every row through their indexes, which are the same ones and lack nothing."""
    session = open_session(store)
    before, after = both.before, both.after
    for topic in ("x", "y", "hidden"):
        found = sorted(key for key, values in expected.items() if values[0] == topic)
        old = session.query(before).where(before.topic == topic).use_index("by_topic")
        new = session.query(after).where(after.subject == topic).use_index("by_subject")
        assert sorted((item.user, item.at) for item in old) == found
        assert sorted((item.user_id, item.moment) for item in new) == found
    for note in ("n", "m"):
        found = sorted(key for key, values in expected.items() if values[1] == note and values[0] != "hidden")
        old = session.query(before).where(before.note == note, before.topic != "hidden").use_index("by_note")
        new = session.query(after).where(after.remark == note, after.subject != "hidden").use_index("by_remark")
        assert sorted((item.user, item.at) for item in old) == found
        assert sorted((item.user_id, item.moment) for item in new) == found
    for model, indexes in ((before, ("by_topic", "by_note")), (after, ("by_subject", "by_remark"))):
        for index in indexes:
            report = hb.indexes.verify_index(store, model, index, times=TIMES)
            assert (report.missing, report.refused, report.rows) == (0, 0, len(expected)), str(report)


@pytest.mark.lengthy
@pytest.mark.parametrize(("bed", "versioned"), paired((STORES, False), (("memory", HBASE[1]), True)), indirect=["bed"])
@pytest.mark.parametrize("said", [True, False], ids=["said", "seen"])
def test_programs_from_before_and_after_write_in_turns(bed: Bed, said: bool, versioned: bool) -> None:
    both = renamed(said=said, versioned=versioned)
    table = hb.schema.schema_of(both.before).table
    hb.create_tables(bed.store, both.before)
    random, expected = Random(7), dict[tuple[str, int], tuple[str, str | None]]()
    old = hb.Session(bed.store, **{**SESSION, "lease": 60})  # learns nothing of the rename
    write(old, both, random, expected, True)
    if not said:
        with pytest.raises(hb.SchemaMismatch, match="renamed_from="):
            hb.create_tables(bed.store, both.after)
        hb.alter(bed.store, both.after)
    new = open_session(bed.store)
    for turn in range(40):
        if turn == 10:  # until then the registry says nothing of it, if the declaration does
            hb.create_tables(bed.store, both.after)
        if turn == 20:
            hb.create_tables(bed.store, both.before)  # a program from before starts
        write(*((old, both, random, expected, True) if random.random() < 0.5 else (new, both, random, expected, False)))
    check(bed.store, both, expected)
    assert sorted(name for name in bed.store.tables() if name.startswith(table)) == [
        table,
        f"{table}.by_note",
        f"{table}.by_topic",
    ]
    assert not hb.diff(bed.store, both.after)
    assert not hb.diff(bed.store, both.before)
    hb.drop_tables(bed.store, both.after)
    assert not [name for name in bed.store.tables() if name.startswith(table)]


@pytest.mark.lengthy
@pytest.mark.parametrize("versioned", [False, True])
def test_programs_from_before_use_a_table_that_a_later_one_created(versioned: bool) -> None:
    """In a new store, the registry learns the earlier names from the declaration alone."""
    both = renamed(versioned=versioned)
    with fresh() as store:
        hb.create_tables(store, both.after)
        assert not hb.diff(store, both.before)
        hb.create_tables(store, both.before)
        random, expected = Random(7), dict[tuple[str, int], tuple[str, str | None]]()
        for turn in range(20):
            write(open_session(store), both, random, expected, old=turn % 2 == 0)
        check(store, both, expected)
        assert not hb.diff(store, both.after)


def test_fields_of_a_new_table_that_have_exchanged_their_names() -> None:
    text = (hb.Key[str], hb.key())
    value = (hb.Column[int], hb.column("c", default=0))
    was = [(hb.Key[str], hb.key(renamed_from=name)) for name in ("a", "b")]
    before = declare("exchanged", {"a": text, "b": text, "c": value})
    after = declare("exchanged", {"b": was[0], "a": was[1], "c": value})
    with fresh(after) as store:
        session = open_session(store)
        session.add(after(b="first", a="second", c=1))
        session.commit()
        hb.create_tables(store, after)
        assert open_session(store).get(before, a="first", b="second") == before(a="first", b="second", c=1)
        assert open_session(store).get(after, b="first", a="second") == after(b="first", a="second", c=1)


def test_what_is_renamed_is_shown_and_altered() -> None:
    both = renamed(said=False)
    table = hb.schema.schema_of(both.after).table
    with fresh(both.before) as store:
        lines = str(hb.diff(store, both.after)).splitlines()
        assert lines == [
            f"~ {table}: key field: renamed user -> user_id (its bytes stay the same)",
            f"~ {table}: key field: renamed at -> moment (its bytes stay the same)",
            f"~ {table}: column d:t: renamed topic -> subject (its bytes stay the same)",
            f"~ {table}: column d:n: renamed note -> remark (its bytes stay the same)",
            f"~ {table}: index: renamed by_note -> by_remark (its entries stay the same)",
            f"~ {table}: index: renamed by_topic -> by_subject (its entries stay the same)",
        ]
        altered = hb.alter(store, both.after)
        assert len(altered.applied) == 6
        assert not hb.diff(store, both.after)
        assert hb.indexes.index_status(store, both.after, sample=0, times=TIMES)[0].index == "by_remark"
        found = Registry(store).read(hb.schema.schema_of(both.after))
        assert found is not None
        assert {state.name for state in found.indexes.values()} == {"by_remark", "by_subject"}
        # Once more renamed, a program from the beginning still works.
        third = declare(
            table,
            {
                "owner": (hb.Key[str], hb.key()),
                "moment": (hb.Key[int], hb.key(hb.UInt32, desc=True)),
                "subject": (hb.Column[str], hb.column("t")),
                "remark": (hb.Column[str | None], hb.column("n", default=None)),
                "by_title": (
                    None,
                    hb.index("subject", "moment", covers=("remark",), salt=hb.HashSalt(3, by=("subject",))),
                ),
                "by_remark": (None, hb.index("remark", skip_none=True, where=lambda model: model.subject != "hidden")),
            },
            salt=hb.HashSalt(4, by=("owner",)),
        )
        hb.alter(store, third)
        expected = dict[tuple[str, int], tuple[str, str | None]]()
        session = open_session(store)
        session.add(third(owner="a", moment=1, subject="x"))
        session.commit()
        expected["a", 1] = ("x", None)
        check(store, both, expected)


@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
def test_the_registry_describes_indexes_by_the_present_names(versioned: bool) -> None:
    both = renamed(versioned=versioned)
    schema = hb.schema.schema_of(both.after)
    with fresh(both.before) as store:
        session = open_session(store)
        session.add(both.before(user="a", at=1, topic="x", note="n"))
        session.commit()
        hb.alter(store, both.after)
        found = TableFromRegistry.find(Registry(store), schema.table)
        assert found.schema.indexes.keys() == {"by_subject"}  # the other one has a condition, which is code
        assert same_spec(found.schema.indexes["by_subject"].spec, schema.indexes["by_subject"].spec)
        for name, former in (("by_subject", "by_topic"), ("by_remark", "by_note")):
            entries = TableFromRegistry.find(Registry(store), f"{schema.table}.{former}")
            assert entries.index == name
            assert entries.schema.layout.spec == schema.indexes[name].layout.spec
            assert entries.schema.salt.spec == schema.indexes[name].salt.spec
            (entry,) = hb.Session(store).query(entries.model).allow_full_scan()
            assert (entry.user_id, entry.moment, entry.remark) == ("a", 1, "n")


def test_the_registry_describes_a_column_that_a_mistaken_rename_has_left() -> None:
    number = (hb.Key[int], hb.key(hb.UInt32))
    before = declare("left", {"number": number, "state": (hb.Column[str], hb.column(default="new"))})
    mistaken = declare("left", {"number": number, "status": (hb.Column[str], hb.column(default="new"))})
    after = declare(
        "left",
        {
            "number": number,
            "status": (hb.Column[str], hb.column("state", default="new", renamed_from="state")),
            "by_status": (None, hb.index("status")),
        },
    )
    with fresh(before) as store:
        with hb.Session(store) as session:
            session.add(before(number=1, state="sent"))
        hb.alter(store, mistaken)
        with hb.Session(store) as session:
            session.add(mistaken(number=1, status="late"))
        hb.alter(store, after)
        hb.indexes.build_index(store, after, "by_status")
        table = hb.schema.schema_of(after).table
        found = TableFromRegistry.find(Registry(store), table).model
        (obj,) = hb.Session(store).query(found).allow_full_scan()
        assert (obj.status, obj.status_) == ("sent", "late")
        entries = TableFromRegistry.find(Registry(store), f"{table}.by_status").model
        (entry,) = hb.Session(store).query(entries).allow_full_scan()
        assert (entry.status, entry.number) == ("sent", 1)


def test_the_registry_describes_an_index_of_columns_that_have_exchanged_their_names() -> None:
    before = declare(
        "exchanged",
        {
            "number": (hb.Key[int], hb.key(hb.UInt32)),
            "a": (hb.Column[str], hb.column("x")),
            "b": (hb.Column[str], hb.column("y")),
            "tags": (hb.Column[list[str]], hb.column("t", hb.Json(list[str]), factory=list)),
            "by_a": (None, hb.index("a")),
            "by_tag": (None, hb.index(hb.each("tags"), salt=hb.HashSalt(2, by=("tags[]",)))),
        },
    )
    after = declare(
        "exchanged",
        {
            "number": (hb.Key[int], hb.key(hb.UInt32)),
            "b": (hb.Column[str], hb.column("x", renamed_from="a")),
            "a": (hb.Column[str], hb.column("y", renamed_from="b")),
            "words": (hb.Column[list[str]], hb.column("t", hb.Json(list[str]), factory=list, renamed_from="tags")),
            "by_a": (None, hb.index("b")),
            "by_tag": (None, hb.index(hb.each("words"), salt=hb.HashSalt(2, by=("words[]",)))),
        },
    )
    with fresh(before) as store:
        hb.alter(store, after)
        found = TableFromRegistry.find(Registry(store), "exchanged")
        assert found.schema.indexes["by_a"].fields == ("b",)
        tags = TableFromRegistry.find(Registry(store), "exchanged.by_tag")
        assert tags.schema.layout.names == ("words[]", "number")
        assert tags.schema.salt.spec["by"] == ["words[]"]


def key_model(names: str, **was: str) -> type[Any]:
    """Key fields that are alike."""
    keys = {name: (hb.Key[int], hb.key(hb.UInt32, renamed_from=was.get(name))) for name in names}
    return declare("alike", {**keys, "x": (hb.Column[int], hb.column("x"))})


@pytest.mark.lengthy
@settings(max_examples=examples(60))
@given(st.permutations("abcd"), st.sets(st.sampled_from("abcd")))
def test_fields_that_are_alike_are_renamed_only_as_is_said(after: list[str], said: set[str]) -> None:
    """Three key fields of the same bytes: whatever names they get, each program reads what the other wrote, or is
    refused.
    """
    names = "".join(after[:3])
    was = {new: old for new, old in zip(names, "abc", strict=True) if new != old and new in said}
    changed = [new for new, old in zip(names, "abc", strict=True) if new != old]
    before, model = key_model("abc"), key_model(names, **was)
    with fresh(before) as store:
        with hb.Session(store) as session:
            session.add(before(a=1, b=2, c=3, x=4))
        unsaid = [name for name in changed if name not in was]
        plain = (
            len(unsaid) == 1
            and unsaid[0] == "d"
            and not any(old in names for new, old in zip(names, "abc", strict=True) if new == "d")
        )
        if unsaid and not plain:
            for call in (hb.create_tables, hb.alter):
                with pytest.raises(hb.SchemaMismatch, match="renamed_from="):
                    call(store, model)
            assert "renamed_from=" in str(hb.diff(store, model))
            return
        (hb.alter if unsaid else hb.create_tables)(store, model)
        for reader, order in ((model, names), (before, "abc")):
            (found,) = hb.Session(store).query(reader).allow_full_scan()
            assert [getattr(found, name) for name in order] == [1, 2, 3]
        assert not hb.diff(store, before)


def test_columns_that_change_places_must_say_so() -> None:
    def model(**columns: Any) -> type[Any]:
        return declare(
            "swapped", {"a": (hb.Key[int], hb.key()), **{n: (hb.Column[str], c) for n, c in columns.items()}}
        )

    before = model(x=hb.column("1"), y=hb.column("2"))
    with fresh(before) as store:
        for call in (hb.create_tables, hb.alter):
            with pytest.raises(hb.SchemaMismatch, match="renamed_from="):
                call(store, model(x=hb.column("2"), y=hb.column("1")))
        swapped = model(x=hb.column("2", renamed_from="y"), y=hb.column("1", renamed_from="x"))
        hb.create_tables(store, swapped)
        with hb.Session(store) as session:
            session.add(swapped(a=1, x="two", y="one"))
        assert hb.Session(store).get(before, a=1) == before(a=1, x="one", y="two")


def test_an_index_of_which_two_could_be_meant_must_say_so() -> None:
    def model(**indexes: Any) -> type[Any]:
        fields = {
            "a": (hb.Key[int], hb.key()),
            "x": (hb.Column[str], hb.column("x")),
            "y": (hb.Column[str], hb.column("y")),
        }
        return declare("meant", {**fields, **{name: (None, index) for name, index in indexes.items()}})

    before = model(one=hb.index("x"), two=hb.index("x"))
    with fresh(before) as store:
        unclear = model(three=hb.index("x"))
        with pytest.raises(hb.SchemaMismatch, match="Several indexes have the same entries, so it is unclear which"):
            hb.create_tables(store, unclear)
        with pytest.raises(hb.SchemaMismatch, match="several indexes have the same entries: declare"):
            hb.alter(store, unclear)
        hb.Session(store).query(unclear).allow_full_scan().all()
        with pytest.raises(hb.errors.IndexUnavailable), hb.Session(store) as session:
            session.add(unclear(a=1, x="", y=""))
        clear = model(three=hb.index("x", renamed_from="one"), two=hb.index("x"))
        hb.create_tables(store, clear)
        again = model(one=hb.index("y"), three=hb.index("x"), two=hb.index("x"))
        # `one` is still what older programs call `three`
        with pytest.raises(hb.SchemaMismatch, match="choose another"):
            hb.create_tables(store, again)


def test_indexes_that_exchange_their_names() -> None:
    def model(**indexes: Any) -> type[Any]:
        fields = {
            "a": (hb.Key[int], hb.key()),
            "x": (hb.Column[str], hb.column("x")),
            "y": (hb.Column[str], hb.column("y")),
        }
        return declare("exchanged", {**fields, **{name: (None, index) for name, index in indexes.items()}})

    before = model(one=hb.index("x"), two=hb.index("y"))
    with fresh(before) as store:
        with pytest.raises(hb.SchemaMismatch):
            hb.create_tables(store, model(one=hb.index("y"), two=hb.index("x")))
        after = model(one=hb.index("y", renamed_from="two"), two=hb.index("x", renamed_from="one"))
        for declared in (after, before, after):
            hb.create_tables(store, declared)
            with hb.Session(store) as session:
                session.add(declared(a=1 if declared is after else 2, x="x", y="y"))
        session = hb.Session(store)
        assert session.query(after).where(after.y == "y").use_index("one").count() == 2
        assert session.query(before).where(before.x == "x").use_index("one").count() == 2
        for declared in (before, after):
            for name in ("one", "two"):
                assert hb.indexes.verify_index(store, declared, name, times=TIMES).missing == 0


@pytest.mark.lengthy
def test_an_index_that_was_renamed_is_dropped_and_built_by_either_name() -> None:
    both = renamed(said=False)
    with fresh(both.before) as store:
        hb.alter(store, both.after)
        with open_session(store) as session:
            session.add(both.after(user_id="a", moment=1, subject="x"))
        table = hb.schema.schema_of(both.before).table
        assert hb.indexes.drop_index(store, both.before, "by_topic", times=TIMES) == [f"{table}.by_topic"]
        found = Registry(store).read(hb.schema.schema_of(both.after))
        assert found is not None
        assert found.indexes["by_topic"].state == ABSENT
        assert hb.indexes.build_index(store, both.after, "by_subject", times=TIMES).readable
        check(store, both, {("a", 1): ("x", None)})


@pytest.mark.parametrize("was", ["a", "", 3])
def test_a_former_name_that_cannot_be(was: Any) -> None:
    with pytest.raises(
        hb.DeclarationError, match="renamed_from takes the former name of the field or index, each name"
    ):
        declare("never", {"a": (hb.Key[int], hb.key(renamed_from=was)), "x": (hb.Column[int], hb.column("x"))})


def test_two_fields_cannot_have_had_one_name() -> None:
    with pytest.raises(
        hb.DeclarationError, match="renamed_from takes the former name of the field or index, each name"
    ):
        declare(
            "never",
            {
                "a": (hb.Key[int], hb.key(renamed_from="c")),
                "b": (hb.Key[int], hb.key(renamed_from="c")),
                "x": (hb.Column[int], hb.column("x")),
            },
        )


# --- columns that change their alias ----------------------------------------------------------------------------------


def noted(table: str, **columns: tuple[Any, Any]) -> type[Any]:
    """A model with a key, a column, and some others."""
    return declare(table, {"id": (hb.Key[int], hb.key()), "kind": (hb.Column[str], hb.column("k")), **columns})


TEXT = hb.Column[str]


@pytest.fixture
def store() -> Iterator[hb.Store]:
    with hb.connect("memory:") as opened:
        yield opened


@pytest.mark.parametrize(
    ("stored", "declared", "hint"),
    [
        ({"note": (TEXT, hb.column("n"))}, {"note": (TEXT, hb.column("note"))}, 'hb.column("n")'),
        ({"note": (TEXT, hb.column("n"))}, {"note": (TEXT, hb.column("note", default=""))}, 'hb.column("n")'),
        (
            {"memo": (TEXT, hb.column(default=""))},
            {"remark": (TEXT, hb.column(default="", renamed_from="memo"))},
            'hb.column("memo", renamed_from="memo")',
        ),
        (
            {"memo": (TEXT, hb.column("m"))},
            {"remark": (hb.Column[int], hb.column("r", renamed_from="memo"))},
            'hb.column("m", renamed_from="memo")',
        ),
    ],
)
def test_a_field_whose_values_are_in_another_column_is_refused(
    store: hb.Store, stored: dict[str, Any], declared: dict[str, Any], hint: str
) -> None:
    """With its new alias, reads would not find its values, and `insert` would take stored rows for absent ones."""
    table = f"moved-{uuid4().hex[:10]}"
    before, after = noted(table, **stored), noted(table, **declared)
    hb.create_tables(store, before)
    (name,) = stored
    with hb.Session(store) as session:
        session.add(before(id=1, kind="a", **{name: "kept"}))
    assert [each.effect for each in hb.diff(store, after, sample=0)] == ["refused"]
    ((new_name, (hint_type, _)),) = declared.items()
    value = 5 if hint_type == hb.Column[int] else "x"
    for refused in (
        lambda: hb.create_tables(store, after),
        lambda: hb.alter(store, after),
        lambda: hb.alter(store, after, drop=True),
        lambda: hb.Session(store).get(after, id=1),
        lambda: hb.Session(store).insert(after(id=1, kind="b", **{new_name: value})),
    ):
        with pytest.raises(hb.SchemaMismatch) as caught:
            refused()
        assert hint in str(caught.value)
    assert getattr(hb.Session(store).get(before, id=1), name) == "kept"


def test_a_rename_that_is_declared_after_its_column_was_registered_is_refused(store: hb.Store) -> None:
    """The column was registered by mistake, without the alias of the former field, and reads miss the values there."""
    table = f"moved-{uuid4().hex[:10]}"
    before = noted(table, memo=(TEXT, hb.column(default="")))
    hb.create_tables(store, before)
    hb.create_tables(store, noted(table, remark=(TEXT, hb.column(default=""))))
    with hb.Session(store) as session:
        session.add(before(id=1, kind="a", memo="kept"))
    late = noted(table, remark=(TEXT, hb.column(default="", renamed_from="memo")))
    (refused,) = [each for each in hb.diff(store, late, sample=0) if each.effect == "refused"]
    assert 'hb.column("memo", renamed_from="memo")' in str(refused)
    with pytest.raises(hb.SchemaMismatch):
        hb.Session(store).get(late, id=1)
    right = noted(table, remark=(TEXT, hb.column("memo", default="", renamed_from="memo")))
    for again in (right, noted(table, remark=(TEXT, hb.column("memo", default="")))):
        hb.create_tables(store, again)
        assert hb.Session(store).get(again, id=1) == again(id=1, kind="a", remark="kept")


def test_a_column_with_another_codec_is_replaced_under_the_same_name(store: hb.Store) -> None:
    """The old column may stay declared under another name until its values are moved."""
    table = f"replaced-{uuid4().hex[:10]}"
    before = noted(table, price=(hb.Column[int], hb.column("p", hb.UInt32)))
    text = (TEXT, hb.column("q", default=""))
    after = noted(table, price=text)
    both = noted(table, cents=(hb.Column[int], hb.column("p", hb.UInt32, renamed_from="price")), price=text)
    hb.create_tables(store, before)
    with hb.Session(store) as session:
        session.add(before(id=1, kind="a", price=250))
    (new,) = hb.diff(store, after, sample=0)
    assert (new.effect, "d:p" in str(new.why)) == ("safe", True)
    hb.create_tables(store, both)
    with hb.Session(store) as session:
        for each in session.query(both).allow_full_scan():
            session.update(each, price=f"{each.cents / 100:.2f}")
    assert not hb.diff(store, after, sample=0)
    assert hb.Session(store).get(after, id=1).price == "2.50"


def test_fields_that_exchange_their_aliases_are_not_moved(store: hb.Store) -> None:
    """Both columns are declared, so it is a change of names, which is ambiguous."""
    table = f"exchanged-{uuid4().hex[:10]}"
    before = noted(table, a=(TEXT, hb.column("a")), b=(TEXT, hb.column("b")))
    after = noted(table, a=(TEXT, hb.column("b")), b=(TEXT, hb.column("a")))
    hb.create_tables(store, before)
    with pytest.raises(hb.SchemaMismatch, match="renamed_from"):
        hb.create_tables(store, after)


def test_the_alias_of_an_external_column_may_be_corrected(store: hb.Store) -> None:
    table = f"corrected-{uuid4().hex[:10]}"

    def external(alias: str) -> type[Any]:
        fields = {"id": (hb.Key[str], hb.key()), "note": (hb.Column[str | None], hb.column(alias, default=None))}
        return declare(table, {**fields, "kind": (TEXT, hb.column("k"))}, external=True)

    hb.create_tables(store, external("n"), create_external=True)
    hb.create_tables(store, external("note"))
    assert not hb.diff(store, external("note"))


def with_two(function: Any, kind: Any, **aliases: str) -> Any:
    """A model of two columns of one kind, with these names and aliases."""
    options = {"factory": dict} if function is hb.map_column else {}
    columns = {name: (kind, function(alias, **options)) for name, alias in aliases.items()}
    return declare(
        "renamed_kinds", {"key": (hb.Key[str], hb.key()), "text": (hb.Column[str], hb.column("t")), **columns}
    )


@pytest.mark.parametrize(
    ("function", "kind", "call"),
    [
        (hb.column, hb.Column[str], 'declare hb.column("x")'),
        (hb.counter, hb.Column[int], 'declare hb.counter("x")'),
        (hb.map_column, hb.Map[str, int], 'declare hb.map_column("x")'),
    ],
)
def test_a_column_with_another_alias_is_declared_by_its_own_function(function: Any, kind: Any, call: str) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, with_two(function, kind, a="x", b="y"))
        with pytest.raises(hb.SchemaMismatch) as caught:
            hb.alter(store, with_two(function, kind, a="z", b="y"))
        assert call in str(caught.value)


# --- renames and migrations -------------------------------------------------------------------------------------------


def moving_models(names: Sequence[str], earlier: Sequence[str | None], versioned: bool) -> tuple[Any, Any]:
    """A model and one that replaces it, with the key fields the other way round. Each has a key field and two columns
    with these names.

    Args:
        earlier: the names that `renamed_from` gives.
        versioned: whether the models are versioned; otherwise they are immutable.
    """
    was: list[dict[str, Any]] = [{} if name is None else {"renamed_from": name} for name in earlier]

    def model(table: str, order: tuple[str, str], **more: Any) -> Any:
        key, one, other = names
        types: dict[str, Any] = {key: hb.Key[str], "n": hb.Key[int], one: hb.Column[str], other: hb.Column[str]}
        body: dict[str, Any] = {
            key: hb.key(**was[0]),
            "n": hb.key(hb.UInt32),
            one: hb.column("x", **was[1]),
            other: hb.column("y", **was[2]),
        }
        if versioned:
            types["version"], body["version"] = hb.Column[int], hb.version()
        annotations = {name: types[name] for name in (*order, *(name for name in types if name not in order))}
        more |= {} if versioned else {"immutable": True}
        return hb.model(table=table, family="d", **more)(type("Moved", (), {"__annotations__": annotations, **body}))

    old = model("renamed_old", (names[0], "n"))
    return old, model("renamed_new", ("n", names[0]), replaces=old)


@pytest.mark.lengthy
@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("by", ["newer", "older"])
@pytest.mark.parametrize("names", [("owner", "a", "c"), ("owner", "b", "a"), ("user", "b", "a")])
def test_programs_with_earlier_names_use_the_new_table_of_a_migration(
    names: Sequence[str], by: str, versioned: bool
) -> None:
    before = ("user", "a", "b")
    earlier = [old if old != new else None for old, new in zip(before, names, strict=True)]
    first, first_new = moving_models(before, [None] * 3, versioned)
    renaming, _ = moving_models(names, earlier, versioned)
    _, plain_new = moving_models(names, [None] * 3, versioned)
    with hb.connect("memory:") as store:
        hb.create_tables(store, first)
        hb.alter(store, renaming)
        number = 0

        def both_use_them() -> None:
            nonlocal number
            with hb.Session(store, lease=0) as session:
                for model, fields in ((first_new, before), (plain_new, names)):
                    number += 1
                    values = dict(zip(fields, (f"k{number}", "of x", "of y"), strict=True))
                    session.add(model(n=number, **values))
                    session.commit()
                for model, fields in ((first_new, before), (plain_new, names)):
                    rows = session.query(model).allow_full_scan().all()
                    assert len(rows) == number
                    assert {(getattr(row, fields[1]), getattr(row, fields[2])) for row in rows} == {("of x", "of y")}

        both_use_them()
        times = hb.indexes.IndexTimes(lease=0, longest_call=0, clock_bound=0.01, grace=1)
        moving = hb.migration.migrate(store, plain_new if by == "newer" else first_new, times=times)
        moving.start()
        both_use_them()
        moving.cut_over()
        both_use_them()


@pytest.mark.lengthy
@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("call", [hb.create_tables, hb.alter])
@pytest.mark.parametrize("names", [("owner", "a", "c"), ("owner", "b", "a"), ("user", "b", "a")])
def test_a_rename_during_a_migration_changes_both_tables_or_none(
    names: Sequence[str], call: Any, versioned: bool
) -> None:
    """The old model alone is refused: its fields would be renamed, but not those of the new table."""
    before = ("user", "a", "b")
    earlier = [old if old != new else None for old, new in zip(before, names, strict=True)]
    first, first_new = moving_models(before, [None] * 3, versioned)
    renaming, renaming_new = moving_models(names, earlier, versioned)
    _, plain_new = moving_models(names, [None] * 3, versioned)
    times = hb.indexes.IndexTimes(lease=0, longest_call=0, clock_bound=0.01, grace=1)
    with hb.connect("memory:") as store:
        hb.create_tables(store, first)
        moving = hb.migration.migrate(store, first_new, times=times)
        moving.start()
        unchanged = Registry(store).read(hb.schema.schema_of(first))
        with pytest.raises(hb.SchemaMismatch, match="use the model of that table") as caught:
            call(store, renaming)
        assert caught.value.to == "renamed_new"
        assert Registry(store).read(hb.schema.schema_of(first)) == unchanged
        call(store, renaming_new)
        for number in range(3):
            with hb.Session(store, lease=0) as session:
                for model, fields in ((first_new, before), (plain_new, names)):
                    values = dict(zip(fields, (fields[0], "of x", "of y"), strict=True))
                    session.add(model(n=number, **values))
                    session.commit()
                for model, fields in ((first_new, before), (plain_new, names)):
                    rows = session.query(model).allow_full_scan().all()
                    assert len(rows) == (number + 1) * len({before[0], names[0]})
                    assert {(getattr(row, fields[1]), getattr(row, fields[2])) for row in rows} == {("of x", "of y")}
            if number == 1:
                moving.cut_over()


def test_a_family_does_not_change_while_the_objects_of_its_model_move() -> None:
    first, first_new = moving_models(("user", "a", "b"), [None] * 3, versioned=True)
    body = {"user": hb.key(), "n": hb.key(hb.UInt32), "a": hb.column("x"), "b": hb.column("y"), "version": hb.version()}
    types = {"user": hb.Key[str], "n": hb.Key[int], "a": hb.Column[str], "b": hb.Column[str], "version": hb.Column[int]}
    several = hb.model(table="renamed_old", family=hb.family("d", max_versions=3))(
        type("Several", (), {"__annotations__": types, **body})
    )
    times = hb.indexes.IndexTimes(lease=0, longest_call=0, clock_bound=0.01, grace=1)
    with hb.connect("memory:") as store:
        hb.create_tables(store, first)
        moving = hb.migration.migrate(store, first_new, times=times)
        moving.start()
        for _ in range(2):
            with pytest.raises(hb.SchemaMismatch, match="use the model of that table"):
                hb.alter(store, several)
            assert store.families("renamed_old")[0].max_versions == 1
            moving.cut_over()
