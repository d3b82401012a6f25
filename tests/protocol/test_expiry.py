"""Rows that expire: they go with their entries, whole, and nothing older comes back."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.protocol import corrected_clock
from hbmodel.protocol.corrected_clock import wall_time
from hbmodel.protocol.expiry import end_of_live, end_of_unindexed
from hbmodel.store import Delete, Put, clock_tick
from hbmodel.store.clock_tick import let_tick_pass
from hbmodel.store.embedded import EmbeddedStore
from tests.support.beds import HBASE, Bed, cells_of, fresh
from tests.support.examples import examples
from tests.support.faulty import Crash, FaultyStore, Mode, RecordingStore, failures_of, is_repetition
from tests.support.models import DAY, Fact, Flagged, Hit, Legacy, Sample, Token, Visit, order
from tests.support.scenarios import check_exact, check_queries, objects
from tests.support.slow_machines import lives_for

SOON = timedelta(milliseconds=700)
LATER = timedelta(hours=1)


@hb.model(table="slips", family="d", external=True, exists="page")
class Slip:
    """In a table that others write too."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")
    note: hb.Column[str | None] = hb.column("n", default=None, null="delete")
    extra: hb.Column[str | None] = hb.column("e", default=None)


MODELS = (Visit, Token, Slip)


class ServerTime:
    """A server's clock, which tests can put forward; it never shows one time twice, and waits rather than run ahead.

    Args:
        tick: called before each reading.
    """

    def __init__(self, tick: Callable[[], object] = lambda: None) -> None:
        self._tick = tick
        self.ahead = self.last = 0

    def __call__(self) -> int:
        self._tick()
        while (now := wall_time() + self.ahead) <= self.last:
            time.sleep(0.0002)
        self.last = now
        return now


class StillTime:
    """The module `time` of a machine whose clocks move only when somebody waits."""

    def __init__(self) -> None:
        self._now = time.time_ns()

    def time_ns(self) -> int:
        return self._now

    monotonic_ns = time_ns

    def sleep(self, seconds: float) -> None:
        self._now += round(seconds * 1e9)


@contextmanager
def still_time() -> Iterator[ServerTime]:
    """A server's clock where tests need not wait: this machine's clocks move when they wait, and by a millisecond at
    each reading.
    """
    machine = StillTime()
    with pytest.MonkeyPatch.context() as patch:
        for module in (corrected_clock, clock_tick):
            patch.setattr(module, "time", machine)
        yield ServerTime(lambda: machine.sleep(0.001))


class TimedBed(Bed):
    """A bed on which time can pass."""

    clock: ServerTime | None = None

    def pass_time(self, milliseconds: int) -> hb.Session:
        """Lets time pass; sessions from before measure the server's clock no more, so there is a new one."""
        if self.clock is None:
            time.sleep(milliseconds / 1000)
        else:
            self.clock.ahead += milliseconds
        return hb.Session(self.store)


@pytest.fixture(params=["memory", "limited", *HBASE])
def bed(request: pytest.FixtureRequest) -> Iterator[TimedBed]:
    """Stores in memory whose clock can be put forward, and HBase, where time passes."""
    if request.param.startswith("thrift"):
        yield TimedBed(request.param, request.getfixturevalue("real_beds")(request.param).store)
        return
    made = TimedBed(
        request.param, RecordingStore(EmbeddedStore(None, server := ServerTime()), limited=request.param == "limited")
    )
    made.clock = server
    with made.store:
        yield made


def until_gone(bed: TimedBed, model: Any, name: str = "a") -> hb.Session:
    """Waits until a row that expires soon is gone."""
    session = bed.pass_time(300)
    end = time.monotonic() + 60
    while session.get(model, name=name) is not None:
        assert time.monotonic() < end, "the row does not expire"
        session = bed.pass_time(50)
    return session


def refused(bed: TimedBed, model: Any, session: hb.Session, update: Callable[[], object]) -> bool:
    """Whether the store has no check-and-mutate, which an update of an indexed row with a TTL needs: then it changes
    nothing.
    """
    if bed.store.capabilities.check_and_mutate or not hb.schema.schema_of(model).indexes:
        return False
    before = objects(bed.store, model)
    update()
    with pytest.raises(
        hb.CapabilityError, match="A row with a TTL in a model with indexes can be updated only in a store with"
    ):
        session.commit()
    assert objects(bed.store, model) == before
    return True


