"""Queries that verified entries of a covering index answer without their rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.errors import ConflictError
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.store import Delete, Put
from hbmodel.tables.registry.registration import BUILDING, READABLE, WRITE_ONLY
from tests.support.beds import Bed, cells_of, fresh, rows_of, set_state
from tests.support.faulty import FaultyStore, RecordingStore


@hb.model(table="cov_events", family="d", immutable=True)
class Event:
    """Immutable, with an index that covers everything, a partial index, and a computed one."""

    number: hb.Key[int] = hb.key(hb.UInt32)
    kind: hb.Column[str] = hb.column("k")
    size: hb.Column[int | None] = hb.column("s", hb.Int32, default=None)
    text: hb.Column[str | None] = hb.column("t", default=None)

    half = hb.computed(lambda size: None if size is None else size // 2, of="size", codec=hb.Int32, nullable=True)

    by_kind = hb.index("kind", hb.desc("size"), covers=("text",), salt=hb.HashSalt(4))
    large = hb.index("kind", covers=("size",), where=lambda event: event.size > 10)
    by_half = hb.index("half", covers=("size",), skip_none=True)


@hb.model(table="cov_jobs", family="d")
class Job:
    """Versioned, with an index that covers everything and one that does not."""

    name: hb.Key[str] = hb.key()
    state: hb.Column[str] = hb.column("s")
    owner: hb.Column[str | None] = hb.column("o", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None, family="x")
    version: hb.Column[int] = hb.version()

    by_state = hb.index("state", covers=("owner", "note"))
    by_owner = hb.index("owner", covers=("state",))


@hb.model(table="cov_pages", family="d")
class Page:
    """The last write wins."""

    name: hb.Key[str] = hb.key()
    state: hb.Column[str] = hb.column("s")

    by_name = hb.index("state", covers=())


def event(number: int, kind: str = "a", size: int | None = 0, text: str | None = None) -> Event:
    """An event; its size tells it from others."""
    return Event(number=number, kind=kind, size=size, text=text)


def events(bed: Bed, count: int = 20) -> hb.Session:
    """Events in a store."""
    session = bed.use(Event)
    session.add_all(event(n, "ab"[n % 2], n if n % 5 else None, f"t{n}" if n % 3 else None) for n in range(count))
    session.commit()
    bed.store.calls.clear()
    return session


def jobs(bed: Bed, count: int = 10) -> hb.Session:
    """Jobs in a store."""
    session = bed.use(Job)
    session.add_all(Job(name=f"j{n}", state="open", owner="ann" if n % 2 else None) for n in range(count))
    session.commit()
    bed.store.calls.clear()
    return session


# --- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.every_store
def test_verified_entries_answer_in_the_index_calls_alone(bed: Bed) -> None:
    session = events(bed)
    query = session.query(Event).where(Event.kind == "a")
    found = query.all()
    assert bed.store.told() == ["scan cov_events.by_kind"]
    assert (
        sorted(found, key=lambda one: one.number)
        == session.query(Event).where(Event.kind == "a").use_index("primary").allow_full_scan().all()
    )
    bed.store.calls.clear()
    page = query.page(3)
    assert bed.store.told() == ["scan cov_events.by_kind"]
    assert [*page.items, *query.page(20, after=page.next_token).items] == found
    assert query.reversed().all() == found[::-1]
    assert (query.count(), query.exists(), query.first(), query.last()) == (10, True, found[0], found[-1])
    assert query.where(Event.text == "t2").all() == [event(2, "a", 2, "t2")]
    assert query.where(Event.size > 7).select(Event.number, Event.size).all() == [
        (18, 18),
        (16, 16),
        (14, 14),
        (12, 12),
        (8, 8),
    ]
    assert sorted(query.where(Event.size.is_(None)).select(Event.number, Event.text).all()) == [(0, None), (10, "t10")]
    assert {*bed.store.told()} == {"scan cov_events.by_kind"}


def test_an_index_query_of_a_hundred_rows_is_an_index_call_and_a_multi_get_and_a_covering_one_the_index_call_alone(
    atomic_bed: Bed,
) -> None:
    session = jobs(atomic_bed, 100)
    query = session.query(Job).where(Job.state == "open")
    assert len(query.all()) == 100
    assert atomic_bed.store.told() == ["scan cov_jobs.by_state"]
    assert len(query.where(Job.owner.in_(["ann"])).use_index("by_owner").select(Job.note).all()) == 50
    assert atomic_bed.store.told() == ["scan cov_jobs.by_owner", "get cov_jobs"]


def test_a_commit_verifies_in_one_call_per_index_after_the_rows(atomic_bed: Bed) -> None:
    session = jobs(atomic_bed, 3)
    for job in session.query(Job).where(Job.state == "open").all():
        session.update(job, state="done")
    atomic_bed.store.calls.clear()
    session.commit()
    entries, row = ["put cov_jobs.by_state", "put cov_jobs.by_owner"], "check_and_mutate_many cov_jobs"
    assert atomic_bed.store.told() == ["get cov_jobs", *entries, row, *entries, "delete cov_jobs.by_state"]


@pytest.mark.lengthy
def test_unverified_entries_cost_one_multi_get_for_them_alone(bed: Bed) -> None:
    session = events(bed)
    entries = [
        key for number in (2, 4) for key in entries_of(Event, event(number, "a", number, f"t{number}"), "by_kind")
    ]
    times = rows_of(bed.store, "cov_events.by_kind")
    bed.store.put("cov_events.by_kind", [Put(key, {b"d:_s": b"\x00" + b"loser..."}, times[key] + 1) for key in entries])
    bed.store.calls.clear()
    query = session.query(Event).where(Event.kind == "a")
    assert len(query.all()) == 10
    scan, get = bed.store.calls
    assert (str(scan), str(get), len(get.items)) == ("scan cov_events.by_kind", "get cov_events", 2)


def entries_of(model: Any, obj: Any, index: str) -> Sequence[bytes]:
    """The keys of an object's entries."""
    schema = hb.schema.schema_of(model)
    values = {f.name: getattr(obj, f.name) for f in schema.fields}
    return KeyMapper(schema).entries(
        schema.indexes[index], values, hb.row_key(model, **{n: values[n] for n in schema.layout.names})
    )


