"""Queries of a few shapes, asked again and again between the requests of an operator who moves the objects to another
table, or builds and drops indexes: each result is that of a filter over all objects.

The sessions and the operator share a thread and a clock. So no object changes while a query is read, and every query
sees the same state of the registry as the operator's last request has left.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from attrs import evolve, frozen

import hbmodel as hb
from hbmodel.errors import FullScanRefused, IndexUnavailable, OrderNotAvailable, QueryError, TokenError, UnknownIndex
from hbmodel.mapping.predicates import Predicate
from hbmodel.query.ask.query import Query
from hbmodel.query.match.plan_shapes import PlanShape
from hbmodel.store.gate import TRANSACTION
from tests.support.examples import examples
from tests.support.faulty import Call
from tests.support.operator_work import CLOCKED, PausedStore

KINDS = ("immutable", "versioned", "partial")
REFUSALS = (
    FullScanRefused,
    IndexUnavailable,
    OrderNotAvailable,
    QueryError,
    TokenError,
    UnknownIndex,
    hb.SchemaMismatch,
)
"""What a query, or the next page of a query, may raise instead of a result, because of the paths that can be read."""

INDEXES = ("by_note", "by_size", "by_tag", "large", "noted")
NAMES = ("", "a", "ab", "b", "é")
NUMBERS = range(6)
NOTES = (None, "", "x", "xy")
SIZES = range(-1, 5)


def declare(kind: str, old: type[Any] | None = None) -> Any:
    """The model of the old table, or the one that replaces it, with its key in another order and another index.

    While an index can be read whose entries depend on values, no shape is known. So only some models have such indexes.
    """
    own: dict[str, Any] = {
        "name": hb.key(),
        "number": hb.key(hb.codecs.UInt16, desc=old is not None),
        "note": hb.column("n", default=None),
        "size": hb.column("s", hb.codecs.Int32),
        "tags": hb.column("t", hb.Json(list[str]), factory=list),
        "by_note": hb.index("note", covers=("size",)),
        "by_size": hb.index("size", "note"),
    }
    if kind == "partial":
        own["by_tag"] = hb.index(hb.each("tags"))
        own["large"] = hb.index("size", where=lambda m: m.size > 2)
    hints = {
        "name": hb.Key[str],
        "number": hb.Key[int],
        "note": hb.Column[str | None],
        "size": hb.Column[int],
        "tags": hb.Column[list[str]],
    }
    if old is not None:
        hints = {"number": hints["number"], **hints}
        own["noted"] = hb.index("note", where=lambda m: ~m.note.is_(None))
    if kind != "immutable":
        hints["version"], own["version"] = hb.Column[int], hb.version()
    options: dict[str, Any] = {"immutable": True} if kind == "immutable" else {}
    if old is not None:
        options |= {"replaces": old, "salt": hb.HashSalt(3)}
    place = f"asked_{kind}" if old is None else f"asked_{kind}_again"
    return hb.model(table=place, family="d", **options)(type("Asked", (), {**own, "__annotations__": hints}))


OLD = {kind: declare(kind) for kind in KINDS}
NEW = {kind: declare(kind, OLD[kind]) for kind in KINDS}


class BusyStore(PausedStore):
    """Lets other programs run before each request of one program, and while that program waits."""

    others: Callable[[], object] | None = None

    def _do(self, call: Call, apply: Any) -> Any:
        self.let_run()
        return super()._do(call, apply)

    def sleep(self, seconds: float) -> None:
        self.now += max(1, round(seconds * 1000))
        self.let_run()

    def let_run(self) -> None:
        """Lets the other programs run, unless this is a request of theirs or part of a transaction."""
        others = self.others
        if others is not None and TRANSACTION.get() is None:
            self.others = None
            try:
                others()
            finally:
                self.others = others

    @contextmanager
    def clocks(self) -> Iterator[None]:
        """A block in which the store's clock is the only clock."""
        with ExitStack() as clocks:
            for module in CLOCKED:
                clocks.enter_context(patch(f"{module}.time", self))
            yield


@frozen
class Condition:
    """A condition of a query, and the same condition on an object."""

    asked: Predicate
    test: Callable[[Any], bool]


Form = Callable[[Any, random.Random], Condition]
"""Makes a condition on a model, each time about other values."""


def _equal(field: str, values: Sequence[Any]) -> Form:
    def made(model: Any, draw: random.Random) -> Condition:
        value = draw.choice([value for value in values if value is not None])
        return Condition(getattr(model, field) == value, lambda obj: bool(getattr(obj, field) == value))

    return made


def _within(field: str, values: Sequence[Any]) -> Form:
    def made(model: Any, draw: random.Random) -> Condition:
        low, high = sorted(draw.choices(values, k=2))
        asked = (getattr(model, field) >= low) & (getattr(model, field) < high)
        return Condition(asked, lambda obj: bool(low <= getattr(obj, field) < high))

    return made