def check_empty(bed: TimedBed, model: Any) -> None:
    """No row, no entry, no cell."""
    schema = hb.schema.schema_of(model)
    check_queries(bed.store, model)
    for table in (schema.table, *(index.table for index in schema.indexes.values())):
        assert cells_of(bed.store, table) == {}


@pytest.mark.every_store
@pytest.mark.parametrize("model", MODELS)
@lives_for(SOON.total_seconds())
def test_nothing_older_comes_back_when_a_row_expires(bed: TimedBed, model: Any) -> None:
    session = bed.use(model)
    session.add(model(name="a", page="x", note="old", extra="old"))
    session.add(model(name="b", page="x"))
    session.commit()
    session.add(model(name="a", page="y", note="new"), ttl=SOON)
    (outcome,) = session.commit()
    assert outcome.timestamp is not None
    assert session.get(model, name="a") == model(name="a", page="y", note="new")
    check_queries(bed.store, model)
    session = until_gone(bed, model)
    assert wall_time() >= outcome.timestamp + 650 or not bed.real
    assert objects(bed.store, model) == {("b",): model(name="b", page="x")}
    check_queries(bed.store, model)
    session.delete_key(model, name="b")
    session.add(model(name="c", page="x"), ttl=SOON)
    session.commit()
    until_gone(bed, model, "c")
    assert objects(bed.store, model) == {}


@pytest.mark.parametrize("model", MODELS)
@lives_for(SOON.total_seconds())
def test_a_new_row_that_expires_leaves_nothing(bed: TimedBed, model: Any) -> None:
    session = bed.use(model)
    session.add_all([model(name="a", page="x", note="n"), model(name="b", page="x")], ttl=SOON)
    session.commit()
    check_exact(bed.store, model)
    until_gone(bed, model, "a")
    until_gone(bed, model, "b")
    bed.pass_time(20)
    check_empty(bed, model)


@pytest.mark.every_store
@pytest.mark.parametrize("model", MODELS)
@lives_for(SOON.total_seconds())
def test_an_update_leaves_the_end_of_a_row_where_it_was(bed: TimedBed, model: Any) -> None:
    session = bed.use(model)
    session.add(model(name="a", page="x", note="n", extra="e"))
    session.commit()
    session.add(model(name="a", page="y", note="n", extra="e"), ttl=SOON)
    (outcome,) = session.commit()
    assert outcome.timestamp is not None
    changed = model(name="a", page="y", note="n", extra="e")
    if refused(bed, model, session, lambda: session.update(changed, note="m")):
        return
    for change in ({"note": "m"}, {"page": "z"}, {"note": None, "extra": "f"}):
        changed = session.update(changed, **change)
        session.commit()
        assert session.get(model, name="a") == changed
    check_exact(bed.store, model)
    until_gone(bed, model)
    assert wall_time() <= outcome.timestamp + 3_000
    bed.pass_time(20)
    check_empty(bed, model)
    session.update(changed, note="late")
    with pytest.raises(hb.RowNotFound):
        session.commit()


@pytest.mark.parametrize("model", MODELS)
@lives_for(SOON.total_seconds())
def test_an_update_with_a_ttl_gives_the_whole_row_a_new_life(bed: TimedBed, model: Any) -> None:
    session = bed.use(model)
    session.add(model(name="a", page="x", note="n", extra="e"))
    session.commit()
    if refused(bed, model, session, lambda: session.update(model(name="a", page="?"), ttl=LATER)):
        return
    kept = session.update(model(name="a", page="?"), ttl=LATER)
    session.commit()
    assert session.get(model, name="a") == model(name="a", page="x", note="n", extra="e")
    assert kept == model(name="a", page="?")
    session.update(kept, page="y", ttl=SOON)
    session.commit()
    assert session.get(model, name="a") == model(name="a", page="y", note="n", extra="e")
    check_exact(bed.store, model)
    until_gone(bed, model)
    bed.pass_time(20)
    check_empty(bed, model)


