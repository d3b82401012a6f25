"""What `make test` leaves out and `make test-all` runs: what other tests of the default suite, or an earlier run,
have already shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

PROVEN = frozenset({"embedded", "thrift1", "thrift2"})
"""Stores that the conformance suite compares with the one in memory."""

OF_STORES = frozenset({"conformance", "store"})
"""Folders whose tests say what each kind of store does."""

SAMPLES = frozenset({"test_protocol_unique_build.py", "test_search.py", "test_sweeps.py"})
"""The modules of the model checker whose tests depend on nothing but the code that has a fingerprint."""


def mark_left_out(items: Sequence[pytest.Item], is_checked: Callable[[], bool]) -> None:
    """Marks tests as `repeated` or `checked`.

    A test that runs on one of the other stores too is `repeated` on those of which the conformance suite proves that
    they answer alike, unless it has the marker `every_store`. Samples of the model checker are `checked` if they have
    passed with the code as it is.
    """
    for item in repeated(items):
        item.add_marker(pytest.mark.repeated)
    samples = [item for item in items if item.path.parent.name == "checker" and item.path.name in SAMPLES]
    if samples and is_checked():
        for item in samples:
            item.add_marker(pytest.mark.checked)


def repeated(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests on stores that answer like another one on which the same function runs."""
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
    """The kind of the store of a test that has a bed."""
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("bed", params.get("atomic_bed"))


def _function(item: pytest.Item) -> object:
    return item.path, getattr(item, "originalname", item.name)