# --- what is stored ---------------------------------------------------------------------------------------------------


def test_the_bytes_of_entries(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Job, Event, Page)
    session.add_all([Job(name="j", state="open"), event(1, "a", 11, None)])
    session.commit()
    session.add(Page(name="p", state="open"))
    session.commit()
    (entry,) = cells_of(atomic_bed.store, "cov_jobs.by_state").values()
    assert entry.keys() == {b"d:_s", b"d:_v", b"d:o", b"x:n"}
    assert entry[b"d:_s"] == b"\x01" + entry[b"d:_v"][9:]
    assert len(entry[b"d:_v"]) == 17
    assert (entry[b"d:o"], entry[b"x:n"]) == (b"", b"")
    (entry,) = cells_of(atomic_bed.store, "cov_events.large").values()
    assert (entry[b"d:_s"], len(entry[b"d:_v"]), entry[b"d:s"]) == (entry[b"d:_v"], 9, b"\x80\x00\x00\x0b")
    (entry,) = cells_of(atomic_bed.store, "cov_pages.by_name").values()
    assert entry.keys() == {b"d:_v"}


def test_a_change_leaves_a_mark_that_no_query_reads(atomic_bed: Bed) -> None:
    session = jobs(atomic_bed, 1)
    (job,) = session.query(Job).where(Job.state == "open")
    session.update(job, state="done")
    session.commit()
    (before,) = (
        cells for key, cells in cells_of(atomic_bed.store, "cov_jobs.by_state").items() if key.startswith(b"open")
    )
    assert before.keys() == {b"d:_s"}
    assert before[b"d:_s"][:1] == b"\x00"
    atomic_bed.store.calls.clear()
    assert session.query(Job).where(Job.state == "open").all() == []
    assert session.query(Job).where(Job.state == "open").count() == 0
    assert atomic_bed.store.told() == ["scan cov_jobs.by_state"] * 2