@pytest.mark.parametrize("model", MODELS)
@lives_for(SOON.total_seconds())
def test_a_later_write_without_a_ttl_stays(bed: TimedBed, model: Any) -> None:
    session = bed.use(model)
    session.add_all([model(name="a", page="x", note="n", extra="e"), model(name="b", page="x", note="n")], ttl=SOON)
    session.commit()
    session.add(model(name="a", page="y"))
    session.delete_key(model, name="b")
    session.commit()
    updated = session.update(model(name="a", page="y"), note="kept")
    session.commit()
    session = bed.pass_time(900)
    assert objects(bed.store, model) == {("a",): updated}
    check_queries(bed.store, model)
    assert session.update(updated, page="z") == session.update(updated, page="z")
    session.commit()
    assert session.get(model, name="a") == model(name="a", page="z", note="kept")


@pytest.mark.parametrize("model", MODELS)
@lives_for(SOON.total_seconds())
def test_rows_of_several_lives_go_into_one_commit(bed: TimedBed, model: Any) -> None:
    session = bed.use(model)
    session.add(model(name="e", page="old"))
    session.commit()
    session.add(model(name="a", page="x"), ttl=SOON)
    session.add(model(name="b", page="x"), ttl=LATER)
    session.add(model(name="c", page="x"))
    session.add(model(name="d", page="x"), ttl=SOON)
    session.add(model(name="d", page="y"))
    session.add(model(name="e", page="y"))
    session.add(model(name="e", page="z"), ttl=SOON)
    assert [outcome.action for outcome in session.commit()] == [
        "put",
        "put",
        "put",
        "superseded",
        "put",
        "superseded",
        "put",
    ]
    assert {name for (name,) in objects(bed.store, model)} == set("abcde")
    check_exact(bed.store, model)
    until_gone(bed, model, "a")
    until_gone(bed, model, "e")
    assert {name for (name,) in objects(bed.store, model)} == set("bcd")
    check_queries(bed.store, model)


@pytest.mark.every_store
@pytest.mark.parametrize("model", [Visit, Token])
@lives_for(SOON.total_seconds())
def test_insert_and_load_with_a_ttl(bed: TimedBed, model: Any) -> None:
    session = bed.use(model)
    assert session.bulk_add((model(name=name, page="x") for name in "bcb"), batch_size=2, ttl=SOON) == 3
    if bed.atomic:
        session.insert(model(name="a", page="x"), ttl=SOON)
        with pytest.raises(hb.RowExists):
            session.insert(model(name="a", page="y"), ttl=SOON)
    assert {name for (name,) in objects(bed.store, model)} == set("abc" if bed.atomic else "bc")
    check_exact(bed.store, model)
    for name in "abc":
        until_gone(bed, model, name)
    bed.pass_time(20)
    check_empty(bed, model)
    if bed.atomic:  # an expired row leaves its key free
        session.insert(model(name="a", page="z"))
        assert session.get(model, name="a") == model(name="a", page="z")


@pytest.mark.every_store
@lives_for(SOON.total_seconds())
def test_a_row_deleted_before_it_expires_stays_deleted(bed: TimedBed) -> None:
    session = bed.use(Visit)
    session.add(Visit(name="a", page="x"))
    session.commit()
    session.add(Visit(name="a", page="y"), ttl=SOON)
    session.commit()
    session.delete_key(Visit, name="a")
    session.commit()
    session = bed.pass_time(900)
    assert objects(bed.store, Visit) == {}
    check_queries(bed.store, Visit)
    session.add(Visit(name="a", page="z"), ttl=LATER)
    session.commit()
    assert objects(bed.store, Visit) == {("a",): Visit(name="a", page="z")}
    check_exact(bed.store, Visit)


