"""Two programs that each make one call for the same row, with their requests to the store in any order.

The programs run in threads, and a schedule decides which of them makes its next request. The server's clock stands still but for the
pauses that the programs make themselves, or moves with every request.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from attrs import field, frozen

import hbmodel as hb
from hbmodel.protocol.clock import wall_time
from hbmodel.store.clock_tick import deletes_now
from hbmodel.store.embedded import EmbeddedStore
from tests.support.faulty import Call, RecordingStore

HOUR = timedelta(hours=1)


# --- kinds of models ----------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Kind:
    """A kind of model, with the columns m and o, and what more it has.

    Attributes:
        name: of the kind.
        model: the class.
        number: whether m is a number; else it is text, which may be empty.
        required: whether m is required.
        counter: whether it has the counter h.
        wide: whether the rows are shared.
        indexed: whether it has an index on m.
    """

    name: str
    model: Any
    number: bool = True
    required: bool = True
    counter: bool = False
    wide: bool = False
    indexed: bool = False

    @property
    def schema(self) -> Any:
        return hb.schema_of(self.model)

    def value(self, number: int) -> Any:
        return number if self.number else str(number)


def kind(
    name: str, *, number: bool = True, required: bool = True, counter: bool = False, wide: bool = False, null: Any = "delete",
    index: str = "", version: bool = False, family: str = "d", **options: Any,
) -> Kind:  # fmt: skip
    """Declares a kind of model."""
    of, null = int if number else str, None if wide else null
    column = hb.column("m") if required else hb.column("m", default=None, **({"null": null} if null else {}))
    fields: dict[str, Any] = {"r": hb.key()} if wide else {}
    types: dict[str, Any] = {"r": hb.Key[str]} if wide else {}
    fields |= {"k": hb.key(part="column") if wide else hb.key(), "m": column}
    types |= {"k": hb.Key[str], "m": hb.Column[of] if required else hb.Column[of | None]}  # type: ignore[valid-type]
    more: dict[str, Any] = {"null": null} if null else {}
    fields["o"], types["o"] = hb.column("o", default=None, **more, **({} if family == "d" else {"family": family})), hb.Column[str | None]
    if counter:
        fields["h"], types["h"] = hb.counter("h"), hb.Column[int]
    if version:
        fields["version"], types["version"] = hb.version(), hb.Column[int]
    if index:
        fields["by_m"] = hb.index("m", unique=True) if index == "unique" else hb.index("m", covers=("o",) if index == "covering" else ())
    body = {**fields, "__annotations__": types, "__module__": __name__}
    made = hb.model(table=f"tp_{name}", family="d", **options)(type(name.title(), (), body))
    return Kind(name, made, number, required, counter, wide, bool(index))


KINDS: Mapping[str, Kind] = {
    each.name: each
    for each in (
        kind("plain"),
        kind("empty", null=None),
        kind("text", number=False),
        kind("flag", exists=hb.flag("e")),
        kind("counted", counter=True, exists=hb.flag("e")),
        kind("counter", counter=True),
        kind("foreign", foreign=True),
        kind("nothing", number=False, required=False),
        kind("blank", number=False, required=False, null=None),
        kind("families", family="x"),
        kind("salted", salt=hb.HashSalt(4)),
        kind("indexed", index="m", null=None),
        kind("covering", index="covering", version=True, null=None),
        kind("versioned", version=True, null=None),
        kind("unique", index="unique", version=True, null=None),
        kind("wide", wide=True),
        kind("wide_text", wide=True, number=False),
        kind("wide_flag", wide=True, exists=hb.flag("e")),
        kind("wide_counter", wide=True, counter=True),
        kind("wide_indexed", wide=True, index="m", null=None),
        kind("wide_versioned", wide=True, version=True, null=None),
    )
}


# --- calls, and what each of them does to a row --------------------------------------------------------------------------

State = Mapping[str, tuple[Any, Any, int]]
"""The rows by key: m, o and the counter."""


@frozen(eq=False)
class Deed:
    """One call of a program.

    Attributes:
        make: makes it, given the kind, the session, the key, and a number from which its values come.
        then: what is there after it, given the kind, what was there and that number; or the error that it ends with.
        fits: whether a kind takes it.
    """

    name: str
    make: Callable[[Kind, hb.Session, str, int], object]
    then: Callable[[Kind, State, int], State | type[hb.HbmodelError]]
    fits: Callable[[Kind], bool] = field(default=lambda kind: True)


def names(of: Kind, key: str) -> dict[str, str]:
    """The key fields."""
    return {"r": "r" + key, "k": "k"} if of.wide else {"k": key}


def moved(of: Kind, key: str) -> dict[str, str]:
    """The fields of the key to which an object moves, as far as they change."""
    return {"k": "z"} if of.wide else {"k": key + "z"}


def _object(of: Kind, key: str, m: Any, o: Any) -> Any:
    return of.model(**names(of, key), m=m, o=o)


def _add(of: Kind, state: State, m: Any, o: Any) -> State:
    held = state.get("k")
    return {**state, "k": (m, o, held[2] if held else 0)}


def _update(of: Kind, state: State, **changes: Any) -> State | type[hb.HbmodelError]:
    held = state.get("k")
    if held is None:
        return hb.RowNotFound
    return {**state, "k": (changes.get("m", held[0]), changes.get("o", held[1]), held[2])}


def _rekey(of: Kind, state: State) -> State | type[hb.HbmodelError]:
    if "k" not in state:
        return hb.RowNotFound
    return hb.RowExists if "z" in state else {"z": state["k"]}


def _rekey_now(of: Kind, session: hb.Session, key: str, n: int) -> None:
    session.rekey(of.model(**names(of, key), m=of.value(0)), **moved(of, key))


def _expires(of: Kind) -> bool:
    return not of.counter and not of.schema.versioned


def _increment(of: Kind, state: State) -> State | type[hb.HbmodelError]:
    held = state.get("k")
    return hb.RowNotFound if held is None else {**state, "k": (held[0], held[1], held[2] + 1)}


def _load(of: Kind, session: hb.Session, key: str, n: int) -> None:
    session.load([_object(of, key, of.value(n), None)])


def _delete_found(of: Kind, session: hb.Session, key: str, n: int) -> None:
    session.query(of.model).where(*[getattr(of.model, name) == value for name, value in names(of, key).items()]).delete()


def _deleted(of: Kind, state: State, n: int) -> State:
    return {key: row for key, row in state.items() if key != "k"}


def _insertable(of: Kind) -> bool:
    return of.required and of.number


def _update_deed(name: str, fits: Callable[[Kind], bool] = lambda of: True, ttl: timedelta | None = None, **changes: Any) -> Deed:
    """An update; the value `...` stands for a number of the run."""

    def made(of: Kind, n: int) -> dict[str, Any]:
        return {field: of.value(n) if value is ... else value for field, value in changes.items()}

    def make(of: Kind, session: hb.Session, key: str, n: int) -> None:
        session.update_key(of.model, **names(of, key), **made(of, n), **({} if ttl is None else {"ttl": ttl}))

    return Deed(name, make, lambda of, state, n: _update(of, state, **made(of, n)), fits)


def _add_deed(name: str, o: str | None, fits: Callable[[Kind], bool] = lambda of: True, ttl: timedelta | None = None) -> Deed:
    def make(of: Kind, session: hb.Session, key: str, n: int) -> None:
        session.add(_object(of, key, of.value(n), o), **({} if ttl is None else {"ttl": ttl}))

    return Deed(name, make, lambda of, state, n: _add(of, state, of.value(n), o), fits)


DEEDS: Mapping[str, Deed] = {
    deed.name: deed
    for deed in (
        _add_deed("add", "a"),
        _add_deed("add none", None),
        _add_deed("add ttl", "t", _expires, HOUR),
        Deed("load", _load, lambda of, state, n: _add(of, state, of.value(n), None)),
        _update_deed("update m", m=...),
        _update_deed("update o", o="u"),
        _update_deed("forget o", o=None),
        _update_deed("update both", m=..., o=None),
        _update_deed("forget m", lambda of: not of.required, m=None),
        _update_deed("update ttl", _expires, HOUR, o="v"),
        Deed("delete", lambda of, session, key, n: session.delete_key(of.model, **names(of, key)), _deleted),
        Deed("query delete", _delete_found, _deleted),
        Deed(
            "insert",
            lambda of, session, key, n: session.insert(_object(of, key, of.value(n), "i")),
            lambda of, state, n: hb.RowExists if "k" in state else _add(of, state, of.value(n), "i"),
            _insertable,
        ),
        Deed(
            "increment",
            lambda of, session, key, n: session.increment(of.model(**names(of, key), m=of.value(0)), of.model.h),
            lambda of, state, n: _increment(of, state),
            lambda of: of.counter,
        ),
        Deed("rekey", _rekey_now, lambda of, state, n: _rekey(of, state), lambda of: _insertable(of) and not of.schema.foreign),
    )
}


# --- running them --------------------------------------------------------------------------------------------------------


class SteppedStore(RecordingStore):
    """Lets the threads of programs make one request each time it is their turn.

    Args:
        distinct: whether the server's clock moves with every request.
    """

    def __init__(self, *, distinct: bool, limited: bool = False) -> None:
        self.now = wall_time()
        self.distinct = distinct
        self.turns: Turns | None = None
        super().__init__(EmbeddedStore(None, lambda: self.now), limited=limited)

    def _do(self, call: Call, apply: Any) -> Any:
        turns = self.turns
        if turns is None or call.table.startswith("hbmodel"):
            return self._at_once(call, apply)
        turns.wait()
        answer = self._at_once(call, apply)
        if call.name in ("delete", "mutate_row", "check_and_mutate", "check_and_mutate_many") and _deletes(call.items):
            turns.wait()
            self.now += 1  # the store's own pause
        return answer

    def _at_once(self, call: Call, apply: Any) -> Any:
        self.now += self.distinct
        return apply(call.items)

    def tick(self) -> None:
        """A pause of a program."""
        if self.turns is not None:
            self.turns.wait()
        self.now += 1

    def pass_by(self, _: object, passed: int) -> None:
        """A pause until the server's clock shows a later time."""
        self.tick()
        self.now = max(self.now, passed + 1)


