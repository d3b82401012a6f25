"""Times that their codec rounds, and NaN: what is written, found and compared, as Python compares what is read."""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.registry.table_from_registry import TableFromRegistry
from tests.support.beds import HBASE, Bed, fresh

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECONDS = hb.Datetime("s", round=True)
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def floor(at: datetime) -> datetime:
    """As it is stored."""
    return at.replace(microsecond=0)


def minute_of(at: datetime) -> int:
    return at.minute


@hb.model(table="rounded")
class Reading:
    """Rounded in the key, in an index, in a condition and under a computed field."""

    sensor: hb.Key[int] = hb.key(hb.codecs.UInt8)
    at: hb.Key[datetime] = hb.key(SECONDS, desc=True)
    seen: hb.Column[datetime | None] = hb.column("s", SECONDS, default=None)

    microsecond = hb.computed(
        lambda seen: None if seen is None else seen.microsecond, of=("seen",), codec=hb.UInt32, nullable=True
    )
    by_seen = hb.index("seen")
    by_microsecond = hb.index("microsecond")


@hb.model(table="rounded_wide")
class Split:
    """Rounded in both parts of a split key field."""

    sensor: hb.Key[int] = hb.key(hb.codecs.UInt8)
    at: hb.Key[datetime] = hb.key(SECONDS, row_span=timedelta(seconds=4))
    seen: hb.Column[datetime | None] = hb.column("s", SECONDS, default=None)


@hb.model(table="rounded_reversed")
class Backwards:
    """Times as Java programs store them, newest first, and a time whose bytes have no order."""

    sensor: hb.Key[int] = hb.key(hb.codecs.UInt8)
    at: hb.Key[datetime] = hb.key(hb.codecs.ReverseStamp("s", round=True))
    seen: hb.Column[datetime | None] = hb.column("s", hb.codecs.Reversed(SECONDS), default=None)


MODELS: tuple[Any, ...] = (Reading, Split, Backwards)
TIMES = st.builds(
    lambda seconds, rest: NOON + timedelta(seconds=seconds, microseconds=rest),
    st.integers(0, 7),
    st.sampled_from([0, 0, 1, 400_000, 500_000, 999_999]),
)


def read_back(rows: dict[Any, Any], model: Any) -> list[Any]:
    return [model(sensor=sensor, at=at, seen=seen) for (sensor, at), seen in rows.items()]


@pytest.mark.lengthy
@given(st.data())
def test_comparisons_are_those_of_python_with_what_is_read(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(MODELS))
    written = data.draw(st.lists(st.tuples(TIMES, st.none() | TIMES), max_size=8))
    rows: dict[Any, Any] = {}
    with fresh(model) as store:
        with hb.Session(store) as session:
            for at, seen in written:
                session.add(model(sensor=1, at=at, seen=seen))
                rows[1, floor(at)] = None if seen is None else floor(seen)
        session = hb.Session(store)
        stored = read_back(rows, model)
        for at, _ in written:
            assert session.get(model, sensor=1, at=at) in stored, "a key is rounded as it is when it is written"
        name, bound = data.draw(st.sampled_from(["at", "seen"])), data.draw(TIMES)
        query = (
            session.query(model).where(model.sensor == 1)
            if name == "at" or model is not Reading
            else session.query(model)
        )
        query = query.allow_full_scan()
        for sign, compare in COMPARISONS.items():
            expected = [o for o in stored if getattr(o, name) is not None and compare(getattr(o, name), bound)]
            found = query.where(compare(getattr(model, name), bound)).all()
            assert sorted(found, key=repr) == sorted(expected, key=repr), (sign, bound)
        expected = [o for o in stored if getattr(o, name) == floor(bound)]
        for equal in (getattr(model, name) == bound, getattr(model, name).in_([bound, bound])):
            assert sorted(query.where(equal).all(), key=repr) == sorted(expected, key=repr)
        low, high = sorted([bound, data.draw(TIMES)])
        expected = [o for o in stored if getattr(o, name) is not None and low <= getattr(o, name) <= high]
        assert sorted(query.where(getattr(model, name).between(low, high)).all(), key=repr) == sorted(
            expected, key=repr
        )