@lives_for(SOON.total_seconds())
def test_an_immutable_row_that_expires_is_read_first(bed: TimedBed) -> None:
    session = bed.use(Fact)
    session.add(Fact(number=1, topic="t", body="b"))
    session.commit()
    session.add(Fact(number=1, topic="t", body="b"), ttl=SOON)
    session.commit()
    bed.pass_time(900)
    check_queries(bed.store, Fact)
    assert cells_of(bed.store, "facts") == {}
    (mark,) = cells_of(bed.store, "facts.by_topic").values()  # what could show again is never taken for verified
    assert mark.keys() == {b"d:_s"}


@lives_for(SOON.total_seconds())
def test_a_external_table_keeps_what_the_model_does_not_map(bed: TimedBed) -> None:
    session = bed.use(Slip)
    bed.store.put("slips", [Put(b"a", {b"d:other": b"theirs", b"d:p": b"x"})])
    session.add(Slip(name="a", page="y"), ttl=SOON)
    session.commit()
    session.update(Slip(name="a", page="y"), extra="e")
    session.commit()
    until_gone(bed, Slip)
    assert cells_of(bed.store, "slips") == {b"a": {b"d:other": b"theirs"}}


@pytest.mark.parametrize("model", [Visit, Token])
@lives_for(SOON.total_seconds())
def test_what_other_models_left_in_the_families_lives_as_long_as_the_row(bed: TimedBed, model: Any) -> None:
    session = bed.use(model)
    session.add(model(name="a", page="x"))
    session.commit()
    table = hb.schema.schema_of(model).table
    bed.store.put(table, [Put(b"a", {b"d:z": b"theirs"}, max(wall_time(), 1) - 5)])
    if refused(bed, model, session, lambda: session.update(model(name="a", page="x"), ttl=SOON)):
        return
    session.update(model(name="a", page="x"), ttl=SOON)
    session.commit()
    assert cells_of(bed.store, table)[b"a"][b"d:z"] == b"theirs"
    until_gone(bed, model)
    bed.pass_time(20)
    check_empty(bed, model)


def test_an_atomic_store_takes_one_call_for_a_row_alone() -> None:
    with fresh(Visit, Token) as store:
        session = hb.Session(store)
        session.add(Token(name="warm", page="x"), ttl=LATER)
        session.commit()
        store.calls.clear()
        session.add(Token(name="a", page="x"), ttl=LATER)
        session.commit()
        assert store.told() == ["put tokens", "get tokens", "mutate_row tokens"]
        let_tick_pass()
        session.update(Token(name="a", page="x"), page="y")
        session.commit()
        assert store.told() == ["get tokens", "put tokens", "get tokens", "check_and_mutate tokens"]
        session.add(Token(name="b", page="x"))
        session.update(Token(name="b", page="x"), page="y")
        session.commit()
        assert store.told() == ["put tokens", "get tokens", "put tokens"]


def test_a_row_says_when_it_ends() -> None:
    with fresh(Visit, Token) as store:
        session = hb.Session(store)
        for model, column in ((Visit, b"d:_l"), (Token, b"d:_t")):
            session.add(model(name="a", page="x"), ttl=LATER)
            (outcome,) = session.commit()
            (row,) = store.get(hb.schema.schema_of(model).table, [b"a"])
            assert row is not None
            assert outcome.timestamp is not None
            end = (end_of_live if model is Visit else end_of_unindexed)(row, column)
            assert end == outcome.timestamp + 3_600_000
            session.add(model(name="a", page="x"))
            session.commit()
            (row,) = store.get(hb.schema.schema_of(model).table, [b"a"])
            assert row is not None
            assert (end_of_live if model is Visit else end_of_unindexed)(row, column) is None


@pytest.mark.parametrize(
    ("ttl", "error"),
    [
        (timedelta(0), hb.EncodingError),
        (timedelta(seconds=-1), hb.EncodingError),
        (timedelta(microseconds=1500), hb.EncodingError),
        (5, hb.SessionError),
        (True, hb.SessionError),
        ("1h", hb.SessionError),
    ],
)
def test_a_bad_ttl_is_refused_at_the_call(ttl: Any, error: type[Exception]) -> None:
    with fresh(Token) as store:
        session = hb.Session(store)
        token = Token(name="a", page="x")
        calls = [
            lambda: session.add(token, ttl=ttl),
            lambda: session.add_all([token], ttl=ttl),
            lambda: session.insert(token, ttl=ttl),
            lambda: session.update(token, page="y", ttl=ttl),
            lambda: session.bulk_add([token], ttl=ttl),
        ]
        for call in calls:
            with pytest.raises(error):
                call()
        assert session.commit() == []
        assert cells_of(store, "tokens") == {}


