"""Rows put before the first row of their prefix, and inserts without conditional changes of rows."""

from __future__ import annotations

import itertools
import time
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import (
    CapabilityError,
    EncodingError,
    IncompleteKey,
    RowExists,
    RowNotFound,
    SessionError,
    UnknownField,
)
from hbmodel.mapping.schema import CLAIMED
from hbmodel.protocol.corrected_clock import CLOCK_BOUND, GRACE
from hbmodel.protocol.driver import drive
from hbmodel.protocol.server_timed.insert_by_flag import insert_claimed
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.writes import put_object
from hbmodel.store import Family, Put
from hbmodel.store.embedded import EmbeddedStore
from tests.support.beds import Bed, fresh
from tests.support.beside import Beside
from tests.support.called_kinds import KINDS, names
from tests.support.deeds import object_of
from tests.support.examples import examples
from tests.support.faulty import FaultyStore, Mode, RecordingStore

CODECS = (
    *(hb.codecs.Int8, hb.codecs.Int16, hb.Int32, hb.Int64, hb.codecs.UInt8, hb.codecs.UInt16, hb.UInt32, hb.UInt64),
    *(hb.codecs.DecimalText(3), hb.codecs.HexText(2), hb.codecs.ReverseStampInt),
)
SALTS = (None, hb.HashSalt(4), hb.HashSalt(4, by=("post",)), hb.salts.TextSalt(("a-", "b-")))


@hb.model(table="prepended", family="d", exists=hb.flag("e"))
class Comment:
    """Newest first: the numbers count up, and the largest stands first."""

    post: hb.Key[int] = hb.key(hb.UInt32)
    number: hb.Key[int] = hb.key(hb.UInt32, desc=True)
    text: hb.Column[str] = hb.column("t")
    author: hb.Column[str | None] = hb.column("a", default=None)
    likes: hb.Column[int] = hb.counter("l")


@hb.model(table="prepended_words", family="d")
class Word:
    """A row of one cell."""

    page: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.Int16)
    text: hb.Column[int] = hb.column("t")


@hb.model(table="prepended_notes", family="d", exists=hb.flag("e"), kind=b"n")
class Note:
    """Many objects in one row."""

    owner: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.UInt16, desc=True, in_qualifier=True)
    text: hb.Column[str] = hb.column("t")


@hb.model(table="prepended_tasks", family="d", salt=hb.HashSalt(4))
class Task:
    """Indexed, so that deleted rows leave markers; the rows of a prefix are spread over buckets."""

    team: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32, desc=True)
    state: hb.Column[str] = hb.column("s")

    by_state = hb.index("state")


@hb.model(table="prepended_pages", family="d")
class Version:
    """A row has a version."""

    page: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.Int32)
    text: hb.Column[str] = hb.column("t")
    version: hb.Column[int] = hb.version()


def declared(codec: Any, desc: bool, salt: Any) -> Any:
    """A model with such a last key field."""

    @hb.model(table="prepended_any", family="d", exists=hb.flag("e"), salt=salt)
    class Any_:
        post: hb.Key[int] = hb.key(hb.codecs.UInt8)
        number: hb.Key[int] = hb.key(codec, desc=desc)
        text: hb.Column[str] = hb.column("t")

    return Any_


@st.composite
def prefixes(draw: st.DrawFn) -> tuple[Any, list[int], list[int]]:
    """A model, the numbers of some rows, and which of them are deleted again."""
    codec = draw(st.sampled_from(CODECS))
    model = declared(codec, draw(st.booleans()), draw(st.sampled_from(SALTS)))
    near = st.integers(codec.low, min(codec.low + 5, codec.high)) | st.integers(codec.high - 5, codec.high)
    numbers = draw(st.lists(near | st.integers(codec.low, codec.high), unique=True, max_size=6))
    gone = draw(st.lists(st.sampled_from(numbers), unique=True)) if numbers else []
    return model, numbers, gone


