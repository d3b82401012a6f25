"""Changes of the claims of unique values."""

from __future__ import annotations

import pytest

import hbmodel as hb
from hbmodel.protocol.versioned.unique_values import Claim, change_claim
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.store import Put
from hbmodel.store.embedded.cells import StoredCell

NOW = 1_000


@hb.model(table="claimed_accounts", family="d")
class Account:
    number: hb.Key[int] = hb.key(hb.UInt32)
    email: hb.Column[str] = hb.column("e")
    version: hb.Column[int] = hb.version()

    by_email = hb.index("email", unique=True)


@pytest.mark.parametrize(("read", "put"), [(None, NOW), (NOW - 1, NOW), (NOW, NOW + 1), (NOW + 50, NOW + 51)])
def test_a_changed_claim_lies_above_the_one_that_was_read_whatever_the_clock_shows(read: int | None, put: int) -> None:
    schema = hb.schema.schema_of(Account)
    index = schema.indexes["by_email"]
    planner = VersionedRowPlanner(schema, (index,), 100)
    cell = None if read is None else StoredCell(b"old", read)
    change = change_claim(planner, Claim(index.table, b"key", index, ("a@b",)), cell, b"new", NOW)
    assert change.expected == (None if read is None else b"old")
    assert change.mutations == [Put(b"key", {schema.claim_column: b"new"}, put)]