def _deletes(items: Sequence[Any]) -> bool:
    return any(deletes_now(item if isinstance(item, list | tuple) else getattr(item, "mutations", (item,))) for item in items)


class Turns:
    """Decides which of two threads goes on.

    Args:
        schedule: chooses 0 or 1; called only while both may go on.
    """

    def __init__(self, schedule: Callable[[], int]) -> None:
        self._schedule = schedule
        self._gates = (threading.Semaphore(0), threading.Semaphore(0))
        self._arrived = threading.Semaphore(0)
        self._threads: dict[int, int] = {}
        self._alive = [True, True]
        self.taken: list[int] = []

    def wait(self) -> None:
        """Waits for this thread's turn; returns at once in any other thread."""
        at = self._threads.get(threading.get_ident())
        if at is not None:
            self._arrived.release()
            self._gates[at].acquire()

    def run(self, programs: Sequence[Callable[[], None]]) -> None:
        """Runs two programs to their end."""

        def one(at: int) -> None:
            self._threads[threading.get_ident()] = at
            self.wait()
            try:
                programs[at]()
            finally:
                self._alive[at] = False
                self._arrived.release()

        threads = [threading.Thread(target=one, args=(at,)) for at in (0, 1)]
        for thread in threads:
            thread.start()
            self._arrived.acquire()
        while any(self._alive):
            at = self._schedule() if all(self._alive) else self._alive.index(True)
            self.taken.append(at)
            self._gates[at].release()
            self._arrived.acquire()
        for thread in threads:
            thread.join()