@pytest.mark.lengthy
@settings(max_examples=examples(150), deadline=None)
@given(prefixes(), st.booleans())
def test_the_number_before_the_first_row_is_taken(of: tuple[Any, list[int], list[int]], limited: bool) -> None:
    model, numbers, gone = of
    with RecordingStore(hb.connect("memory:"), limited=limited) as store:
        hb.create_tables(store, model)
        session = hb.Session(store)
        session.add_all(model(post=post, number=number, text="old") for post in (1, 2, 3) for number in numbers)
        session.commit()
        for number in gone:
            session.delete_key(model, post=2, number=number)
        session.commit()
        left = [number for number in numbers if number not in gone]
        row = {
            number: hb.row_key(model, post=2, number=number)[hb.schema.schema_of(model).salt.width :] for number in left
        }
        codec = hb.schema.schema_of(model).layout.fields[-1].codec
        ends = sorted((codec.low, codec.high), key=lambda number: hb.schema.schema_of(model).layout.pack((2, number)))
        if not left:
            expected = ends[1]
        else:
            first = min(left, key=lambda number: row[number])
            if first == ends[0]:
                with pytest.raises(EncodingError, match="No number of the last key field is left") as caught:
                    session.prepend(model, post=2, text="new")
                assert caught.value.field == "number"
                return
            expected = first + (1 if ends[0] > ends[1] else -1)
        made = session.prepend(model, post=2, text="new")
        assert made == model(post=2, number=expected, text="new")
        assert (
            session.query(model).where(model.post == 2).first() == made == session.get(model, post=2, number=expected)
        )


@pytest.mark.every_store
def test_prepended_rows_stand_in_the_order_of_the_calls_backwards(bed: Bed) -> None:
    session = bed.use(Comment, Word, Note)
    for n in range(4):
        assert session.prepend(Comment, post=7, text=f"text {n}").number == n
        assert session.prepend(Word, page="p", text=n).number == 2**15 - 1 - n
        assert session.prepend(Note, owner="ann", text=f"text {n}").number == n
    assert [found.text for found in session.query(Comment).where(Comment.post == 7)] == [
        f"text {n}" for n in (3, 2, 1, 0)
    ]
    assert [found.text for found in session.query(Word).where(Word.page == "p")] == [3, 2, 1, 0]
    assert [found.text for found in session.query(Note).where(Note.owner == "ann")] == [
        f"text {n}" for n in (3, 2, 1, 0)
    ]
    assert session.prepend(Comment, post=6, text="another post").number == 0
    assert session.increment(Comment(post=7, number=3, text=""), Comment.likes) == 1


def test_the_key_of_a_deleted_first_row_is_used_again(bed: Bed) -> None:
    session = bed.use(Comment)
    for text in ("a", "b", "c"):
        session.prepend(Comment, post=7, text=text, author="ann")
    session.increment(Comment(post=7, number=2, text=""), Comment.likes, 5)
    session.delete_key(Comment, post=7, number=2)
    session.delete_key(Comment, post=7, number=0)
    session.commit()
    assert session.prepend(Comment, post=7, text="again") == Comment(post=7, number=2, text="again")
    assert [found.number for found in session.query(Comment).where(Comment.post == 7)] == [2, 1]


def test_what_a_prepend_costs(bed: Bed) -> None:
    session = bed.use(Comment)
    session.prepend(Comment, post=7, text="a")
    bed.store.told()
    session.prepend(Comment, post=7, text="b")
    name = "prepended"
    put = (
        [f"get {name}", f"check_and_mutate {name}", f"get {name}"]
        if bed.atomic
        else [f"check_and_put {name}", f"get {name}", f"get {name}", f"put {name}", f"check_and_put {name}"]
    )
    assert bed.store.told() == [f"scan {name}", *put]


