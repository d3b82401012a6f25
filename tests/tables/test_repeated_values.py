"""Rows that share a unique value, found with a bounded number of remembered values."""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.schema import schema_of
from hbmodel.protocol.indexed.index_build import RowEntries
from hbmodel.store import Put
from hbmodel.tables.indexes.repeated_values import RepeatedValues


@hb.model(table="repeated", family="d")
class Account:
    number: hb.Key[int] = hb.key(hb.UInt32)
    email: hb.Column[str | None] = hb.column("e", default=None)
    version: hb.Column[int] = hb.version()
    by_email = hb.index("email", unique=True)


INDEX = schema_of(Account).indexes["by_email"]


def row(number: int, email: str | None) -> RowEntries:
    key: Any = number.to_bytes(4, "big")
    entry = INDEX.layout.pack([email, number])
    return RowEntries(key, 1, [(INDEX.table, Put(entry, {}))])


@pytest.mark.parametrize(
    ("remembered", "expected"),
    [(100, [(2, 0), (3, 1), (4, 0)]), (1, [(2, 0), (4, 0)]), (0, [])],
)
def test_values_are_compared_with_those_that_are_remembered(remembered: int, expected: list[tuple[int, int]]) -> None:
    """None is no value, so rows do not share it."""
    values = RepeatedValues(INDEX, remembered)
    emails = ["a", "b", "a", "b", "a", None, None]
    found = [values.counted([row(number, email)]) for number, email in enumerate(emails)]
    pairs = [(int(own, 16), int(other, 16)) for counts in found for _, own, other in counts.duplicated]
    assert pairs == expected
    assert sum(counts.duplicates for counts in found) == len(expected)