@pytest.mark.parametrize("obj", [order(1), Sample(station="s", label="l", level=1), Hit(at=DAY, serial=1, page="/")])
def test_counters_and_random_salts_take_no_ttl(obj: Any) -> None:
    message = "Under RandomSalt a put takes no TTL" if isinstance(obj, Hit) else None
    with fresh(type(obj)) as store, pytest.raises(hb.CapabilityError, match=message):
        hb.Session(store).add(obj, ttl=LATER)


@pytest.mark.every_store
def test_the_longest_ttl(bed: TimedBed) -> None:
    session = bed.use(Token)
    session.add(Token(name="a", page="x"), ttl=timedelta(days=999_999_999))
    session.commit()
    assert session.get(Token, name="a") == Token(name="a", page="x")


def test_an_object_without_a_cell_of_its_own_is_refused() -> None:
    with fresh(Legacy, Flagged) as store:
        session = hb.Session(store)
        session.add(Flagged(name="a"), ttl=LATER)
        session.add(Legacy(code="a", when=1, title=""), ttl=LATER)
        session.commit()
        assert session.get(Flagged, name="a") == Flagged(name="a")
        assert session.get(Legacy, code="a", when=1) is not None


def test_a_field_called_ttl_is_updated_as_any_other() -> None:
    @hb.model(table="routes", family="d")
    class Route:
        name: hb.Key[str] = hb.key()
        ttl: hb.Column[int] = hb.column("t")

    with fresh(Route) as store:
        session = hb.Session(store)
        session.add(Route(name="a", ttl=1))
        session.commit()
        session.update(Route(name="a", ttl=1), ttl=2)
        session.commit()
        assert session.get(Route, name="a") == Route(name="a", ttl=2)


@pytest.mark.lengthy
@pytest.mark.every_store
def test_a_put_of_the_server_just_after_one_that_expires_is_seen(bed: TimedBed) -> None:
    session = bed.use(Token)
    for number in range(40):
        session.add(Token(name=str(number), page="x"), ttl=LATER)
        session.commit()
        session.add(Token(name=str(number), page="y"))
        session.commit()
    assert {token.page for token in objects(bed.store, Token).values()} == {"y"}


def test_a_cell_from_the_future_is_refused(bed: TimedBed) -> None:
    session = bed.use(Token)
    bed.store.put("tokens", [Put(b"a", {b"d:p": b"x"}, wall_time() + 3_600_000)])
    session.add(Token(name="a", page="y"), ttl=LATER)
    with pytest.raises(
        hb.errors.ClockError, match="The row has a cell whose timestamp is further in the future"
    ) as caught:
        session.commit()
    assert {"table", "key", "newest", "now", "bound"} <= caught.value.details.keys()
    bed.store.delete("tokens", [Delete(b"a", families=[b"d"], timestamp=wall_time() + 3_600_000)])


# --- any history ------------------------------------------------------------------------------------------------------

NAMES, PAGES = st.sampled_from("aab"), st.sampled_from(["x", "y"])
NOTES = st.none() | st.sampled_from(["m", "n"])
TTLS = st.sampled_from([None, None, 3, 3, 11, 41])
OPERATIONS = st.one_of(
    st.tuples(st.just("add"), NAMES, st.fixed_dictionaries({"page": PAGES, "note": NOTES, "extra": NOTES}), TTLS),
    st.tuples(
        st.just("update"),
        NAMES,
        st.dictionaries(st.sampled_from(["note", "extra"]), NOTES, min_size=1) | st.builds(dict, page=PAGES),
        TTLS,
    ),
    st.tuples(st.just("insert"), NAMES, st.fixed_dictionaries({"page": PAGES, "note": NOTES}), TTLS),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("pass"), st.sampled_from([4, 4, 20])),
)


