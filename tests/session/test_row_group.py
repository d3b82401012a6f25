"""Local transactions: what a group has read stays true until its commit, or the commit is refused whole."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.errors import CapabilityError, HbmodelError
from hbmodel.store import ConditionalChange, Delete, Get, Row
from hbmodel.store.wrapping import WrappingStore
from tests.support.beds import HBASE, Bed, fresh, rows_of
from tests.support.faulty import FaultyStore, failures_of

ATOMIC = ("memory", "embedded", HBASE[1])


@hb.model(table="rg_banks", family="d", kind=b"a")
class Account:
    bank: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(in_qualifier=True)
    amount: hb.Column[int] = hb.column("a")
    version: hb.Column[int] = hb.version()


@hb.model(table="rg_banks", family="d", kind=b"b")
class Bank:
    name: hb.Key[str] = hb.key()
    transfers: hb.Column[int] = hb.column("t")
    version: hb.Column[int] = hb.version()


@hb.model(table="rg_hours", family="d", salt=hb.HashSalt(4))
class Hourly:
    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=timedelta(hours=1))
    value: hb.Column[int] = hb.column("v")
    version: hb.Column[int] = hb.version()
    by_value = hb.index("value")


@hb.model(table="rg_pets", row=b"pets")
class InOneRow:
    name: hb.Key[str] = hb.key(in_qualifier=True)
    sort: hb.Column[str] = hb.column("s")
    version: hb.Column[int] = hb.version()


@hb.model(table="rg_tall")
class Tall:
    name: hb.Key[str] = hb.key()
    sort: hb.Column[str] = hb.column("s")
    version: hb.Column[int] = hb.version()


@hb.model(table="rg_seats", family="d")
class Seat:
    hall: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    guest: hb.Column[str | None] = hb.column("g", default=None)
    version: hb.Column[int] = hb.version()
    by_guest = hb.index("guest", unique=True)


def opened(bed: Bed) -> hb.Session:
    session = bed.use(Account, Bank)
    session.add_all(Account(bank="x", number=number, amount=100) for number in range(3))
    session.add(Bank(name="x", transfers=0))
    session.commit()
    return session


def transfer(group: Any, source: int, target: int, amount: int) -> None:
    first, second = (group.get(Account, number=number) for number in (source, target))
    group.update(first, amount=first.amount - amount)
    group.update(second, amount=second.amount + amount)
    bank = group.get(Bank)
    group.update(bank, transfers=bank.transfers + 1)


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_a_group_changes_objects_of_all_kinds_in_one_call(bed: Bed) -> None:
    session = opened(bed)
    bed.store.calls.clear()
    with session.group(Account, bank="x") as group:
        transfer(group, 0, 1, 30)
        assert [account.amount for account in group.query(Account)] == [100, 100, 100]
    (call,) = bed.store.of_rows
    assert (call.name, [change.row for change in call.items]) == ("check_and_mutate_many", [b"x"])
    assert [account.amount for account in session.query(Account).where(Account.bank == "x")] == [70, 130, 100]
    assert session.get(Bank, name="x").transfers == 1  # type: ignore[union-attr]
    with session.group(Bank, name="x") as group:
        group.delete(group.get(Account, number=2))
        group.add(Account(bank="x", number=9, amount=1))
    assert [account.number for account in session.query(Account).where(Account.bank == "x")] == [0, 1, 9]


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_what_a_query_deletes_is_deleted_by_the_commit(bed: Bed) -> None:
    session = opened(bed)
    all_of_x = session.query(Account).where(Account.bank == "x")
    told: list[int] = []

    def begun() -> None:
        with session.group(Account, bank="x") as group:
            assert group.query(Account).where(Account.number < 2).delete(progress=told.append) == 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        begun()
    assert (told, all_of_x.count()) == ([2], 3)
    bed.store.calls.clear()
    with session.group(Account, bank="x") as group:
        assert group.query(Account).where(Account.amount == 100).reversed().limit(1).delete() == 1
        group.update(group.get_one(Account, number=0), amount=7)
        assert group.query(Bank).on_unreadable(print).delete() == 1
        assert group.query(Account).where(Account.number > 50).delete() == 0
    (call,) = bed.store.of_rows
    assert [change.row for change in call.items] == [b"x"]
    assert [(account.number, account.amount) for account in all_of_x] == [(0, 7), (1, 100)]
    assert session.get(Bank, name="x") is None
    group = session.group(Account, bank="x")
    group.query(Account).delete()
    with hb.Session(bed.store) as other:
        other.update(Account(bank="x", number=0, amount=0), amount=8)
    with pytest.raises(hb.ConflictError):
        group.commit()
    assert [(account.number, account.amount) for account in all_of_x] == [(0, 8), (1, 100)]
    with pytest.raises(hb.QueryError, match="leave out select"):
        group.query(Account).select(Account.amount).delete()


CHANGES: dict[str, Any] = {
    "an object that was read": lambda s: s.update(Account(bank="x", number=0, amount=0), amount=5),
    "one that was not": lambda s: s.update(Account(bank="x", number=2, amount=0), amount=5),
    "a new one": lambda s: s.add(Account(bank="x", number=7, amount=5)),
    "a deleted one": lambda s: s.delete_key(Account, bank="x", number=2),
    "one of another kind": lambda s: s.update(Bank(name="x", transfers=0), transfers=50),
    "an inserted one": lambda s: s.insert(Account(bank="x", number=8, amount=5)),
    "a loaded one": lambda s: s.bulk_add([Account(bank="x", number=8, amount=5)]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_whatever_changes_the_row_is_a_conflict(bed: Bed, change: str) -> None:
    session = opened(bed)
    group = session.group(Account, bank="x")
    transfer(group, 0, 1, 30)
    with hb.Session(bed.store) as other:
        CHANGES[change](other)
    before = plain(session)
    with pytest.raises(hb.ConflictError, match="The row has been written since the group was begun"):
        group.commit()
    assert plain(session) == before
    transfer(group, 1, 2, 1) if change != "a deleted one" else transfer(group, 1, 0, 1)
    group.commit()  # begun again
    assert plain(session) != before


def plain(session: hb.Session) -> list[tuple[int, int]]:
    bank = session.get(Bank, name="x")
    assert bank is not None
    return [(a.number, a.amount) for a in session.query(Account).where(Account.bank == "x")] + [(-1, bank.transfers)]


class Interrupted(WrappingStore):
    """Lets something happen just before objects are read, once."""

    meanwhile: Callable[[], None] | None = None

    def get_each(self, table: str, gets: Sequence[Get]) -> Sequence[Row | None]:
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return self._store.get_each(table, gets)


@pytest.mark.parametrize("call", ["update", "delete"])
def test_an_object_that_is_deleted_while_the_group_commits_is_a_conflict(call: str) -> None:
    beneath = fresh(Account, Bank)
    store = Interrupted(beneath)
    session = hb.Session(store)
    session.add(Account(bank="x", number=0, amount=1))
    session.commit()
    group = session.group(Account, bank="x")
    found = group.get(Account, number=0)
    assert found is not None
    group.update(found, amount=2) if call == "update" else group.delete(found)

    def meanwhile() -> None:
        with hb.Session(beneath) as other:
            other.delete_key(Account, bank="x", number=0)

    store.meanwhile = meanwhile
    with pytest.raises(hb.ConflictError):
        group.commit()
    assert store.meanwhile is None


def test_a_group_is_atomic_in_any_session() -> None:
    store = fresh(Account, Bank)
    session = hb.Session(store, atomic_rows=False)
    with session.group(Account, bank="x") as group:
        group.add(Bank(name="x", transfers=0))
        group.add(Account(bank="x", number=0, amount=1))
    assert [call.name for call in store.calls if call.writes and call.table == "rg_banks"] == ["check_and_mutate_many"]
    assert session.query(Account).allow_full_scan().count() == 1


def test_changes_of_other_rows_are_no_conflict() -> None:
    store = fresh(Account, Bank)
    session = hb.Session(store)
    session.add_all(Account(bank=bank, number=0, amount=1) for bank in "xy")
    session.commit()
    with session.group(Account, bank="x") as group:
        found = group.get(Account, number=0)
        assert found is not None
        group.update(found, amount=2)
        with hb.Session(store) as other:
            other.add(Account(bank="y", number=0, amount=3))
    assert [account.amount for account in session.query(Account).allow_full_scan()] == [2, 3]


def test_one_call_that_cannot_be_carried_out_ends_them_all() -> None:
    store = fresh(Account, Bank)
    session = hb.Session(store)
    session.add(Account(bank="x", number=0, amount=1))
    session.commit()
    group = session.group(Account, bank="x")
    group.add(Account(bank="x", number=1, amount=1))
    group.update(Account(bank="x", number=5, amount=1), amount=2)
    with pytest.raises(hb.RowNotFound):
        group.commit()
    assert [account.number for account in session.query(Account).where(Account.bank == "x")] == [0]


def test_an_exception_discards() -> None:
    session = hb.Session(fresh(Account, Bank))
    group = session.group(Account, bank="x")
    with pytest.raises(ZeroDivisionError), group:
        _fail(group)
    assert session.query(Account).where(Account.bank == "x").all() == []


def _fail(group: Any) -> None:
    group.add(Account(bank="x", number=1, amount=1))
    raise ZeroDivisionError


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_split_fields_salts_and_constant_rows(bed: Bed) -> None:
    session = bed.use(Hourly, InOneRow)
    start = datetime(2026, 1, 1, 5, tzinfo=UTC)
    session.add_all(Hourly(sensor="a", at=start + timedelta(minutes=20 * step), value=step) for step in range(-2, 5))
    session.commit()
    with session.group(Hourly, sensor="a", at=start + timedelta(minutes=59)) as group:
        found = group.query(Hourly).all()
        assert [each.value for each in found] == [0, 1, 2]
        for each in found:
            group.update(each, value=each.value + 10)
        group.add(Hourly(sensor="a", at=start + timedelta(seconds=1), value=99))
        with pytest.raises(hb.SessionError, match="A group accepts only objects of its own row"):
            group.add(Hourly(sensor="a", at=start + timedelta(hours=1), value=0))
    hours = session.query(Hourly).where(Hourly.sensor == "a")
    assert [each.value for each in hours] == [-2, -1, 10, 99, 11, 12, 3, 4]
    assert [each.at for each in session.query(Hourly).where(Hourly.value == 99)] == [start + timedelta(seconds=1)]
    with session.group(InOneRow) as group:
        group.add(InOneRow(name="rex", sort="dog"))
        assert group.query(InOneRow).all() == []
    with session.group(InOneRow) as pets:
        assert [pet.sort for pet in pets.query(InOneRow)] == ["dog"]


@pytest.mark.parametrize("bed", ["memory", "embedded"], indirect=True)
def test_a_group_gets_no_object_of_another_row(bed: Bed) -> None:
    session = bed.use(Account, Bank, Hourly)
    start = datetime(2026, 1, 1, 5, tzinfo=UTC)
    times = [start, start + timedelta(minutes=59, seconds=59), start + timedelta(hours=1)]
    session.add_all(Hourly(sensor=sensor, at=at, value=1) for sensor in "ab" for at in times)
    session.add_all(Account(bank=bank, number=0, amount=1) for bank in "xy")
    session.commit()
    group = session.group(Hourly, sensor="a", at=start + timedelta(minutes=30))
    assert [group.get(Hourly, at=at) is not None for at in times[:2]] == [True, True]
    assert group.get(Hourly, sensor="a", at=start) is not None
    assert group.get(Hourly, at=start + timedelta(minutes=1)) is None
    for key in ({"at": times[2]}, {"at": start - timedelta(seconds=1)}, {"sensor": "b"}, {"sensor": "b", "at": start}):
        with pytest.raises(hb.SessionError, match="A group accepts only objects of its own row"):
            group.get(Hourly, **key)
    accounts = session.group(Bank, name="x")
    assert accounts.get(Account, bank="x", number=0) is not None
    for model, other in ((Account, {"bank": "y", "number": 0}), (Bank, {"name": "y"})):
        with pytest.raises(hb.SessionError, match="A group accepts only objects of its own row"):
            accounts.get(model, **other)


@hb.model(table="rg_words", family="d")
class Named:
    word: hb.Key[str] = hb.key(hb.ids.dictionary("rg_names", hb.codecs.UInt16))
    number: hb.Key[int] = hb.key(in_qualifier=True)
    value: hb.Column[int] = hb.column("v")
    version: hb.Column[int] = hb.version()


def test_a_name_without_an_id_is_that_of_another_row() -> None:
    session = hb.Session(fresh(Named))
    session.add(Named(word="known", number=1, value=1))
    session.commit()
    group = session.group(Named, word="known")
    assert group.get(Named, word="known", number=1) is not None
    with pytest.raises(hb.SessionError, match="A group accepts only objects of its own row"):
        group.get(Named, word="unknown", number=1)


def ends_of_time(unit: str, every: timedelta, desc: bool) -> type[Any]:
    @hb.model(table=f"rg_ends_{unit}_{every.days}_{desc}", family="d")
    class Price:
        item: hb.Key[str] = hb.key()
        until: hb.Key[datetime] = hb.key(hb.Datetime(unit), row_span=every, desc=desc)  # type: ignore[arg-type]
        cents: hb.Column[int] = hb.column("c")
        version: hb.Column[int] = hb.version()

    return Price


@pytest.mark.parametrize("desc", [False, True])
@pytest.mark.parametrize("every", [timedelta(hours=1), timedelta(days=7), timedelta(days=5_000_000)])
@pytest.mark.parametrize("unit", ["us", "ms", "s"])
def test_a_group_at_the_ends_of_time(unit: str, every: timedelta, desc: bool) -> None:
    model = ends_of_time(unit, every, desc)
    codec = hb.Datetime(unit, round=True)  # type: ignore[arg-type]
    session = hb.Session(fresh(model))
    last, first = codec.floor(datetime.max.replace(tzinfo=UTC)), datetime.min.replace(tzinfo=UTC)
    times = [first, first + timedelta(seconds=1), datetime(1970, 1, 1, tzinfo=UTC), last - timedelta(seconds=1), last]
    session.add_all(model(item="a", until=at, cents=5) for at in times)
    session.commit()
    for at, beside in ((times[0], times[1]), (times[4], times[3])):
        group = session.group(model, item="a", until=at)
        found = [price.until for price in group.query(model)]
        assert {at, beside} <= set(found)
        assert found == [each for each in sorted(times, reverse=desc) if each in found]
        assert all(group.get(model, until=each) is not None for each in found)
        for each in set(times) - set(found):
            with pytest.raises(hb.SessionError, match="A group accepts only objects of its own row"):
                group.get(model, until=each)


@hb.model(table="rg_bytes", family="d")
class Small:
    """The qualifiers of its first object begin with the qualifier of the row's version."""

    owner: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.UInt8, in_qualifier=True)
    value: hb.Column[int] = hb.column("v")
    version: hb.Column[int] = hb.version()
    by_value = hb.index("value")


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_the_version_of_a_row_is_no_object(bed: Bed) -> None:
    session = bed.use(Small)
    small = session.query(Small).where(Small.owner == "ann")
    with session.group(Small, owner="ann") as group:
        group.add(Small(owner="ann", number=1, value=1))
    with session.group(Small, owner="ann") as group:
        assert (group.get(Small, number=0), small.count(), small.first()) == (
            None,
            1,
            Small(owner="ann", number=1, value=1),
        )
        group.add(Small(owner="ann", number=0, value=0))
    for asked, expected in (
        (small, [(0, 0), (1, 1)]),
        (small.where(Small.number < 1), [(0, 0)]),
        (small.reversed(), [(1, 1), (0, 0)]),
    ):
        assert [(each.number, each.value) for each in asked] == expected
    before = version_of_row(bed)
    with session.group(Small, owner="ann") as group:
        zero = group.get(Small, number=0)
        assert zero is not None
        group.delete(zero)
    assert version_of_row(bed) not in {None, before}
    assert [each.number for each in small] == [1]
    session.add(Small(owner="ann", number=0, value=5))
    session.commit()
    assert [(each.number, each.value) for each in small] == [(0, 5), (1, 1)]
    assert hb.indexes.verify_index(bed.store, Small, "by_value").missing == 0


