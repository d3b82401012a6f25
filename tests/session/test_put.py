"""Puts of some fields: the row is created, or keeps its other fields."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args

import pytest
from attrs import frozen

import hbmodel as hb
from hbmodel.errors import StoreUnavailable
from hbmodel.session.calls.put_fields import PutFields
from hbmodel.store import Put
from tests.support.beds import Bed, cells_of, fresh
from tests.support.faulty import FaultyStore, Mode, RecordingStore


@hb.model(table="put_pages", family="d", exists=hb.flag("e"))
class Site:
    """Text, which may be empty, with a flag."""

    url: hb.Key[str] = hb.key()
    title: hb.Column[str] = hb.column("t")
    status: hb.Column[int | None] = hb.column("s", default=None)
    tries: hb.Column[int] = hb.column("r", default=3)


@hb.model(table="put_numbers", family="d")
class Numbered:
    """A column that is never empty, an index, and a map."""

    url: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("z")
    topic: hb.Column[str | None] = hb.column("t", default=None)
    links: hb.Map[str, int] = hb.map_column("l")

    by_topic = hb.index("topic")


@hb.model(table="put_versions", family="d")
class Checked:
    """A version, and a unique value."""

    url: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("z")
    name: hb.Column[str | None] = hb.column("n", default=None)
    seen: hb.Column[int] = hb.counter("c")
    version: hb.Column[int] = hb.version()

    by_name = hb.index("name", unique=True)


@hb.model(table="put_wide", family="d", exists=hb.flag("e"))
class Part:
    """Objects of one row."""

    host: hb.Key[str] = hb.key()
    path: hb.Key[str] = hb.key(in_qualifier=True)
    size: hb.Column[int] = hb.column("z")
    note: hb.Column[str] = hb.column("n", default="none")


def test_a_row_is_created_then_keeps_its_other_fields(bed: Bed) -> None:
    session = bed.use(Site)
    assert session.put(Site, url="a", title="one", status=200)
    assert session.get(Site, url="a") == Site(url="a", title="one", status=200, tries=3)
    assert not session.put(Site, url="a", title="two", tries=4)
    assert not session.put(Site, url="a", title="")
    assert session.get(Site, url="a") == Site(url="a", title="", status=200, tries=4)
    assert not session.put(Site, url="a", title="x", status=None)
    session.delete_key(Site, url="a")
    session.commit()
    assert session.put(Site, url="a", title="new")
    assert session.get(Site, url="a") == Site(url="a", title="new", status=None, tries=3)


def test_indexes_and_maps_follow(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Numbered)

    def of_topic(topic: str) -> list[str]:
        return [each.url for each in session.query(Numbered).where(Numbered.topic == topic)]

    assert session.put(Numbered, url="a", size=1, topic="t", links={"x": 1})
    assert of_topic("t") == ["a"]
    assert not session.put(Numbered, url="a", size=2, links={"x": 2, "z": 5})
    assert of_topic("t") == ["a"]
    assert not session.put(Numbered, url="a", size=2, topic="u")
    assert (of_topic("t"), of_topic("u")) == ([], ["a"])
    assert session.entries(Numbered.links, url="a").all() == {"x": 2, "z": 5}


def test_versions_and_unique_values_are_checked(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Checked)
    assert session.put(Checked, url="a", size=1, name="n")
    read = session.get(Checked, url="a")
    assert read is not None
    session.increment(read, Checked.seen, 4)
    assert not session.put(Checked, url="a", size=2)
    got = session.get(Checked, url="a")
    assert got is not None
    assert (got.size, got.name, got.seen) == (2, "n", 4)
    session.update(read, size=9)
    with pytest.raises(hb.ConflictError):
        session.commit()
    for size, created in ((1, True), (2, False)):
        with pytest.raises(hb.UniqueViolation):
            session.put(Checked, url="b", size=size, name="n")
        assert (session.get(Checked, url="b") is None) is created
        session.put(Checked, url="b", size=0)


def test_objects_of_one_row(bed: Bed) -> None:
    session = bed.use(Part)
    assert session.put(Part, host="h", path="a", size=1)
    assert session.put(Part, host="h", path="b", size=2, note="two")
    assert not session.put(Part, host="h", path="b", size=3)
    assert session.query(Part).where(Part.host == "h").all() == [
        Part(host="h", path="a", size=1, note="none"),
        Part(host="h", path="b", size=3, note="two"),
    ]


def test_a_key_alone_creates_a_row_that_needs_nothing_more(bed: Bed) -> None:
    @hb.model(table="put_keys", family="d", exists=hb.flag("e"))
    class Seen:
        url: hb.Key[str] = hb.key()
        note: hb.Column[str] = hb.column("n", default="")

    session = bed.use(Seen)
    assert session.put(Seen, url="a")
    assert not session.put(Seen, url="a", note="kept")
    assert not session.put(Seen, url="a")
    assert session.get(Seen, url="a") == Seen(url="a", note="kept")


def test_a_lifetime(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Site)
    assert session.put(Site, url="a", title="one", status=1, ttl=timedelta(hours=1))
    assert not session.put(Site, url="a", title="two", ttl=timedelta(hours=2))
    assert session.get(Site, url="a") == Site(url="a", title="two", status=1, tries=3)
    with pytest.raises(hb.EncodingError):
        session.put(Site, url="a", title="three", ttl=timedelta(0))


WRONG: list[tuple[dict[str, Any], type[hb.HbmodelError], str]] = [
    ({"url": "a"}, hb.SessionError, r"needs each column that has no default.*missing=\['title'\]"),
    ({"title": "t"}, hb.errors.IncompleteKey, r"missing=\['url'\]"),
    ({"url": "a", "title": "t", "topic": "u"}, hb.errors.UnknownField, "field='topic'"),
    ({"url": "a", "title": 5}, hb.EncodingError, "field='title'"),
    ({"url": "a", "title": "t", "tries": "5"}, hb.EncodingError, "field='tries'"),
]


@pytest.mark.parametrize(("fields", "error", "message"), WRONG)
def test_mistakes_are_refused_before_any_call(fields: dict[str, Any], error: Any, message: str) -> None:
    store = fresh(Site)
    session = hb.Session(store)
    session.put(Site, url="a", title="kept")
    store.calls.clear()
    with pytest.raises(error, match=message):
        session.put(Site, **fields)
    assert store.calls == []


def test_counters_and_immutable_models_are_refused() -> None:
    @hb.model(table="put_fixed", immutable=True)
    class Fixed:
        url: hb.Key[str] = hb.key()
        size: hb.Column[int] = hb.column("z")

    session = hb.Session(fresh(Checked, Fixed))
    with pytest.raises(hb.SessionError, match="A counter cannot be updated"):
        session.put(Checked, url="a", size=1, seen=4)
    with pytest.raises(hb.SessionError, match="rows of an immutable model cannot be updated: write insert"):
        session.put(Fixed, url="a", size=1)


def test_a_pending_call_for_the_row_is_named() -> None:
    session = hb.Session(fresh(Site))
    session.add(Site(url="a", title="t"))
    with pytest.raises(hb.SessionError, match=r"put\(\) runs at once.*pending='add\(\)'"):
        session.put(Site, url="a", title="u")
    assert session.put(Site, url="b", title="u")
    session.discard()


def test_where_nothing_can_be_inserted_nothing_is_updated() -> None:
    """Whether a call is possible does not depend on the row."""
    store = fresh(Numbered)
    hb.Session(store).put(Numbered, url="a", size=1)
    limited = RecordingStore(store, limited=True)
    with pytest.raises(hb.CapabilityError, match=r"insert\(\), put\(\) and prepend\(\) need"):
        hb.Session(limited).put(Numbered, url="a", size=2)
    assert hb.Session(store).get(Numbered, url="a") == Numbered(url="a", size=1, links={})

    @hb.model(table="put_texts")
    class Text:
        url: hb.Key[str] = hb.key()
        text: hb.Column[str] = hb.column("t", default="")

    with pytest.raises(hb.CapabilityError, match=r"put\(\) needs a column that every row has"):
        hb.Session(fresh(Text)).put(Text, url="a", text="t")


def test_what_a_put_costs() -> None:
    """As an update, or as a read and an insert."""
    store = fresh(Site)
    session = hb.Session(store)
    session.put(Site, url="warm", title="up")
    for expected in (["get", "check_and_mutate", "get"], ["get", "put"]):
        store.calls.clear()
        session.put(Site, url="a", title="t", status=1)
        assert [call.name.removesuffix("_many") for call in store.calls] == expected


def test_a_put_encodes_once_more_than_an_update() -> None:
    """The object that may have to be inserted is encoded too."""
    encoded: list[str] = []

    @frozen
    class Noted(hb.Codec[str]):
        python_type = str
        key = False

        def encode(self, value: str) -> bytes:
            encoded.append(value)
            return value.encode()

        def decode(self, data: bytes) -> str:
            return data.decode()

        @property
        def spec(self) -> dict[str, Any]:
            return {"codec": "noted"}

    @hb.model(table="put_noted", family="d", exists=hb.flag("e"))
    class Page:
        url: hb.Key[str] = hb.key()
        title: hb.Column[str] = hb.column("t", Noted())

    session = hb.Session(fresh(Page))
    session.put(Page, url="a", title="put")
    session.update_key(Page, url="a", title="updated")
    session.commit()
    encoded.clear()
    session.put(Page, url="a", title="put")
    session.update_key(Page, url="a", title="updated")
    session.commit()
    assert encoded.count("put") == encoded.count("updated") + 1


def test_the_names_of_a_model_are_found_once() -> None:
    schema = hb.schema.schema_of(Sized)
    taken = PutFields.of(schema)
    assert taken is PutFields.of(schema)
    assert (taken.key, taken.required, taken.blind) == ({"url"}, ("size",), {"url", "size", "title"})
    assert not PutFields.of(hb.schema.schema_of(Site)).blind


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("model", [Site, Numbered, Checked, Part])
def test_a_put_that_stops(model: Any, mode: Mode, there: bool) -> None:
    """Wherever it stops, the row is as before or complete, and the error says whether that is known."""
    fields: dict[str, Any] = {"host": "h", "path": "p"} if model is Part else {"url": "a"}
    value: dict[str, Any] = {"title": "new"} if model is Site else {"size": 7}
    old: dict[str, Any] = {"title": "old", "status": 5} if model is Site else {"size": 1}
    for at in range(1, 30):
        store = fresh(model)
        if there:
            hb.Session(store).put(model, **fields, **old)
        before = hb.Session(store).get(model, **fields)
        faulty = FaultyStore(store, at, mode)
        after = hb.evolve(before, **value) if before is not None else model(**fields, **value)
        allowed = [after]
        try:
            hb.Session(faulty).put(model, **fields, **value)
        except hb.errors.UnknownOutcome:
            allowed = [before, after]
        except StoreUnavailable:
            allowed = [before]
        assert hb.Session(store).get(model, **fields) in allowed
        if len(faulty.calls) <= at:
            return
    pytest.fail("it never ended")


@hb.model(table="put_external", family="d", external=True)
class Crawled:
    """A row of another program, any of whose cells may be missing."""

    url: hb.Key[str] = hb.key()
    status: hb.Column[int | None] = hb.column("s", default=None)
    title: hb.Column[str | None] = hb.column("t", default=None)


@hb.model(table="put_external", family="d", external=True)
class Sized:
    """The same rows, which all have a size."""

    url: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("z")
    title: hb.Column[str | None] = hb.column("t", default=None)


def test_cells_of_other_programs_are_put_without_a_read(bed: Bed) -> None:
    session = bed.use(Crawled)
    assert session.put(Crawled, url="a", status=200) is None
    bed.store.put("put_external", [Put(b"a", {b"d:theirs": b"x"})])
    bed.store.calls.clear()
    session.put(Crawled, url="a", title="A")
    assert [call.name for call in bed.store.calls if call.table == "put_external"] == ["put"]
    assert session.get(Crawled, url="a") == Crawled(url="a", status=200, title="A")
    session.put(Crawled, url="a", title="B", status=None)
    assert session.get(Crawled, url="a") == Crawled(url="a", status=None, title="B")
    assert cells_of(bed.store, "put_external")[b"a"].keys() == {b"d:theirs", b"d:t"}
    with pytest.raises(hb.SessionError, match=r"missing=\['size'\]"):
        session.put(Sized, url="b", title="t")


def test_many_rows_of_other_programs_are_one_call(bed: Bed) -> None:
    session = bed.use(Crawled)
    session.put_all(Crawled, [{"url": "u3", "title": "kept"}])
    bed.store.calls.clear()
    session.put_all(Crawled, ({"url": f"u{n % 10}", "status": n} for n in range(20)))
    assert [call.name for call in bed.store.calls if call.table == "put_external"] == ["put"]
    found = session.query(Crawled).allow_full_scan().all()
    assert found == [Crawled(url=f"u{n}", status=n + 10, title="kept" if n == 3 else None) for n in range(10)]
    session.put_all(Crawled, [])
    for wrong in ([Crawled(url="a")], [("a", 1)], {"url": "a"}, [None], [{"url": "a", "status": 1}, None]):
        with pytest.raises(hb.SessionError, match=r"put_all\(\) takes mappings of fields"):
            session.put_all(Crawled, wrong)  # type: ignore[arg-type]
    with pytest.raises(hb.EncodingError, match="field='status'"):
        session.put_all(Crawled, [{"url": "x", "status": 1}, {"url": "y", "status": "1"}])
    assert session.get(Crawled, url="x") is None


def test_a_row_of_other_programs_needs_a_cell(bed: Bed) -> None:
    """The key alone says nothing to write, and HBase stores no empty rows."""
    session = bed.use(Crawled)
    with pytest.raises(hb.SessionError, match="give at least one field besides the key, or leave the row out"):
        session.put(Crawled, url="a")
    with pytest.raises(hb.SessionError, match="give at least one field besides the key, or leave the row out"):
        session.put_all(Crawled, [{"url": "b", "status": 1}, {"url": "a"}])
    assert session.query(Crawled).allow_full_scan().all() == []
    with pytest.raises(hb.SessionError, match=r"missing=\['size'\]"):
        session.put(Sized, url="a")
    with pytest.raises(hb.errors.IncompleteKey):
        session.put(Crawled)


def test_many_rows_of_other_models(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Numbered)
    session.put(Numbered, url="a", size=1, topic="t")
    session.put_all(Numbered, [{"url": "a", "size": 2}, {"url": "b", "size": 3, "topic": "t"}])
    assert [each.size for each in session.query(Numbered).where(Numbered.topic == "t")] == [2, 3]


def test_many_puts_that_stop_say_how_far_they_came() -> None:
    rows = [{"url": f"u{n}", "title": "t"} for n in range(5)]
    faulty = FaultyStore(fresh(Site), 5, "before")
    with pytest.raises(hb.PartialWrite, match="the first `position` rows are written") as caught:
        hb.Session(faulty).put_all(Site, rows)
    position = caught.value.position
    assert 0 < position < 5
    assert caught.value.pending == rows[position:]
    left = [each.url for each in hb.Session(faulty.inner).query(Site).allow_full_scan()]
    assert left == [f"u{n}" for n in range(position)]
    at_first = FaultyStore(fresh(Crawled), 1, "before")
    with pytest.raises(StoreUnavailable):
        hb.Session(at_first).put_all(Crawled, [{"url": "a", "status": 1}])
    lost = FaultyStore(fresh(Crawled), 1, "after")
    with pytest.raises(hb.PartialWrite, match="position=0"):
        hb.Session(lost).put_all(Crawled, [{"url": "a", "status": 1}])


def test_an_insert_into_a_table_of_another_program_names_what_it_needs() -> None:
    session = hb.Session(fresh(Crawled))
    with pytest.raises(hb.CapabilityError, match="a column that every row of the other program has"):
        session.insert(Crawled(url="a", status=1))


@pytest.mark.parametrize("limited", [False, True])
def test_a_put_whose_deletes_do_not_arrive_says_so(limited: bool) -> None:
    """A store without atomic mutations of a row puts the new values first."""
    rows = [{"url": "a", "status": None, "title": "new"}]
    for at in range(1, 9):
        store = fresh(Crawled)
        hb.Session(store).put(Crawled, url="a", status=1, title="old")
        before, after = Crawled(url="a", status=1, title="old"), Crawled(url="a", title="new")
        faulty = FaultyStore(store, at, "before", limited=limited)
        allowed = [after]
        try:
            hb.Session(faulty).put_all(Crawled, rows)
        except hb.PartialWrite as error:
            allowed = [hb.evolve(before, title="new")] if (error.reason or "").startswith("UnknownOutcome") else []
        except StoreUnavailable:
            allowed = [before]
        assert hb.Session(store).get(Crawled, url="a") in allowed
        if len(faulty.calls) <= at:
            return
    pytest.fail("it never ended")


TOPICS = hb.ids.dictionary("put_topics", hb.UInt32)


@hb.model(table="put_named", family="d")
class Named:
    """Names with ids, in the key and in an indexed column."""

    topic: hb.Key[str] = hb.key(TOPICS)
    number: hb.Key[int] = hb.key(hb.UInt32)
    other: hb.Column[str] = hb.column("o", TOPICS)
    size: hb.Column[int] = hb.column("s", default=0)

    by_other = hb.index("other")


@hb.model(table="put_named_too", family="d", external=True)
class NamedElsewhere:
    """Names with ids in a table whose rows are put without a read."""

    topic: hb.Key[str] = hb.key(TOPICS)
    other: hb.Column[str | None] = hb.column("o", TOPICS, default=None)


@pytest.mark.parametrize("model", [Named, hb.schema.with_table(Named, "put_named_elsewhere")])
def test_a_put_may_bring_new_names(model: Any) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, model)
        session = hb.Session(store)
        assert session.put(model, topic="a", number=1, other="b") is True
        assert session.put(model, topic="a", number=1, other="c", size=3) is False
        assert session.get(model, topic="a", number=1) == model(topic="a", number=1, other="c", size=3)
        assert session.query(model).where(model.other == "c").count() == 1
        assert session.query(model).where(model.other == "b").count() == 0


def test_puts_without_a_read_may_bring_new_names() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, NamedElsewhere, create_external=True)
        session = hb.Session(store)
        session.put_all(NamedElsewhere, [{"topic": "a", "other": "b"}, {"topic": "c", "other": "a"}])
        found = session.query(NamedElsewhere).allow_full_scan().all()
        assert {(each.topic, each.other) for each in found} == {("a", "b"), ("c", "a")}