@pytest.mark.lengthy
@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from([Visit, Token, Slip]), st.booleans(), st.lists(OPERATIONS, min_size=4, max_size=14))
def test_any_history_leaves_what_its_last_writes_say(model: Any, limited: bool, history: list[Any]) -> None:
    now = 0
    known: dict[str, tuple[Any, float]] = {}
    with still_time() as server, RecordingStore(EmbeddedStore(None, server), limited=limited) as store:
        hb.create_tables(store, model, create_external=True)
        for kind, *details in history:
            # Every clock measures the server's anew, as those of programs do that do not run for the whole history.
            session = hb.Session(store, clock_bound=250)
            if kind == "pass":
                now += details[0]
                server.ahead += 1000 * details[0]
                known = {name: (obj, end) for name, (obj, end) in known.items() if now < end}
            elif kind == "delete":
                session.delete_key(model, name=details[0])
                session.commit()
                known.pop(details[0], None)
            else:
                name, values, seconds = details
                ttl, end = (None, math.inf) if seconds is None else (timedelta(seconds=seconds), now + seconds)
                if kind == "update":
                    session.update(model(name=name, page="?"), **values, **({} if ttl is None else {"ttl": ttl}))
                    if name not in known:
                        with pytest.raises(hb.RowNotFound):
                            session.commit()
                    elif limited and model is Visit and (ttl is not None or known[name][1] < math.inf):
                        with pytest.raises(hb.CapabilityError):
                            session.commit()
                    else:
                        session.commit()
                        obj, before = known[name]
                        known[name] = (evolve(obj, **values), end if ttl is not None else before)
                elif kind == "add":
                    session.add(model(name=name, **values), ttl=ttl)
                    session.commit()
                    known[name] = (model(name=name, **values), end)
                elif not limited and model is not Slip:
                    if name in known:
                        with pytest.raises(hb.RowExists):
                            session.insert(model(name=name, **values), ttl=ttl)
                    else:
                        session.insert(model(name=name, **values), ttl=ttl)
                        known[name] = (model(name=name, **values), end)
            assert {obj.name: obj for obj in objects(store, model).values()} == {
                name: obj for name, (obj, _) in known.items()
            }
            check_queries(store, model)


# --- crashes ----------------------------------------------------------------------------------------------------------

UNREACHED = timedelta(seconds=20)
"""Far enough that a slow machine does not come there by itself."""

WITH_TTL = "update with a ttl"

CRASHES: dict[str, Callable[[hb.Session, Any], object]] = {
    "add": lambda session, model: session.add(model(name="a", page="y"), ttl=UNREACHED),
    "add two": lambda session, model: session.add_all(
        [model(name="a", page="y"), model(name="b", page="y", note="m")], ttl=UNREACHED
    ),
    WITH_TTL: lambda session, model: session.update(model(name="a", page="?"), page="y", ttl=UNREACHED),
    "update": lambda session, model: session.update(model(name="c", page="?"), page="y"),
}


