"""Two models in one table, each in its own families, with the same row keys: neither sees or changes the cells of the
other.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import SchemaMismatch
from tests.support.beds import Bed, fresh
from tests.support.examples import examples
from tests.support.proxy import Proxy

TABLE = "two_families"


@hb.model(table=TABLE, family="p")
class Person:
    name: hb.Key[str] = hb.key()
    mail: hb.Column[str] = hb.column("m")
    town: hb.Column[str | None] = hb.column("t", default=None)
    logins: hb.Column[int] = hb.counter("l")
    by_town = hb.index("town")


@hb.model(table=TABLE, family="i")
class Picture:
    name: hb.Key[str] = hb.key()
    kind: hb.Column[str] = hb.column("k")
    width: hb.Column[int] = hb.column("w", hb.codecs.UInt16)
    image: hb.Column[bytes] = hb.column("b", family="big")


MODELS = (Person, Picture)


def person(name: str, town: str | None = "Rome") -> Person:
    return Person(name=name, mail=f"{name}@example.org", town=town)


def picture(name: str, size: int = 10) -> Picture:
    return Picture(name=name, kind="png", width=7, image=bytes(size))


def test_existence_and_deletes_are_apart(bed: Bed) -> None:
    session = bed.use(*MODELS)
    session.add_all([person("ann"), person("bob"), picture("bob"), picture("eve")])
    session.commit()
    people, pictures = session.query(Person).allow_full_scan(), session.query(Picture).allow_full_scan()
    assert [each.name for each in people] == ["ann", "bob"]
    assert [each.name for each in pictures] == ["bob", "eve"]
    assert (people.count(), pictures.count()) == (2, 2)
    assert session.get(Picture, name="ann") is None
    assert session.get(Person, name="eve") is None
    assert session.increment(person("bob"), Person.logins, 2) == 2
    session.delete_key(Person, name="bob")
    session.delete_key(Person, name="eve")
    session.commit()
    assert [each.name for each in people] == ["ann"]
    assert [each.name for each in pictures] == ["bob", "eve"]
    assert session.query(Person).where(Person.town == "Rome").count() == 1
    session.delete_key(Picture, name="bob")
    session.commit()
    session.add(person("bob", "Oslo"))
    session.commit()
    assert session.get(Picture, name="bob") is None
    assert [each.name for each in session.query(Person).where(Person.town == "Oslo")] == ["bob"]
    session.update(picture("bob"), kind="gif")
    with pytest.raises(hb.RowNotFound):
        session.commit()
    assert hb.indexes.verify_index(bed.store, Person, "by_town").sound


def test_insert_looks_at_its_own_families(atomic_bed: Bed) -> None:
    session = atomic_bed.use(*MODELS)
    session.insert(person("ann"))
    session.insert(picture("ann"))
    for obj in (person("ann"), picture("ann")):
        with pytest.raises(hb.RowExists):
            session.insert(obj)


def test_a_commit_of_both(bed: Bed) -> None:
    session = bed.use(*MODELS)
    session.add(person("ann"))
    session.add(picture("ann"))
    session.update(person("ann"), town="Bonn")
    assert [outcome.action for outcome in session.commit()][1:] == ["put", "put"]
    assert session.get(Person, name="ann") == person("ann", "Bonn")
    assert session.get(Picture, name="ann") == picture("ann")


def test_differences_and_the_registry_are_apart(bed: Bed) -> None:
    bed.use(*MODELS)
    assert hb.diff(bed.store, Person).differences == ()
    assert hb.diff(bed.store, *MODELS).differences == ()

    @hb.model(table=TABLE, family="p")
    class Changed:
        name: hb.Key[str] = hb.key()
        mail: hb.Column[int] = hb.column("m")

    with pytest.raises(SchemaMismatch):
        hb.Session(bed.store).get(Changed, name="ann")
    hb.Session(bed.store).get(Picture, name="ann")
    with pytest.raises(SchemaMismatch, match="Another model is stored in the table"):
        hb.drop_tables(bed.store, Person)

    @hb.model(table=TABLE, family="big")
    class Taking:
        name: hb.Key[str] = hb.key()
        image: hb.Column[bytes] = hb.column("b")

    with pytest.raises(SchemaMismatch, match="Another model of the table has this column family"):
        hb.create_tables(bed.store, Taking)


def test_a_query_reads_the_families_that_it_needs(bed: Bed) -> None:
    use = bed.use(*MODELS)
    use.add_all(each for n in range(5) for each in (person(f"n{n}"), picture(f"n{n}", 10_000)))
    use.commit()
    calls: list[hb.store.Call] = []
    session = hb.Session(bed.store, on_call=calls.append)

    def read(query: Any) -> int:
        calls.clear()
        assert len(query.allow_full_scan().all()) == 5
        return sum(call.bytes for call in calls if call.table == TABLE)

    assert read(session.query(Picture)) > 50_000
    assert read(session.query(Picture).select(Picture.image)) > 50_000
    assert read(session.query(Picture).where(Picture.kind == "png").select(Picture.name)) < 1_000
    assert read(session.query(Picture).select(Picture.kind)) < 1_000
    assert read(session.query(Person)) < 2_000
    assert read(session.query(Person).where(Person.town == "Rome")) < 2_000
    calls.clear()
    assert session.query(Picture).allow_full_scan().count() == 5
    assert session.query(Picture).where(Picture.name == "n1").exists()
    session.get(Person, name="n1")
    assert sum(call.bytes for call in calls if call.table == TABLE) < 2_000


@hb.model(table="one_family", family="p")
class Both:
    name: hb.Key[str] = hb.key()
    mail: hb.Column[str] = hb.column("m")
    image: hb.Column[bytes] = hb.column("b")


@pytest.mark.hbase
@pytest.mark.parametrize("gateway", ["thrift1", "thrift2"])
def test_what_a_query_does_not_need_is_not_sent(hbmodel_hbase: Any, gateway: str) -> None:
    options = f"?table_prefix=wire{gateway[-1]}"
    with (
        Proxy(hbmodel_hbase.url if gateway == "thrift1" else hbmodel_hbase.thrift2_url) as proxy,
        hb.connect(proxy.url + options) as store,
    ):
        hb.create_tables(store, *MODELS, Both)
        session = hb.Session(store)
        names = [f"n{n}" for n in range(5)]
        session.add_all(each for name in names for each in (person(name), picture(name, 10_000)))
        session.add_all(Both(name=name, mail=f"{name}@example.org", image=bytes(10_000)) for name in names)
        session.commit()

        def received(query: Any) -> int:
            before = proxy.reply_bytes
            assert len(query.allow_full_scan().all()) == 5
            return proxy.reply_bytes - before

        assert received(session.query(Both)) > 50_000
        assert received(session.query(Picture)) > 50_000
        assert received(session.query(Person)) < 3_000
        assert received(session.query(Picture).select(Picture.kind)) < 3_000
        assert received(session.query(Both).select(Both.mail)) < 3_000
        hb.drop_tables(store, *MODELS, Both)


KEYS = st.sampled_from(["a", "b"])
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["add", "update", "delete", "increment"]), st.sampled_from(MODELS), KEYS, st.integers(0, 3)
    ),
    max_size=8,
)


def test_a_family_that_another_model_has_is_refused_before_anything_changes() -> None:
    @hb.model(table=TABLE, family="x")
    class Taking:
        name: hb.Key[str] = hb.key()
        image: hb.Column[bytes] = hb.column("b", family="big")

    store = fresh(*MODELS)
    before = store.families(TABLE)
    for change in (hb.alter, hb.create_tables):
        with pytest.raises(hb.HbmodelError):
            change(store, Taking)  # type: ignore[operator]
        assert store.families(TABLE) == before


@pytest.mark.lengthy
@settings(max_examples=examples(30))
@given(CALLS)
def test_any_writes_of_the_two(written: list[tuple[str, Any, str, int]]) -> None:
    store = fresh(*MODELS)
    session = hb.Session(store)
    known: dict[tuple[Any, str], Any] = {}
    for call, model, name, number in written:
        key = (model, name)
        obj = person(name, str(number)) if model is Person else picture(name, number)
        if call == "add":
            if key in known and model is Person:
                object.__setattr__(obj, "logins", known[key].logins)
            known[key] = obj
            session.add(obj)
        elif call == "update" and key in known:
            changes: dict[str, Any] = {"town": str(number)} if model is Person else {"image": bytes(number)}
            known[key] = session.update(known[key], **changes)
        elif call == "delete":
            known.pop(key, None)
            session.delete_key(model, name=name)
        elif call == "increment" and model is Person and key in known:
            session.commit()
            object.__setattr__(known[key], "logins", session.increment(known[key], Person.logins, number))
        session.commit()
        for each in MODELS:
            assert session.query(each).allow_full_scan().all() == [known[each, n] for n in "ab" if (each, n) in known]
        towns = {(of[1]): obj.town for of, obj in known.items() if of[0] is Person}
        for town in "0123":
            found = [each.name for each in session.query(Person).where(Person.town == town)]
            assert found == sorted(n for n, of in towns.items() if of == town)