@pytest.mark.parametrize("bed", ["embedded", *HBASE], indirect=True)
def test_indexes_conditions_and_updates_know_the_rounded_value(bed: Bed) -> None:
    session = bed.use(Reading)
    fine = NOON + timedelta(microseconds=700_000)
    reading = Reading(sensor=1, at=fine, seen=fine)
    session.add(reading)
    session.commit()
    assert session.query(Reading).where(Reading.seen == fine).all() == [Reading(sensor=1, at=NOON, seen=NOON)]
    assert session.query(Reading).where(Reading.microsecond == 0).count() == 1, "computed of what is stored"
    later = NOON + timedelta(seconds=5, microseconds=3)
    session.update(reading, seen=later)
    session.commit()
    assert session.query(Reading).where(Reading.seen == fine).all() == []
    assert session.query(Reading).where(Reading.seen >= NOON + timedelta(seconds=5)).count() == 1
    assert session.query(Reading).where(Reading.seen >= later).count() == 0, "what is stored lies before it"
    session.delete(reading)
    session.commit()
    assert session.get(Reading, sensor=1, at=NOON) is None


def test_a_table_may_begin_to_round_and_stop() -> None:
    def declared(codec: Any) -> Any:
        @hb.model(table="begins_to_round")
        class Event:
            at: hb.Key[datetime] = hb.key(codec)
            seen: hb.Column[datetime] = hb.column("s", codec)

            by_seen = hb.index("seen")

        return Event

    before, after = declared(hb.Datetime("ms")), declared(hb.Datetime("ms", round=True))
    with fresh(before) as store:
        assert not hb.diff(store, after)
        fine = NOON + timedelta(microseconds=1_500)
        with hb.Session(store) as session:
            session.add(after(at=fine, seen=fine))
            with pytest.raises(
                hb.EncodingError,
                match=r"more precise than the unit of its "
                r"codec.*hb\.Datetime\(\"ms\", round=True\)",
            ):
                session.add(before(at=fine, seen=fine))
        stored = NOON + timedelta(milliseconds=1)
        assert hb.Session(store).get(before, at=stored) == before(at=stored, seen=stored)


@pytest.mark.parametrize("unit", ["ms", "s"])
@pytest.mark.parametrize("codec", ["Datetime", "ReverseStamp"])
def test_the_error_for_a_finer_time_names_ways_out_that_keep_the_bytes(codec: str, unit: Any) -> None:
    kinds: dict[str, Any] = {"Datetime": hb.Datetime, "ReverseStamp": hb.codecs.ReverseStamp}
    exact, rounding = kinds[codec](unit), kinds[codec](unit, round=True)

    @hb.model(table="finer_times")
    class Event:
        at: hb.Key[datetime] = hb.key(exact)
        seen: hb.Column[datetime] = hb.column("s", exact)

    fine = NOON + timedelta(microseconds=1_500)
    ways = (
        "A time is more precise than the unit of its codec: truncate it (.replace(microsecond=0)), let the codec "
        "round it down, "
        f'hb.{codec}("{unit}", round=True), or declare a finer unit for a new table.'
    )
    with fresh(Event) as store, hb.Session(store) as session:
        for wrong in ({"at": fine, "seen": NOON}, {"at": NOON, "seen": fine}):
            with pytest.raises(hb.EncodingError, match=re.escape(ways)):
                session.add(Event(**wrong))
    with pytest.raises(hb.EncodingError, match=re.escape(ways)):
        exact.encode(fine)
    assert rounding.encode(NOON) == exact.encode(NOON) == exact.encode(NOON.replace(microsecond=0))
    assert rounding.encode(fine) == exact.encode(NOON if unit == "s" else NOON + timedelta(milliseconds=1))


