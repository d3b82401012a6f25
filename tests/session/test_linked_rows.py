"""Objects of several column families in one versioned row: written together, under one version of the row."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.errors import SessionError
from tests.support.beds import HBASE, Bed, fresh, rows_of
from tests.support.examples import examples
from tests.support.faulty import FaultyStore, Mode
from tests.support.turns import Schedule, Turns, random_turns, short_turns

ATOMIC = ("memory", "embedded", HBASE[1])


@hb.model(table="lr_rows", family="e", kind=b"i")
class Item:
    shop: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    stock: hb.Column[int] = hb.column("s")
    version: hb.Column[int] = hb.version()
    by_stock = hb.index("stock")


@hb.model(table="lr_rows", family="d")
class Shop:
    shop: hb.Key[str] = hb.key()
    branch: hb.Key[str] = hb.key(in_qualifier=True)
    money: hb.Column[int] = hb.column("m")
    code: hb.Column[str | None] = hb.column("c", default=None)
    version: hb.Column[int] = hb.version()
    by_code = hb.index("code", unique=True)


@hb.model(table="lr_rows", family="f", kind=b"n")
class Note:
    shop: hb.Key[str] = hb.key()
    text: hb.Column[int] = hb.column("t")
    version: hb.Column[int] = hb.version()


MODELS = (Item, Shop, Note)


def item(stock: int, name: str = "x") -> Item:
    return Item(shop="a", name=name, stock=stock)


def shop(money: int, branch: str = "x") -> Shop:
    return Shop(shop="a", branch=branch, money=money)


def note(text: int) -> Note:
    return Note(shop="a", text=text)


def state(session: hb.Session) -> tuple[list[tuple[str, int]], list[tuple[str, int]], int | None]:
    """All objects of the row, each read by itself."""
    items = [(each.name, each.stock) for each in session.query(Item).where(Item.shop == "a")]
    shops = [(each.branch, each.money) for each in session.query(Shop).where(Shop.shop == "a")]
    found = session.get(Note, shop="a")
    return items, shops, None if found is None else found.text


def sound(store: Any) -> bool:
    """Whether indexes and claims agree with the rows."""
    one, other = hb.indexes.verify_index(store, Item, "by_stock"), hb.indexes.verify_index(store, Shop, "by_code")
    return not (one.missing or other.missing or other.unclaimed)


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_a_commit_writes_objects_of_several_families_in_one_mutation(bed: Bed) -> None:
    session = bed.use(*MODELS)
    session.add_all([item(1), shop(1), note(1)])
    session.commit()
    bed.store.calls.clear()
    session.update(session.get(Item, shop="a", name="x"), stock=2)
    session.add_all([shop(2, "y"), item(2, "y")])
    session.delete(session.get(Note, shop="a"))
    session.commit()
    (call,) = [call for call in bed.store.calls if call.writes and call.table == "lr_rows"]
    assert (call.name, [change.row for change in call.items]) == ("check_and_mutate_many", [b"a"])
    assert state(hb.Session(bed.store)) == ([("x", 2), ("y", 2)], [("x", 1), ("y", 2)], None)
    assert sound(bed.store)


@pytest.mark.lengthy
@pytest.mark.every_store
@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_a_group_changes_objects_of_several_families(bed: Bed) -> None:
    session = bed.use(*MODELS)
    session.add(item(5))
    session.commit()
    with session.group(Item, shop="a") as group:  # e: its version is linked to that of d
        found = group.get(Item, name="x")
        assert found is not None
        assert group.query(Shop).all() == []
        group.update(found, stock=found.stock - 2)
        group.add(shop(2))
        group.add(note(1))
    assert state(session) == ([("x", 3)], [("x", 2)], 1)
    for opened, others in itertools.permutations(MODELS, 2):
        key = {"shop": "a"}
        group = session.group(opened, **key)
        before = state(session)
        kept = [group.query(model).all() for model in (opened, others)]
        session.update(
            kept[1][0], **({"stock": 9} if others is Item else {"money": 9} if others is Shop else {"text": 9})
        )
        session.commit()
        group.delete(kept[0][0])
        with pytest.raises(hb.ConflictError, match="written since the group was begun"):
            group.commit()
        session.update(
            session.query(others).where(others.shop == "a").all()[0],
            **({"stock": 3} if others is Item else {"money": 2} if others is Shop else {"text": 1}),
        )
        session.commit()
        assert state(session) == before
    assert sound(bed.store)


def test_a_version_that_has_moved_ends_the_group() -> None:
    """The group has read objects of a family whose version has since been linked to the version of another family."""
    store = fresh(*MODELS)
    session = hb.Session(store)
    session.add(item(5))
    session.commit()
    for first, second in ((Item, Shop), (Item, Note), (Note, Item)):
        group = session.group(first, shop="a")
        group.query(first).all()
        other = hb.Session(store)
        other.add_all([item(6), shop(6), note(6)])
        other.commit()
        with pytest.raises(hb.ConflictError, match="written since the group was begun"):
            group.query(second)
        assert group.query(second).all()  # another attempt
        group.discard()


def test_what_cannot_be_checked_as_one_is_refused() -> None:
    @hb.model(table="lr_alone", family="a")
    class Alone:
        name: hb.Key[str] = hb.key()
        value: hb.Column[int] = hb.column("v")
        version: hb.Column[int] = hb.version()

    @hb.model(table="lr_alone", family="b", kind=b"k")
    class Kind:
        name: hb.Key[str] = hb.key()
        value: hb.Column[int] = hb.column("v")
        version: hb.Column[int] = hb.version()

    store = fresh(Alone, Kind)
    session = hb.Session(store)
    session.add_all([Alone(name="n", value=1), Kind(name="n", value=1)])
    with pytest.raises(SessionError, match="and the others of its row share another version"):
        session.commit()
    assert rows_of(store, "lr_alone") == {}
    apart = hb.Session(store, atomic_rows=False)
    apart.add_all([Alone(name="n", value=1), Kind(name="n", value=2)])
    apart.commit()
    assert [apart.get(model, name="n").value for model in (Alone, Kind)] == [1, 2]  # type: ignore[union-attr]
    group = session.group(Kind, name="n")
    with pytest.raises(SessionError, match="not in the row of the group"):
        group.get(Alone)


def test_a_commit_that_changes_nothing_writes_nothing() -> None:
    store = fresh(*MODELS)
    session = hb.Session(store)
    for start in ((), (item(1, "y"),), (shop(1, "y"),)):
        for each in start:
            session.add(each)
            session.commit()
        before = rows_of(store, "lr_rows")
        for absent in (item(1), shop(1), note(1)):
            session.delete(absent)
        assert [outcome.action for outcome in session.commit()] == ["absent"] * 3
        assert rows_of(store, "lr_rows") == before
    session.delete(item(1))
    session.add(shop(2))
    session.commit()
    assert state(session) == ([("y", 1)], [("x", 2), ("y", 1)], None)


@pytest.mark.parametrize("mode", ["before", "after"])
def test_another_family_waits_for_the_end_of_a_commit_that_stopped(mode: Mode) -> None:
    """The version of the row must not change to another cell while it is unknown whether the group has written it."""
    store = FaultyStore(fresh(*MODELS))
    session = hb.Session(store)
    session.add(item(1))
    session.commit()
    group = session.group(Item, shop="a")

    def add_one() -> None:
        found = group.get(Item, name="x")
        assert found is not None
        group.update(found, stock=found.stock + 1)
        store.calls.clear()

    add_one()
    group.commit()
    at = next(at for at, call in enumerate(store.calls) if call.writes and call.table == "lr_rows")
    add_one()
    store.at, store.mode = at, mode
    with pytest.raises(hb.PartialWrite):
        group.commit()
    for use in (lambda: group.get(Shop, branch="x"), lambda: group.query(Note), lambda: group.add(shop(1))):
        with pytest.raises(SessionError, match="The commit of the group stopped partway"):
            use()
    group.commit()
    assert state(session) == ([("x", 3)], [], None)
    assert group.query(Shop).all() == []


# --- programs beside each other ---------------------------------------------------------------------------------------

Program = Callable[[hb.Session], None]
KEYS: dict[Any, tuple[dict[str, Any], str]] = {
    Item: ({"shop": "a", "name": "x"}, "stock"),
    Shop: ({"shop": "a", "branch": "x"}, "money"),
    Note: ({"shop": "a"}, "text"),
}


def add(writer: Any, read: Callable[[Any], Any], model: Any, amount: int) -> int:
    """Adds to the value of an object, or puts it; the value before."""
    key, name = KEYS[model]
    found = read(model)
    if found is None:
        writer.add(model(**key, **{name: amount}))
        return 0
    writer.update(found, **{name: (before := getattr(found, name)) + amount})
    return int(before)


def reader(group: Any) -> Callable[[Any], Any]:
    return lambda model: group.get(model, **{name: value for name, value in KEYS[model][0].items() if name != "shop"})


def in_group(*models: Any) -> Program:
    """Takes one from the first object and adds it to the next, in a local transaction that must not see half of another
    transaction.
    """

    def move(group: Any) -> int:
        first, last = models[0], models[-1]
        return (
            add(group, reader(group), first, -1)
            + sum(add(group, reader(group), each, 0) for each in models[1:-1])
            + add(group, reader(group), last, 1)
        )

    def run(session: hb.Session) -> None:
        total = session.group(models[0], shop="a").retry(move, attempts=50)
        assert total == 0 or len(models) < len(KEYS), f"the values of {models} were {total} together"

    return run


def in_commit(*models: Any) -> Program:
    """The same in a commit of objects with versions, each of which is checked separately."""

    def run(session: hb.Session) -> None:
        left = dict(zip(models, (-1, 1), strict=True))
        while left:
            read = {model: session.get(model, **KEYS[model][0]) for model in left}
            made = {
                model: session.update(
                    read[model], **{KEYS[model][1]: getattr(read[model], KEYS[model][1]) + left[model]}
                )
                for model in left
            }
            try:
                session.commit()
            except (hb.ConflictError, hb.PartialWrite):
                session.discard()
            left = {model: amount for model, amount in left.items() if made[model].version <= read[model].version}

    return run


def alone(model: Any) -> Program:
    """Updates an object twice, so that its value is the same afterwards."""

    def change(session: hb.Session, amount: int) -> None:
        key, name = KEYS[model]
        found = session.get(model, **key)
        if found is not None:
            session.update(found, **{name: getattr(found, name) + amount})
            session.commit()

    def run(session: hb.Session) -> None:
        session.retry(lambda session: change(session, 0), attempts=50)

    return run


def put(*made: Any) -> Program:
    """Puts objects in one commit, over any existing objects."""

    def run(session: hb.Session) -> None:
        session.add_all(type(each)(**hb.asdict(each)) for each in made)  # without a version
        session.commit()

    return run


STARTS: dict[str, Sequence[Program]] = {
    "nothing": (),
    "each alone": (put(item(0)), put(shop(0)), put(note(0))),
    "together": (put(item(0), shop(0), note(0)),),
    "two together": (put(item(0), note(0)), put(shop(0))),
}

PROGRAMS: dict[str, Program] = {
    "group e d": in_group(Item, Shop),
    "group d e": in_group(Shop, Item),
    "group f e": in_group(Note, Item),
    "group all": in_group(Note, Shop, Item),
    "commit e d": in_commit(Item, Shop),
    "commit f d": in_commit(Note, Shop),
    "e": alone(Item),
    "d": alone(Shop),
    "f": alone(Note),
    "both new": put(item(0, "y"), shop(0, "y")),
}

MOVES = {
    "group e d": (-1, 1, 0),
    "group d e": (1, -1, 0),
    "group f e": (1, 0, -1),
    "group all": (1, 0, -1),
    "commit e d": (-1, 1, 0),
    "commit f d": (0, 1, -1),
}
"""What they add to the values of Item, Shop and Note."""


def check(start: str, programs: Sequence[str], schedule: Schedule) -> int:
    """Runs programs concurrently, and compares the values with those of any order; returns the number of turns that
    were taken.
    """
    store = fresh(*MODELS)
    for program in STARTS[start]:
        program(hb.Session(store))
    turns = Turns(schedule)
    errors: list[BaseException] = []

    def beside(name: str) -> Callable[[], None]:
        def run() -> None:
            try:
                PROGRAMS[name](hb.Session(store, on_call=lambda call: turns.wait()))
            except Exception as error:
                errors.append(error)

        return run

    turns.run([beside(name) for name in programs])
    assert not errors, (start, programs, turns.taken, errors)
    session = hb.Session(store)
    found = [session.get(model, **key) for model, (key, _) in KEYS.items()]
    values = tuple(
        0 if each is None else getattr(each, name) for each, (_, name) in zip(found, KEYS.values(), strict=True)
    )
    expected = tuple(map(sum, zip((0, 0, 0), *(MOVES.get(name, (0, 0, 0)) for name in programs), strict=True)))
    assert values == expected, (start, programs, turns.taken)
    if "both new" in programs:
        assert [len(session.query(model).where(model.shop == "a").all()) >= 1 for model in (Item, Shop)] == [True, True]
    assert sound(store), (start, programs, turns.taken)
    return len(turns.taken)


def switching(first: int, *at: int) -> Schedule:
    """A schedule of two programs: this one begins, and after a number of turns the other one continues."""
    turn = 0

    def choose(alive: Sequence[int]) -> int:
        nonlocal turn
        running = (first + sum(turn >= each for each in at)) % 2
        turn += 1
        return running if running in alive else alive[0]

    return choose


PAIRS = [
    ("group e d", "group d e"),
    ("group e d", "e"),
    ("group d e", "e"),
    ("group f e", "group e d"),
    ("both new", "e"),
    ("both new", "both new"),
    ("commit e d", "commit f d"),
    ("commit e d", "e"),
    ("commit e d", "d"),
]


@pytest.mark.lengthy
@pytest.mark.parametrize("programs", PAIRS)
def test_one_program_comes_between_two_calls_of_another(programs: Sequence[str]) -> None:
    drawn = random.Random(str(programs))
    starts = [
        start for start in STARTS if start != "nothing" or not any(name.startswith("commit") for name in programs)
    ]
    lengths: dict[Any, int] = {}
    for _ in range(examples(20)):
        start, order = drawn.choice(starts), drawn.choice((programs, programs[::-1]))
        if (start, order) not in lengths:
            lengths[start, order] = check(start, order, switching(0))
        at = sorted(drawn.sample(range(1, lengths[start, order]), drawn.choice((1, 2, 2, 3))))
        check(start, order, switching(0, *at))


@pytest.mark.lengthy
def test_many_programs_beside_each_other() -> None:
    for seed in range(examples(50)):
        drawn = random.Random(seed)
        start = drawn.choice(list(STARTS))
        able = [name for name in PROGRAMS if start != "nothing" or not name.startswith("commit")]
        check(start, drawn.choices(able, k=drawn.choice((2, 3, 3, 4))), drawn.choice((random_turns, short_turns))(seed))