def test_a_queue_does_not_wade_through_the_marks_of_what_is_done(atomic_bed: Bed) -> None:
    session = jobs(atomic_bed, 40)
    for job in session.query(Job).where(Job.state == "open").limit(30):
        session.update(job, state="done")
    session.commit()
    waiting = session.query(Job).where(Job.state == "open")
    atomic_bed.store.calls.clear()
    assert (waiting.first().name, len(waiting.page(5).items), len(waiting.all())) == ("j36", 5, 10)
    # The marks take up the room of the first request; the second one has the server leave them out.
    assert atomic_bed.store.told() == ["scan cov_jobs.by_state"] * 5


def test_deletes_and_overwrites_take_entries_back(atomic_bed: Bed) -> None:
    session = jobs(atomic_bed, 4)
    session.delete_key(Job, name="j0")
    session.add(Job(name="j1", state="done", owner="bob"))
    session.update(Job(name="j2", state="x"), note="n")
    session.commit()
    query = session.query(Job).where(Job.state == "open")
    assert [(job.name, job.note) for job in query] == [("j2", "n"), ("j3", None)]
    assert session.query(Job).where(Job.owner == "bob").select(Job.name, Job.state).all() == [("j1", "done")]


def test_a_deleted_fact_is_gone_at_once(bed: Bed) -> None:
    session = events(bed, 6)
    session.delete_key(Event, number=2)
    session.commit()
    assert [one.number for one in session.query(Event).where(Event.kind == "a")] == [4, 0]


# --- versions ---------------------------------------------------------------------------------------------------------


def test_an_object_from_an_entry_demands_its_version(atomic_bed: Bed) -> None:
    session = jobs(atomic_bed, 1)
    (one,) = session.query(Job).where(Job.state == "open")
    (other,) = session.query(Job).where(Job.state == "open")
    assert one.version == session.get(Job, name="j0").version > 0
    session.update(one, note="first")
    session.commit()
    session.update(other, note="second")
    with pytest.raises(ConflictError):
        session.commit()
    session.discard()
    atomic_bed.store.calls.clear()
    (again,) = session.query(Job).where(Job.state == "open")
    assert atomic_bed.store.told() == ["scan cov_jobs.by_state"]
    session.update(again, note="second")
    session.commit()
    assert session.get(Job, name="j0").note == "second"


def test_the_version_is_read_from_the_row_where_it_may_be_counted_on_without_the_entry(atomic_bed: Bed) -> None:
    @hb.model(table="cov_unique", family="d")
    class Member:
        name: hb.Key[str] = hb.key()
        email: hb.Column[str] = hb.column("e")
        group: hb.Column[str] = hb.column("g")
        version: hb.Column[int] = hb.version()

        by_group = hb.index("group", covers=("email",))
        by_email = hb.index("email", covers=("group",), unique=True)

    session = atomic_bed.use(Member)
    session.add(Member(name="a", email="a@x", group="g"))
    session.commit()
    query = session.query(Member).where(Member.group == "g")
    assert query.explain().lacking == ["version"]
    assert query.all()[0].version == session.get(Member, name="a").version
    atomic_bed.store.calls.clear()
    assert query.select(Member.name, Member.email).all() == [("a", "a@x")]
    assert atomic_bed.store.told() == ["scan cov_unique.by_group"]
    # A change outside an index leaves its entry alone.
    jobs_session = jobs(atomic_bed, 2)
    (job,) = jobs_session.query(Job).where(Job.owner == "ann")
    jobs_session.update(job, note="n")
    jobs_session.commit()
    assert jobs_session.query(Job).where(Job.owner == "ann").all()[0].version == job.version + 1


# --- what is answered, and by which models ----------------------------------------------------------------------------