def test_objects_do_not_move_into_a_layout_that_rounds() -> None:
    @hb.model(table="moved_from")
    class Fine:
        at: hb.Key[datetime] = hb.key()
        size: hb.Column[int] = hb.column("s")

    with pytest.raises(
        hb.DeclarationError,
        match=r"a move would change objects or merge them.*without "
        r"round=True",
    ) as error:

        @hb.model(table="moved_to", replaces=Fine)
        class Coarse:
            at: hb.Key[datetime] = hb.key(SECONDS)
            size: hb.Column[int] = hb.column("s")

    assert error.value.fields == ["at"]


# --- NaN --------------------------------------------------------------------------------------------------------------


@hb.model(table="measured")
class Measured:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    value: hb.Column[float] = hb.column("v", hb.Float64(nan=True))
    other: hb.Column[float | None] = hb.column("o", hb.Float64(nan=True), default=None)


NAN = math.nan
FLOATS = st.sampled_from([math.nan, -math.nan, float("inf"), -float("inf"), 0.0, -0.0, -1.5, 2.0])


def shape(found: Measured) -> tuple[Any, ...]:
    """An object as a tuple that equals another with NaN in the same places."""
    return (found.number, *(repr(value) for value in (found.value, found.other)))


def equals(value: float | None, wanted: float | None) -> bool:
    """As in queries, a NaN equals every NaN."""
    if value is None or wanted is None:
        return value is wanted
    return (math.isnan(value) and math.isnan(wanted)) or value == wanted


def check_measured(session: hb.Session, stored: list[Measured], wanted: list[float]) -> None:
    def assert_found(predicate: hb.types.Predicate, expected: list[Measured]) -> None:
        found = session.query(Measured).where(predicate).allow_full_scan().all()
        assert [shape(o) for o in found] == [shape(o) for o in expected], predicate

    fields: tuple[tuple[str, Any], ...] = (("value", Measured.value), ("other", Measured.other))
    for name, of in fields:
        for one in wanted:
            assert_found(of == one, [o for o in stored if equals(getattr(o, name), one)])
            assert_found(of != one, [o for o in stored if not equals(getattr(o, name), one)])
            assert_found(~(of != one), [o for o in stored if equals(getattr(o, name), one)])
            if not math.isnan(one):
                for compare in COMPARISONS.values():
                    kept = [o for o in stored if getattr(o, name) is not None and compare(getattr(o, name), one)]
                    assert_found(compare(of, one), kept)
                    assert_found(~compare(of, one), [o for o in stored if o not in kept])
        assert_found(of.in_(wanted), [o for o in stored if any(equals(getattr(o, name), one) for one in wanted)])


@pytest.mark.lengthy
@given(st.lists(st.tuples(FLOATS, st.none() | FLOATS), max_size=8), st.lists(FLOATS, min_size=1, max_size=3))
def test_nan_is_found_by_equality_and_has_no_order(
    written: list[tuple[float, float | None]], wanted: list[float]
) -> None:
    with fresh(Measured) as store:
        with hb.Session(store) as session:
            session.add_all(Measured(number=at, value=value, other=other) for at, (value, other) in enumerate(written))
        session = hb.Session(store)
        stored = session.query(Measured).allow_full_scan().all()
        assert [
            (equals(o.value, value), equals(o.other, other)) for o, (value, other) in zip(stored, written, strict=True)
        ] == [(True, True)] * len(written)
        check_measured(session, stored, wanted)


@pytest.mark.parametrize("bed", HBASE, indirect=True)
def test_hbase_filters_nan_as_the_client_does(bed: Bed) -> None:
    session = bed.use(Measured)
    values = [math.nan, float("inf"), -float("inf"), 0.0, -1.5]
    session.add_all(
        Measured(number=at, value=value, other=None if value == 0 else value) for at, value in enumerate(values)
    )
    session.commit()
    stored = session.query(Measured).allow_full_scan().all()
    check_measured(session, stored, [math.nan, 0.0, float("inf")])


def test_the_server_looks_for_nan_by_its_bytes() -> None:
    with fresh(Measured) as store:
        query = hb.Session(store).query(Measured).where(Measured.value == NAN).allow_full_scan()
        assert query.explain().server == "d:v = ..."