def version_of_row(bed: Bed) -> bytes | None:
    (row,) = bed.store.get("rg_bytes", [b"ann"], [b"d:\x00"])
    return None if row is None else row.columns[b"d:\x00"].value


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_what_was_deleted_with_its_row_stays_deleted(bed: Bed) -> None:
    """A range of columns must not begin after a cell that hides the tombstone of the family."""
    session = opened(bed)
    time.sleep(0.005)
    bed.store.delete("rg_banks", [Delete(b"x", timestamp=rows_of(bed.store, "rg_banks")[b"x"])])
    time.sleep(0.005)
    session.add(Account(bank="x", number=5, amount=1))
    session.commit()
    for asked in (
        session.query(Account).where(Account.bank == "x"),
        session.query(Account).where(Account.bank == "x", Account.number >= 1),
    ):
        assert [account.number for account in asked] == [5]
        assert [account.number for account in asked.reversed()] == [5]
        assert asked.count() == 1


def test_mistakes() -> None:
    store = fresh(Account, Bank, Tall, InOneRow)
    session = hb.Session(store)
    with pytest.raises(hb.SessionError, match="A group needs a row that objects share and that has a version"):
        session.group(Tall, name="x")
    with pytest.raises(hb.errors.IncompleteKey, match="Give every field of the row key: they identify the row of"):
        session.group(Account)
    with pytest.raises(hb.errors.UnknownField, match="A group takes the fields of the row key only"):
        session.group(Account, bank="x", number=3)
    group = session.group(Account, bank="x")
    with pytest.raises(hb.SessionError, match="not in the row"):
        group.query(InOneRow)
    with pytest.raises(hb.SessionError, match="A group accepts only objects of its own row"):
        group.add(Account(bank="y", number=1, amount=1))
    group.add(Account(bank="x", number=1, amount=1))
    with pytest.raises(hb.SessionError, match="Commit or discard pending calls"):
        group.retry(lambda again: None)
    group.discard()
    assert repr(group) == "RowGroup('rg_banks', b'x')"


