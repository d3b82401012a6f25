"""Calls that wait for the commit and calls that run at once, drawn together on the same few rows of models of every
kind, while the store fails now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from attrs import define, evolve, field
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import HbmodelError, StoreUnavailable
from tests.support.beds import fresh
from tests.support.examples import examples
from tests.support.faulty import MODES, FaultyStore, Mode

QUICK = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

Key = tuple[str, int]
LAST = 255
"""The number that `prepend` gives to the first row of a prefix, the last one in key order."""


def declare(
    table: str,
    *,
    wide: bool = False,
    counter: bool = False,
    entries: bool = False,
    version: bool = False,
    covers: Sequence[str] | None = None,
    **options: Any,
) -> Any:
    """A model with a number at the end of its key, and with the given features; `covers` declares an index."""
    body: dict[str, Any] = {
        "user": hb.key(),
        "number": hb.key(hb.codecs.UInt8, in_qualifier=wide),
        "text": hb.column("t"),
        "rank": hb.column("r", hb.codecs.UInt8, default=None),
    }
    types: dict[str, Any] = {
        "user": hb.Key[str],
        "number": hb.Key[int],
        "text": hb.Column[str],
        "rank": hb.Column[int | None],
    }
    if counter:
        body["views"], types["views"] = hb.counter("v"), hb.Column[int]
    if entries:
        body["notes"], types["notes"] = hb.map_column("n", factory=dict), hb.Map[str, int]
    if version:
        body["version"], types["version"] = hb.version(), hb.Column[int]
    if covers is not None:
        body["by_text"] = hb.index("text", covers=tuple(covers))
    made = type("Item", (), {**body, "__annotations__": types, "__module__": __name__})
    return hb.model(table=table, family="d", **options)(made)


KINDS: Mapping[str, Any] = {
    "unindexed": declare("both_plain", counter=True),
    "a flag": declare("both_flag", counter=True, exists=hb.flag("e")),
    "indexed": declare("both_indexed", counter=True, covers=(), salt=hb.HashSalt(2, by=("user",))),
    "versioned": declare("both_versioned", version=True, counter=True, covers=("rank",)),
    "immutable": declare("both_immutable", covers=("rank",), immutable=True),
    "wide": declare("both_wide", wide=True, counter=True, exists=hb.flag("e")),
    "wide, indexed": declare("both_wide_indexed", wide=True, covers=()),
    "wide, versioned": declare("both_wide_versioned", wide=True, version=True, covers=()),
    "a map": declare("both_map", entries=True, counter=True),
    "a map, indexed": declare("both_map_indexed", entries=True, covers=()),
    "a map, versioned": declare("both_map_versioned", entries=True, version=True),
}


@define
class Item:
    """The expected object of a key."""

    text: str
    rank: int | None = None
    views: int = 0
    notes: dict[str, int] = field(factory=dict)

    def updated(self, **changes: Any) -> Item:
        """The object after an update."""
        return evolve(self, **changes)


keys = st.tuples(st.sampled_from("ab"), st.sampled_from([LAST, LAST - 1, LAST - 2, 7]))
texts = st.sampled_from("pqr")
faults = st.none() | st.tuples(st.integers(0, 6), st.sampled_from(MODES))
changes = st.fixed_dictionaries({"text": texts}) | st.fixed_dictionaries({"rank": st.none() | st.integers(0, 9)})
waiting = st.one_of(
    st.tuples(st.just("add"), keys, texts),
    st.tuples(st.just("update"), keys, changes),
    st.tuples(st.just("delete"), keys, st.none()),
    st.tuples(st.just("entries"), keys, st.dictionaries(texts, st.integers(0, 9), min_size=1)),
)
at_once = st.one_of(
    st.tuples(st.just("put"), keys, texts),
    st.tuples(st.just("insert"), keys, texts),
    st.tuples(st.just("increment"), keys, st.integers(1, 3)),
    st.tuples(st.just("prepend"), keys, texts),
    st.tuples(st.just("rekey"), keys, keys),
)
steps = st.lists(
    st.tuples(st.one_of(waiting, waiting, at_once, at_once, st.tuples(st.just("commit"), keys, st.none())), faults),
    min_size=4,
    max_size=20,
)


class Program:
    """A session on a store that fails, and what the table must contain."""

    def __init__(self, model: Any, *, atomic_rows: bool, gated: bool) -> None:
        self.model, self.schema = model, hb.schema.schema_of(model)
        self.names = [name for name in ("text", "rank", "views", "notes") if hasattr(model, name)]
        self.inner = fresh(model, gated=gated)
        self.store = FaultyStore(self.inner)
        self.session = hb.Session(self.store, atomic_rows=atomic_rows)
        self.items: dict[Key, Item] = {}
        self.pending: list[tuple[str, Key, Any]] = []

    def at(self, key: Key) -> dict[str, Any]:
        return {"user": key[0], "number": key[1]}

    def stored(self, key: Key) -> Item | None:
        """The object that another session reads."""
        session = hb.Session(self.inner)
        found = session.get(self.model, **self.at(key))
        if found is None:
            return None
        values = {name: getattr(found, name) for name in self.names if name != "notes"}
        if "notes" in self.names:
            values["notes"] = dict(session.entries(self.model.notes, **self.at(key)).all())
        return Item(**values)

    def fails(self, fault: tuple[int, Mode] | None) -> None:
        """Has one of the next calls of the store fail."""
        self.store.calls.clear()
        self.store.at, self.store.mode = (None, "before") if fault is None else fault

    # --- calls that wait ----------------------------------------------------------------------------------------------

    def wait(self, call: str, key: Key, value: Any) -> None:
        """Makes a call that waits for the commit, if the model allows it."""
        session, model, at = self.session, self.model, self.at(key)
        if self.schema.immutable and (call == "update" or key in self.items or self.touched(key)):
            return
        if call == "entries" and "notes" not in self.names:
            return
        if call == "add":
            session.add(model(**at, text=value))
        elif call == "update":
            session.update_key(model, **at, **value)
        elif call == "delete":
            session.delete_key(model, **at)
        else:
            session.put_entries(model(**at, text=""), model.notes, value)
        self.pending.append((call, key, value))

    def touched(self, key: Key) -> bool:
        return any(key == waits for _, waits, _ in self.pending)

    def commit(self, fault: tuple[int, Mode] | None = None) -> None:
        """Commits, again and again while the store fails. In the end, every call has been carried out."""
        self.fails(fault)
        for attempt in range(4):
            try:
                self.session.commit(resend=attempt > 0)
                break
            except hb.SessionError as error:
                if "cannot be combined into one write" not in str(error):
                    raise
                event("calls of one row that no commit can combine")
                self.session.discard()
                self.pending = []
            except HbmodelError as error:
                self.check_failure(error)
        else:
            raise AssertionError("the commit does not end")
        self.fails(None)
        for call, key, value in self.pending:
            self.carry_out(call, key, value)
        self.pending = []

    def check_failure(self, error: HbmodelError) -> None:
        """Checks that a commit may fail with this error: only updates without a row have failed for good."""
        failures = getattr(error, "failures", None) or ()
        assert all(isinstance(failure.error, hb.RowNotFound) for failure in failures), repr(error)
        if not failures and not isinstance(error, hb.RowNotFound):
            assert isinstance(error, StoreUnavailable | hb.UnknownOutcome | hb.PartialWrite), repr(error)
            assert self.store.at is not None

    def carry_out(self, call: str, key: Key, value: Any) -> None:
        item = self.items.get(key)
        if call == "add":
            self.items[key] = Item(value) if item is None else item.updated(text=value, rank=None)
        elif call == "delete":
            self.items.pop(key, None)
        elif item is not None:
            self.items[key] = (
                item.updated(notes={**item.notes, **value}) if call == "entries" else item.updated(**value)
            )

    def becomes(self, key: Key, item: Item | None) -> None:
        if item is None:
            self.items.pop(key, None)
        else:
            self.items[key] = item

    # --- calls that run at once ---------------------------------------------------------------------------------------

    def run(self, call: str, key: Key, value: Any, fault: tuple[int, Mode] | None) -> None:
        """Makes a call that runs at once, if the model has it. If pending calls are in its way, commits first."""
        allowed = {"increment": "views" in self.names, "put": not self.schema.immutable}
        moves = call == "rekey"
        if not allowed.get(call, True) or (moves and (self.schema.immutable or value == key)):
            return
        if moves:
            self.commit()  # otherwise, the object that is read next would not be the one that moves
        change = partial(getattr(self, call), key, value, fault)
        try:
            change()
        except hb.SessionError as error:
            event(f"{call} is refused")
            if "commit()" not in str(error) or not self.pending:
                raise
            self.commit()
            change()

    def attempt(
        self, act: Callable[[], Any], key: Key, after: Item | None, fault: tuple[int, Mode] | None,
        refused: type[HbmodelError] | None = None,
    ) -> Any:  # fmt: skip
        """Makes a call that gives a key the object `after`, or is refused. If the store fails, the key has this object
        or the earlier one.
        """
        self.fails(fault)
        try:
            answer = act()
        except hb.SessionError:
            raise
        except HbmodelError as error:
            if refused is not None and isinstance(error, refused):
                return None
            if fault is None or not isinstance(error, StoreUnavailable | hb.UnknownOutcome | hb.PartialWrite):
                raise
            event("a failure")
            found = self.stored(key)
            assert found in (self.items.get(key), after)
            self.becomes(key, found)
            return None
        finally:
            self.fails(None)
        assert refused is None
        self.becomes(key, after)
        return answer

    def put(self, key: Key, text: str, fault: tuple[int, Mode] | None) -> None:
        item = self.items.get(key)
        after = Item(text) if item is None else item.updated(text=text)
        created = self.attempt(lambda: self.session.put(self.model, **self.at(key), text=text), key, after, fault)
        assert created in (None, item is None)

    def insert(self, key: Key, text: str, fault: tuple[int, Mode] | None) -> None:
        taken = key in self.items
        obj = self.model(**self.at(key), text=text)
        after = self.items.get(key) or Item(text)
        self.attempt(lambda: self.session.insert(obj), key, after, fault, hb.RowExists if taken else None)

    def increment(self, key: Key, amount: int, fault: tuple[int, Mode] | None) -> None:
        item = self.items.get(key)
        after = None if item is None else item.updated(views=item.views + amount)
        count = self.attempt(
            lambda: self.session.increment_key(self.model, self.model.views, amount, **self.at(key)),
            key, after, fault, hb.RowNotFound if item is None else None,
        )  # fmt: skip
        assert count is None or after is None or count == after.views

    def prepend(self, key: Key, text: str, fault: tuple[int, Mode] | None) -> None:
        number = min((number for user, number in self.items if user == key[0]), default=LAST + 1) - 1
        new = (key[0], number)
        made = self.attempt(
            lambda: self.session.prepend(self.model, user=key[0], text=text), new, Item(text), fault
        )  # fmt: skip
        assert made is None or made.number == number

    def rekey(self, key: Key, new: Key, fault: tuple[int, Mode] | None) -> None:
        """Moves an object; a move that failed is repeated."""
        item, other = self.items.get(key), self.items.get(new)
        obj = hb.Session(self.inner).get(self.model, **self.at(key))
        assert (obj is None) == (item is None)
        if obj is None:
            return
        self.fails(fault)
        for _ in range(3):
            try:
                self.session.rekey(obj, **self.at(new))
                break
            except (StoreUnavailable, hb.UnknownOutcome, hb.PartialWrite):
                assert fault is not None
            except hb.RowExists:
                assert other is not None
                break
            except (hb.RowNotFound, hb.ConflictError):  # a move that failed was carried out, or has changed the version
                assert fault is not None
                break
        self.fails(None)
        assert (self.stored(key), self.stored(new)) in [(item, other), *([(None, item)] if other is None else [])]
        self.becomes(key, self.stored(key))
        self.becomes(new, self.stored(new))

    # --- what must hold -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Scans, and queries through the index, return the expected objects."""
        session = hb.Session(self.inner)
        found = {(one.user, one.number) for one in session.query(self.model).allow_full_scan()}
        assert found == self.items.keys()
        assert {key: self.stored(key) for key in found} == self.items
        for text in "pqr":
            query = session.query(self.model).where(self.model.text == text).allow_full_scan()
            expected = {key for key, item in self.items.items() if item.text == text}
            assert {(one.user, one.number) for one in query} == expected
        for index in self.schema.indexes:
            assert not hb.indexes.verify_index(self.inner, self.model, index).missing


@pytest.mark.parametrize("kind", KINDS)
def test_calls_that_wait_and_calls_that_run_at_once_are_carried_out_in_turn(kind: str) -> None:
    @QUICK
    @given(steps, st.booleans(), st.booleans())
    def example(drawn: Sequence[tuple[tuple[str, Key, Any], Any]], atomic_rows: bool, gated: bool) -> None:
        program = Program(KINDS[kind], atomic_rows=atomic_rows, gated=gated)
        for (call, key, value), fault in drawn:
            if call == "commit":
                program.commit(fault)
            elif call in {"add", "update", "delete", "entries"}:
                program.wait(call, key, value)
            else:
                program.run(call, key, value, fault)
        program.commit()
        program.check()

    example()