def test_nan_is_no_bound_and_stands_in_no_key() -> None:
    with pytest.raises(hb.EncodingError, match="NaN has no order: use == or in_") as error:
        _ = Measured.value > NAN
    assert error.value.field == "value"
    for codec in (hb.Float64(nan=True), hb.codecs.Float32(nan=True), hb.codecs.Reversed(hb.Float64(nan=True))):
        with pytest.raises(hb.DeclarationError, match="cannot be part of a key; use a scalar one, without nan=True"):

            @hb.model(table="nan_key")
            class Keyed:
                value: hb.Key[float] = hb.key(codec)
                other: hb.Column[int] = hb.column("o")

    with pytest.raises(hb.DeclarationError, match="cannot be") as refused:

        @hb.model(table="nan_index")
        class Indexed:
            name: hb.Key[str] = hb.key()
            value: hb.Column[float] = hb.column("v", hb.Float64(nan=True))

            by_value = hb.index("value")

    assert refused.value.field == "value"


def test_every_nan_has_the_same_bytes_and_no_number_has_others() -> None:
    assert {hb.Float64(nan=True).encode(value).hex() for value in (NAN, -NAN, float("nan"))} == {"fff8000000000000"}
    assert {hb.codecs.Float32(nan=True).encode(value).hex() for value in (NAN, -NAN)} == {"ffc00000"}
    for codec, value in itertools.product((hb.Float64, hb.codecs.Float32), (0.0, -1.5, float("inf"), -float("inf"))):
        assert codec(nan=True).encode(value) == codec.encode(value)


def test_a_bound_between_two_floats_of_four_bytes_finds_the_same_rows() -> None:
    @hb.model(table="singles")
    class Single:
        weight: hb.Key[float] = hb.key(hb.codecs.Float32)
        text: hb.Column[str] = hb.column("t", default="x")
        again: hb.Column[float] = hb.column("a", hb.codecs.Float32, default=0.0)

        by_again = hb.index("again")

    weights = [-1.0, -0.0, 0.0999755859375, 0.10009765625, 3.0]
    with fresh(Single) as store:
        session = hb.Session(store)
        session.add_all(Single(weight=weight, again=weight) for weight in weights)
        session.commit()
        for bound in (0.1, -5, 1e40, -1e40, 0.0999755859375):
            for field in (Single.weight, Single.again):
                above = [obj.weight for obj in session.query(Single).where(field > bound)]
                assert above == [weight for weight in weights if weight > bound], (bound, field)
                below = [obj.weight for obj in session.query(Single).where(field <= bound)]
                assert below == [weight for weight in weights if weight <= bound], (bound, field)
        with pytest.raises(hb.EncodingError, match="no exact float of 32 bits"):
            _ = Single.again == 0.1
        assert [obj.weight for obj in session.query(Single).where(Single.again == 3)] == [3.0]


def test_nan_is_refused_where_it_was_not_declared() -> None:
    with pytest.raises(
        hb.EncodingError,
        match=r"store None in a field that allows it, or "
        r"declare.*hb\.Float64\(nan=True\)",
    ):
        hb.Float64.encode(math.nan)
    with pytest.raises(hb.DecodingError, match=r"a NaN or a negative zero.*see hb\.Float64\(nan=True\)"):
        hb.Float64.decode(hb.Float64(nan=True).encode(math.nan))
    for data in (b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7):
        with pytest.raises(hb.DecodingError, match="a NaN or a negative zero"):
            hb.Float64(nan=True).decode(data)


def test_the_registry_s_own_model_reads_nan_too() -> None:
    @hb.model(table="measured_twice")
    class Twice:
        number: hb.Key[int] = hb.key(hb.codecs.UInt8)
        value: hb.Column[float] = hb.column("v", hb.Float64(nan=True))
        indexed: hb.Column[float] = hb.column("i", default=0.0)

        by_indexed = hb.index("indexed", covers=("value",))

    with fresh(Twice) as store:
        with hb.Session(store) as session:
            session.add(Twice(number=1, value=NAN))
        for table in ("measured_twice", "measured_twice.by_indexed"):
            model = TableFromRegistry.find(Registry(store), table).model
            (found,) = hb.Session(store).query(model).allow_full_scan()
            assert math.isnan(found.value)
