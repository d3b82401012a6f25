"""Tests that each bed has the kind of store that its name says."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.support.beds import ATOMIC, KINDS, Bed, Beds, open_once


def names(kinds: tuple[object, ...]) -> set[object]:
    return {getattr(kind, "values", (kind,))[0] for kind in kinds}


def test_a_store_without_a_url_is_an_error() -> None:
    with ExitStack() as stack:
        beds = open_once(stack, {"memory": "memory:"})
        assert beds("memory") is beds("memory")
        with pytest.raises(LookupError, match=r"no URL is known for the store other: .* tests/conftest\.py"):
            beds("other")


def test_a_store_that_the_fixtures_do_not_know_is_an_error(fast_beds: Beds) -> None:
    with pytest.raises(LookupError, match="no URL is known for the store other"):
        fast_beds("other")


def test_the_stores_that_change_rows_atomically_are_named(bed: Bed) -> None:
    assert bed.kind in names(KINDS)
    assert bed.atomic is (bed.kind in names(ATOMIC) or bed.kind == "cut")
