"""Marks the tests that only `make test-all` runs: their results follow from other tests of the default suite, or from
an earlier run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

PROVEN = frozenset({"embedded", "thrift1", "thrift2"})
"""The kinds of stores that the conformance suite compares with the store in memory."""

OF_STORES = frozenset({"conformance", "store"})
"""Folders whose tests specify the behaviour of each kind of store."""

SAMPLES = frozenset({"test_protocol_unique_build.py", "test_search.py", "test_sweeps.py"})
"""The modules of the model checker whose tests depend only on the code in the fingerprint."""


def mark_left_out(items: Sequence[pytest.Item], is_checked: Callable[[], bool]) -> None:
    """Marks tests as `repeated` or `checked`.

    A test that runs on several stores is `repeated` on each store that gives the same answers as another store
    according to the conformance suite. A test with the marker `every_store` is never `repeated`. Samples of the model
    checker are `checked` if they have passed with the current code.
    """
    for item in repeated(items):
        item.add_marker(pytest.mark.repeated)
    samples = [item for item in items if item.path.parent.name == "checker" and item.path.name in SAMPLES]
    if samples and is_checked():
        for item in samples:
            item.add_marker(pytest.mark.checked)


def repeated(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Returns the tests on stores that give the same answers as another store on which the same function runs."""
    kinds: dict[object, set[str]] = defaultdict(set)
    on = {item: kind for item in items if (kind := _kind(item)) is not None}
    for item, kind in on.items():
        kinds[_function(item)].add(kind)
    return [
        item
        for item, kind in on.items()
        if kind in PROVEN
        and not kinds[_function(item)] <= PROVEN
        and not OF_STORES.intersection(item.path.parts)
        and item.get_closest_marker("every_store") is None
    ]


def _kind(item: pytest.Item) -> str | None:
    """Returns the kind of store of a test with a bed."""
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("bed", params.get("atomic_bed"))


def _function(item: pytest.Item) -> object:
    return item.path, getattr(item, "originalname", item.name)
