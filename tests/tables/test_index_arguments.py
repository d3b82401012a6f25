"""Arguments of the operations on indexes that cannot be used are refused before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.tables.registry.registry_table import Registry
from tests.support.beds import fresh
from tests.tables.test_indexes import TIMES, declare

WRONG: dict[str, list[Any]] = {
    "rows_per_second": [0, -5, "x", float("nan"), float("inf"), True],
    "bytes_per_second": [0, -5, "x"],
    "batch_size": [0, -1, 1.5, "x", True],
    "claim_life": [0, -1, "x", None],
    "sample": [-1, "3", 1.5, True],
    "progress": [3, "x"],
    "times": [None, 3],
    "dry_run": [None, "no", 1],
    "drop": [None, "by_topic", ["by_topic"], 1],
    "lossy": [None, "no", 1],
}
TAKES: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "build": (hb.indexes.build_index, WRONG.keys() - {"sample", "drop", "lossy"}),
    "verify": (hb.indexes.verify_index, WRONG.keys() - {"claim_life", "dry_run", "drop", "lossy"}),
    "repair": (hb.indexes.repair_index, WRONG.keys() - {"claim_life", "sample", "drop", "lossy"}),
    "drop": (hb.indexes.drop_index, {"progress", "times", "dry_run"}),
    "purge": (
        lambda store, model, _, **options: hb.indexes.purge_rows(store, model, **options),
        {"rows_per_second", "batch_size", "times", "dry_run"},
    ),
    "alter": (
        lambda store, model, _, **options: hb.alter(store, model, **options),
        {"drop", "lossy", "progress", "times"},
    ),
    "status": (
        lambda store, model, _, **options: hb.indexes.index_status(store, model, **options),
        {"sample", "times"},
    ),
}


@pytest.mark.parametrize("name", TAKES)
def test_an_argument_that_cannot_be_used_is_refused(name: str) -> None:
    call, takes = TAKES[name]
    two = declare()
    with fresh() as store:
        hb.create_tables(store, two.before)
        hb.create_tables(store, two.after)
        for option in sorted(takes):
            for value in WRONG[option]:
                with pytest.raises(hb.DeclarationError):
                    call(store, two.after, "by_topic", **{"times": TIMES, option: value})
        found = Registry(store).read(two.schema)
        assert found is not None
        assert (found.rows, {state.state for state in found.indexes.values()}) == ("unindexed", {"absent"})


def test_a_sample_of_no_rows_is_one_of_a_status_alone() -> None:
    two = declare()
    with fresh() as store:
        hb.create_tables(store, two.after)
        assert len(hb.indexes.index_status(store, two.after, sample=0, times=TIMES)) == 2
        with pytest.raises(hb.DeclarationError, match="A sample must be a positive number of rows"):
            hb.indexes.verify_index(store, two.after, "by_topic", sample=0, times=TIMES)


@pytest.mark.parametrize("option", ["lease", "longest_call", "grace", "clock_bound"])
@pytest.mark.parametrize("value", [-1, "x", None, float("nan"), float("inf"), True])
def test_times_are_seconds(option: str, value: Any) -> None:
    with pytest.raises(hb.SessionError, match="Times must be numbers of seconds, at least 0"):
        hb.indexes.IndexTimes(**{option: value})


def test_a_grace_time_that_is_too_short_is_refused_before_anything_waits() -> None:
    with pytest.raises(hb.SessionError, match="grace time"):
        hb.indexes.IndexTimes(grace=1)


@pytest.mark.parametrize("index", [None, 3, [], "", "by_nothing"])
def test_an_index_that_is_none_is_unknown(index: Any) -> None:
    two = declare()
    with fresh() as store:
        hb.create_tables(store, two.after)
        for call in (hb.indexes.build_index, hb.indexes.verify_index, hb.indexes.repair_index, hb.indexes.drop_index):
            with pytest.raises(hb.errors.UnknownIndex):
                call(store, two.after, index, times=TIMES)


def test_an_index_of_another_model_is_not_dropped_by_its_name() -> None:
    two, other = declare(), declare()
    with fresh() as store:
        hb.create_tables(store, two.after, other.after)
        with pytest.raises(hb.errors.UnknownIndex):
            hb.indexes.drop_index(store, two.after, other.after.by_topic, times=TIMES)
        assert two.schema.indexes["by_topic"].table in store.tables()