def test_markers_of_deleted_rows_are_passed_over(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Task)
    session.add_all(Task(team="t", number=number, state="open") for number in range(60))
    session.commit()
    for number in range(1, 60):
        session.delete_key(Task, team="t", number=number)
    session.commit()
    atomic_bed.store.told()
    assert session.prepend(Task, team="t", state="open").number == 1
    told = atomic_bed.store.told()
    assert told.count("scan prepended_tasks") <= 3
    assert session.prepend(Task, team="t", state="done").number == 2
    assert [found.number for found in session.query(Task).where(Task.state == "open")] == [1, 0]
    assert session.query(Task).first() == Task(team="t", number=2, state="done")
    assert session.query(Task).last() == Task(team="t", number=0, state="open")


def test_a_versioned_row_has_its_first_version(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Version)
    made = session.prepend(Version, page="p", text="a")
    assert (made.number, made.version > 0) == (2**31 - 1, True)
    session.update(made, text="b")
    session.commit()
    assert session.prepend(Version, page="p", text="c").number == 2**31 - 2


def test_what_is_not_possible_is_refused() -> None:
    store = fresh(Comment)
    session = hb.Session(store)
    with pytest.raises(SessionError, match="sets the last key field itself"):
        session.prepend(Comment, post=1, number=3, text="a")
    with pytest.raises(IncompleteKey, match="Give every field of the row key but the last") as caught:
        session.prepend(Comment, text="a")
    assert caught.value.missing == ["post"]
    with pytest.raises(UnknownField, match=r"known=\['author', 'post', 'text'\]"):
        session.prepend(Comment, post=1, text="a", autor="ann")
    with pytest.raises(UnknownField, match=r"increment\(\) changes a counter"):
        session.prepend(Comment, post=1, text="a", likes=3)
    with pytest.raises(SessionError, match="needs each column that has no default") as unset:
        session.prepend(Comment, post=1, author="ann")
    assert unset.value.missing == ["text"]
    with pytest.raises(EncodingError):
        session.prepend(Comment, post=-1, text="a")
    with pytest.raises(EncodingError):
        session.prepend(Comment, post=1, text=5)
    assert store.told() in ([], ["get hbmodel"])  # nothing was asked of the table

    @hb.model(table="t1", immutable=True, salt=hb.RandomSalt(4))
    class Drawn:
        number: hb.Key[int] = hb.key()
        text: hb.Column[int] = hb.column("t")

    @hb.model(table="t2")
    class Named:
        name: hb.Key[str] = hb.key()
        text: hb.Column[int] = hb.column("t")

    @hb.model(table="t3")
    class Maybe:
        number: hb.Key[int | None] = hb.key()
        text: hb.Column[int] = hb.column("t")

    @hb.model(table="t4")
    class Unordered:
        number: hb.Key[int] = hb.key(hb.codecs.JavaInt)
        text: hb.Column[int] = hb.column("t")

    with pytest.raises(CapabilityError, match=r"prepend\(\) is not possible under RandomSalt"):
        session.prepend(Drawn, text=1)
    for model in (Named, Maybe, Unordered):
        with pytest.raises(CapabilityError, match=r"prepend\(\) needs a model whose last key field is a whole number"):
            session.prepend(model, text=1)


# --- claims -----------------------------------------------------------------------------------------------------------


def claim(bed: Bed, number: int = 5, age: float | None = None) -> Comment:
    """Leaves the claim of a program that died now, or a number of seconds ago, and returns the object under its key."""
    obj = Comment(post=7, number=number, text="new", author="bob")
    row = hb.row_key(Comment, post=7, number=number)
    at = None if age is None else int((time.time() - age) * 1000)
    bed.store.put("prepended", [Put(row, {b"d:e": CLAIMED + b"nonceabc"}, at)])
    return obj