def test_the_version_is_read_from_the_row_where_another_program_has_more_columns(atomic_bed: Bed) -> None:
    """Its updates count the version on, and leave an entry alone that has all columns of the first program."""

    def declare(*more: str) -> Any:
        body: dict[str, Any] = {
            "name": hb.key(),
            "state": hb.column("s"),
            "note": hb.column("n"),
            "version": hb.version(),
        }
        hints: dict[str, Any] = {
            "name": hb.Key[str],
            "state": hb.Column[str],
            "note": hb.Column[str],
            "version": hb.Column[int],
        }
        body |= {name: hb.column(name, default="") for name in more} | {"by_state": hb.index("state", covers=("note",))}
        hints |= dict.fromkeys(more, hb.Column[str])
        return hb.model(table="cov_more", family="d")(
            type("Made", (), {**body, "__annotations__": hints, "__module__": __name__})
        )

    fewer, more = declare(), declare("owner")
    session = atomic_bed.use(fewer)
    session.add(fewer(name="ann", state="new", note=""))
    session.commit()
    assert session.query(fewer).where(fewer.state == "new").explain().covering == "verified"
    other = hb.Session(atomic_bed.store)
    other.update(more(name="ann", state="new", note=""), owner="bob")
    with pytest.raises(hb.SchemaMismatch, match="The registry does not know all columns of the model") as refused:
        other.commit()
    assert refused.value.details["columns"] == ["d:owner"]
    other.discard()
    hb.create_tables(atomic_bed.store, more)
    with hb.Session(atomic_bed.store) as other:
        found = other.get(more, name="ann")
        assert found is not None
        other.update(found, owner="bob")
    session = hb.Session(atomic_bed.store)
    query = session.query(fewer).where(fewer.state == "new")
    assert (query.explain().covering, query.explain().lacking) == ("incomplete", ["version"])
    assert query.select(fewer.name, fewer.note).explain().covering == "verified"
    (one,) = query.all()
    assert one == session.get(fewer, name="ann")
    session.update(one, note="seen")
    session.commit()


def test_kinds_of_indexes(bed: Bed) -> None:
    session = events(bed, 30)
    large = session.query(Event).where(Event.size > 10, Event.kind == "b").use_index("large")
    assert large.select(Event.number).all() == [(11,), (13,), (17,), (19,), (21,), (23,), (27,), (29,)]
    assert large.explain().covering == "incomplete"
    assert large.explain().lacking == ["text"]
    half = session.query(Event).where(Event.half == 6).select(Event.number, Event.size, Event.half)
    assert (half.explain().covering, half.all()) == ("verified", [(12, 12, 6), (13, 13, 6)])
    bed.store.calls.clear()
    assert half.all()
    assert large.count() == 8
    assert bed.store.told() == ["scan cov_events.by_half", "scan cov_events.large"]


def declared(**options: Any) -> Any:
    """A model with a covering index."""
    hints = {"name": hb.Key[str], "tags": hb.Column[list[str]], "tag": hb.Column[str], "text": hb.Column[str | None]}
    body = {
        "name": hb.key(),
        "tags": hb.column("ts", hb.Json(list[str])),
        "tag": hb.column("t"),
        "text": hb.column("x", default=None),
        "by_tag": hb.index("tag", covers=("text",)),
        "by_tags": hb.index(hb.each("tags"), covers=("text",)),
        "uncovered": hb.index("text"),
    }
    return hb.model(table="cov_any", **options)(
        type("Any", (), {**body, "__annotations__": hints, "__module__": __name__})
    )