def _one_of(field: str, values: Sequence[Any]) -> Form:
    def made(model: Any, draw: random.Random) -> Condition:
        some = draw.sample(values, 2)
        return Condition(getattr(model, field).in_(some), lambda obj: getattr(obj, field) in some)

    return made


def _prefix(field: str, values: Sequence[str]) -> Form:
    def made(model: Any, draw: random.Random) -> Condition:
        start = draw.choice(values)
        return Condition(
            getattr(model, field).startswith(start), lambda obj: (getattr(obj, field) or "\0").startswith(start)
        )

    return made


def _none(model: Any, draw: random.Random) -> Condition:
    return Condition(model.note.is_(None), lambda obj: obj.note is None)


def _not_none(model: Any, draw: random.Random) -> Condition:
    return Condition(~model.note.is_(None), lambda obj: obj.note is not None)


def _tagged(model: Any, draw: random.Random) -> Condition:
    tag = draw.choice("xyz")
    return Condition(model.tags.contains(tag), lambda obj: tag in obj.tags)


def _either(model: Any, draw: random.Random) -> Condition:
    one, other = _equal("name", NAMES)(model, draw), _equal("size", SIZES)(model, draw)
    return Condition(one.asked | other.asked, lambda obj: one.test(obj) or other.test(obj))


FORMS: Sequence[Form] = (
    _equal("name", NAMES), _equal("number", NUMBERS), _equal("note", NOTES), _equal("size", SIZES),
    _within("name", NAMES), _within("number", NUMBERS), _within("size", SIZES),
    _one_of("number", NUMBERS), _one_of("note", NOTES),
    _prefix("name", NAMES), _prefix("note", ["x", "xy"]),
    _none, _not_none, _tagged, _either,
)  # fmt: skip


@frozen(eq=False)
class Asked:
    """A query whose values are drawn, and how it is asked.

    Attributes:
        order: the field of `order_by`, or None.
    """

    forms: Sequence[Form]
    index: str | None
    order: str | None
    backwards: bool
    limit: int | None
    selects: bool
    conditions: Sequence[Condition] = ()

    @classmethod
    def draw(cls, draw: random.Random, forms: Sequence[Form]) -> Asked:
        """A new shape with conditions of these forms."""
        index = draw.choice([None, None, None, "primary", *INDEXES])
        order = draw.choice([None, None, "size", "number", "name"])
        return cls(forms, index, order, draw.random() < 0.3, draw.choice([None, None, 2]), draw.random() < 0.2)

    def filled(self, model: Any, draw: random.Random) -> Asked:
        """The same shape with other values."""
        return evolve(self, conditions=[form(model, draw) for form in self.forms])

    def query(self, session: hb.Session, model: Any) -> Query[Any]:
        """The query, which `filled` has given values."""
        query: Query[Any] = session.query(model).where(*[condition.asked for condition in self.conditions])
        query = query.allow_full_scan()
        if self.index is not None:
            query = query.use_index(self.index)
        if self.order is not None:
            query = query.order_by(getattr(model, self.order))
        query = query.reversed() if self.backwards else query
        return query if self.limit is None else query.limit(self.limit)

    def matches(self, obj: Any) -> bool:
        """Whether an object satisfies all conditions."""
        return all(condition.test(obj) for condition in self.conditions)


def values_of(obj: Any) -> tuple[Any, ...]:
    """The values of an object, without its version."""
    return obj.name, obj.number, obj.note, obj.size, tuple(obj.tags)