def test_a_claimed_row_is_absent(bed: Bed) -> None:
    session = bed.use(Comment)
    obj = claim(bed)
    assert session.get(Comment, post=7, number=5) is None
    query = session.query(Comment).where(Comment.post == 7)
    assert (query.all(), query.count(), query.exists(), query.first(), query.last()) == ([], 0, False, None, None)
    assert query.where(Comment.author == "bob").count() == 0
    session.update(obj, text="changed")
    with pytest.raises(RowNotFound):
        session.commit()
    with pytest.raises(RowNotFound, match="There is no row with this key to increment"):
        session.increment(obj, Comment.likes)


def test_a_young_claim_holds_its_key_against_inserts(bed: Bed) -> None:
    session = bed.use(Comment)
    obj = claim(bed)
    with pytest.raises(RowExists, match="Another program is inserting"):
        session.insert(obj)
    session.add(obj)  # a put asks nobody
    session.commit()
    with pytest.raises(RowExists, match="A row with this key exists"):
        session.insert(obj)
    session.delete(obj)
    session.commit()
    assert session.insert(obj) == obj


def test_an_old_claim_is_retaken(bed: Bed) -> None:
    session = bed.use(Comment)
    obj = claim(bed, 5_000, 2 * GRACE / 1000)  # a row that no test has deleted before
    assert session.insert(obj) == obj
    assert session.query(Comment).where(Comment.post == 7).all() == [obj]


def test_a_prepend_passes_over_the_claim_of_another(bed: Bed) -> None:
    session = bed.use(Comment)
    session.add(Comment(post=7, number=4, text="old"))
    session.commit()
    claim(bed)
    assert session.prepend(Comment, post=7, text="new").number == 6
    assert [found.number for found in session.query(Comment).where(Comment.post == 7)] == [6, 4]
    assert session.prepend(Comment, post=7, text="newer").number == 7


def test_without_checked_changes_only_flags_and_single_cells_are_inserted() -> None:
    store = RecordingStore(hb.connect("memory:"), limited=True)
    hb.create_tables(store, Comment, Word, Task)
    session = hb.Session(store)
    assert session.insert(Word(page="p", number=1, text=5)).text == 5
    with pytest.raises(RowExists):
        session.insert(Word(page="p", number=1, text=6))
    session.insert(Comment(post=1, number=1, text="a"))
    with pytest.raises(RowExists):
        session.insert(Comment(post=1, number=1, text="a"))
    store.told()
    with pytest.raises(CapabilityError, match="Thrift2"):
        session.insert(Word(page="p", number=2, text=5), ttl=timedelta(hours=1))
    with pytest.raises(CapabilityError, match="Thrift2"):
        session.prepend(Task, team="t", state="open")

    @hb.model(table="two", family="d")
    class Two:
        number: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")
        b: hb.Column[int] = hb.column("b")

    @hb.model(table="short", family=hb.family("d", ttl=timedelta(minutes=1)), exists=hb.flag("e"))
    class Short:
        number: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")
        b: hb.Column[int] = hb.column("b")

    hb.create_tables(store, Two, Short, Version)
    for obj in (Two(number=1, a=1, b=2), Short(number=1, a=1, b=2), Version(page="p", number=1, text="t")):
        with pytest.raises(CapabilityError, match="Thrift2"):
            session.insert(obj)


def test_a_row_that_is_put_below_its_claim_is_shown_all_the_same() -> None:
    """The server's clock was set back between the claim and the row, as by a move to another server."""
    now = 1_000
    schema = hb.schema.schema_of(Comment)
    write = put_object(schema, Comment(post=7, number=1, text="a"))
    with EmbeddedStore(None, lambda: now) as store:
        store.create_table("prepended", [Family(b"d")])
        limited = RecordingStore(store, limited=True)
        planner = UnindexedRowPlanner.of(schema)
        protocol = insert_claimed(planner, write, b"d:e", CLOCK_BOUND, GRACE, lambda: bytes(8))

        def slowed() -> Any:
            nonlocal now
            answer: Any = None
            while True:
                try:
                    operation = protocol.send(answer)
                except StopIteration as stop:
                    return stop.value
                if type(operation).__name__ == "PutRows":
                    now = 500
                answer = yield operation

        drive(limited, slowed(), Steady())
        (row,) = store.get("prepended", [write.row])
        assert row is not None
        assert row.columns[b"d:e"].value == b"\x01"