@contextmanager
def crashed(model: Any, name: str, limited: bool, at: int | None, mode: Mode) -> Iterator[tuple[TimedBed, FaultyStore]]:
    """A bed with rows on which a write crashed at one of its calls: two rows that stay and one that expires."""
    with still_time() as server, EmbeddedStore(None, server) as store:
        bed = TimedBed("memory", RecordingStore(store))
        bed.clock = server
        session = bed.use(model)
        session.add_all([model(name="a", page="x", note="old"), model(name="b", page="x", extra="old")])
        session.add(model(name="c", page="x", note="older"))
        session.commit()
        session.add(model(name="c", page="x", note="old"), ttl=UNREACHED)
        session.commit()
        failing = FaultyStore(store, at, mode, crash=True, limited=limited)
        with suppress(Crash):
            writing = hb.Session(failing)
            CRASHES[name](writing, model)
            writing.commit()
        yield bed, failing


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("model", "name", "limited"),
    [
        of
        for of in itertools.product([Visit, Token], CRASHES, [False, True])
        if of not in {(Visit, "update", True), (Visit, WITH_TTL, True)}
    ],
)
def test_a_crash_at_any_call_leaves_rows_that_end_whole(model: Any, name: str, limited: bool) -> None:
    before = {
        "a": model(name="a", page="x", note="old"),
        "b": model(name="b", page="x", extra="old"),
        "c": model(name="c", page="x", note="old"),
    }
    with crashed(model, name, limited, None, "before") as (bed, unharmed):
        after = {obj.name: obj for obj in objects(bed.store, model).values()}
    crashes = [(at, mode) for at, mode in failures_of(unharmed.calls) if not is_repetition(at, mode)]
    met = 0
    for (at, mode), repeated in itertools.product(crashes, (False, True)):
        with crashed(model, name, limited, at, mode) as (bed, failing):
            assert len(failing.calls) == at + 1
            found = {obj.name: obj for obj in objects(bed.store, model).values()}
            assert all(
                found[key] in {repr(state): state for state in (before[key], after[key])}.values() for key in before
            )
            check_queries(bed.store, model)
            if repeated:
                session = hb.Session(bed.store)
                CRASHES[name](session, model)
                session.commit()
                assert {obj.name: obj for obj in objects(bed.store, model).values()} == after
            bed.pass_time(30_000)
            left = {obj.name: obj for obj in objects(bed.store, model).values()}
            expected = {key: before[key] for key in "ab" if repeated is False or after[key] == before[key]}
            # Without a repetition a row is gone, or it is as it was before the write that nobody acknowledged.
            assert all(left[key] == before[key] for key in left)
            assert "c" not in left
            assert left.keys() <= expected.keys() if not repeated else left == expected
            check_queries(bed.store, model)
            met += 1
    assert met >= 6


# --- families with a TTL ----------------------------------------------------------------------------------------------

TWO_SECONDS = timedelta(seconds=2)


@hb.model(table="readings", family=hb.family("d", ttl=TWO_SECONDS))
class Reading:
    """Indexed, in a family whose cells expire."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")
    note: hb.Column[str | None] = hb.column("n", default=None)
    extra: hb.Column[str | None] = hb.column("e", default=None)

    by_page = hb.index("page", covers=("note",))


@hb.model(table="marks", family=hb.family("d", ttl=TWO_SECONDS), families=(hb.family("x"),))
class Mark:
    """Without an index; one column does not expire."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p", default="?")
    note: hb.Column[str | None] = hb.column("n", default=None)
    extra: hb.Column[str | None] = hb.column("e", family="x", default=None)


@hb.model(table="tallies", family=hb.family("d", ttl=TWO_SECONDS))
class Tally:
    """Counters alone."""

    name: hb.Key[str] = hb.key()
    seen: hb.Column[int] = hb.counter("s")
    liked: hb.Column[int] = hb.counter("l")


@lives_for(TWO_SECONDS.total_seconds())
def test_an_update_where_a_family_has_a_ttl_renews_the_whole_row(bed: TimedBed) -> None:
    session = bed.use(Reading, Mark)
    for model in (Reading, Mark):
        session.add(model(name="a", page="x", note="n", extra="e"))
        session.add(model(name="b", page="x", note="n", extra="e"))
    session.commit()
    session = bed.pass_time(1_100)
    for model, change in ((Reading, {"extra": "f"}), (Mark, {"note": "f"})):
        session.update(model(name="a", page="?"), **change)
    session.commit()
    session = bed.pass_time(1_200)
    assert objects(bed.store, Reading) == {("a",): Reading(name="a", page="x", note="n", extra="f")}
    check_queries(bed.store, Reading)
    check_exact(bed.store, Reading)
    assert session.query(Reading).where(Reading.page == "x").count() == 1
    assert objects(bed.store, Mark) == {
        ("a",): Mark(name="a", page="x", note="f", extra="e"),
        ("b",): Mark(name="b", extra="e"),  # of the family without a TTL
    }
    session = bed.pass_time(1_200)
    check_empty(bed, Reading)
    assert objects(bed.store, Mark) == {(name,): Mark(name=name, extra="e") for name in "ab"}


