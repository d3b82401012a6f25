"""The first item of each of many prefixes: what a query of each alone gives, over every layout, in few calls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import EncodingError, QueryError
from hbmodel.query.run.first_of_each import in_plans
from hbmodel.session.commit.session_sizes import SessionSizes
from hbmodel.store import Put
from tests.support.beds import Bed, fresh
from tests.support.examples import examples
from tests.support.faulty import RecordingStore
from tests.support.models import Hit, Order, day, order
from tests.support.orders import entry_of
from tests.support.random_queries import conditions, models
from tests.support.random_rows import plain_of, written

START = datetime(2026, 3, 1, tzinfo=UTC)


def moment(number: int) -> datetime:
    """A moment some seconds after the start."""
    return START + timedelta(seconds=number)


@hb.model(table="each_newest", family="d")
class Newest:
    """Newest first."""

    metric: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(desc=True)
    value: hb.Column[int] = hb.column("v", hb.Int32)


@hb.model(table="each_spread", family="d", salt=hb.HashSalt(4))
class Spread:
    """Oldest first, each metric in every bucket."""

    metric: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key()
    value: hb.Column[int] = hb.column("v", hb.Int32)


@hb.model(table="each_hours", family="d", salt=hb.HashSalt(2, by=("metric",)))
class Hours:
    """An hour in each row."""

    metric: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=timedelta(hours=1))
    value: hb.Column[int] = hb.column("v", hb.Int32)


@hb.model(table="each_versions", family="d")
class Versions:
    """With system cells and deleted rows that stay as markers."""

    host: hb.Key[int] = hb.key(hb.codecs.UInt8)
    metric: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(desc=True)
    value: hb.Column[int] = hb.column("v", hb.Int32)
    version: hb.Column[int] = hb.version()

    by_value = hb.index("value", "at")


SERIES = (Newest, Spread, Hours)
METRICS = ("cpu", "ram", "a\x00b", "empty", "")


@pytest.mark.every_store
@pytest.mark.parametrize("model", SERIES)
def test_the_latest_of_each(bed: Bed, model: Any) -> None:
    session = bed.use(model)
    session.add_all(
        model(metric=name, at=moment(n * 1000), value=n) for name in ("cpu", "ram", "a\x00b", "z") for n in range(8)
    )
    session.commit()
    session.delete_key(model, metric="cpu", at=moment(7000))
    session.add(model(metric="cpu", at=moment(60_000), value=99), ttl=timedelta(milliseconds=1))
    session.commit()
    time.sleep(0.01)
    newest = session.query(model).order_by(model.at.desc())
    found = newest.first_of_each(model.metric, [*METRICS, "cpu"])
    assert [item and item.value for item in found] == [6, 7, 7, None, None, 6]
    oldest = session.query(model).order_by(model.at).where(model.at > moment(2000), model.value != 3)
    assert [item and item.value for item in oldest.first_of_each(model.metric, METRICS)] == [4, 4, 4, None, None]
    assert newest.select(model.value, model.metric).first_of_each(model.metric, ["ram", "none"]) == [(7, "ram"), None]
    assert newest.first_of_each((model.metric, model.at), [("ram", moment(3000)), ["z", moment(1)]])[1] is None
    assert newest.first_of_each(model.metric, []) == []


def test_several_fields_dead_rows_and_an_index(atomic_bed: Bed) -> None:
    session = atomic_bed.use(Versions)
    session.add_all(
        Versions(host=h, metric=m, at=moment(n), value=n % 3) for h in (1, 2) for m in "ab" for n in range(6)
    )
    session.commit()
    for obj in session.query(Versions).where(Versions.host == 1, Versions.metric == "a", Versions.at > moment(2)).all():
        session.delete(obj)
    session.commit()
    query = session.query(Versions)
    pairs = [(1, "a"), (2, "b"), (3, "a"), (1, "b")]
    assert [item and item.at for item in query.first_of_each((Versions.host, Versions.metric), pairs)] == [
        moment(2),
        moment(5),
        None,
        moment(5),
    ]
    assert [
        item and item.at for item in query.where(Versions.host == 1).first_of_each(Versions.metric, ["ab", "a", "b"])
    ] == [
        None,
        moment(2),
        moment(5),
    ]
    assert [item and item.at for item in query.order_by(Versions.at).first_of_each(Versions.value, [0, 1, 2, 3])] == [
        moment(0), moment(1), moment(2), None,
    ]  # fmt: skip
    tuples = query.where(Versions.host == 1).first_of_each((Versions.metric,), [["b"]])
    assert [item and item.at for item in tuples] == [moment(5)]


def test_entries_that_stand_for_nothing_are_passed_by(bed: Bed) -> None:
    session = bed.use(Order)
    session.add_all(order(n, "odd" if n % 2 else "even", amount=n) for n in range(6))
    session.commit()
    covered = {b"d:_v": b"\x01" + bytes(8)}
    bed.store.put("orders.by_state", [Put(entry_of(order(n, "odd"), "by_state"), covered, 2**40) for n in (90, 91)])
    query = session.query(Order).where(Order.amount != None)  # noqa: E711
    found = query.order_by(Order.at.desc()).first_of_each(Order.state, ["odd", "even", "gone"])
    assert [item and item.number for item in found] == [5, 4, None]


def test_the_newest_of_equal_keys_under_a_random_salt(bed: Bed) -> None:
    session = bed.use(Hit)
    for page in ("a", "b"):  # each add draws a bucket
        session.add_all(Hit(at=day(n), serial=n, page=page) for n in range(4))
        session.commit()
        time.sleep(0.002)
    query = session.query(Hit)
    assert [item and (item.serial, item.page) for item in query.first_of_each(Hit.at, [day(2), day(9), day(0)])] == [
        (2, "b"), None, (0, "b"),
    ]  # fmt: skip
    assert [item and item.serial for item in query.first_of_each((Hit.at, Hit.serial), [(day(2), 2), (day(2), 3)])] == [
        2,
        None,
    ]


# --- what it costs ----------------------------------------------------------------------------------------------------


def filled(model: Any, metrics: int) -> tuple[RecordingStore, list[str]]:
    """A store in memory with three values of each metric."""
    store = fresh(model)
    session = hb.Session(store)
    names = [f"m{number:04}" for number in range(metrics)]
    session.add_all(model(metric=name, at=moment(n), value=n) for name in names for n in range(3))
    session.commit()
    session.query(model).first_of_each(model.metric, names[:1])
    store.calls.clear()
    return store, names


@pytest.mark.parametrize(("model", "calls"), [(Newest, 1), (Spread, 1), (Hours, 1)])
def test_all_scans_are_begun_by_one_call(model: Any, calls: int) -> None:
    store, names = filled(model, 100)
    with store:
        found = hb.Session(store).query(model).order_by(model.at.desc()).first_of_each(model.metric, names)
        assert [item.value for item in found if item is not None] == [2] * 100
        assert len([call for call in store.told() if call.startswith("scan each_")]) == calls


def test_many_metrics_are_read_in_bounded_numbers() -> None:
    store, names = filled(Newest, 100)
    with store:
        found = (
            hb.Session(store, sizes=SessionSizes(scans=30, ranges=70))
            .query(Newest)
            .first_of_each(Newest.metric, names[::-1])
        )
        assert [item.metric for item in found if item is not None] == names[::-1]
        assert len([call for call in store.told() if call.startswith("scan each_")]) == 3 + 1


def test_lists_of_keys_that_one_plan_serves() -> None:
    keys = [(a, b) for a in range(4) for b in range(4)]
    lists = list(in_plans(keys, 6))
    assert [key for some in lists for key in some] == keys
    assert all(len({a for a, _ in some}) * len({b for _, b in some}) <= 6 for some in lists)
    assert len(lists) < 8


# --- refusals ---------------------------------------------------------------------------------------------------------


def ask(arguments: Sequence[Any], model: Any = Newest) -> Any:
    """Asks a session over a store in memory."""
    with fresh(model) as store:
        return hb.Session(store).query(model).first_of_each(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((Newest.at, [START]), QueryError, "needs the leading fields"),
        ((Newest.value, [1]), QueryError, "needs the leading fields"),
        ((Spread.metric, ["a"]), hb.errors.UnknownField, "another model"),
        (("metric", ["a"]), QueryError, r"Give fields as attributes of the model class: Model\.field, or"),
        (((), []), QueryError, "several different"),
        (((Newest.metric, Newest.metric), []), QueryError, "several different"),
        ((Newest.metric, "cpu"), QueryError, "Give a collection of values"),
        ((Newest.metric, 7), QueryError, "Give a collection of values"),
        ((Newest.metric, [7]), EncodingError, "type that its codec"),
        ((Newest.metric, [None]), EncodingError, "The field does not allow None, so no object has None in it"),
        (((Newest.metric, Newest.at), [("a",)]), QueryError, "each of the fields"),
    ],
)
def test_what_is_refused(arguments: Sequence[Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask(arguments)


def test_limits_and_parts_are_refused() -> None:
    with fresh(Newest) as store:
        session = hb.Session(store)
        query = session.query(Newest).allow_full_scan()
        (part,) = query.partitions(1)
        for refused in (query.limit(3), query.offset(1), session.read_partition(part)):
            with pytest.raises(QueryError, match=r"first_of_each\(\) cannot be combined with limit\(\), offset\(\)"):
                refused.first_of_each(Newest.metric, ["a"])
        with pytest.raises(hb.errors.OrderNotAvailable, match="Neither the key nor an index gives this order"):
            query.order_by(Newest.value).first_of_each(Newest.metric, ["a"])


# --- one scan of one range for each -----------------------------------------------------------------------------------


@hb.model(table="each_plain", family="d")
class Plain:
    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    b: hb.Key[int] = hb.key(hb.codecs.UInt8, desc=True)
    c: hb.Key[str] = hb.key()
    value: hb.Column[int] = hb.column("v")


@hb.model(table="each_near", family="d", salt=hb.HashSalt(3, by=("a",)))
class Near:
    """All rows of a value are in one bucket; deleted rows remain as markers."""

    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    b: hb.Key[int] = hb.key(hb.codecs.UInt8, desc=True)
    c: hb.Key[str] = hb.key()
    value: hb.Column[int] = hb.column("v")
    version: hb.Column[int] = hb.version()


@hb.model(table="each_texts", family="d", salt=hb.salts.TextSalt(("b-", "a-"), by=("a", "b")), exists=hb.flag("e"))
class Texts:
    """As many buckets as a text salt has, by two fields."""

    a: hb.Key[int] = hb.key(hb.codecs.UInt8)
    b: hb.Key[int] = hb.key(hb.codecs.UInt8, desc=True)
    c: hb.Key[str] = hb.key()
    value: hb.Column[int] = hb.column("v", default=0)


SMALL = range(3)
EVERY_SMALL = [(a, b, c) for a in SMALL for b in SMALL for c in ("", "x", "y\x00")]


@pytest.mark.lengthy
@settings(max_examples=examples(80), deadline=None)
@given(
    model=st.sampled_from([Plain, Near, Texts]),
    absent=st.sets(st.sampled_from(EVERY_SMALL), max_size=20),
    deleted=st.sets(st.sampled_from(EVERY_SMALL), max_size=10),
    each=st.sampled_from(["a", "b", "ab", "ba"]),
    keys=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=6),
    bound=st.sampled_from([None, ("b", 1), ("c", "x")]),
    own=st.booleans(),
    backwards=st.booleans(),
)
def test_each_has_the_first_row_of_its_range(
    model: Any, absent: set[Any], deleted: set[Any], each: str, keys: list[Any], bound: Any, own: bool, backwards: bool
) -> None:
    rows = {*EVERY_SMALL} - absent
    with fresh(model) as store:
        session = hb.Session(store)
        session.add_all(model(a=a, b=b, c=c, value=a * b) for a, b, c in sorted(rows))
        session.commit()
        for a, b, c in sorted(rows & deleted):
            session.delete(session.get(model, a=a, b=b, c=c))
        session.commit()
        if model is Texts:  # and in their place cells of no object
            left = [Put(hb.row_key(model, a=a, b=b, c=c), {b"d:v": bytes(8)}) for a, b, c in deleted]
            store.put("each_texts", left)
        query = session.query(model)
        places = ["abc".index(name) for name in each]
        wanted = {"a": lambda row: True, "b": lambda row: row[0] == 1, "ab": lambda row: True, "ba": lambda row: True}[
            each
        ]
        query = query.where(model.a == 1) if each == "b" else query
        tests: list[Any] = [wanted]
        if bound is not None and bound[0] == ("b" if each == "a" else "c"):
            name, least = bound
            query = query.where(getattr(model, name) >= least)
            tests.append(lambda row: row["abc".index(name)] >= least)
        if own:  # a condition on a field by which the rows are read apart
            query = query.where(getattr(model, each[0]) != 2)
            tests.append(lambda row: row[places[0]] != 2)
        query = query.reversed() if backwards else query
        asked = [key[: len(each)] for key in keys]
        live = sorted(rows - deleted, key=lambda row: (row[0], -row[1], row[2]), reverse=backwards)
        expected = [
            next(
                (row for row in live if tuple(row[at] for at in places) == key and all(test(row) for test in tests)),
                None,
            )
            for key in asked
        ]
        store.calls.clear()
        found = query.first_of_each([getattr(model, name) for name in each], asked)
        scans = [call for call in store.told() if call.startswith("scan each_")]
        assert [item and (item.a, item.b, item.c) for item in found] == expected
        assert [item and item.value for item in found] == [row and row[0] * row[1] for row in expected]
        located = model is not Texts or len(each) == 2 or each == "b"
        if located and not (model is Texts and deleted):
            assert len(scans) <= 1


# --- whatever the model -----------------------------------------------------------------------------------------------


@pytest.mark.lengthy
@settings(suppress_health_check=list(HealthCheck), max_examples=examples(40))
@given(st.data())
def test_each_alone_has_the_same_first_item(data: st.DataObject) -> None:
    of = data.draw(models(versions=True, wide=True) | models(covering=True))
    with written(data.draw, of) as store:
        session = hb.Session(store)
        for _ in range(4):
            index = data.draw(st.sampled_from([None, *of.schema.indexes.values()]))
            layout = of.schema.layout if index is None else index.layout
            leading = [
                name for name in layout.names[: data.draw(st.integers(1, len(layout.names)))] if not name.endswith("[]")
            ]
            asked = data.draw(conditions(of))[0] if data.draw(st.booleans()) else []
            each = data.draw(st.lists(st.sampled_from(leading), min_size=1, unique=True)) if leading else []
            values = {name: [*(of.pools | of.computed)[name]] for name in leading}
            try:
                query = session.query(of.model).where(*asked).use_index("primary" if index is None else index.name)
                query = query.where(
                    *(
                        of.expression(name) == data.draw(st.sampled_from(values[name]))
                        for name in leading
                        if name not in each
                    )
                )
                query = query.reversed() if data.draw(st.booleans()) else query
                keys = data.draw(st.lists(st.tuples(*(st.sampled_from(values[name]) for name in each)), max_size=5))
                expected = [
                    query.where(*(of.expression(name) == value for name, value in zip(each, key, strict=True))).first()
                    for key in keys
                ]
                found = query.first_of_each([of.expression(name) for name in each], keys)
            except (QueryError, EncodingError):
                event("refused")
                continue
            event(f"{'primary' if index is None else 'index'}, {sum(item is not None for item in found)} found")
            assert [item and plain_of(item) for item in found] == [item and plain_of(item) for item in expected]