@pytest.mark.parametrize("before", ["LetClockTick", "PutRows", "CheckAndPut"])
def test_an_insert_leaves_a_row_that_was_put_over_its_claim(before: str) -> None:
    """In the millisecond of the claim, before its columns are put, or before its flag is."""
    now = 1_000
    schema = hb.schema.schema_of(Comment)
    write, other = (put_object(schema, Comment(post=7, number=1, text=text)) for text in ("a", "b"))
    with EmbeddedStore(None, lambda: now) as store:
        store.create_table("prepended", [Family(b"d")])
        limited = RecordingStore(store, limited=True)
        planner = UnindexedRowPlanner.of(schema)
        protocol = insert_claimed(planner, write, b"d:e", CLOCK_BOUND, GRACE, lambda: bytes(8))

        def disturbed() -> Any:
            nonlocal now
            waiting = True
            claimed = False
            operation = next(protocol)
            while True:
                kind = type(operation).__name__
                if waiting and claimed and kind == before:
                    waiting = False
                    store.put("prepended", [Put(write.row, planner.cells(other))])
                claimed = True
                if kind == "LetClockTick":
                    now += 1
                operation = protocol.send((yield operation))

        with pytest.raises(RowExists, match="A row with this key exists"):
            drive(limited, disturbed(), Steady())
        (row,) = store.get("prepended", [write.row])
        assert row is not None
        assert planner.cells(other).items() <= {column: cell.value for column, cell in row.columns.items()}.items()


@pytest.mark.parametrize("name", ["map_flag", "map_wide_flag"])
def test_an_insert_leaves_no_entries_in_a_row_that_was_put_over_its_claim(name: str) -> None:
    """Another program puts the object, with another entry, before any one of the calls of the insert."""
    of = KINDS[name]
    with RecordingStore(hb.connect("memory:"), limited=True) as store:
        hb.create_tables(store, of.model)
        refused = 0
        for at in itertools.count(1):
            other = object_of(of, f"{at}", 2, None, y=2)
            beside = Beside(store, at, partial(hb.Session.add, obj=other))
            session = hb.Session(store, on_call=beside)
            session.get(of.model, **names(of, "first"))  # reads the registry
            try:
                session.insert(object_of(of, f"{at}", 1, None, x=1))
            except RowExists:
                refused += 1
                assert session.entries(of.model.e, **names(of, f"{at}")).all() == {"y": 2}
            if not beside.made:
                break
        assert refused >= 3


class Steady:
    """A clock that stands."""

    def now(self, exact: bool = False) -> int:
        return 1_000

    def ahead(self, timestamp: int) -> int | None:
        return None

    def fresh(self, since: int) -> bool:
        return True


@pytest.mark.lengthy
@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("limited", [False, True])
def test_wherever_a_prepend_ends_the_next_one_follows(mode: Mode, limited: bool) -> None:
    ended = 0
    for at in range(12):
        store = FaultyStore(hb.connect("memory:"), limited=limited)
        hb.create_tables(store, Comment)
        hb.Session(store).prepend(Comment, post=7, text="first")
        store.at, store.mode = len(store.calls) + at, mode
        made: int | None = None
        try:
            made = hb.Session(store).prepend(Comment, post=7, text="second").number
        except hb.StoreUnavailable:  # certainly nothing was put
            made = -1
        except hb.UnknownOutcome:
            ended += 1
        store.at = None
        last = hb.Session(store).prepend(Comment, post=7, text="third")
        found = [comment.number for comment in hb.Session(store).query(Comment).where(Comment.post == 7)]
        assert found[0] == last.number <= 2
        assert len(found) == (2 if made == -1 else 3) or made is None
        assert made in {None, -1} or made in found
    assert ended > 0