@frozen
class Result:
    """What came of two calls."""

    found: State
    errors: tuple[type[BaseException] | None, type[BaseException] | None]
    wrong: str | None


@frozen(eq=False)
class Stage:
    """A store with the table of one kind.

    Attributes:
        of: the kind.
        store: with its tables.
        sessions: opens sessions on it.
    """

    of: Kind
    store: SteppedStore
    sessions: Any

    @classmethod
    def of_kind(cls, of: Kind, *, distinct: bool, limited: bool = False) -> Stage:
        """A new store."""
        store = SteppedStore(distinct=distinct, limited=limited)
        hb.create_tables(store, of.model)
        return cls(of, store, hb.Sessions(store))

    def run(self, begin: Sequence[str], deeds: Sequence[str], number: int, schedule: Callable[[], int]) -> Result:
        """Makes two calls at once; `number` must be new, since the key and the values come from it."""
        of, key = self.of, f"{number:07}"
        base = 10 * number
        with (
            patch("hbmodel.protocol.driver.let_tick_pass", self.store.tick),
            patch("hbmodel.session.unit_of_work.let_tick_pass", self.store.tick),
            patch("hbmodel.protocol.driver.await_clock", self.store.pass_by),
        ):
            state: State = {}
            for at, name in enumerate(begin):
                self._call(name, key, base + at)
                after = DEEDS[name].then(of, state, base + at)
                assert not isinstance(after, type), (begin, after)
                state = after
                self.store.now += 1
            errors: list[type[BaseException] | None] = [None, None]

            def program(at: int) -> None:
                try:
                    self._call(deeds[at], key, base + 5 + at)
                except hb.PartialWrite as error:
                    errors[at] = type(error.failures[0].error or error) if error.failures else type(error)
                except BaseException as error:
                    errors[at] = type(error)

            turns = self.store.turns = Turns(schedule)
            try:
                turns.run([lambda: program(0), lambda: program(1)])
            finally:
                self.store.turns = None
        return self._judged(state, deeds, key, base, (errors[0], errors[1]))

    def _call(self, name: str, key: str, number: int) -> None:
        session = self.sessions()
        try:
            DEEDS[name].make(self.of, session, key, number)
            session.commit()
        finally:
            session.discard()

    def _judged(self, state: State, deeds: Sequence[str], key: str, base: int, errors: Any) -> Result:
        found, wrong = self._found(key)
        if wrong is None:
            outcomes = list(self._orders(state, deeds, base, errors))
            if self.of.schema.foreign and hb.RowExists in errors and found.keys() == {"k"}:
                outcomes.append(found)  # without a mark of its own an insert does not know its row again once another call has changed it
            if found not in outcomes and not _allowed(state, deeds, found, errors) and not self._mixed(found, outcomes):
                wrong = f"found {dict(found)} with {[e and e.__name__ for e in errors]}, not one of {[dict(each) for each in outcomes]}"
        return Result(found, errors, wrong)

    def _mixed(self, found: State, outcomes: Sequence[State]) -> bool:
        """Whether a delete of a cell has hidden the cell of a put in the same millisecond."""
        if self.store.distinct or all(f.null != "delete" for f in self.of.schema.columns):
            return False
        values = [row for each in outcomes for row in each.values()]
        return any(each.keys() == found.keys() for each in outcomes) and all(
            row[0] in [m for m, _, _ in values] and (row[1] is None or row[1] in [o for _, o, _ in values]) for row in found.values()
        )

    def _orders(self, state: State, deeds: Sequence[str], base: int, errors: Any) -> Any:
        """What is there after the two in either order, as far as their answers agree with it."""
        for order in ((0, 1), (1, 0)):
            states = [state]
            for at in order:
                following = []
                for each in states:
                    after = DEEDS[deeds[at]].then(self.of, each, base + 5 + at)
                    error = errors[at]
                    if error is None:
                        following += [] if isinstance(after, type) else [after]
                    elif isinstance(after, type):
                        following += [each] if error is after or error in UNSURE else []
                    elif error in UNSURE:
                        following += [each, after]
                states = following
            yield from states

    def _found(self, key: str) -> tuple[State, str | None]:
        """The rows that are left, and what is wrong if not every way to read them says the same."""
        of, session = self.of, self.sessions()
        found: dict[str, tuple[Any, Any, int]] = {}
        for name, fields in (("k", names(of, key)), ("z", {**names(of, key), **moved(of, key)})):
            try:
                row = session.get(of.model, **fields)
            except hb.IncompleteRow:
                return {}, f"{name}: incomplete"
            if row is not None:
                found[name] = (row.m, row.o, row.h if of.counter else 0)
        first, last = (of.model.r == "r" + key, None) if of.wide else (of.model.k >= key, of.model.k <= key + "z")
        query = session.query(of.model).where(*[each for each in (first, last) if each is not None]).allow_full_scan()
        scanned = {"k" if names(of, key).items() <= {"r": getattr(row, "r", None), "k": row.k}.items() else "z": row for row in query}
        if scanned.keys() != found.keys():
            return found, f"get finds {sorted(found)}, a scan {sorted(scanned)}"
        if of.indexed:
            for name, row in found.items():
                hits = session.query(of.model).where(of.model.m == row[0]).use_index("by_m").all()
                if len(hits) != list(found.values()).count(row) and {hit.m for hit in hits} != {row[0]}:
                    return found, f"{name}: the index finds {hits}"
                if not hits:
                    return found, f"{name}: the index finds nothing"
        return found, None


