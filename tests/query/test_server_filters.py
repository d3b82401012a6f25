"""Queries whose filters an HBase evaluates answer what a look at every object does, whatever the version of HBase."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.store import Scan
from hbmodel.store.filters import And, Filter, Or
from tests.query.test_pages_both_ways import Wide
from tests.session.test_session_properties import Asking, askings, check
from tests.support.beds import Bed
from tests.support.examples import examples
from tests.support.faulty import RecordingStore
from tests.support.things import HASHED, PLAIN, TEXTS, Values, key_of, wide_things

QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def written_things(count: int, owners: int) -> list[Values]:
    """The same objects in each run, in a few rows if objects share rows."""
    made: list[Values] = []

    @settings(QUICK, max_examples=1, derandomize=True, database=None)
    @given(st.lists(wide_things, min_size=count, max_size=count))
    def make(values: list[Values]) -> None:
        unique = {key_of(one): one for one in (each | {"owner": TEXTS[n % owners]} for n, each in enumerate(values))}
        made[:] = unique.values()

    make()
    return made


def sent(store: RecordingStore) -> Iterator[Filter]:
    """Each filter that was sent, and each filter inside it."""
    for call in store.calls:
        for scan in call.items:
            if isinstance(scan, Scan) and scan.filter is not None:
                yield from parts(scan.filter)


def parts(filter: Filter) -> Iterator[Filter]:
    yield filter
    if isinstance(filter, And | Or):
        for part in filter.filters:
            yield from parts(part)


@pytest.mark.every_store
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_queries_answer_what_their_filters_mean(hbase_bed: Bed, shape: str) -> None:
    models = [PLAIN, HASHED] if shape == "tall" else [Wide]
    rows = written_things(60, len(TEXTS)) if shape == "tall" else written_things(60, 3)
    hbase_bed.use(*models)
    with hb.Session(hbase_bed.store) as session:
        session.add_all(model(**values) for values in rows for model in models)
    store = RecordingStore(hbase_bed.store)
    session = hb.Session(store)

    @settings(QUICK, max_examples=examples(6))
    @given(asking=askings)
    def example(asking: Asking) -> None:
        # Only the primary table is scanned with filters of cells.
        asking = attrs.evolve(asking, questions=[attrs.evolve(each, path="primary") for each in asking.questions])
        for model in models:
            check(session, model, rows, asking)

    example()
    kinds = {type(each).__name__ for each in sent(store)}
    assert {"ValueFilter"} <= kinds or shape == "wide"
    assert {"And", "ColumnRange", "Pagination"} <= kinds or shape == "tall"


@pytest.mark.every_store
def test_every_kind_of_filter_is_sent_and_means_what_the_condition_says(hbase_bed: Bed) -> None:
    rows = written_things(60, len(TEXTS))
    hbase_bed.use(PLAIN)
    with hb.Session(hbase_bed.store) as session:
        session.add_all(PLAIN(**values) for values in rows)
    store = RecordingStore(hbase_bed.store)
    model: Any = PLAIN
    conditions: list[tuple[Any, Any]] = [
        (model.size == 1, lambda values: values["size"] == 1),
        (model.size.in_([1, None, -128]), lambda values: values["size"] in (1, None, -128)),
        (~model.size.is_(None), lambda values: values["size"] is not None),
        (model.title.startswith("a"), lambda values: values["title"].startswith("a")),
        ((model.size > 0) | (model.tag == "ab"), lambda values: (values["size"] or 0) > 0 or values["tag"] == "ab"),
        ((model.size > 0) & (model.title != "a"), lambda values: (values["size"] or 0) > 0 and values["title"] != "a"),
        (model.owner.in_(["a", "a'b"]) & (model.owner == "a'b"), lambda values: values["owner"] == "a'b"),
        (model.blob == b"a\0", lambda values: values["blob"] == b"a\0"),
    ]
    for backwards in (False, True):
        for condition, holds in conditions:
            query = hb.Session(store).query(PLAIN).where(condition).use_index("primary").allow_full_scan()
            query = query.reversed() if backwards else query
            wanted = [values for values in rows if holds(values)]
            found = query.all()
            assert sorted(map(repr, map(key_of, map(vars, found)))) == sorted(map(repr, map(key_of, wanted)))
            assert query.count() == len(wanted)
            assert query.select(PLAIN.owner, PLAIN.serial).all() == [(one.owner, one.serial) for one in found]
    kinds = {type(each).__name__ for each in sent(store)}
    assert {"And", "Or", "ValueFilter"} <= kinds