class Programs:
    """Programs that write and query a store while an operator works.

    Attributes:
        objects: all objects that are stored, by key.
        requests: how often each kind of request was made.
    """

    def __init__(self, kind: str, seed: int) -> None:
        self.draw = random.Random(seed)
        self.kind, self.model = kind, NEW[kind]
        self.store = BusyStore(distinct=True)
        self.objects: dict[tuple[str, int], Any] = {}
        # several shapes have the same conditions, so that they differ only in the rest
        forms = [self.draw.sample(FORMS, size) for size in (1, 1, 1, 2, 2)]
        self.shapes = [Asked.draw(self.draw, some) for some in forms for _ in range(4)]
        self.kept: list[tuple[Asked, Query[Any]]] = []
        self.walk: tuple[Asked, Query[Any], str, set[Any], set[Any]] | None = None
        self.requests: Counter[str] = Counter()

    def open(self) -> None:
        """Opens new sessions."""
        self.sessions = [hb.Session(self.store), hb.Session(self.store)]

    def run(self) -> None:
        """Makes one request."""
        session, request = self.draw.choice(self.sessions), self.draw.random()
        if request < 0.25:
            self._write(session)
            return
        asking = self._page if request < 0.5 else self._again if request < 0.6 else self._ask
        try:
            asking(session)
        except REFUSALS as error:
            self.walk = None if asking == self._page else self.walk
            self.requests[type(error).__name__] += 1
        else:
            self.requests[asking.__name__] += 1

    def _write(self, session: hb.Session) -> None:
        draw = self.draw
        kept = {} if draw.random() < 0.4 else {"tags": draw.choices("xy", k=draw.randint(0, 2))}
        obj = self.model(
            name=draw.choice(NAMES),
            number=draw.choice(NUMBERS),
            note=draw.choice(NOTES),
            size=draw.choice(SIZES),
            **kept,
        )
        key = (obj.name, obj.number)
        there = self.objects.get(key)
        if there is None:
            session.add(obj)
        elif self.kind == "immutable":
            return
        elif draw.random() < 0.5:
            session.delete_key(self.model, name=obj.name, number=obj.number)
            obj = None
        else:
            session.put(self.model, name=obj.name, number=obj.number, note=obj.note, size=obj.size)
            obj = hb.evolve(there, note=obj.note, size=obj.size)
        session.commit()
        if there is not None and self.walk is not None:
            self.walk[3].discard(key)
        self.objects[key] = obj
        if obj is None:
            del self.objects[key]

    def _ask(self, session: hb.Session) -> None:
        asked = self.draw.choice(self.shapes).filled(self.model, self.draw)
        query = asked.query(session, self.model)
        self._check(asked, query)
        self.kept = [*self.kept[-5:], (asked, query)]

    def _again(self, session: hb.Session) -> None:
        if self.kept:
            self._check(*self.draw.choice(self.kept))

    def _check(self, asked: Asked, query: Query[Any]) -> None:
        expected = {values_of(obj) for obj in self.objects.values() if asked.matches(obj)}
        count = len(expected) if asked.limit is None else min(asked.limit, len(expected))
        assert query.count() == count
        if asked.selects:
            found = query.select(self.model.name, self.model.number).all()
            assert len(found) == count
            assert set(found) <= {values[:2] for values in expected}
            return
        items = query.all()
        shown = [values_of(item) for item in items]
        assert len(shown) == len(set(shown)) == count
        assert set(shown) <= expected
        if asked.limit is None:
            assert query.reversed().all() == items[::-1]
        if asked.order is not None:
            in_order = sorted((getattr(item, asked.order) for item in self._all(asked)), reverse=asked.backwards)
            assert [getattr(item, asked.order) for item in items] == in_order[:count]

    def _all(self, asked: Asked) -> Iterator[Any]:
        return (obj for obj in self.objects.values() if asked.matches(obj))

    def _page(self, session: hb.Session) -> None:
        """Reads the next page of a walk. Objects that exist all the time, and do not change, are returned once."""
        if self.walk is None:
            asked = evolve(self.draw.choice(self.shapes), limit=None).filled(self.model, self.draw)
            lasting, seen = {(obj.name, obj.number) for obj in self._all(asked)}, set[Any]()
            query = asked.query(session, self.model)
            page = query.page(2)
        else:
            asked, query, token, lasting, seen = self.walk
            page = query.page(self.draw.randint(1, 3), after=token)
        found = {(item.name, item.number) for item in page if asked.matches(item)}
        assert len(found) == len(page)
        assert not found & seen & lasting
        seen |= found
        if page.next_token is None:
            assert lasting <= seen
            self.walk = None
        else:
            self.walk = asked, query, page.next_token, lasting, seen


def move(programs: Programs) -> None:
    """Moves the objects to the new table, back, and again."""
    moving = hb.migration.migrate(programs.store, programs.model)
    moving.start()
    moving.roll_back()
    moving.start()
    assert moving.verify().sound
    moving.cut_over()


def index(programs: Programs) -> None:
    """Drops the indexes of the old table and builds them again, under new names of their tables."""
    for name in ("by_size", "by_note"):
        hb.indexes.drop_index(programs.store, OLD[programs.kind], name)
        assert hb.indexes.build_index(programs.store, OLD[programs.kind], name).readable


@pytest.mark.lengthy
@pytest.mark.parametrize("work", [move, index])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(examples(6)))
def test_queries_of_known_shapes_find_what_a_filter_finds(
    kind: str, work: Callable[[Programs], object], seed: int
) -> None:
    programs = Programs(kind, seed)
    store = programs.store
    with store.clocks():
        hb.create_tables(store, OLD[kind])
        programs.open()
        for _ in range(20):
            programs.run()
        store.others = programs.run
        work(programs)
        store.others = None
        for _ in range(20):
            programs.run()
        found = [values_of(obj) for obj in hb.Session(store).query(programs.model).allow_full_scan()]
        assert sorted(found, key=repr) == sorted(map(values_of, programs.objects.values()), key=repr)
    new = hb.schema.schema_of(programs.model)
    compiled = [value for schema in (new, new.replaces) if schema is not None for value in schema.compiled.values()]
    known = any(isinstance(value, PlanShape) for value in compiled)
    assert known or kind == "partial"
    assert programs.requests["_ask"] > 20
    assert programs.requests["_page"] > 20