@pytest.mark.parametrize("bed", ["limited", HBASE[0]], indirect=True)
def test_without_check_and_mutate_there_are_no_groups(bed: Bed) -> None:
    session = bed.use(Account, Bank)
    with pytest.raises(CapabilityError, match="A group needs a store with check-and-mutate"):
        session.group(Account, bank="x")


@pytest.mark.lengthy
def test_whatever_fails_a_group_is_carried_out_whole_or_not_at_all() -> None:
    def prepared() -> Any:
        store = fresh(Account, Bank)
        with hb.Session(store) as session:
            session.add_all(Account(bank="x", number=number, amount=100) for number in range(2))
            session.add(Bank(name="x", transfers=0))
        store.calls.clear()
        return store

    probe = prepared()
    with hb.Session(probe).group(Account, bank="x") as group:
        transfer(group, 0, 1, 30)
    calls = list(probe.calls)
    after = plain(hb.Session(probe))
    for at, mode in failures_of(calls):
        store = prepared()
        group = hb.Session(FaultyStore(store.inner, at, mode)).group(Account, bank="x")
        for _ in range(2):
            try:
                if not group._work:
                    transfer(group, 0, 1, 30)
                group.commit()
            except HbmodelError:
                assert sum(amount for number, amount in plain(hb.Session(store)) if number >= 0) == 200
            else:
                break
        if plain(hb.Session(store)) != after:  # a read failed before anything was pending
            assert mode == "before"
            group.discard()