@lives_for(SOON.total_seconds())
def test_a_ttl_of_a_put_ends_before_that_of_its_family(bed: TimedBed) -> None:
    session = bed.use(Reading, Mark)
    for model in (Reading, Mark):
        with pytest.raises(hb.SessionError, match="The TTL is longer than that of the model's column family"):
            session.add(model(name="a", page="x"), ttl=timedelta(seconds=3))
        session.add(model(name="a", page="x"))
        session.commit()
        session.add(model(name="a", page="y"), ttl=SOON)
    session.commit()
    until_gone(bed, Reading)
    until_gone(bed, Mark)
    bed.pass_time(20)
    check_empty(bed, Reading)
    check_empty(bed, Mark)


@lives_for(TWO_SECONDS.total_seconds())
def test_counters_alone_may_expire_each_for_itself(bed: TimedBed) -> None:
    session = bed.use(Tally)
    tally = Tally(name="a")
    session.increment(tally, Tally.seen)
    session.increment(tally, Tally.liked)
    session = bed.pass_time(1_100)
    assert session.increment(tally, Tally.seen) == 2
    session = bed.pass_time(1_200)
    (row,) = bed.store.get("tallies", [b"a"])
    assert row is not None
    assert set(row.columns) == {b"d:s"}
    session = bed.pass_time(1_200)
    assert session.get(Tally, name="a") is None


def family_model(body: dict[str, Any], **options: Any) -> Any:
    """A model with a key and these columns and counters."""
    hints = {name: hb.Column[int] if name == "seen" else hb.Column[str] for name in body if name != "by_name"}
    fields = {"name": hb.key(), **body, "__annotations__": {"name": hb.Key[str], **hints}}
    return hb.model(table="mixed", **options)(type("Mixed", (), fields))


def test_what_would_outlive_its_row_is_refused_in_declarations() -> None:
    mortal, counter, tag = (
        hb.family("d", ttl=TWO_SECONDS),
        {"seen": hb.counter("s")},
        {"tag": hb.column("t", default="")},
    )
    for body, options in (
        ({**counter, **tag}, {}),
        (counter, {"exists": hb.flag("e")}),
        ({**counter, "by_name": hb.index(hb.desc("name"))}, {}),
        ({"seen": hb.counter("s"), "tag": hb.column("t", family="x", default="")}, {}),
        ({"tag": hb.column("t"), "other": hb.column("o", family="x", default="")}, {}),
    ):
        with pytest.raises(hb.DeclarationError):
            family_model(body, family=mortal, **options)
    assert family_model(counter, family=mortal)
    assert family_model({"tag": hb.column("t")}, family=mortal)
    assert family_model({"seen": hb.counter("s", family="x"), **tag}, family=mortal)


def test_an_update_beside_a_counter_that_lives_on_leaves_it_alone() -> None:
    model = family_model(
        {"seen": hb.counter("s", family="x"), "tag": hb.column("t", default="")},
        family=hb.family("d", ttl=TWO_SECONDS),
    )
    with fresh(model) as store:
        session = hb.Session(store)
        session.add(model(name="a", tag="t"))
        session.commit()
        session.increment(model(name="a"), model.seen, 5)
        store.calls.clear()
        session.update(model(name="a"), tag="u")
        session.commit()
        (change,) = [call for call in store.calls if call.name == "check_and_mutate"]
        ((put,),) = change.items
        assert put.cells == {b"d:t": b"u"}
        assert session.get(model, name="a").seen == 5


@pytest.mark.parametrize("model", [Token, Slip])
def test_a_write_in_the_millisecond_of_the_row_leaves_no_stamp(model: Any) -> None:
    now = wall_time()
    times: Iterator[int] = itertools.repeat(now)
    schema = hb.schema.schema_of(model)
    with EmbeddedStore(None, lambda: next(times)) as store:
        hb.create_tables(store, model, create_external=True)
        session = hb.Session(store)
        session.add(model(name="a", page="x"))
        session.commit()
        times = itertools.chain([now], itertools.repeat(now + 5))
        session.add(model(name="a", page="y"), ttl=LATER)
        session.commit()
        [cells] = cells_of(store, schema.table).values()
        assert [column for column in cells if column.startswith(schema.stamp_prefix)] == []