@pytest.mark.parametrize(
    ("options", "answering"),
    [
        ({"immutable": True}, {"by_tag"}),
        ({}, set()),
        ({"immutable": True, "salt": hb.RandomSalt(3)}, set()),
        ({"immutable": True, "family": hb.family("d", ttl=timedelta(days=1))}, set()),
    ],
    ids=["immutable", "last write wins", "random salt", "family with a TTL"],
)
def test_which_indexes_answer(options: Any, answering: set[str]) -> None:
    model = declared(**options)
    assert hb.schema.schema_of(model).covering == answering
    session = hb.Session(store := fresh(model))
    session.add(model(name="a", tags=["x"], tag="t", text="y"))
    session.commit()
    for index in ("by_tag", "by_tags", "uncovered"):
        (cells,) = cells_of(store, f"cov_any.{index}").values()
        assert (b"d:_s" in cells) == (index in answering)
    query = session.query(model).where(model.tag == "t").select(model.name, model.text)
    told = query.explain()
    assert told.covering == ("verified" if answering else "copy")
    assert ("verified entries answer without reading rows" in str(told)) == bool(answering)
    assert ("covered values are copies; rows are read" in str(told)) != bool(answering)
    assert query.all() == [("a", "y")]
    assert session.query(model).where(model.tags.contains("x")).explain().covering == "copy"
    assert session.query(model).where(model.text == "y").explain().covering is None


def test_a_row_that_expires_is_read(bed: Bed) -> None:
    session = events(bed, 4)
    session.add(event(2, "a", 2, "t2"), ttl=timedelta(hours=1))
    session.commit()
    bed.store.calls.clear()
    assert [one.number for one in session.query(Event).where(Event.kind == "a")] == [2, 0]
    scan, get = bed.store.calls
    assert (str(scan), len(get.items)) == ("scan cov_events.by_kind", 1)


def test_entries_from_before_are_read_through_their_rows(bed: Bed) -> None:
    session = events(bed, 6)
    times = rows_of(bed.store, "cov_events.by_kind")
    for key, newest in times.items():
        bed.store.delete("cov_events.by_kind", [Delete(key, columns=(b"d:_s",), timestamp=newest)])
    other = entries_of(Event, event(2, "a", 3), "by_kind")[0]
    bed.store.put("cov_events.by_kind", [Put(other, {b"d:_v": b"\x01" + bytes(8)}, max(times.values()))])
    bed.store.calls.clear()
    assert [one.number for one in session.query(Event).where(Event.kind == "a")] == [4, 2, 0]
    assert bed.store.told() == ["scan cov_events.by_kind", "get cov_events"]


def test_entries_are_verified_once_every_program_keeps_the_index() -> None:
    store = fresh(Event)
    for number, state in enumerate((WRITE_ONLY, BUILDING, READABLE)):
        set_state(store, Event, "large", state)
        with hb.Session(store) as session:
            session.add(event(number, "a", 11))
        cells = cells_of(store, "cov_events.large")[entries_of(Event, event(number, "a", 11), "large")[0]]
        assert (cells[b"d:_s"][:1] == b"\x01") == (state != WRITE_ONLY)


# --- failures ---------------------------------------------------------------------------------------------------------


def test_what_fails_after_the_acknowledgement_is_done_at_the_next_commit(caplog: pytest.LogCaptureFixture) -> None:
    store = FaultyStore(fresh(Event))
    session = hb.Session(store)
    session.add(event(1))
    session.commit()
    session.add(event(3, "b"))
    store.told()
    session.commit()
    # what follows the row, tried twice
    store.at, store.mode, store.times = store.told().index("put cov_events") + 1, "before", 2
    session.add(event(2))
    assert [outcome.action for outcome in session.commit()] == ["put"]
    assert "could not be brought up to date" in caplog.text
    query = session.query(Event).where(Event.kind == "a")
    store.calls.clear()
    store.at = None
    assert len(query.all()) == 2
    assert store.told() == ["scan cov_events.by_kind", "get cov_events"]
    session.commit()
    store.calls.clear()
    assert len(query.all()) == 2
    assert store.told() == ["scan cov_events.by_kind"]


