"""Fields whose values are names of a dictionary: written, read and asked for by name, stored as ids."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.mapping.declare.dictionary_tables import tables_of
from tests.support.beds import Bed, fresh
from tests.support.examples import examples

WORDS = hb.ids.dictionary("field_words", hb.codecs.UInt16)
START = datetime(2026, 1, 1, tzinfo=UTC)


@hb.model(table="dictionary_points", family="d", salt=hb.HashSalt(4, by=("metric",)))
class Point:
    metric: hb.Key[str] = hb.key(WORDS)
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), desc=True)
    value: hb.Column[float] = hb.column("v")
    host: hb.Column[str | None] = hb.column("h", codec=WORDS, default=None)
    hits: hb.Column[int] = hb.counter("n")
    by_host = hb.index("host", "at")


@hb.model(table="dictionary_places", family="d", kind=b"p")
class RegistryKey:
    owner: hb.Key[str] = hb.key(WORDS)
    name: hb.Key[str | None] = hb.key(WORDS, nullable=True, desc=True, in_qualifier=True)
    size: hb.Column[int] = hb.column("s")
    notes: hb.Map[str, str] = hb.map_column("t")


def point(metric: str, second: int, host: str | None = None) -> Point:
    return Point(metric=metric, at=START + timedelta(seconds=second), value=float(second), host=host)


def use(bed: Bed) -> hb.Session:
    session = bed.use(*tables_of(WORDS).models[1:], Point, RegistryKey)
    hb.create_tables(bed.store, Point)
    bed.store.calls.clear()
    return session


def data_calls(store: Any) -> list[str]:
    return [str(call) for call in store.calls if "dictionary_" in str(call)]


def test_every_call_of_a_session(bed: Bed) -> None:
    writer = use(bed)
    writer.add_all(point(metric, n, f"web{n % 2}") for metric in ("sys.cpu", "sys.mem") for n in range(4))
    writer.commit()
    session = hb.Session(bed.store)
    points = session.query(Point)
    cpu = points.where(Point.metric == "sys.cpu")
    assert [each.value for each in cpu] == [3.0, 2.0, 1.0, 0.0]
    assert {each.metric for each in points.allow_full_scan()} == {"sys.cpu", "sys.mem"}
    assert session.get(Point, metric="sys.mem", at=START) == point("sys.mem", 0, "web0")
    assert session.get_many(Point, [("nothing", START), ("sys.cpu", START)]) == [None, point("sys.cpu", 0, "web0")]
    hosts = points.where(Point.host == "web1")
    assert "by_host" in str(hosts.explain())
    assert sorted((each.metric, each.value) for each in hosts) == [
        (m, v) for m in ("sys.cpu", "sys.mem") for v in (1.0, 3.0)
    ]
    first = cpu.page(3)
    assert [each.value for each in (*first.items, *cpu.page(3, after=first.next_token).items)] == [3.0, 2.0, 1.0, 0.0]
    assert sorted(each.value for part in cpu.partitions(3) for each in session.read_partition(part)) == [
        0.0,
        1.0,
        2.0,
        3.0,
    ]
    assert cpu.select(Point.host).all() == [("web1",), ("web0",), ("web1",), ("web0",)]
    assert session.increment(point("sys.cpu", 0), Point.hits, 3) == 3
    session.update(point("sys.cpu", 1), host="a new one")
    session.delete(point("sys.cpu", 2))
    session.delete_key(Point, metric="nothing", at=START)
    assert [outcome.action for outcome in session.commit()] == ["put", "deleted", "absent"]
    assert [(each.value, each.host, each.hits) for each in cpu] == [
        (3.0, "web1", 0),
        (1.0, "a new one", 0),
        (0.0, "web0", 3),
    ]
    assert points.where(Point.host == "a new one").count() == 1
    assert hb.indexes.verify_index(bed.store, Point, "by_host").sound
    if bed.atomic:
        session.insert(point("inserted", 0))
        with pytest.raises(hb.RowExists):
            session.insert(point("inserted", 0))
    assert session.bulk_add(point("loaded", n) for n in range(5)) == 5
    assert points.where(Point.metric.in_(["loaded", "nothing", "sys.mem"])).count() == 9


def test_objects_that_share_rows(bed: Bed) -> None:
    writer = use(bed)
    writer.add_all(RegistryKey(owner=f"o{n % 2}", name=None if n == 4 else f"n{n}", size=n) for n in range(6))
    writer.commit()
    session = hb.Session(bed.store)
    places = session.query(RegistryKey).where(RegistryKey.owner == "o0")
    assert [(each.name, each.size) for each in places] == [("n2", 2), ("n0", 0), (None, 4)]
    assert [each.size for each in places.where(RegistryKey.name == "n2")] == [2]
    assert places.where(RegistryKey.name.is_(None)).count() == 1
    place = session.get(RegistryKey, owner="o1", name="n3")
    assert place is not None
    session.put_entries(place, RegistryKey.notes, {"a": "b"})
    session.commit()
    assert list(session.entries(RegistryKey.notes, owner="o1", name="n3")) == [("a", "b")]
    assert list(session.entries(RegistryKey.notes, owner="nobody", name="n3")) == []


def test_a_local_transaction() -> None:
    @hb.model(table="groups", family="d", kind=b"p")
    class Part:
        owner: hb.Key[str] = hb.key(WORDS)
        name: hb.Key[str] = hb.key(WORDS, in_qualifier=True)
        size: hb.Column[int] = hb.column("s")
        version: hb.Column[int] = hb.version()

    session = hb.Session(fresh(Part))
    session.add(Part(owner="ann", name="a", size=1))
    session.commit()

    def change(group: hb.types.RowGroup) -> int:
        for part in group.query(Part):
            group.update(part, size=part.size + 1)
        group.add(Part(owner="ann", name="b", size=group.get(Part, name="a").size))
        return 7

    assert session.group(Part, owner="ann").retry(change) == 7
    assert [(part.name, part.size) for part in session.query(Part).where(Part.owner == "ann")] == [("a", 2), ("b", 1)]


def test_a_key_with_an_unknown_name_takes_no_row_of_another_key_in_a_random_bucket() -> None:
    @hb.model(table="dictionary_hits", family="d", salt=hb.RandomSalt(2), immutable=True)
    class Hit:
        page: hb.Key[str] = hb.key(WORDS)
        value: hb.Column[int] = hb.column("v")

    session = hb.Session(fresh(Hit))
    session.add(Hit(page="home", value=1))
    session.commit()
    assert session.get_many(Hit, [("nothing",), ("home",)]) == [None, Hit(page="home", value=1)]
    assert session.get_many(Hit, [("home",), ("nothing",)]) == [Hit(page="home", value=1), None]


def test_a_query_for_an_unknown_name_reads_no_row() -> None:
    store = fresh(Point)
    session = hb.Session(store)
    session.add(point("known", 1, "here"))
    session.commit()
    session.query(Point).where(Point.metric == "known").all()
    store.calls.clear()
    points = session.query(Point).allow_full_scan()
    for query in (
        points.where(Point.metric == "nothing"),
        points.where(Point.metric.in_(["nothing", "neither"])),
        points.where(Point.metric == "known", Point.host == "nothing"),
        points.where((Point.metric == "nothing") & (Point.value > 1)),
    ):
        assert (query.all(), query.count(), query.exists(), query.first(), query.page(5).next_token) == (
            [],
            0,
            False,
            None,
            None,
        )
    assert session.get(Point, metric="nothing", at=START) is None
    assert data_calls(store) == []
    assert points.where(Point.metric != "nothing").count() == 1
    assert points.where((Point.metric == "nothing") | (Point.value == 1.0)).count() == 1
    assert points.where(~(Point.metric == "nothing")).count() == 1
    assert hb.ids.Names(store).find(WORDS, ["nothing", "neither"]) == {}


def test_the_first_item_of_each_name() -> None:
    session = hb.Session(fresh(Point))
    session.add_all(point(metric, n) for metric in ("a", "b") for n in range(3))
    session.commit()
    points = session.query(Point).order_by(Point.at.desc())
    found = points.first_of_each(Point.metric, ["b", "nothing", "a", "b"])
    assert [None if each is None else (each.metric, each.value) for each in found] == [
        ("b", 2.0),
        None,
        ("a", 2.0),
        ("b", 2.0),
    ]
    assert points.first_of_each(Point.metric, ["nothing"]) == [None]


def test_names_have_no_order() -> None:
    session = hb.Session(fresh(Point))
    for ask in (
        lambda: Point.metric < "x",
        lambda: Point.metric >= "x",
        lambda: Point.metric.between("a", "b"),
        lambda: Point.host > "x",
    ):
        with pytest.raises(hb.QueryError, match="The names of a dictionary have no order"):
            ask()
    with pytest.raises(hb.errors.OrderNotAvailable, match="Neither the key nor an index gives this order"):
        session.query(Point).order_by(Point.metric).all()
    session.add_all([point("sys.cpu", 0), point("sys.mem", 0), point("net", 0)])
    session.commit()
    some = session.query(Point).where(Point.metric.startswith("sys."))
    with pytest.raises(hb.FullScanRefused):
        some.all()
    assert some.allow_full_scan().count() == 2
    names = hb.ids.Names(session).starting_with(WORDS, "sys.")
    assert session.query(Point).where(Point.metric.in_(names)).count() == 2


def test_names_are_looked_up_within_calls_only() -> None:
    store = fresh(Point)
    session = hb.Session(store)
    session.add_all(point("known", n) for n in range(3))
    session.commit()
    items = iter(session.query(Point).where(Point.metric == "known"))
    next(items)
    with pytest.raises(hb.EncodingError, match="Only the calls of a session look up the ids of names"):
        hb.row_key(Point, metric="known", at=START)
    with pytest.raises(hb.DecodingError, match="Only the calls of a session look up the names of ids"):
        WORDS.decode(bytes((0, 1)))
    assert len(list(items)) == 2
    with hb.ids.Names(store).bound():
        (row,) = store.get("dictionary_points", [hb.row_key(Point, metric="known", at=START)])
        found = hb.decode(Point, row)
    assert found is not None
    assert found.metric == "known"


def test_each_session_asks_its_own_store() -> None:
    stores = [fresh(Point), fresh(Point)]
    for store, words in zip(stores, (["a", "b"], ["b", "a"]), strict=True):
        session = hb.Session(store)
        session.add_all(point(word, 0) for word in words)
        session.commit()
    one, two = (iter(hb.Session(store).query(Point).allow_full_scan()) for store in stores)
    assert [(a.metric, b.metric) for a, b in zip(one, two, strict=True)] == [("a", "b"), ("b", "a")]
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(hb.Session(stores[1]).get(Point, metric="a", at=START)))
    thread.start()
    thread.join()
    assert seen == [point("a", 0)]


def test_sessions_of_one_program_share_what_they_know() -> None:
    store = fresh(Point)
    sessions = hb.SessionFactory(store)
    with sessions() as session:
        session.add(point("known", 1))
    store.calls.clear()
    assert sessions().query(Point).where(Point.metric == "known").count() == 1
    assert all("field_words" not in str(call) for call in store.calls)


def test_map_columns_have_no_names() -> None:
    with pytest.raises(hb.DeclarationError, match="The entries of map columns cannot be names of a dictionary"):

        @hb.model(table="maps", family="d")
        class Mapped:
            owner: hb.Key[str] = hb.key()
            notes: hb.Map[int, str] = hb.map_column("n", value=WORDS)


NAMES = st.sampled_from(["a", "b", "cc", "d" * 40, "é"])


@pytest.mark.lengthy
@settings(max_examples=examples(40))
@given(
    written=st.lists(st.tuples(NAMES, st.integers(0, 5), st.none() | NAMES)), asked=st.lists(NAMES | st.just("nothing"))
)
def test_queries_answer_as_they_do_for_text(written: list[tuple[str, int, str | None]], asked: list[str]) -> None:
    store = fresh(Point)
    session = hb.Session(store)
    session.add_all(point(*values) for values in written)
    session.commit()
    rows = {(metric, second): host for metric, second, host in written}
    session = hb.Session(store)
    points = session.query(Point).allow_full_scan()

    def found(*predicates: Any) -> set[tuple[str, int]]:
        return {(each.metric, int(each.value)) for each in points.where(*predicates)}

    assert found(Point.metric.in_(asked)) == {key for key in rows if key[0] in asked}
    assert found(~Point.metric.in_(asked)) == {key for key in rows if key[0] not in asked}
    assert found(Point.host.in_(asked)) == {key for key, host in rows.items() if host in asked}
    for name in asked:
        assert found(Point.host != name) == {key for key, host in rows.items() if host != name}
        assert found((Point.metric == name) | (Point.host == name)) == {
            k for k, host in rows.items() if name in {k[0], host}
        }


@hb.model(table="dictionary_turns", family="d")
class Turn:
    host: hb.Key[str] = hb.key(WORDS)
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    value: hb.Column[int] = hb.column("v", hb.codecs.UInt16)


def test_prepend_and_rekey_may_be_the_first_with_a_name() -> None:
    session = hb.Session(fresh(*tables_of(WORDS).models, Turn))
    made = session.prepend(Turn, host="new", value=1)
    assert session.prepend(Turn, host="new", value=2).number == made.number - 1
    assert session.rekey(made, host="newer").host == "newer"
    assert [(turn.host, turn.value) for turn in session.query(Turn).allow_full_scan()] == [("new", 2), ("newer", 1)]
    with pytest.raises(hb.errors.UnknownName):
        session.rekey(Turn(host="none", number=1, value=1), host="newest")
    with pytest.raises(hb.errors.UnknownName):
        hb.ids.Names(session.store).id_of(WORDS, "newest")


@pytest.mark.parametrize("default", [{"default": "x"}, {"factory": lambda: "x"}])
def test_a_column_with_names_has_no_default_but_none(default: Any) -> None:
    """The name may have no id. Then no index could have entries for rows that lack the cell."""
    names = hb.ids.dictionary("names_without_default", hb.UInt32)

    def declare(hint: Any, **options: Any) -> Any:
        body = {"key": hb.key(), "number": hb.column("n"), "name": hb.column("d", names, **options)}
        body["__annotations__"] = {"key": hb.Key[str], "number": hb.Column[int], "name": hb.Column[hint]}
        return hb.model(table="without_default", family="d")(type("Named", (), body))

    with pytest.raises(hb.DeclarationError, match="only None as its default") as caught:
        declare(str, **default)
    assert caught.value.field == "name"
    assert declare(str | None, default=None)(key="a", number=1).name is None


def loud(host: str | None) -> str | None:
    """Upper case, for a computed field."""
    return None if host is None else host.upper()


@hb.model(table="dictionary_loud", family="d")
class Loud:
    number: hb.Key[int] = hb.key(hb.UInt32)
    host: hb.Column[str | None] = hb.column("h", codec=WORDS, default=None)
    loud = hb.computed(loud, of="host")
    by_loud = hb.index("loud")


def test_an_object_has_a_field_computed_from_a_name() -> None:
    """The name needs no id for this, so the attribute can be read outside of the calls of a session."""
    assert Loud(number=1, host="new.host").loud == "NEW.HOST"
    with hb.connect("memory:") as store:
        hb.create_tables(store, Loud)
        session = hb.Session(store)
        session.add_all([Loud(number=1, host="web1"), Loud(number=2)])
        session.commit()
        assert [found.loud for found in session.query(Loud).allow_full_scan()] == ["WEB1", None]
        loud_ones = session.query(Loud).where(Loud.loud >= "A")
        assert [found.number for found in loud_ones.before(Loud(number=7, host="web2"))] == [1]
        assert loud_ones.after(Loud(number=7, host="never.stored")).all() == loud_ones.all()
        assert hb.indexes.verify_index(store, Loud, "by_loud").sound
