"""Kinds of indexes as they are declared, and the entries that a row has in each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import attrs
import pytest

import hbmodel as hb
from hbmodel.errors import ComputedFieldError
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.protocol.writes import put_object


def domain_of(email: str) -> str:
    """The part after the at sign."""
    return email.split("@")[1]


def shown(amount: Decimal) -> str:
    """A number as text."""
    return str(amount)


@hb.model(table="declared_kinds", family="d")
class User:
    id: hb.Key[int] = hb.key(hb.codecs.UInt8)
    email: hb.Column[str] = hb.column("e", default="a@x")
    amount: hb.Column[Decimal] = hb.column("a", default=Decimal(0))
    tags: hb.Column[list[str | None]] = hb.column("t", hb.Json(list[str | None]), default=attrs.Factory(list))
    roles: hb.Column[frozenset[int] | None] = hb.column("r", hb.Json(frozenset[int]), nullable=True, default=None)
    nick: hb.Column[str | None] = hb.column("n", default=None)

    domain = hb.computed(domain_of, of="email")
    shown = hb.computed(shown, of=["amount"])
    upper = hb.computed(lambda nick: nick and nick.upper(), of=["nick"], codec=hb.Text, nullable=True)

    by_domain = hb.index("domain", hb.desc("id"))
    by_shown = hb.index("shown")
    by_tag = hb.index(hb.each("tags"))
    by_some_tag = hb.index(hb.each("tags"), skip_none=True)
    by_role = hb.index(hb.each("roles", desc=True))
    by_upper = hb.index("upper", skip_none=True)
    rich = hb.index("nick", where=lambda user: user.amount >= Decimal(10), covers=("email",))
    pairs = hb.index(hb.each("roles"), hb.each("tags"))


SCHEMA = hb.schema.schema_of(User)


def entries(index: str, **values: Any) -> Sequence[bytes]:
    """The keys of the entries of user 7."""
    return put_object(SCHEMA, User(id=7, **values)).entries[index]


@pytest.mark.parametrize(
    ("index", "values", "expected"),
    [
        ("by_domain", {"email": "a@b"}, [b"b\x00\x01\xf8"]),
        ("by_shown", {"amount": Decimal("1.00")}, [b"1\x00\x01\x07"]),
        ("by_tag", {"tags": []}, []),
        ("by_tag", {"tags": ["b", "a", "b"]}, [b"\x01b\x00\x01\x07", b"\x01a\x00\x01\x07"]),
        ("by_tag", {"tags": [None, ""]}, [b"\x00\x07", b"\x01\x00\x01\x07"]),
        ("by_some_tag", {"tags": [None, "", None, "a"]}, [b"\x00\x01\x07", b"a\x00\x01\x07"]),
        ("by_some_tag", {"tags": [None]}, []),
        ("by_role", {}, []),
        ("by_role", {"roles": frozenset()}, []),
        ("by_role", {"roles": frozenset({1})}, [b"\x7f" + b"\xff" * 6 + b"\xfe\x07"]),
        ("by_upper", {}, []),
        ("by_upper", {"nick": "ann"}, [b"ANN\x00\x01\x07"]),
        ("by_upper", {"nick": ""}, [b"\x00\x01\x07"]),
        ("rich", {"amount": Decimal(9), "nick": "x"}, []),
        ("rich", {"amount": Decimal(10), "nick": "x"}, [b"\x01x\x00\x01\x07"]),
        ("pairs", {"roles": frozenset({1}), "tags": []}, []),
    ],
)
def test_the_entries_of_a_row(index: str, values: dict[str, Any], expected: Sequence[bytes]) -> None:
    assert list(entries(index, **values)) == expected


def test_two_collections_have_an_entry_for_every_pair() -> None:
    assert len(entries("pairs", roles=frozenset({1, 2}), tags=["a", "b", "a"])) == 4


def test_a_computed_field_reads_as_a_value_and_cannot_be_set() -> None:
    user = User(id=1, email="ann@x.org")
    assert (user.domain, user.upper) == ("x.org", None)
    assert hb.evolve(user, email="ann@y.org").domain == "y.org"
    with pytest.raises(AttributeError, match="is computed and cannot be set"):
        user.domain = "z"  # type: ignore[misc,assignment]
    assert "domain" not in repr(user)
    with pytest.raises(TypeError):
        User(id=1, domain="x")  # type: ignore[call-arg]


def test_what_a_function_raises_names_field_and_index_and_no_value() -> None:
    with pytest.raises(ComputedFieldError) as caught:
        put_object(SCHEMA, User(id=1, email="secret"))
    error = caught.value
    assert (error.field, error.index, error.table) == ("domain", "by_domain", "declared_kinds.by_domain")
    assert (error.reason, error.function) == ("IndexError", "domain_of")
    assert error.__cause__ is None
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"tags": ["x" * 40_000]}, hb.errors.KeyTooLong),
        ({"tags": ["\ud800"]}, hb.EncodingError),
        ({"roles": frozenset({2**70})}, hb.EncodingError),
        ({"email": "a@" + "x" * 40_000}, hb.errors.KeyTooLong),
    ],
)
def test_a_value_that_no_entry_can_hold_is_refused_before_any_call(
    values: dict[str, Any], error: type[Exception]
) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, User)
        session = hb.Session(store)
        with pytest.raises(error):
            session.add(User(id=1, **values))
        session.commit()
        assert session.query(User).allow_full_scan().count() == 0


def test_an_update_that_no_entry_can_hold_changes_nothing() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, User)
        session = hb.Session(store)
        user = User(id=1, email="a@b", tags=["a"])
        session.add(user)
        session.commit()
        for changes, error in (
            ({"email": "none"}, ComputedFieldError),
            ({"tags": ["x" * 40_000]}, hb.errors.KeyTooLong),
        ):
            session.update(user, **changes)
            with pytest.raises((error, hb.PartialWrite)):
                session.commit()
            session.discard()
        assert session.query(User).where(User.domain == "b", User.tags.contains("a")).all() == [user]
        with pytest.raises(hb.SessionError, match="A computed field cannot be updated"):
            session.update(user, domain="x")


def test_a_row_whose_function_fails_now_can_be_overwritten_and_deleted() -> None:
    def declared(function: Callable[[str], str]) -> Any:
        body = {
            "id": hb.key(),
            "email": hb.column("e"),
            "domain": hb.computed(function, of="email", codec=hb.Text),
            "by": hb.index("domain"),
        }
        hints = {"id": hb.Key[int], "email": hb.Column[str]}
        return hb.model(table="failing")(type("Failing", (), {**body, "__annotations__": hints}))

    before, after = declared(lambda email: email), declared(domain_of)
    with hb.connect("memory:") as store:
        hb.create_tables(store, before)
        with hb.Session(store) as session:
            session.add_all(before(id=n, email="nothing") for n in range(2))
        session = hb.Session(store)
        with pytest.raises(ComputedFieldError):
            session.query(after).where(after.domain == "nothing").all()
        session.add(after(id=0, email="a@b"))
        session.delete_key(after, id=1)
        session.commit()
        assert [found.id for found in session.query(after).where(after.domain == "b")] == [0]
        assert session.query(after).where(after.domain == "nothing").all() == []


def test_a_default_that_reads_back_in_another_form_is_the_same_to_the_function() -> None:
    @hb.model(table="forms")
    class Form:
        id: hb.Key[int] = hb.key()
        amount: hb.Column[Decimal] = hb.column("a", default=Decimal("1.00"))
        note: hb.Column[str | None] = hb.column("n", default=None)
        shown = hb.computed(shown, of="amount")
        by_shown = hb.index("shown", covers=("note",))

    assert Form(id=1).shown == "1"
    with hb.connect("memory:") as store:
        hb.create_tables(store, Form)
        session = hb.Session(store)
        session.add(Form(id=1))
        session.commit()
        row = hb.row_key(Form, id=1)
        # as an older program left it, which did not have the column
        store.delete("forms", [hb.store.Delete(row, columns=(b"d:a",))])
        assert [form.id for form in session.query(Form).where(Form.shown == "1")] == [1]
        session.update(Form(id=1), note="n")
        session.commit()
        assert [form.id for form in session.query(Form).where(Form.shown == "1")] == [1]


def test_selecting_and_ordering_by_computed_fields() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, User)
        with hb.Session(store) as session:
            session.add_all(User(id=n, email=f"{n}@{n % 3}", nick=f"n{n}") for n in range(6))
        session = hb.Session(store)
        ordered = (
            session.query(User)
            .where(User.domain >= "1")
            .order_by(User.domain, User.id.desc())
            .select(User.domain, User.id)
        )
        assert ordered.all() == [("1", 4), ("1", 1), ("2", 5), ("2", 2)]
        assert session.query(User).where(User.shown == "0").select(User.upper).all() == [(f"N{n}",) for n in range(6)]
        assert session.query(User).where(User.id == 3, User.domain == "0").select(User.id).all() == [(3,)]


def test_keys_of_entries_lead_back_to_the_row() -> None:
    keys = KeyMapper(SCHEMA)
    values = {"email": "a@b", "tags": ["a", None], "roles": frozenset({1, 2}), "nick": "x", "amount": Decimal(20)}
    for name, found in put_object(SCHEMA, User(id=9, **values)).entries.items():
        assert found
        for entry in found:
            assert keys.rows_of_entry_code(SCHEMA.indexes[name])(entry) == [b"\x09"]


def test_kinds_under_a_random_salt() -> None:
    @hb.model(table="random_kinds", salt=hb.RandomSalt(3), immutable=True)
    class Event:
        id: hb.Key[int] = hb.key()
        tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]))
        by_tag = hb.index(hb.each("tags"), where=lambda event: event.id >= 0)

    with hb.connect("memory:") as store:
        hb.create_tables(store, Event)
        with hb.Session(store) as session:
            session.add_all(Event(id=n % 20 - 5, tags=["a", "b"] if n % 2 else ["b"]) for n in range(60))
        session = hb.Session(store)
        query = session.query(Event).where(Event.tags.contains("a") | Event.tags.contains("b"), Event.id >= 0)
        assert query.explain().path == "by_tag"
        assert sorted(event.id for event in query) == list(range(15))
        assert query.reversed().all() == query.all()[::-1]


NAMED: Mapping[str, tuple[Callable[[Any], Any], list[int]]] = {
    "startswith": (lambda event: event.name.startswith("a"), [1]),
    "not startswith": (lambda event: ~event.name.startswith("a"), [2, 3]),
    "none": (lambda event: event.name.is_(None), [3]),
    "any": (lambda event: ~event.name.is_(None), [1, 2]),
    "either": (lambda event: event.name.is_(None) | (event.id == 2), [2, 3]),
}


def declare_named(where: Callable[[Any], Any]) -> Any:
    names = hb.ids.dictionary("names", hb.UInt32)

    @hb.model(table="named_kinds", family="d")
    class Event:
        id: hb.Key[int] = hb.key(hb.UInt32)
        name: hb.Column[str | None] = hb.column("n", names, default=None)
        state: hb.Column[str] = hb.column("s", default="new")
        by_state = hb.index("state", where=where)

    return Event


@pytest.mark.parametrize("case", NAMED)
def test_conditions_on_a_dictionary_that_need_no_id(case: str) -> None:
    where, found = NAMED[case]
    event = declare_named(where)
    with hb.connect("memory:") as store:
        hb.create_tables(store, event)
        session = hb.Session(store)
        session.bulk_add([event(id=1, name="ab"), event(id=2, name="b"), event(id=3)])
        query = session.query(event).where(event.state == "new", where(event)).use_index("by_state")
        assert [item.id for item in query] == found
        assert not hb.diff(store, event)


@pytest.mark.parametrize(
    "where",
    [
        lambda event: event.name == "a",
        lambda event: event.name != "a",
        lambda event: event.name.in_([None, "a"]),
        lambda event: (event.id == 1) | ~(event.name.is_(None) | (event.name == "a")),
    ],
)
def test_a_condition_that_needs_the_id_of_a_name_is_refused(where: Callable[[Any], Any]) -> None:
    """The registry would need the id in the description of the index."""
    with pytest.raises(hb.DeclarationError, match="cannot compare a field with a name from a dictionary") as caught:
        declare_named(where)
    assert caught.value.details["field"] == "name"


def test_a_mixin_brings_its_computed_fields_along() -> None:
    @hb.mixin
    class Addressed:
        email: hb.Column[str] = hb.column("e")
        domain = hb.computed(domain_of, of="email")
        by_domain = hb.index("domain")

    @hb.model(table="mixed")
    class Mixed(Addressed):
        id: hb.Key[int] = hb.key()

    assert Mixed(id=1, email="a@b").domain == "b"
    assert set(hb.schema.schema_of(Mixed).indexes) == {"by_domain"}


def test_what_decides_entries_is_among_what_a_put_writes() -> None:
    reads = {name: set(index.reads) for name, index in SCHEMA.indexes.items()}
    assert reads["by_domain"] == {"email", "id"}
    assert reads["by_tag"] == {"tags"}
    assert reads["rich"] == {"nick", "amount"}
    assert reads["pairs"] == {"roles", "tags"}


class Parser:
    def __call__(self, text: str) -> int:
        return int(json.loads(text)["level"])


def parsed_level(text: str) -> int:
    return int(json.loads(text)["level"])


@pytest.mark.parametrize(
    ("function", "place"),
    [
        (parsed_level, ("parsed_level", parsed_level.__code__.co_firstlineno + 1)),
        (partial(parsed_level), ("parsed_level", parsed_level.__code__.co_firstlineno + 1)),
        (Parser(), ("__call__", Parser.__call__.__code__.co_firstlineno + 1)),
        (int, ("int", None)),
    ],
)
def test_the_line_of_a_failed_function_is_in_its_own_file(
    function: Callable[[str], Any], place: tuple[str, int | None]
) -> None:
    @hb.model(table="declared_levels", family="d")
    class Level:
        id: hb.Key[int] = hb.key(hb.UInt32)
        text: hb.Column[str] = hb.column("t")
        level = hb.computed(function, of="text", codec=hb.Int64)

    with pytest.raises(ComputedFieldError) as caught:
        _ = Level(id=1, text="not JSON").level
    assert (caught.value.function, caught.value.line) == place
