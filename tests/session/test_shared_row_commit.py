"""The writes of one commit into a shared row are one atomic mutation: for all kinds, in every mode and failure."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.errors import CapabilityError, HbmodelError, InvalidRequest, SessionError
from hbmodel.protocol.versioned.unique_values import CLAIMED
from hbmodel.session.commit.session_sizes import SessionSizes
from hbmodel.store import ConditionalChange, Delete, Put
from hbmodel.store.embedded import EmbeddedStore
from tests.support.beds import HBASE, Bed, cells_of, fresh, rows_of
from tests.support.beside import Beside
from tests.support.examples import examples
from tests.support.faulty import FaultyStore, RecordingStore, failures_of

BEDS = ("memory", "limited", "embedded", *HBASE)


@hb.model(table="jc_plain", family="d", kind=b"o")
class Owner:
    owner: hb.Key[str] = hb.key()
    city: hb.Column[str] = hb.column("c")
    age: hb.Column[int | None] = hb.column("a", default=None)


@hb.model(table="jc_plain", family="d", kind=b"p")
class Pet:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    sort: hb.Column[str] = hb.column("s")
    age: hb.Column[int | None] = hb.column("a", default=None)


@hb.model(table="jc_plain", family="e")
class Note:
    """In the same rows, in its own family."""

    owner: hb.Key[str] = hb.key()
    text: hb.Column[str] = hb.column("t")


@hb.model(table="jc_indexed", family="d", kind=b"p")
class Indexed:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    sort: hb.Column[str] = hb.column("s")
    age: hb.Column[int | None] = hb.column("a", default=None)
    by_sort = hb.index("sort", covers=("age",))


@hb.model(table="jc_indexed", family="d", kind=b"q")
class Unindexed:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    sort: hb.Column[str] = hb.column("s")


@hb.model(table="jc_times", family="d", kind=b"p")
class Timed:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    sort: hb.Column[str] = hb.column("s")
    by_sort = hb.index("sort")


@hb.model(table="jc_times", family="d", kind=b"o")
class TimedOwner:
    owner: hb.Key[str] = hb.key()
    city: hb.Column[str] = hb.column("c")
    by_city = hb.index("city")


@hb.model(table="jc_versioned", family="d", kind=b"p")
class Versioned:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    sort: hb.Column[str] = hb.column("s")
    version: hb.Column[int] = hb.version()
    by_sort = hb.index("sort")


@hb.model(table="jc_versioned", family="d", kind=b"o")
class VersionedOwner:
    owner: hb.Key[str] = hb.key()
    city: hb.Column[str] = hb.column("c")
    version: hb.Column[int] = hb.version()


@hb.model(table="jc_versioned", family="c", kind=b"o")
class FarOwner:
    owner: hb.Key[str] = hb.key()
    city: hb.Column[str] = hb.column("c")
    version: hb.Column[int] = hb.version()


@hb.model(table="jc_unique", family="d", kind=b"p")
class Unique:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    sort: hb.Column[str] = hb.column("s")
    tag: hb.Column[str | None] = hb.column("t", default=None)
    version: hb.Column[int] = hb.version()
    by_tag = hb.index("tag", unique=True)
    by_sort = hb.index("sort", "name", unique=True)


@hb.model(table="jc_unique", family="d", kind=b"o")
class UniqueOwner:
    owner: hb.Key[str] = hb.key()
    city: hb.Column[str] = hb.column("c")
    version: hb.Column[int] = hb.version()


def writes(bed: Bed, table: str) -> list[str]:
    """The calls that wrote into a table, which are forgotten."""
    calls, bed.store.calls[:] = list(bed.store.calls), []
    return [call.name for call in calls if call.writes and call.table == table]


def plain(objs: Any) -> list[str]:
    return [repr(obj) for obj in objs]


@pytest.mark.parametrize("bed", BEDS, indirect=True)
def test_objects_of_all_kinds_and_families_are_one_put(bed: Bed) -> None:
    session = bed.use(Owner, Pet, Note)
    session.add(Owner(owner="ann", city="Bonn"))
    session.add_all(Pet(owner="ann", name=name, sort="cat", age=1) for name in ("rex", "tom"))
    session.add(Note(owner="ann", text="hello"))
    session.add(Pet(owner="bob", name="tom", sort="fish"))
    bed.store.calls.clear()
    outcomes = session.commit()
    assert [outcome.action for outcome in outcomes] == ["put"] * 5
    (call,) = bed.store.of_rows
    assert (call.name, [(put.row, len(put.cells)) for put in call.items]) == ("put", [(b"ann", 7), (b"bob", 2)])
    assert plain(session.query(Pet).where(Pet.owner == "ann")) == plain(
        Pet(owner="ann", name=name, sort="cat", age=1) for name in ("rex", "tom")
    )
    assert session.get(Note, owner="ann") == Note(owner="ann", text="hello")


@pytest.mark.every_store
@pytest.mark.parametrize("bed", BEDS, indirect=True)
def test_puts_updates_and_deletes_are_one_change_or_refused(bed: Bed) -> None:
    session = bed.use(Owner, Pet, Note)
    session.add_all(
        [Owner(owner="ann", city="Bonn"), *(Pet(owner="ann", name=name, sort="cat") for name in ("rex", "tom", "zoe"))]
    )
    session.commit()
    before = cells_of(bed.store, "jc_plain")
    bed.store.calls.clear()
    session.delete_key(Pet, owner="ann", name="rex")
    session.update(Pet(owner="ann", name="tom", sort=""), age=3, sort="dog")
    session.update(Owner(owner="ann", city=""), age=40)
    session.add(Pet(owner="ann", name="new", sort="owl"))
    if not bed.atomic:
        with pytest.raises(CapabilityError) as caught:
            session.commit()
        assert "atomic_rows" in str(caught.value)
        assert writes(bed, "jc_plain") == []
        assert cells_of(bed.store, "jc_plain") == before
        session.discard()
        return
    session.commit()
    assert writes(bed, "jc_plain") == ["check_and_mutate_many"]
    found = {pet.name: (pet.sort, pet.age) for pet in session.query(Pet).where(Pet.owner == "ann")}
    assert found == {"new": ("owl", None), "tom": ("dog", 3), "zoe": ("cat", None)}
    assert session.get(Owner, owner="ann") == Owner(owner="ann", city="Bonn", age=40)


@pytest.mark.parametrize("bed", BEDS, indirect=True)
def test_one_mutation_checks_one_object(bed: Bed) -> None:
    session = bed.use(Owner, Pet, Note)
    session.add_all(
        [
            Owner(owner="ann", city="Bonn"),
            Pet(owner="ann", name="tom", sort="cat"),
            Pet(owner="ann", name="rex", sort="cat"),
        ]
    )
    session.commit()
    before = cells_of(bed.store, "jc_plain")
    session.update(Pet(owner="ann", name="tom", sort=""), sort="dog")
    session.update(Owner(owner="ann", city=""), city="Kiel")
    with pytest.raises(CapabilityError, match="can check that one object exists"):
        session.commit()
    assert cells_of(bed.store, "jc_plain") == before
    session.discard()
    apart = hb.Session(bed.store, atomic_rows=False)
    apart.update(Pet(owner="ann", name="tom", sort=""), sort="dog")
    apart.update(Owner(owner="ann", city=""), city="Kiel")
    apart.commit()
    assert session.get(Owner, owner="ann") == Owner(owner="ann", city="Kiel")
    session.update(Pet(owner="ann", name="tom", sort=""), age=1)  # cells that make no object need no check
    session.update(Pet(owner="ann", name="rex", sort=""), age=2)
    session.commit()
    assert [pet.age for pet in session.query(Pet).where(Pet.owner == "ann")] == [2, 1]


@pytest.mark.parametrize("bed", ["memory", "embedded", HBASE[1]], indirect=True)
@pytest.mark.parametrize("other", ["delete", "add", "update"])
def test_another_program_changes_the_checked_object_beside_a_commit(bed: Bed, other: str) -> None:
    """The rest of the commit is written in any case, once."""
    bed.use(Owner, Pet, Note)
    others: dict[str, Callable[[hb.Session], object]] = {
        "delete": lambda second: second.delete_key(Pet, owner="ann", name="tom"),
        "add": lambda second: second.add(Pet(owner="ann", name="tom", sort="owl", age=2)),
        "update": lambda second: second.update_key(Pet, owner="ann", name="tom", sort="owl"),
    }
    for at in range(1, 20):
        session = hb.Session(bed.store)
        session.add_all([Pet(owner="ann", name=name, sort="cat", age=1) for name in ("rex", "tom")])
        session.commit()
        beside = Beside(bed.store, at, others[other])
        first = hb.Session(bed.store, on_call=beside)
        first.update_key(Pet, owner="ann", name="tom", sort="dog")
        first.delete_key(Pet, owner="ann", name="rex")
        first.add(Pet(owner="ann", name="new", sort="cow"))
        first.add(Owner(owner="ann", city=str(at)))
        failures: list[Any] = []
        try:
            first.commit()
        except hb.PartialWrite as error:
            failures += [type(outcome.error) for outcome in error.failures]
            first.discard()
        found = {pet.name: (pet.sort, pet.age) for pet in session.query(Pet).where(Pet.owner == "ann")}
        tom = found.pop("tom", None)
        assert found == {"new": ("cow", None)}
        assert session.get(Owner, owner="ann") == Owner(owner="ann", city=str(at))
        if not beside.made:
            assert (tom, failures) == (("dog", 1), [])
            break
        assert beside.error is None
        assert tom in {"delete": (None,), "add": (("owl", 2), ("dog", 2)), "update": (("owl", 1), ("dog", 1))}[other], (
            at,
            tom,
        )
        assert failures in ([[], [hb.RowNotFound]] if other == "delete" else [[]])
    else:
        raise AssertionError("the commit took more calls than were tried")


@pytest.mark.parametrize("bed", BEDS, indirect=True)
def test_without_atomic_rows_everything_is_written_one_by_one(bed: Bed) -> None:
    bed.use(Owner, Pet, Note)
    session = hb.Session(bed.store, atomic_rows=False)
    session.add_all(Pet(owner="ann", name=name, sort="cat") for name in ("rex", "tom"))
    session.commit()
    session.delete_key(Pet, owner="ann", name="rex")
    session.add(Pet(owner="ann", name="new", sort="owl"), ttl=timedelta(hours=1))
    session.update(Pet(owner="ann", name="tom", sort=""), sort="dog")
    session.commit()
    assert {pet.name: pet.sort for pet in session.query(Pet).where(Pet.owner == "ann")} == {"new": "owl", "tom": "dog"}


@pytest.mark.parametrize("bed", BEDS, indirect=True)
def test_an_update_that_meets_no_object_leaves_the_others(bed: Bed) -> None:
    session = bed.use(Owner, Pet, Note)
    session.add(Pet(owner="ann", name="tom", sort="cat"))
    session.commit()
    session.update(Pet(owner="ann", name="tom", sort=""), age=5)
    session.update(Pet(owner="ann", name="rex", sort=""), **({"sort": "dog"} if bed.atomic else {"age": 1}))
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    assert [type(outcome.error) for outcome in caught.value.failures] == [hb.RowNotFound]
    assert {pet.name: pet.age for pet in session.query(Pet).where(Pet.owner == "ann")} == {"tom": 5}


@pytest.mark.parametrize("bed", BEDS, indirect=True)
def test_rows_of_indexed_models(bed: Bed) -> None:
    session = bed.use(Indexed, Unindexed)
    session.add_all(Indexed(owner="ann", name=name, sort="cat", age=1) for name in ("rex", "tom", "zoe"))
    bed.store.calls.clear()
    session.commit()
    assert writes(bed, "jc_indexed") == ["put"]
    session.update(Indexed(owner="ann", name="tom", sort=""), sort="dog")
    session.add(Indexed(owner="ann", name="rex", sort="dog"))
    session.commit()
    assert writes(bed, "jc_indexed") == ["put"]
    session.delete_key(Indexed, owner="ann", name="zoe")
    session.add(Indexed(owner="ann", name="rex", sort="owl"))
    session.add(Unindexed(owner="ann", name="rex", sort="owl"))
    if bed.atomic:
        session.commit()
        assert writes(bed, "jc_indexed") == ["mutate_row"]
        assert [
            (pet.name, pet.sort) for pet in session.query(Indexed).where(Indexed.sort.in_(["cat", "dog", "owl"]))
        ] == [
            ("tom", "dog"),
            ("rex", "owl"),
        ]
        report = hb.indexes.verify_index(bed.store, Indexed, "by_sort")
        assert (report.missing, report.rows) == (0, 2)
    else:
        with pytest.raises(CapabilityError):
            session.commit()
        session.discard()
        session.add_all([Indexed(owner="ann", name="rex", sort="owl"), Unindexed(owner="ann", name="rex", sort="owl")])
        with pytest.raises(CapabilityError):  # one has the server's time, the other one of its own
            session.commit()
        assert writes(bed, "jc_indexed") == []
        session.discard()
        assert [pet.name for pet in session.query(Indexed).where(Indexed.owner == "ann")] == ["rex", "tom", "zoe"]


@pytest.mark.parametrize("bed", ["limited", HBASE[0]], indirect=True)
def test_objects_written_in_the_same_millisecond_get_one_time(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    session = bed.use(Indexed, Unindexed)
    for number in range(20):
        session.add_all(Indexed(owner="ann", name=name, sort=f"s{number}") for name in ("rex", "tom")[: 1 + number % 2])
        session.commit()
    times = {cell.timestamp for row in bed.store.get("jc_indexed", [b"ann"]) if row for cell in row.columns.values()}
    assert len(times) == 1
    assert {pet.name: pet.sort for pet in session.query(Indexed).where(Indexed.owner == "ann")} == {
        "rex": "s19",
        "tom": "s19",
    }


@pytest.mark.parametrize("bed", ["memory", "limited", *HBASE], indirect=True)
def test_objects_of_several_kinds_get_the_latest_time_that_one_of_them_needs(bed: Bed) -> None:
    """Otherwise a commit with a time between theirs would show half of this one."""
    session = bed.use(Timed, TimedOwner)
    session.add_all([Timed(owner="ann", name="tom", sort="cat"), TimedOwner(owner="ann", city="Bonn")])
    session.commit()
    (row,) = bed.store.get("jc_times", [b"ann"])
    assert row is not None
    ahead = max(cell.timestamp for cell in row.columns.values()) + 500
    bed.store.put("jc_times", [Put(b"ann", {b"d:oc": b"Kiel"}, ahead)])  # by a program whose clock runs ahead
    session.add_all([Timed(owner="ann", name="tom", sort="dog"), TimedOwner(owner="ann", city="Ulm")])
    session.commit()
    (row,) = bed.store.get("jc_times", [b"ann"])
    assert row is not None
    assert {cell.timestamp for cell in row.columns.values()} == {ahead + 1}
    assert [pet.sort for pet in session.query(Timed).where(Timed.sort == "dog")] == ["dog"]
    assert (
        hb.indexes.verify_index(bed.store, Timed, "by_sort").missing
        == hb.indexes.verify_index(bed.store, TimedOwner, "by_city").missing
        == 0
    )


@pytest.mark.every_store
@pytest.mark.parametrize("later", [0, 1])
@pytest.mark.parametrize("bed", ["memory", "embedded", *HBASE], indirect=True)
def test_a_delete_hides_what_a_later_commit_of_the_same_millisecond_puts(bed: Bed, later: int) -> None:
    """What the documentation says of models without an index or a version; one millisecond later nothing is hidden."""
    session = bed.use(Owner, Pet, Note)
    session.add_all([Owner(owner="ann", city="Bonn"), Pet(owner="ann", name="tom", sort="cat")])
    session.commit()
    time = 2 + max(
        cell.timestamp for row in bed.store.get("jc_plain", [b"ann"]) if row for cell in row.columns.values()
    )
    pet, owner = b"d:ptom\x00\x01s", b"d:oc"
    changes: list[Delete | Put] = [Delete(b"ann", columns=(pet,), timestamp=time), Put(b"ann", {owner: b"Kiel"}, time)]
    if bed.atomic:
        bed.store.mutate_row("jc_plain", changes)
    else:
        bed.store.delete("jc_plain", [changes[0]])
        bed.store.put("jc_plain", [changes[1]])
    bed.store.put("jc_plain", [Put(b"ann", {pet: b"dog", owner: b"Ulm"}, time + later)])
    assert session.get(Owner, owner="ann") == Owner(owner="ann", city="Ulm")
    assert session.get(Pet, owner="ann", name="tom") == (Pet(owner="ann", name="tom", sort="dog") if later else None)


def test_two_commits_of_one_millisecond_as_sessions_make_them() -> None:
    with EmbeddedStore(None, lambda: 1_000_000) as store:
        hb.create_tables(store, Owner, Pet, Note)
        first, second = hb.Session(store), hb.Session(store)
        first.add(Owner(owner="ann", city="Kiel"))
        first.delete_key(Pet, owner="ann", name="tom")
        second.add_all([Owner(owner="ann", city="Ulm"), Pet(owner="ann", name="tom", sort="dog")])
        first.commit()
        second.commit()
        assert second.get(Owner, owner="ann") == Owner(owner="ann", city="Ulm")
        assert second.get(Pet, owner="ann", name="tom") is None


def test_too_much_for_one_row_is_refused_before_anything_is_sent() -> None:
    store = fresh(Owner, Pet, Note, Indexed, Unindexed)
    session = hb.Session(store)
    for model in (Pet, Unindexed):
        session.add_all(model(owner="ann", name=f"{number}", sort="x" * 1024 * 1024) for number in range(5))
        store.calls.clear()
        with pytest.raises(InvalidRequest, match="Objects that share a row are written in one mutation, and"):
            session.commit()
        assert [call.name for call in store.calls if call.writes] == []
        session.discard()
    session.add_all(Pet(owner=f"{number}", name="x", sort="x" * 1024 * 1024) for number in range(5))
    session.commit()
    assert session.bulk_add(Pet(owner="ann", name=f"{number}", sort="x" * 1024 * 1024) for number in range(5)) == 5
    assert session.query(Pet).allow_full_scan().count() == 10


@pytest.mark.parametrize("most", [3, 6])  # fewer than go into one row, and as many
def test_a_row_is_in_one_batch(most: int) -> None:
    store = fresh(Owner, Pet, Note)
    session = hb.Session(store, sizes=SessionSizes(batch_rows=most))
    session.add_all(Pet(owner=owner, name=f"{number}", sort="x") for number in range(5) for owner in "abc")
    session.add_all(Owner(owner=owner, city="x") for owner in "abcd")
    session.commit()
    puts = [
        [(put.row, len(put.cells)) for put in call.items]
        for call in store.calls
        if call.writes and call.table == "jc_plain"
    ]
    assert puts == [[(b"a", 12)], [(b"b", 12)], [(b"c", 12)], [(b"d", 2)]]


CALLS: dict[str, Callable[[hb.Session, Any, Any], None]] = {
    "add": lambda session, model, draw: session.add(
        model(owner="ann", name=draw("ab"), sort=draw("xyz"), age=draw((None, 1, 2)))
    ),
    "sort": lambda session, model, draw: session.update(model(owner="ann", name=draw("ab"), sort=""), sort=draw("xyz")),
    "age": lambda session, model, draw: session.update(
        model(owner="ann", name=draw("ab"), sort=""), age=draw((None, 1, 2))
    ),
    "delete": lambda session, model, draw: session.delete_key(model, owner="ann", name=draw("ab")),
}


@pytest.mark.lengthy
@pytest.mark.parametrize("model", [Pet, Indexed])
def test_several_calls_for_one_object_are_as_one_after_the_other(model: Any) -> None:
    together, apart = fresh(Owner, Pet, Note, Indexed, Unindexed), fresh(Owner, Pet, Note, Indexed, Unindexed)
    joined, refused = 0, 0
    for seed in range(max(50, examples(150))):  # so many that some calls are joined
        for store in (together, apart):
            session = hb.Session(store)
            session.add_all(model(owner="ann", name=name, sort="s", age=9) for name in "ab")
            session.commit()
        names = random.Random(seed).choices(list(CALLS), k=4)
        draws = random.Random(seed).choices(range(1000), k=30)
        for number, (store, commits) in enumerate(((together, 4), (apart, 1))):
            session = hb.Session(store)
            left = iter(draws)
            failed = False
            for at, name in enumerate(names, 1):
                CALLS[name](session, model, lambda choices: choices[next(left) % len(choices)])  # noqa: B023
                if at % commits == 0:
                    try:
                        session.commit()
                    except SessionError:
                        assert number == 0
                        refused += 1
                        failed = True
                        session.discard()
                    except HbmodelError:
                        failed = True
                        session.discard()
            if failed:
                break
        else:
            joined += 1
            one, other = (
                plain(hb.Session(store).query(model).where(model.owner == "ann")) for store in (together, apart)
            )
            assert one == other, (seed, names)
            for index in hb.schema.schema_of(model).indexes:
                assert hb.indexes.verify_index(together, model, index).missing == 0
    assert joined > refused


def scenario(session: hb.Session, first: Any, second: Any) -> None:
    """A commit over one row: puts, an update and a delete."""
    session.add(first(owner="ann", name="new", sort="new"))
    session.update(first(owner="ann", name="tom", sort=""), sort="new")
    session.delete_key(first, owner="ann", name="rex")
    if second is not None:
        session.add(second(owner="ann", city="new"))


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "models",
    [
        (Pet, Owner, Note),
        (Indexed, None, Unindexed),
        (Versioned, VersionedOwner),
        (Versioned, FarOwner),
        (Unique, UniqueOwner),
    ],
)
def test_whatever_fails_the_row_is_written_whole_or_not_at_all(models: Any) -> None:
    model, second = models[:2]
    known = [each for each in models if each is not None]

    def prepared() -> RecordingStore:
        store = fresh(*known)
        session = hb.Session(store)
        session.add_all(model(owner="ann", name=name, sort="old") for name in ("rex", "tom"))
        if second is not None:
            session.add(second(owner="ann", city="old"))
        session.commit()
        store.calls.clear()
        return store

    def state(store: Any) -> dict[str, str]:
        session = hb.Session(store)
        found = {pet.name: pet.sort for pet in session.query(model).where(model.owner == "ann")}
        return found if second is None else {**found, "owner": session.get(second, owner="ann").city}

    before = state(prepared())
    probe = prepared()
    scenario(session := hb.Session(probe), model, second)
    session.commit()
    after = state(probe)
    assert before != after
    calls = list(probe.calls)[
        : next(at for at, call in enumerate(probe.calls) if call.name == "scan" or at == len(probe.calls) - 1) + 1
    ]
    seen = set()
    for at, mode in failures_of(calls):
        store = prepared()
        faulty = FaultyStore(store.inner, at, mode)
        session = hb.Session(faulty)
        scenario(session, model, second)
        try:
            session.commit()
        except HbmodelError:
            found = state(store)
            assert found in (before, after), (at, mode)
            seen.add(found == after)
            session.commit(resend=True)  # goes on
        assert state(store) == after, (at, mode)
        for index in hb.schema.schema_of(model).indexes.values():
            if index.unique:
                assert hb.indexes.verify_index(store, model, index.name).unclaimed == 0, (at, mode)
                assert [*rows_of(store, hb.schema.schema_of(model).table)] == [b"ann"]
    assert seen == {True, False}


@pytest.mark.lengthy
@pytest.mark.parametrize("bed", ["memory", "embedded", HBASE[1]], indirect=True)
def test_versioned_objects_of_one_row_change_under_one_condition(bed: Bed) -> None:
    session = bed.use(Versioned, VersionedOwner)
    session.add_all(Versioned(owner="ann", name=name, sort="cat") for name in ("rex", "tom"))
    session.add(VersionedOwner(owner="ann", city="Bonn"))
    bed.store.calls.clear()
    session.commit()
    (call,) = [call for call in bed.store.calls if call.writes and call.table == "jc_versioned"]
    assert (call.name, [change.row for change in call.items]) == ("check_and_mutate_many", [b"ann"])
    rex, tom = session.query(Versioned).where(Versioned.owner == "ann").all()
    other = hb.Session(bed.store)
    other.update(tom, sort="dog")
    other.commit()
    session.update(rex, sort="owl")  # its neighbour has changed since, it has not
    session.commit()
    session.update(tom, sort="owl")
    with pytest.raises(hb.ConflictError):
        session.commit()
    session.discard()
    session.delete(session.get(VersionedOwner, owner="ann"))
    session.add(Versioned(owner="ann", name="zoe", sort="cat"))
    session.commit()
    assert [
        (pet.name, pet.sort) for pet in session.query(Versioned).where(Versioned.sort.in_(["cat", "dog", "owl"]))
    ] == [
        ("zoe", "cat"),
        ("tom", "dog"),
        ("rex", "owl"),
    ]
    assert session.get(VersionedOwner, owner="ann") is None
    with pytest.raises(hb.RowExists):
        session.insert(Versioned(owner="ann", name="zoe", sort="cat"))
    session.insert(Versioned(owner="ann", name="amy", sort="cat"))
    assert hb.indexes.verify_index(bed.store, Versioned, "by_sort").missing == 0


ATOMIC = ("memory", "embedded", HBASE[1])


def tags_of(store: Any, owner: str) -> dict[str, str | None]:
    return {each.name: each.tag for each in hb.Session(store).query(Unique).where(Unique.owner == owner)}


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_unique_values_of_a_row_are_claimed_in_their_own_tables(bed: Bed) -> None:
    session = bed.use(Unique, UniqueOwner)
    session.add_all([Unique(owner="ann", name=name, sort="cat", tag=name) for name in ("rex", "tom")])
    session.add(UniqueOwner(owner="ann", city="Bonn"))
    session.commit()
    assert [*rows_of(bed.store, "jc_unique")] == [b"ann"]
    assert (
        hb.indexes.verify_index(bed.store, Unique, "by_tag").unclaimed
        == hb.indexes.verify_index(bed.store, Unique, "by_sort").unclaimed
        == 0
    )
    # Each claim is answered on its own: one object is refused, and the others of its row are written.
    session.add_all(
        [Unique(owner="bob", name=name, sort="cow", tag=tag) for name, tag in (("a", "a"), ("b", "tom"), ("c", "c"))]
    )
    session.add(UniqueOwner(owner="bob", city="Kiel"))
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    ((error, owner),) = [
        (type(f.error), f.error.details["owner"]) for f in caught.value.failures if f.error is not None
    ]
    assert error is hb.UniqueViolation
    assert owner.startswith(b"ann")
    assert tags_of(bed.store, "bob") == {"a": "a", "c": "c"}
    assert session.get(UniqueOwner, owner="bob") is not None
    with pytest.raises(hb.UniqueViolation):
        session.insert(Unique(owner="bob", name="d", sort="dog", tag="rex"))
    # What a commit gives up is free.
    session.delete_key(Unique, owner="ann", name="rex")
    session.update(UniqueOwner(owner="ann", city=""), city="Ulm")
    session.commit()
    session.insert(Unique(owner="bob", name="d", sort="dog", tag="rex"))
    assert [*rows_of(bed.store, "jc_unique")] == [b"ann", b"bob"]


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_a_value_does_not_move_within_the_mutation_of_a_row(bed: Bed) -> None:
    """Its claim cannot be released: a program that finds it, before the row of the new holder has changed, would take
    it over.
    """
    session = bed.use(Unique, UniqueOwner)
    session.add_all([Unique(owner="ann", name=name, sort="cat", tag=name) for name in ("rex", "tom")])
    session.commit()

    def move(session: hb.Session) -> None:
        session.update(Unique(owner="ann", name="rex", sort=""), tag="free")
        session.update(Unique(owner="ann", name="tom", sort=""), tag="rex")

    move(session)
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    assert [type(outcome.error) for outcome in caught.value.failures] == [hb.UniqueViolation]
    assert tags_of(bed.store, "ann") == {"rex": "free", "tom": "tom"}
    with hb.Session(bed.store) as apart:
        apart.update(Unique(owner="ann", name="rex", sort=""), tag="rex")
    apart = hb.Session(bed.store, atomic_rows=False)
    move(apart)
    apart.commit()
    assert tags_of(bed.store, "ann") == {"rex": "free", "tom": "rex"}
    # From row to row it does.
    session.update(Unique(owner="ann", name="tom", sort=""), tag="tom")
    session.add(UniqueOwner(owner="ann", city="Ulm"))
    session.add_all([Unique(owner="bob", name="b", sort="cow", tag="rex"), UniqueOwner(owner="bob", city="Kiel")])
    session.commit()
    assert tags_of(bed.store, "bob") == {"b": "rex"}


def three(owner: str, first: Unique) -> list[Unique]:
    """Objects of a row, of which the first two want the value `x`."""
    return [first, *(Unique(owner=owner, name=name, sort="cat", tag=tag) for name, tag in (("b", "x"), ("c", "y")))]


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_the_first_of_two_objects_of_a_row_gets_the_value_that_both_want(bed: Bed) -> None:
    session = bed.use(Unique, UniqueOwner)
    session.add_all(three("ann", Unique(owner="ann", name="a", sort="cat", tag="x")))
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    (error,) = [outcome.error for outcome in caught.value.failures]
    assert isinstance(error, hb.UniqueViolation)
    assert hb.schema.key_of(Unique, error.key) == {"owner": "ann", "name": "b"}
    assert hb.schema.key_of(Unique, error.owner) == {"owner": "ann", "name": "a"}
    assert tags_of(bed.store, "ann") == {"a": "x", "c": "y"}
    for name in ("a", "c"):
        session.update(Unique(owner="ann", name=name, sort=""), tag="z")
    with pytest.raises(hb.PartialWrite):
        session.commit()
    assert tags_of(bed.store, "ann") == {"a": "z", "c": "y"}
    session.insert(Unique(owner="ann", name="b", sort="cat", tag="x"))
    assert hb.indexes.verify_index(bed.store, Unique, "by_tag").unclaimed == 0


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_the_second_object_gets_the_value_that_a_refused_one_wanted(bed: Bed) -> None:
    session = bed.use(Unique, UniqueOwner)
    with hb.Session(bed.store) as other:
        other.add(Unique(owner="bob", name="a", sort="cow"))
    session.add_all(three("eve", Unique(owner="eve", name="a", sort="cow", tag="x")))
    session.add(UniqueOwner(owner="eve", city="Rome"))
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    (error,) = [outcome.error for outcome in caught.value.failures]
    assert isinstance(error, hb.UniqueViolation)
    assert (error.index, hb.schema.key_of(Unique, error.owner)) == ("by_sort", {"owner": "bob", "name": "a"})
    assert tags_of(bed.store, "eve") == {"b": "x", "c": "y"}
    assert hb.indexes.verify_index(bed.store, Unique, "by_tag").unclaimed == 0


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_values_are_claimed_and_released_in_the_order_of_the_calls(bed: Bed) -> None:
    session = bed.use(Unique, UniqueOwner)
    session.add_all(Unique(owner=owner, name="a", sort=owner, tag=tag) for owner, tag in (("ann", "p"), ("bob", "q")))
    session.commit()
    session.update(Unique(owner="ann", name="a", sort=""), tag="p2")
    session.update(Unique(owner="bob", name="a", sort=""), tag="z")
    session.add(Unique(owner="ann", name="b", sort="ann", tag="q"))
    session.commit()
    assert tags_of(bed.store, "ann") == {"a": "p2", "b": "q"}
    # The first call that wants a value gets it, whichever row comes first.
    session.add(Unique(owner="eve", name="a", sort="eve", tag="e"))
    session.add(Unique(owner="kim", name="a", sort="kim", tag="wanted"))
    session.add(Unique(owner="eve", name="b", sort="eve", tag="wanted"))
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    (error,) = [outcome.error for outcome in caught.value.failures]
    assert hb.schema.key_of(Unique, error.key) == {"owner": "eve", "name": "b"}
    assert (tags_of(bed.store, "eve"), tags_of(bed.store, "kim")) == ({"a": "e"}, {"a": "wanted"})


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_rows_that_would_wait_for_each_other_do_not(bed: Bed) -> None:
    """Each of two rows gives up the value that an object of the other row wants: the last call is refused."""
    session = bed.use(Unique, UniqueOwner)
    owners = ("ann", "bob", "eve")
    session.add_all(Unique(owner=owner, name="a", sort=owner, tag=owner) for owner in owners)
    session.commit()
    for owner in owners:
        session.update(Unique(owner=owner, name="a", sort=""), tag=f"new {owner}")
    for owner, tag in (("ann", "bob"), ("bob", "eve"), ("eve", "ann")):
        session.add(Unique(owner=owner, name="b", sort=owner, tag=tag))
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    (error,) = [outcome.error for outcome in caught.value.failures]
    assert isinstance(error, hb.UniqueViolation)
    assert hb.schema.key_of(Unique, error.key) == {"owner": "eve", "name": "b"}
    assert [tags_of(bed.store, owner) for owner in owners] == [
        {"a": "new ann", "b": "bob"},
        {"a": "new bob", "b": "eve"},
        {"a": "new eve"},
    ]
    session.add(Unique(owner="eve", name="b", sort="eve", tag="ann"))
    session.commit()
    assert hb.indexes.verify_index(bed.store, Unique, "by_tag").unclaimed == 0


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_a_group_is_refused_if_two_of_its_objects_want_one_value(bed: Bed) -> None:
    bed.use(Unique, UniqueOwner)
    runs = []

    def put(group: hb.types.RowGroup) -> None:
        runs.append(len(runs))
        for each in three("ann", Unique(owner="ann", name="a", sort="cat", tag="x")):
            group.add(each)

    with pytest.raises(hb.UniqueViolation) as caught:
        hb.Session(bed.store).group(Unique, owner="ann").retry(put)
    assert hb.schema.key_of(Unique, caught.value.key) == {"owner": "ann", "name": "b"}
    assert runs == [0]
    assert tags_of(bed.store, "ann") == {}


class Meanwhile(RecordingStore):
    """Other programs do something before the first claims of this one."""

    def __init__(self, store: Any, others: Callable[[], None]) -> None:
        super().__init__(store)
        self._others: Callable[[], None] | None = others

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        if self._others is not None and table.endswith("by_tag"):
            others, self._others = self._others, None
            others()
        return super().check_and_mutate_many(table, changes)


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_a_row_is_not_changed_while_one_of_its_objects_waits_for_a_value(bed: Bed) -> None:
    bed.use(Unique, UniqueOwner)

    def others() -> None:
        with hb.Session(bed.store) as other:
            other.add(Unique(owner="other", name="x", sort="x", tag="wanted"))
        with hb.Session(bed.store) as other:
            other.delete_key(Unique, owner="other", name="x")

    store = Meanwhile(bed.store, others)
    session = hb.Session(store)
    for owner, tag in (("ann", "wanted"), ("bob", "b")):
        session.add_all([Unique(owner=owner, name=name, sort=owner, tag=tag + name.strip("r")) for name in ("r", "s")])
        session.add(UniqueOwner(owner=owner, city="Bonn"))
    session.commit()
    changed = [
        [change.row for change in call.items] for call in store.calls if call.writes and call.table == "jc_unique"
    ]
    assert changed == [[b"bob"], [b"ann"]]
    assert tags_of(bed.store, "ann") == {"r": "wanted", "s": "wanteds"}
    assert hb.indexes.verify_index(bed.store, Unique, "by_tag").unclaimed == 0


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_a_claim_is_taken_over_from_a_crashed_program(bed: Bed) -> None:
    """Its owner is fenced by a separate call, even in the row that is written."""
    session = bed.use(Unique, UniqueOwner)
    session.add(Unique(owner="ann", name="rex", sort="cat", tag="x"))
    session.commit()
    (claim, cells), *_ = [
        (row, cells) for row, cells in cells_of(bed.store, "jc_unique.by_tag").items() if b"d:_u" in cells
    ]
    place = cells[b"d:_u"][9:]
    for number, (of, tag) in enumerate(
        ((place, "y"), (place.replace(b"rex", b"new"), "z"), (place.replace(b"ann", b"zoe"), "w"))
    ):
        crashed = {b"d:_u": CLAIMED + b"crashed!" + of}
        bed.store.put("jc_unique.by_tag", [Put(claim.replace(b"x", tag.encode()), crashed, 1_000)])
        session.add(UniqueOwner(owner="ann", city=f"{number}"))
        session.add_all(
            [
                Unique(owner="ann", name=f"{number}", sort="dog", tag=tag),
                Unique(owner="ann", name="tom", sort=f"{number}"),
            ]
        )
        before = tags_of(bed.store, "ann")
        session.commit()
        assert tags_of(bed.store, "ann") == {**before, f"{number}": tag, "tom": None}
        owner = session.get(UniqueOwner, owner="ann")
        assert owner is not None
        assert owner.city == f"{number}"
    assert hb.indexes.verify_index(bed.store, Unique, "by_tag").unclaimed == 0
    assert tags_of(bed.store, "ann") == {"rex": "x", "0": "y", "1": "z", "2": "w", "tom": None}


def test_models_of_a_row_are_versioned_alike() -> None:
    @hb.model(table="jc_versioned", family="d", kind=b"x")
    class Other:
        owner: hb.Key[str] = hb.key()
        name: hb.Key[str] = hb.key(in_qualifier=True)
        sort: hb.Column[str] = hb.column("s")

    with pytest.raises(hb.SchemaMismatch, match="Models whose objects share rows must all be versioned, or"):
        hb.create_tables(hb.connect("memory:"), Versioned, Other)
    store = fresh(Versioned)
    with pytest.raises(hb.SchemaMismatch, match="Models whose objects share rows must all be versioned, or"):
        hb.create_tables(store, Other)


@pytest.mark.lengthy
@pytest.mark.parametrize("kinds", ["one kind", "two kinds"])
def test_absent_objects_are_judged_with_the_others_of_their_row(kinds: str) -> None:
    """One commit puts an object and deletes an absent one, and another commit puts both at one of its calls."""

    def write(session: hb.Session, mark: str, *, both: bool) -> None:
        first = (
            Versioned(owner="ann", name="rex", sort=mark)
            if kinds == "one kind"
            else VersionedOwner(owner="ann", city=mark)
        )
        session.add(first)
        second = Versioned(owner="ann", name="tom", sort=mark)
        session.add(second) if both else session.delete(second)
        session.commit()

    met = set()
    for at in range(1, 100):
        store = fresh(Versioned, VersionedOwner)
        write(hb.Session(store), "begin", both=False)
        left, others = [at], hb.Session(store)

        def interrupt(call: hb.store.Call, left: list[int] = left, others: hb.Session = others) -> None:
            left[0] -= 1
            if left[0] == 0:
                write(others, "theirs", both=True)

        write(hb.Session(store, on_call=interrupt), "mine", both=False)
        if left[0] > 0:
            break
        session = hb.Session(store)
        pets = {pet.name: pet.sort for pet in session.query(Versioned).where(Versioned.owner == "ann")}
        owner = session.get(VersionedOwner, owner="ann")
        found = (pets.pop("rex") if owner is None else owner.city, pets)
        assert found in (("mine", {}), ("theirs", {"tom": "theirs"})), at
        met.add(found[0])
    assert met == {"mine", "theirs"}


def test_an_update_that_is_refused_is_judged_with_the_others_of_its_row() -> None:
    store = fresh(Versioned, VersionedOwner)
    reads, others = [0], hb.Session(store)

    def interrupt(call: hb.store.Call) -> None:
        read = call.operation == "get_each" and call.table == "jc_versioned"
        reads[0] += read
        if read and reads[0] == 1:
            others.add_all([Versioned(owner="ann", name=name, sort="theirs") for name in ("rex", "tom")])
            others.commit()

    session = hb.Session(store, on_call=interrupt)
    session.add(Versioned(owner="ann", name="rex", sort="mine"))
    session.update_key(Versioned, owner="ann", name="tom", sort="mine")
    session.commit()
    assert {pet.name: pet.sort for pet in hb.Session(store).query(Versioned).where(Versioned.owner == "ann")} == {
        "rex": "mine",
        "tom": "mine",
    }


def test_a_commit_that_changes_nothing_in_a_row_writes_nothing() -> None:
    store = fresh(Versioned, VersionedOwner)
    session = hb.Session(store)
    session.add(Versioned(owner="ann", name="rex", sort="cat"))
    session.commit()
    store.calls.clear()
    session.delete_key(Versioned, owner="ann", name="tom")
    session.delete_key(Versioned, owner="ann", name="zoe")
    assert [outcome.action for outcome in session.commit()] == ["absent", "absent"]
    session.update_key(Versioned, owner="ann", name="tom", sort="owl")
    session.delete_key(Versioned, owner="ann", name="zoe")
    with pytest.raises(hb.PartialWrite) as caught:
        session.commit()
    assert [type(outcome.error) for outcome in caught.value.failures] == [hb.RowNotFound]
    assert not [call for call in store.calls if call.writes and call.table == "jc_versioned"]
