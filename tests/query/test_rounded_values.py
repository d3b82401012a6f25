"""Queries whose values are finer than what is stored: their items are those that Python finds among all objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import Factory
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import EncodingError, QueryError
from tests.support.beds import fresh
from tests.support.examples import examples
from tests.support.page_walks import check_walk, steps
from tests.support.random_queries import COLUMN_CODECS, ROUNDING_CODECS, RandomModel, conditions, models, paths, trees
from tests.support.random_rows import plain_of, written
from tests.support.strategies import given_as

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECONDS = hb.Datetime("s", round=True)
QUICK = [HealthCheck.too_slow, HealthCheck.data_too_large]
KEYS = (*ROUNDING_CODECS, hb.codecs.Timestamp, hb.codecs.Int8)
COLUMNS = (*ROUNDING_CODECS, *ROUNDING_CODECS, *COLUMN_CODECS)


def finer(draw: Any, of: RandomModel, obj: Any) -> Any:
    """A copy that is stored as the object is, with values that its codecs round."""
    fields = [f for f in of.schema.fields if f.kind in {"key", "column"}]
    return hb.evolve(obj, **{f.name: given_as(draw, f.codec, getattr(obj, f.name)) for f in fields})


@pytest.mark.lengthy
@settings(max_examples=examples(80), deadline=None, suppress_health_check=QUICK)
@given(st.data())
def test_any_query_finds_what_python_finds(data: st.DataObject) -> None:
    of = data.draw(models(codecs=KEYS, columns=COLUMNS, versions=True, wide=True))
    with written(data.draw, of) as store:
        session = hb.Session(store)
        for _ in range(3):
            index = data.draw(st.sampled_from(paths(of.schema)))
            names = (of.schema.layout if index is None else index.layout).names
            if data.draw(st.booleans()):
                tree, oracle = data.draw(trees(of, tuple(name for name in names if not name.endswith("[]"))))
                asked = [tree]
            else:
                asked, oracle = data.draw(conditions(of))
            query = session.query(of.model).where(*asked).allow_full_scan()
            query = query.use_index("primary" if index is None else index.name)
            query = query.reversed() if data.draw(st.booleans()) else query
            try:
                found = query.all()
            except (QueryError, EncodingError):
                event("refused")
                continue
            event(f"{'primary' if index is None else 'index'}, {min(3, len(found))} items")
            whole = session.query(of.model).use_index("primary").allow_full_scan().all()
            expected = [plain_of(obj) for obj in whole if oracle(vars(obj))]
            assert sorted(map(repr, map(plain_of, found))) == sorted(map(repr, expected))
            assert query.count() == len(expected)
            check_walk(query, [plain_of(obj) for obj in found], data.draw(steps), plain_of)
            if found:
                at = data.draw(st.integers(0, len(found) - 1))
                item = finer(data.draw, of, found[at])
                assert list(map(plain_of, query.after(item))) == list(map(plain_of, found[at + 1 :]))
                assert list(map(plain_of, query.before(item))) == list(map(plain_of, found[:at]))


@hb.model(table="compared_rounded")
class Job:
    """Compared in conditions of writes, in a slice and by `first_of_each`."""

    day: hb.Key[datetime] = hb.key(SECONDS)
    at: hb.Key[datetime] = hb.key(SECONDS, desc=True)
    seen: hb.Column[datetime | None] = hb.column("s", SECONDS, default=NOON + timedelta(microseconds=5))
    notes: hb.Map[datetime, int] = hb.map_column("n", SECONDS, hb.codecs.Int8)
    version: hb.Column[int] = hb.version()

    late = hb.index("seen", where=lambda job: job.seen > NOON + timedelta(seconds=2, microseconds=1))


def moments() -> st.SearchStrategy[datetime]:
    return st.builds(
        lambda seconds, rest: NOON + timedelta(seconds=seconds, microseconds=rest),
        st.integers(0, 5),
        st.sampled_from([0, 1, 999_999]),
    )


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None, suppress_health_check=QUICK)
@given(st.data())
def test_conditions_of_writes_slices_and_keys(data: st.DataObject) -> None:
    draw = data.draw
    with fresh(Job) as store:
        session = hb.Session(store)
        rows = draw(st.lists(st.tuples(moments(), moments(), st.none() | moments()), min_size=1, max_size=6))
        for number, (day, at, seen) in enumerate(rows):
            session.add(Job(day=day, at=at, seen=seen, notes={seen or at: number}))
            session.commit()
        whole = session.query(Job).allow_full_scan().load(Job.notes).all()
        day, at, low, high = (draw(moments()) for _ in range(4))

        assert session.get_many(Job, [(day, at), (day.replace(microsecond=3), at)]) == 2 * [
            next((job for job in map(unloaded, whole) if (job.day, job.at) == (stored(day), stored(at))), None)
        ]
        newest = session.query(Job).order_by(Job.at.desc()).first_of_each(Job.day, [day, low])
        assert newest == [
            next((job for job in map(unloaded, whole) if job.day == stored(one)), None) for one in (day, low)
        ]

        for job in whole:
            key = {
                "day": job.day.replace(microsecond=draw(st.sampled_from([0, 7]))),
                "at": job.at.replace(microsecond=9),
            }
            entries = session.entries(Job.notes, **key)
            assert dict(entries.between(low, high)) == {
                name: value for name, value in job.notes.items() if low <= name <= high
            }
            predicate, oracle = draw(conditions_on_seen())
            matches = oracle(job.seen)
            event(f"matches: {matches}")
            session.update_key(Job, **key, seen=draw(st.none() | moments()), condition=predicate)
            try:
                session.commit()
            except hb.ConditionFailed:
                session.discard()
                assert not matches
            else:
                assert matches

        whole = list(map(unloaded, session.query(Job).allow_full_scan()))
        asked = session.query(Job).where(Job.seen > max(low, NOON + timedelta(seconds=3))).use_index("late")
        kept = [job for job in whole if job.seen is None or not job.seen > max(low, NOON + timedelta(seconds=3))]
        assert asked.delete() == len(whole) - len(kept)
        assert list(map(unloaded, session.query(Job).allow_full_scan())) == kept


def stored(at: datetime) -> datetime:
    return at.replace(microsecond=0)


def unloaded(job: Job) -> Job:
    """The object without its map column."""
    return hb.evolve(job, notes={})


@st.composite
def conditions_on_seen(draw: st.DrawFn) -> Any:
    """A condition on `seen`, and the same condition in Python."""
    first, second = sorted([draw(moments()), draw(moments())])
    return draw(
        st.sampled_from(
            [
                (Job.seen == first, lambda seen: seen == stored(first)),
                (Job.seen != first, lambda seen: seen != stored(first)),
                (Job.seen.in_([first, second]), lambda seen: seen in (stored(first), stored(second))),
                (Job.seen < first, lambda seen: seen is not None and seen < first),
                (Job.seen <= first, lambda seen: seen is not None and seen <= first),
                (Job.seen > first, lambda seen: seen is not None and seen > first),
                (Job.seen >= first, lambda seen: seen is not None and seen >= first),
                (Job.seen.between(first, second), lambda seen: seen is not None and first <= seen <= second),
            ]
        )
    )


@hb.model(table="rounded_defaults")
class Older:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    size: hb.Column[int] = hb.column("z", hb.codecs.Int8)


@hb.model(table="rounded_defaults")
class Newer:
    """With columns that rows of the other model lack."""

    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    size: hb.Column[int] = hb.column("z", hb.codecs.Int8)
    seen: hb.Column[datetime] = hb.column("s", SECONDS, default=NOON + timedelta(microseconds=5))
    made: hb.Column[datetime] = hb.column("m", SECONDS, default=Factory(lambda: NOON + timedelta(microseconds=7)))


def test_a_default_reads_as_it_would_be_stored() -> None:
    with fresh(Older) as store:
        with hb.Session(store) as session:
            session.add(Older(number=1, size=1))
        session = hb.Session(store)
        absent = session.get(Newer, number=1)
        hb.create_tables(store, Newer)
        with hb.Session(store) as writing:
            writing.add(Newer(number=1, size=1))
        assert session.get(Newer, number=1) == absent == Newer(number=1, size=1, seen=NOON, made=NOON)
        for of in (Newer.seen, Newer.made):
            assert session.query(Newer).where(of == NOON + timedelta(microseconds=9)).allow_full_scan().count() == 1


@hb.model(table="rounded_history")
class Kept:
    at: hb.Key[datetime | None] = hb.key(SECONDS, desc=True)
    seen: hb.Column[datetime] = hb.column("s", SECONDS, versions=3)


def test_an_object_as_of_a_time_is_looked_up_by_what_is_stored_of_its_key() -> None:
    with fresh(Kept) as store:
        session = hb.Session(store)
        for at in (NOON, None):
            session.add(Kept(at=at, seen=NOON + timedelta(microseconds=3)))
        session.commit()
        for given_at, at in ((NOON + timedelta(microseconds=7), NOON), (None, None)):
            now = datetime.now(UTC) + timedelta(seconds=9)
            assert session.get(Kept, at=given_at, as_of=now) == session.get(Kept, at=given_at) == Kept(at=at, seen=NOON)
            assert [each.value for each in session.versions(Kept, Kept.seen, at=given_at)] == [NOON]
            kept = session.query(Kept).where(Kept.at == given_at, Kept.seen <= NOON).allow_full_scan()
            assert kept.as_of(now).count() == kept.count() == 1