def test_an_entry_that_lost_a_column_is_named_until_its_object_is_written_again(atomic_bed: Bed) -> None:
    session = jobs(atomic_bed, 2)
    query = session.query(Job).where(Job.owner == "ann").select(Job.name, Job.state)
    (entry,) = entries_of(Job, Job(name="j1", state="open", owner="ann"), "by_owner")
    (found,) = atomic_bed.store.get("cov_jobs.by_owner", [entry])
    assert found is not None
    atomic_bed.store.delete(
        "cov_jobs.by_owner", [Delete(entry, columns=(b"d:s",), timestamp=found.columns[b"d:s"].timestamp)]
    )
    with pytest.raises(hb.IncompleteRow, match="write its object again, or drop the index and build it") as caught:
        query.all()
    assert (caught.value.table, caught.value.key, caught.value.field) == ("cov_jobs.by_owner", entry, "state")
    session.add(session.get(Job, name="j1"))
    session.commit()
    assert query.all() == [("j1", "open")]


def test_an_insert_stands_though_its_entry_cannot_be_verified(
    atomic_bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    atomic_bed.use(Event, Job)
    for obj, index in ((event(1), "cov_events.by_kind"), (Job(name="j", state="open"), "cov_jobs.by_state")):
        counted = FaultyStore(atomic_bed.store)
        hb.Session(counted).insert(obj)
        after = next(at for at, call in enumerate(counted.calls) if call.name.startswith("check_and_mutate")) + 1
        session = hb.Session(atomic_bed.store)
        session.delete(obj)
        session.commit()
        caplog.clear()
        fresh_one = hb.Session(FaultyStore(atomic_bed.store, after, "before", times=9)).insert(copy(obj))
        assert "could not be brought up to date" in caplog.text
        assert session.query(type(obj)).allow_full_scan().all() == [fresh_one]
        assert any(cells.get(b"d:_s", b"")[:1] == b"\x00" for cells in cells_of(atomic_bed.store, index).values())


def copy(obj: Any) -> Any:
    """The same object, as if it had not been written."""
    return event(1) if isinstance(obj, Event) else Job(name="j", state="open")


# --- explain ----------------------------------------------------------------------------------------------------------


def test_explain_says_what_a_page_costs_and_which_indexes_cannot_be_read() -> None:
    store = fresh(Event)
    set_state(store, Event, "by_half", BUILDING)
    session = hb.Session(store, lease=30)
    told = session.query(Event).where(Event.kind == "a").explain()
    assert (told.access, told.scan_calls, told.gets, told.buckets) == ("scan", 4, 0, 4)
    assert (told.covering, told.lacking, told.state, told.unreadable, told.lease) == (
        "verified",
        (),
        "readable",
        {"by_half": "building"},
        30,
    )
    assert "covers:  verified entries answer without reading rows" in str(told)
    assert "index:   readable; a change of state is noticed within 30 s" in str(told)
    assert "not yet: by_half is building; a change of state is noticed within 30 s" in str(told)
    told = session.query(Event).where(Event.kind == "a", Event.size > 10).use_index("large").explain()
    assert (told.access, told.scan_calls, told.gets, told.covering, told.lacking) == (
        "scan + get",
        1,
        1,
        "incomplete",
        ["text"],
    )
    assert "covers:  rows are read: entries lack text" in str(told)
    told = session.query(Event).where(Event.number == 1).explain()
    assert (told.covering, told.state) == (None, None)


def test_whole_entries_are_read_by_family_and_parts_of_them_by_column() -> None:
    asked: list[tuple[bytes, ...]] = []
    with hb.connect("memory:") as inner:
        hb.create_tables(inner, Event)
        store = RecordingStore(inner)
        session = hb.Session(store)
        session.add(event(1, "a", 20, "x"))
        session.commit()
        for query in (
            session.query(Event).use_index("by_kind"),
            session.query(Event).use_index("by_kind").select(Event.number, Event.size),
        ):
            store.calls.clear()
            assert len(query.where(Event.kind == "a").all()) == 1
            (scans,) = [call.items for call in store.calls if call.name == "scan"]
            asked.append(tuple(scans[0].columns))
    assert asked == [(b"d",), (b"d:_s", b"d:_v")]