WHOLE = ("add", "add none", "add ttl", "load", "insert")
"""Calls that put whole rows: beside `rekey` the object may be left under both keys, and `rekey` says so."""


def _allowed(state: State, deeds: Sequence[str], found: State, errors: Any) -> bool:
    """What the documentation allows although no order of the calls gives it."""
    for at in (0, 1):
        one, other = deeds[at], deeds[1 - at]
        if one == "rekey" and errors[at] is hb.RowExists and other in WHOLE and "k" in state and found.keys() == {"k", "z"}:
            return True
        if one == "rekey" and errors[at] is None and "k" in state and found == {"z": state["k"]}:
            return True  # what the other one wrote under the old key is lost, as beside a delete; or both have made the same move
        if "ttl" in one and "delete" not in other and errors == (None, None) and found.keys() == {"k"}:
            return True  # the row has a time that was drawn before, so that the other call wins although it was first
    return False


UNSURE = (hb.ConflictError, hb.UnknownOutcome, hb.UniqueViolation, hb.RowMoved, hb.ClockError)
"""Errors after which a call may have been carried out or not."""


def random_schedule(seed: int) -> Callable[[], int]:
    """A schedule of stretches of turns, drawn from a seed."""
    drawn = random.Random(seed)
    at, left = drawn.randrange(2), drawn.randrange(1, 6)

    def choose() -> int:
        nonlocal at, left
        if left == 0:
            at, left = 1 - at, drawn.randrange(1, 6)
        left -= 1
        return at

    return choose


def fitting(of: Kind) -> list[str]:
    """The calls that the kind takes."""
    return [name for name, deed in DEEDS.items() if deed.fits(of)]


def beginnings(of: Kind) -> list[tuple[str, ...]]:
    """What was done before."""
    found: list[tuple[str, ...]] = [(), ("add",), ("add none",)]
    if of.schema.versioned is False and not of.counter:
        found.append(("add ttl",))
    if of.counter:
        found.append(("add", "increment", "increment"))
    return found
