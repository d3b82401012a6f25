"""Groups of two rows, sessions that commit objects of both rows, and deletes by queries, drawn together on models with
unique values, while the store fails now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from attrs import evolve, frozen
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import ConflictError, HbmodelError, PartialWrite, SessionError, UniqueViolation
from tests.support.beds import fresh
from tests.support.examples import examples
from tests.support.faulty import MODES, FaultyStore, Mode

QUICK = settings(
    max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@hb.model(table="go_rows", family="d", kind=b"a")
class Person:
    """A person, by house and number, whose e-mail address and name are unique."""

    house: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.UInt8, in_qualifier=True)
    text: hb.Column[str] = hb.column("t", default="")
    mail: hb.Column[str | None] = hb.column("m", default=None)
    name: hb.Column[str | None] = hb.column("n", default=None)
    version: hb.Column[int] = hb.version()
    by_mail = hb.index("mail", unique=True)
    by_name = hb.index("name", unique=True, salt=hb.HashSalt(2))
    by_text = hb.index("text", covers=("mail",))


@hb.model(table="go_rows", family="e", kind=b"b")
class Thing:
    """A thing in a house, in another family of the same row."""

    house: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.UInt8, in_qualifier=True)
    text: hb.Column[str] = hb.column("t", default="")
    mail: hb.Column[str | None] = hb.column("m", default=None)
    version: hb.Column[int] = hb.version()
    by_post = hb.index("mail", unique=True)


MODELS = (Person, Thing)
HOUSES = ("x", "y")


@frozen
class Place:
    """The key of an object."""

    model: Any
    house: str
    number: int

    @property
    def key(self) -> dict[str, Any]:
        return {"house": self.house, "number": self.number}


State = dict[Place, tuple[str, str | None, str | None]]
"""The text, the mail and the name of each object."""

places = st.builds(Place, st.sampled_from([Person, Person, Thing]), st.sampled_from(HOUSES), st.integers(0, 2))
texts = st.sampled_from("pq")
unique = st.none() | st.sampled_from("uvw")
values = st.tuples(texts, unique, unique)
changes = st.fixed_dictionaries({}, optional={"text": texts, "mail": unique, "name": unique}).map(
    lambda drawn: drawn or {"text": "p"}
)
call = st.one_of(
    st.tuples(st.just("add"), places, values),
    st.tuples(st.just("update"), places, changes),
    st.tuples(st.just("update"), places, changes),
    st.tuples(st.just("delete"), places, st.none()),
)
in_group = st.one_of(call, call, st.tuples(st.just("sweep"), places, texts))
step = st.one_of(
    st.tuples(st.just("group"), st.integers(0, 2), st.lists(in_group, min_size=1, max_size=3)),
    st.tuples(st.just("group"), st.integers(0, 2), st.lists(in_group, min_size=1, max_size=3)),
    st.tuples(st.just("commit"), st.integers(0, 2), st.none()),
    st.tuples(st.just("commit"), st.integers(0, 2), st.none()),
    st.tuples(st.just("session"), st.booleans(), st.lists(call, min_size=1, max_size=4)),
    st.tuples(st.just("sweep"), places, texts),
)
faults = st.none() | st.none() | st.tuples(st.integers(0, 8), st.sampled_from(MODES))
steps = st.lists(st.tuples(step, faults), min_size=3, max_size=14)


def values_of(obj: Any) -> tuple[str, str | None, str | None]:
    return obj.text, obj.mail, getattr(obj, "name", None)


def made(place: Place, text: str, mail: str | None, name: str | None) -> Any:
    more = {"name": name} if place.model is Person else {}
    return place.model(**place.key, text=text, mail=mail, **more)


def changed(place: Place, old: tuple[str, str | None, str | None], new: Mapping[str, Any]) -> Any:
    text, mail, name = old
    return new.get("text", text), new.get("mail", mail), new.get("name", name) if place.model is Person else None


class Taken:
    """A group of one row with the changes that its commit must make."""

    def __init__(self, group: hb.RowGroup, house: str) -> None:
        self.group, self.house = group, house
        self.begun: State | None = None
        self.wanted: dict[Place, Any] = {}
        self.twice = False

    def want(self, place: Place, value: Any) -> None:
        self.twice |= place in self.wanted
        self.wanted[place] = value


class Program:
    """Groups and sessions on a store that fails, and the contents of the table."""

    def __init__(self, *, gated: bool) -> None:
        self.inner = fresh(*MODELS, gated=gated)
        self.store = FaultyStore(self.inner)
        self.session = hb.Session(self.store)
        self.reader = hb.Session(self.inner)
        self.groups: dict[int, Taken] = {}

    def state(self) -> State:
        """What is stored."""
        return {
            Place(model, obj.house, obj.number): values_of(obj)
            for model in MODELS
            for house in HOUSES
            for obj in self.reader.query(model).where(model.house == house)
        }

    def fails(self, fault: tuple[int, Mode] | None) -> None:
        """Has one of the next calls of the store fail."""
        self.store.calls.clear()
        self.store.at, self.store.mode = (None, "before") if fault is None else fault

    # --- groups -------------------------------------------------------------------------------------------------------

    def take(self, number: int, calls: list[tuple[str, Place, Any]]) -> None:
        """Gives calls to a group, all for the row of the first call."""
        taken = self.groups.get(number)
        if taken is None:
            house = calls[0][1].house
            taken = self.groups[number] = Taken(self.session.group(Person, house=house), house)
        try:
            for name, place, value in calls:
                self._take(taken, name, evolve(place, house=taken.house), value)
        except ConflictError:  # another group has linked the versions of the two families, or has changed the row
            event("a group is refused a call")
            del self.groups[number]
            taken.group.discard()

    def _take(self, taken: Taken, name: str, place: Place, value: Any) -> None:
        group, stored = taken.group, self.state()
        taken.begun = stored if taken.begun is None else taken.begun
        if name == "sweep":
            query = group.query(place.model).where(place.model.house == place.house, place.model.text == value)
            swept = [each for each in stored if each.house == place.house and each.model is place.model]
            swept = [each for each in swept if stored[each][0] == value]
            assert query.delete() == len(swept)
            for each in swept:
                taken.want(each, None)
            return
        obj = group.get(place.model, **place.key)
        assert (None if obj is None else values_of(obj)) == stored.get(place)
        if name == "add" and obj is None:
            group.add(made(place, *value))
            taken.want(place, values_of(made(place, *value)))
        elif name == "update" and obj is not None:
            new = {field: each for field, each in value.items() if field != "name" or place.model is Person}
            if new:
                group.update(obj, **new)
                taken.want(place, changed(place, stored[place], new))
        elif name == "delete" and obj is not None:
            group.delete(obj)
            taken.want(place, None)

    def commit(self, number: int, fault: bool) -> None:
        """Commits a group: all of its changes, or none."""
        taken = self.groups.pop(number, None)
        if taken is None or taken.begun is None:
            return
        before = self.state()
        error = self.error_of(taken.group.commit)
        after = self.state()
        whole = {place: value for place, value in {**before, **taken.wanted}.items() if value is not None}
        if error is None:
            event("group committed")
            assert self.in_row(before, taken.house) == self.in_row(taken.begun, taken.house) or not taken.wanted
            assert after == whole
            return
        event(f"group: {type(error).__name__}")
        if fault and not isinstance(error, (ConflictError, UniqueViolation, SessionError)):
            assert after in (before, whole)
        else:
            assert after == before
        if not fault:
            assert taken.wanted
            self.check_reason(error, taken, before)

    def check_reason(self, error: HbmodelError, taken: Taken, before: State) -> None:
        """A group is refused only if the row was changed, a value is held, or two calls cannot be combined."""
        if isinstance(error, UniqueViolation):
            assert self.contested(taken.wanted, before)
        elif isinstance(error, ConflictError):
            # A session that looks for a value may have changed the version of the row, but only in a row with a claim.
            return
        else:
            assert isinstance(error, SessionError)
            assert taken.twice

    @staticmethod
    def in_row(state: State, house: str) -> State:
        return {place: value for place, value in state.items() if place.house == house}

    @staticmethod
    def contested(wanted: Mapping[Place, Any], before: State) -> bool:
        """Whether an object wants a value that another one holds or wants."""
        for place, value in wanted.items():
            for at in (1, 2):
                if value is None or value[at] is None:
                    continue
                others = [*before.items(), *wanted.items()]
                if any(
                    other != place and other.model is place.model and each is not None and each[at] == value[at]
                    for other, each in others
                ):
                    return True
        return False

    # --- sessions -----------------------------------------------------------------------------------------------------

    def run(self, atomic_rows: bool, calls: list[tuple[str, Place, Any]], fault: bool) -> None:
        """Commits calls of a session, each for another object; what it reports must be what is stored."""
        before = self.state()
        session = hb.Session(self.store, atomic_rows=atomic_rows)
        wanted: dict[Place, Any] = {}
        for name, place, value in calls:
            stored = before.get(place)
            if place in wanted:
                continue
            if name == "add" and stored is None:
                session.add(made(place, *value))
                wanted[place] = values_of(made(place, *value))
            elif stored is not None and name != "add":
                obj = self.reader.get_one(place.model, **place.key)
                if name == "delete":
                    session.delete(obj)
                    wanted[place] = None
                    continue
                new = {field: each for field, each in value.items() if field != "name" or place.model is Person}
                if new:
                    session.update(obj, **new)
                    wanted[place] = changed(place, stored, new)
        error = self.error_of(session.commit)
        session.discard()
        after = self.state()
        for place in {*before, *after, *wanted}:
            assert after.get(place) in (before.get(place), wanted.get(place, before.get(place)))
        applied = {place for place in wanted if after.get(place) == wanted[place]}
        event(f"session: {'all' if error is None else type(error).__name__}")
        if error is None:
            assert applied == set(wanted)
        elif not fault:
            failed = error.failures if isinstance(error, PartialWrite) else [error]
            assert all(isinstance(getattr(each, "error", each), UniqueViolation) for each in failed)
            assert self.contested(wanted, before)
            assert applied != set(wanted)

    def sweep(self, place: Place, text: str, fault: bool) -> None:
        """Deletes the objects of a query of a session, in whichever rows."""
        before = self.state()
        query = self.session.query(place.model).where(place.model.text == text).allow_full_scan()
        error = self.error_of(query.delete)
        after = self.state()
        left = {each: value for each, value in before.items() if each.model is not place.model or value[0] != text}
        if error is None:
            assert after == left
        else:
            assert fault
            assert left.items() <= after.items() <= before.items()

    def error_of(self, call: Callable[[], object]) -> HbmodelError | None:
        try:
            call()
        except HbmodelError as error:
            return error
        return None

    def settle(self) -> None:
        """After the calls, indexes and claims must fit the rows."""
        state = self.state()
        for at, names in ((1, "mail"), (2, "name")):
            for model in MODELS:
                held = [value[at] for place, value in state.items() if place.model is model and value[at] is not None]
                assert len(held) == len(set(held)), names
        for place, (text, mail, name) in state.items():
            found = self.reader.query(place.model).where(place.model.mail == mail, place.model.house == place.house)
            assert place.key in [{"house": each.house, "number": each.number} for each in found]
            if place.model is Person:
                assert place.number in [each.number for each in self.reader.query(Person).where(Person.text == text)]
                if name is not None:
                    (only,) = self.reader.query(Person).where(Person.name == name)
                    assert (only.house, only.number) == (place.house, place.number)
            if mail is not None:
                (only,) = self.reader.query(place.model).where(place.model.mail == mail)
                assert (only.house, only.number) == (place.house, place.number)
        for model, index in ((Person, "by_mail"), (Person, "by_name"), (Thing, "by_post")):
            assert hb.indexes.verify_index(self.inner, model, index).unclaimed == 0


@pytest.mark.lengthy
@QUICK
@given(st.booleans(), steps)
def test_groups_and_others_leave_whole_changes(gated: bool, drawn: list[tuple[tuple[str, Any, Any], Any]]) -> None:
    program = Program(gated=gated)
    for (name, which, what), fault in drawn:
        failing = fault if name in {"commit", "session", "sweep"} else None
        program.fails(failing)
        if name == "group":
            program.take(which, what)
        elif name == "commit":
            program.commit(which, failing is not None)
        elif name == "session":
            program.run(which, what, failing is not None)
        else:
            program.sweep(which, what, failing is not None)
        program.fails(None)
    program.settle()
