"""Pages, merged scans, index reads and what they cost in calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import pytest

import hbmodel as hb
from hbmodel.query.ask.continuation_tokens import decode_token
from hbmodel.query.run.executor import GET_CHUNK
from hbmodel.store import Delete, Put, Row, Scan
from tests.support.beds import Bed, cells_of, fresh, rows_of
from tests.support.faulty import FaultyStore, RecordingStore
from tests.support.models import DAY, Hit, Logged, Order, Person, Sample, day, order
from tests.support.orders import entry_of, filled, numbers

TOKEN_KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


# --- index reads ------------------------------------------------------------------------------------------------------


def test_entries_that_stand_for_nothing_are_never_returned(bed: Bed) -> None:
    session = filled(bed)
    moved, gone, unborn = order(2, "odd", customer=2, amount=0), order(98, "odd"), order(99, "odd")
    session.add(gone)
    session.commit()
    session.delete(gone)
    session.commit()
    covered = {b"d:_v": b"\x01" + bytes(8), b"d:a": b"garbage"}
    bed.store.put("orders.by_state", [Put(entry_of(obj, "by_state"), covered, 2**40) for obj in (moved, gone, unborn)])
    query = session.query(Order).where(Order.state == "odd")
    assert numbers(query.all()) == list(range(39, 0, -2))
    assert query.count() == 20
    assert query.first() == session.get(Order, customer=3, at=day(39), number=39)
    assert numbers(query.reversed().limit(2).all()) == [1, 3]
    found: list[int] = []
    token = None
    for _ in range(7):
        page = query.page(3, after=token)
        assert len(page.items) == (3 if page.next_token else 2)
        found += numbers(page.items)
        token = page.next_token
    assert token is None
    assert found == list(range(39, 0, -2))


def test_the_row_decides_what_the_index_does_not_settle(bed: Bed) -> None:
    session = filled(bed)
    amount = hb.schema.schema_of(Order).by_name["amount"].encode_cell
    # A writer that crashed left other covered values in an entry than the row holds.
    crashed = order(39, "odd", customer=3)
    bed.store.put("orders.by_state", [Put(entry_of(crashed, "by_state"), {b"d:a": amount(Decimal(2))}, 2**40)])
    query = session.query(Order).where(Order.state == "odd").use_index("by_state")
    assert numbers(query.where(Order.amount == Decimal(2)).all()) == [11, 9]
    assert numbers(query.where(Order.amount == Decimal(9)).all()) == [39, 37]
    assert numbers(query.where(Order.note == "n").all()) == []
    assert numbers(query.where(Order.number.in_([1, 2, 3])).all()) == [3, 1]
    assert query.where(Order.customer == 3, Order.amount >= Decimal(8)).count() == 2
    page = query.where(Order.customer == 3).page(2)
    assert numbers(page.items) == [39, 35]


def test_pages_of_nothing_but_stale_entries_go_on_to_the_next_row() -> None:
    with fresh(Order) as store:
        session = hb.Session(store)
        session.add_all(order(n, "x") for n in (1, 1000))
        session.commit()
        stale = [Put(entry_of(order(n, "x"), "by_state"), {b"d:_v": b"\x01" + bytes(8)}, 5) for n in range(2, 1000)]
        store.put("orders.by_state", stale)
        query = session.query(Order).where(Order.state == "x")
        first = query.page(1)
        assert numbers(first.items) == [1000]
        assert store.told().count("get orders") < 12
        second = query.page(1, after=first.next_token)
        assert (numbers(second.items), second.next_token) == ([1], None)
        assert numbers(query.all()) == [1000, 1]


def test_a_row_moved_ahead_of_the_page_and_back(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).where(Order.state.in_(["even", "odd"]))
    first = query.page(25)  # every even one and five odd ones
    session.update(order(2, customer=2), state="odd")
    session.update(order(39, customer=3), state="even")
    session.commit()
    rest = query.page(50, after=first.next_token)
    seen = numbers(first.items) + numbers(rest.items)
    assert set(range(40)) - {2, 39} <= set(seen)
    assert all(seen.count(n) == 1 for n in range(40) if n not in {2, 39})


# --- random salts -----------------------------------------------------------------------------------------------------


def copies(store: hb.Store, table: str, values: Sequence[Any], cell: bytes, newest: int) -> None:
    """Puts copies of row keys into every bucket; the one in bucket `newest` is the newest."""
    store.put(
        table,
        [
            Put(bytes((bucket,)) + key, {cell: b"%d" % bucket}, 10 + (bucket == newest))
            for key in values
            for bucket in range(3)
        ],
    )


@pytest.mark.lengthy
@pytest.mark.parametrize("newest", [0, 1, 2])
def test_of_copies_in_several_buckets_the_newest_is_read_once(newest: int) -> None:
    keys = [n.to_bytes(4, "big") for n in range(GET_CHUNK)]  # three copies of each do not fit into one multi-get
    with fresh(Logged) as store:
        copies(store, "logged", keys, b"d:p", newest)
        session = hb.Session(store)
        page = f"{newest}"
        every = session.query(Logged).allow_full_scan()
        assert [(found.serial, found.page) for found in every] == [(n, page) for n in range(GET_CHUNK)]
        assert [found.serial for found in every.reversed()] == list(range(GET_CHUNK))[::-1]
        assert every.count() == GET_CHUNK
        named = session.query(Logged).where(Logged.serial.in_(range(GET_CHUNK)))
        assert named.explain().access == "get"
        assert [(found.serial, found.page) for found in named] == [(n, page) for n in range(GET_CHUNK)]
        assert named.count() == GET_CHUNK
        assert session.get(Logged, serial=7) == Logged(serial=7, page=page)
        serials: list[int] = []
        token = None
        while True:
            part = every.page(70, after=token)
            serials += [found.serial for found in part.items]
            token = part.next_token
            if token is None:
                break
        assert serials == list(range(GET_CHUNK))


def test_get_asks_every_bucket_in_one_call() -> None:
    with fresh(Logged) as store:
        session = hb.Session(store)
        assert session.get(Logged, serial=1) is None
        (_, call) = store.calls
        assert (call.name, call.items) == ("get", [bytes((bucket,)) + bytes((0, 0, 0, 1)) for bucket in range(3)])


def test_entries_of_copies_come_once(bed: Bed) -> None:
    session = bed.use(Hit)
    for _ in range(8):
        with hb.Session(bed.store) as other:
            other.add_all(Hit(at=DAY, serial=n, page="/") for n in range(5))
    assert len(rows_of(bed.store, "hits")) > 5
    assert len(rows_of(bed.store, "hits.by_page")) == len(rows_of(bed.store, "hits"))
    query = session.query(Hit).where(Hit.page == "/")
    assert [hit.serial for hit in query] == [0, 1, 2, 3, 4]
    assert query.count() == 5
    first = query.page(2)
    assert [hit.serial for hit in first.items] == [0, 1]
    assert [hit.serial for hit in query.page(9, after=first.next_token).items] == [2, 3, 4]


# --- pages ------------------------------------------------------------------------------------------------------------


def test_a_token_is_none_only_at_the_real_end(bed: Bed) -> None:
    session = filled(bed, 12)
    for query in (session.query(Order).where(Order.customer == 1), session.query(Order).where(Order.state == "odd")):
        whole = query.all()
        page = query.page(len(whole))
        assert (list(page.items), page.next_token) == (whole, None)
        page = query.page(len(whole) - 1)
        assert page.next_token is not None
        last = query.page(9, after=page.next_token)
        assert (list(last.items), last.at_end) == (whole[-1:], True)


def test_a_row_that_comes_behind_the_last_page_is_on_the_next(bed: Bed) -> None:
    session = filled(bed, 8)
    query = session.query(Order).where(Order.customer == 1).reversed()
    page = query.page(1)
    session.delete(order(5, customer=1))
    session.add(order(9, customer=1))
    session.commit()
    rest = query.page(5, after=page.next_token)
    assert (numbers(page.items), numbers(rest.items)) == ([1], [9])


def test_pages_of_exact_keys_follow_each_other(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).where(
        Order.customer.in_([1, 2]),
        Order.at.in_([day(n) for n in range(8)]),
        Order.number.in_(range(8)),
        Order.views >= 0,
    )
    assert query.explain().access == "get"
    for backwards, wanted in ((False, [5, 1, 6, 2]), (True, [2, 6, 1, 5])):
        asked = query.reversed() if backwards else query
        found, token = [], None
        for _ in wanted:
            page = asked.page(1, after=token)
            found += numbers(page.items)
            token = page.next_token
        assert (found, token) == (wanted, None)


@pytest.mark.every_store
def test_limit_and_offset_hold_over_pages(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).where(Order.state == "odd").offset(3).limit(7)
    wanted = [33, 31, 29, 27, 25, 23, 21]
    assert numbers(query.all()) == wanted
    assert query.count() == 7
    assert query.limit(100).count() == 17
    assert query.offset(100).count() == 0
    found: list[int] = []
    token = None
    for size in (3, 3, 9):
        page = query.page(size, after=token)
        found += numbers(page.items)
        token = page.next_token
    assert (found, token) == (wanted, None)
    assert query.limit(3).page(3).next_token is None


def test_a_token_may_change_the_size_and_the_selection(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).where(Order.state == "odd")
    token = query.page(2).next_token
    assert query.select(Order.number).page(3, after=token).items == [(35,), (33,), (31,)]


@pytest.mark.every_store
def test_a_token_goes_on_along_its_path_and_in_its_direction(bed: Bed) -> None:
    session = filled(bed)
    query = session.query(Order).where(Order.customer == 1, Order.state == "odd")
    token = query.use_index("by_state").page(2).next_token
    assert token is not None
    assert decode_token(token, None).path == "by_state"
    # Without being told the planner would take the primary table.
    assert query.explain().path == "primary"
    bed.store.told()
    assert numbers(query.page(2, after=token).items) == [29, 25]
    assert set(bed.store.told()) == {"scan orders.by_state", "get orders"}
    with pytest.raises(hb.TokenError, match="another query"):
        query.reversed().page(2, after=token)


def test_sealed_tokens_tell_nothing_and_cannot_be_made_up() -> None:
    with hb.connect("memory:", token_key=TOKEN_KEY) as store:
        hb.create_tables(store, Person)
        with hb.Session(store) as session:
            session.add_all(Person(name=f"secret {n}", city="Oslo") for n in range(4))
        sealed = hb.Session(store).query(Person).where(Person.city == "Oslo")
        token = sealed.page(2).next_token
        assert token is not None
        with pytest.raises(hb.TokenError):
            decode_token(token, None)
        assert [p.name for p in sealed.page(2, after=token).items] == ["secret 2", "secret 3"]
        store.token_key = None
        bare = hb.Session(store).query(Person).where(Person.city == "Oslo")
        with pytest.raises(hb.TokenError):
            bare.page(2, after=token)
        with pytest.raises(hb.TokenError, match="The continuation token is damaged or sealed with another"):
            sealed.page(2, after=bare.page(2).next_token)
        other = hb.Session(store, token_key=TOKEN_KEY.replace("MD", "ME")).query(Person).where(Person.city == "Oslo")
        with pytest.raises(hb.TokenError):
            other.page(2, after=token)
        assert (
            hb.Session(store, token_key=TOKEN_KEY)
            .query(Person)
            .where(Person.city == "Oslo")
            .page(2, after=token)
            .at_end
        )


# --- streams ----------------------------------------------------------------------------------------------------------


def test_a_stream_can_be_left_and_its_scans_are_closed() -> None:
    closed: list[str] = []

    class Watching(RecordingStore):
        def _batches(self, table: str, batches: Any) -> Iterator[Any]:
            try:
                yield from super()._batches(table, batches)
            finally:
                closed.append(table)

    with fresh(Order) as inner:
        with hb.Session(inner) as session:
            session.add_all(order(n, customer=n) for n in range(30))
        session = hb.Session(Watching(inner))
        for query, table in (
            (session.query(Order).allow_full_scan(), "orders"),
            (session.query(Order).where(Order.state == "new"), "orders.by_state"),
        ):
            stream = iter(query)
            assert next(stream) is not None
            stream.close()  # type: ignore[attr-defined]
            assert set(closed) == {table}
            closed.clear()
            assert query.first() is not None
            query.page(3)
            assert set(closed) == {table}
            closed.clear()


def test_an_error_in_the_middle_of_a_stream_is_the_stores(bed: Bed) -> None:
    session = filled(bed)
    store = FaultyStore(bed.store, at=2)
    query = hb.Session(store).query(Order).where(Order.state == "odd")
    with pytest.raises(hb.StoreUnavailable):
        query.all()
    assert [call.name for call in store.calls] == ["get", "scan", "get"]
    assert len(query.all()) == len(session.query(Order).where(Order.state == "odd").all()) == 20


@pytest.mark.parametrize("filtered", [False, True])
def test_scans_that_nobody_has_read_yet_are_closed_when_the_first_one_breaks_off(filtered: bool) -> None:
    class Broken(Iterator[Sequence[Row]]):
        def __init__(self) -> None:
            self.closed = False

        def __next__(self) -> Sequence[Row]:
            raise hb.StoreError("The scan broke off.")

        def close(self) -> None:
            self.closed = True

    class Breaking(RecordingStore):
        started: ClassVar[list[Broken]] = []

        def scan(self, table: str, scans: Sequence[Scan]) -> Sequence[Iterator[Sequence[Row]]]:
            broken = [Broken() for _ in scans]
            if table == "stamped":
                self.started.extend(broken)
                return broken
            return super().scan(table, scans)

    @hb.model(table="stamped", salt=hb.HashSalt(4), exists=hb.flag("e") if filtered else None)
    class Stamped:
        number: hb.Key[int] = hb.key()
        text: hb.Column[str] = hb.column("t")

    with fresh(Stamped) as inner:
        store = Breaking(inner)
        query = hb.Session(store).query(Stamped).allow_full_scan()
        for read in (query.all, query.count, query.first, lambda: query.page(2)):
            with pytest.raises(hb.StoreError) as kept:
                read()
            assert [each.closed for each in store.started] == [True] * 4
            store.started.clear()
            del kept


def test_rows_deleted_while_a_stream_runs_are_left_out(bed: Bed) -> None:
    session = filled(bed)
    stream = iter(session.query(Order).where(Order.state == "odd"))
    assert next(stream).number == 39
    with hb.Session(bed.store) as other:
        other.delete(order(1, customer=1))
    assert 0 < len(list(stream)) <= 19
    assert 1 not in numbers(session.query(Order).where(Order.state == "odd").all())


# --- rows that are not whole ------------------------------------------------------------------------------------------


@hb.model(table="stations", family="d")
class Half:
    """Two required columns, one of which some rows lack."""

    station: hb.Key[str] = hb.key()
    level: hb.Column[int] = hb.column("l", hb.Int32)
    place: hb.Column[str] = hb.column("p")


@pytest.mark.parametrize("missing", ["level", "place"])
def test_a_row_without_a_required_column_is_named(bed: Bed, missing: str) -> None:
    session = bed.use(Half)
    session.add(Half(station="s", level=1, place="p"))
    session.commit()
    (row,) = rows_of(bed.store, "stations")
    bed.store.delete("stations", [Delete(row, columns=[hb.schema.schema_of(Half).by_name[missing].column])])
    for read in (
        lambda: session.get(Half, station="s"),
        lambda: session.query(Half).where(Half.station == "s").all(),
        lambda: session.query(Half).where(Half.station >= "s").page(1),
    ):
        with pytest.raises(hb.IncompleteRow) as caught:
            read()
        assert (caught.value.table, caught.value.field, caught.value.key) == ("stations", missing, row)


def test_a_cell_that_is_not_the_codecs_is_named(bed: Bed) -> None:
    session = bed.use(Order)
    session.add(order(1))
    session.commit()
    ((row, newest),) = rows_of(bed.store, "orders").items()
    bed.store.put("orders", [Put(row, {b"d:s": b"\xff"}, newest + 1)])
    for read in (
        lambda: session.get(Order, customer=1, at=day(1), number=1),
        lambda: session.query(Order).where(Order.customer == 1).all(),
        lambda: session.query(Order).where(Order.state == "new").all(),
    ):
        with pytest.raises(hb.DecodingError) as caught:
            read()
        assert (caught.value.table, caught.value.field, caught.value.key) == ("orders", "state", row)
    session.add(order(1, "mended"))
    session.commit()
    assert numbers(session.query(Order).where(Order.state == "mended").all()) == [1]


def test_a_row_key_that_is_not_the_models_is_named(bed: Bed) -> None:
    session = bed.use(Sample)
    bed.store.put("samples", [Put(b"no terminator", {b"d:l": bytes(4)})])
    with pytest.raises(hb.DecodingError) as caught:
        session.query(Sample).allow_full_scan().all()
    assert caught.value.key == b"no terminator"
    assert len(cells_of(bed.store, "samples")) == 1