@pytest.mark.lengthy
@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_threads_move_amounts(bed: Bed) -> None:
    opened(bed)
    move_amounts(bed.store, threads=4, seconds=1.5)


@pytest.mark.slow
@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_threads_move_amounts_for_a_minute(bed: Bed) -> None:
    opened(bed)
    conflicts = move_amounts(bed.store, threads=8, seconds=60)
    assert conflicts > 0


def move_amounts(store: Any, *, threads: int, seconds: float) -> int:
    """Moves amounts between the accounts of one row, and reads them; returns how many conflicts there were."""
    deadline = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    errors: list[BaseException] = []

    def work(number: int) -> None:
        session = hb.Session(store)
        group = session.group(Account, bank="x")
        own: Counter[str] = Counter()

        def once(attempt: Any) -> None:
            own["attempts"] += 1
            transfer(attempt, number % 3, (number + 1) % 3, number + 1)

        try:
            while time.monotonic() < deadline:
                group.retry(once, attempts=1000)
                own["done"] += 1
                with session.group(Account, bank="x") as reader:
                    amounts = [account.amount for account in reader.query(Account)]
                    reader.update(reader.get(Bank), transfers=reader.get(Bank).transfers)
                assert sum(amounts) == 300
        except hb.ConflictError:  # of the reader
            pass
        except BaseException as error:
            errors.append(error)
        finally:
            counts.update(own)

    def again(number: int) -> None:
        while time.monotonic() < deadline and not errors:
            work(number)

    workers = [threading.Thread(target=again, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(seconds + 60)
    assert not any(worker.is_alive() for worker in workers)
    assert errors == []
    session = hb.Session(store)
    found = plain(session)
    assert sum(amount for number, amount in found if number >= 0) == 300
    assert found[-1] == (-1, counts["done"])
    return counts["attempts"] - counts["done"]


@pytest.mark.parametrize("bed", ATOMIC, indirect=True)
def test_a_group_claims_unique_values_or_changes_nothing(bed: Bed) -> None:
    session = bed.use(Seat)
    with session.group(Seat, hall="red") as group:
        group.add(Seat(hall="red", number=1, guest="ann"))
        group.add(Seat(hall="red", number=2, guest="bob"))

    def guests(hall: str) -> list[str | None]:
        return [seat.guest for seat in session.query(Seat).where(Seat.hall == hall)]

    blue = session.group(Seat, hall="blue")
    for number, guest in ((1, "cid"), (2, "ann")):
        blue.add(Seat(hall="blue", number=number, guest=guest))
    red = session.group(Seat, hall="red")
    for number, guest in ((1, "dan"), (2, "ann")):  # the second one is given up in the same change
        red.update(red.get(Seat, number=number), guest=guest)
    for group in (blue, red):
        with pytest.raises(hb.UniqueViolation):
            group.commit()
    assert (guests("red"), guests("blue")) == (["ann", "bob"], [])
    # The claims of groups that were refused stand in nobody's way.
    session.add_all([Seat(hall="green", number=1, guest="cid"), Seat(hall="green", number=2, guest="dan")])
    session.commit()
    assert rows_of(bed.store, "rg_seats").keys() <= {b"blue", b"green", b"red"}
    assert hb.indexes.verify_index(bed.store, Seat, "by_guest").unclaimed == 0


class Claiming(WrappingStore):
    """Another program takes every claim of a value first."""

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> Sequence[bool]:
        if table.endswith(".by_guest"):
            return [False] * len(changes)
        return self._store.check_and_mutate_many(table, changes)


def test_a_group_that_never_gets_a_unique_value_changes_nothing() -> None:
    store = fresh(Seat)
    group = hb.Session(Claiming(store)).group(Seat, hall="red")
    group.add(Seat(hall="red", number=1))
    group.add(Seat(hall="red", number=2, guest="ann"))
    with pytest.raises(hb.ConflictError, match="Other writes keep claiming the same unique value"):
        group.commit()
    assert rows_of(store, "rg_seats") == {}
    assert group.commit() == []
