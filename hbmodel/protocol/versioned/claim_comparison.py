"""Compares claims of unique values with rows, for builds, checks and repairs of unique indexes, as sans-IO generators.

Before any of these protocols begins, every writer must maintain the index, and with it the claims.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from hbmodel.errors import UniqueViolation
from hbmodel.mapping.schema import Index, TableSchema
from hbmodel.protocol.operations import CheckAndMutateRows, GetRows, Protocol, ReadClock
from hbmodel.protocol.versioned.unique_values import (
    RELEASED,
    Claim,
    RowClaims,
    change_claim,
    claim_values,
    fence,
    held_claims,
    owner_of,
    put_fences,
    read_claims,
)
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.store.values import Cell, Row

LOOKS = 5
"""The number of times that a row is read if it changes in the meantime. After that, the last result is used."""


def unclaimed_rows(planner: VersionedRowPlanner, rows: Sequence[Row]) -> Protocol[list[Row]]:
    """Returns the rows that hold a value without a claim.

    A writer claims a value before it writes the row, so a row that was read has a claim, unless it has changed since,
    or was written before the index was maintained.

    Args:
        planner: a planner with this index only.
        rows: rows read with the columns that the planner's reader decodes, and the system cells.
    """
    claims_by_row = {row.row: held_claims(planner, planner.old(row)) for row in rows}
    cells = yield from read_claims(planner, [claim for claims in claims_by_row.values() for claim in claims])
    return [
        row
        for row in rows
        if any((cell := cells.get(c)) is None or owner_of(cell.value) != row.row for c in claims_by_row[row.row])
    ]


def answering(schema: TableSchema, index: Index, written: Sequence[Index]) -> Sequence[Index]:
    """Returns the other indexes of a model whose entries can be used without their rows. A program that fences a row
    for the unique index puts the entries of these indexes again.

    Args:
        written: all indexes that writes maintain, each with its live table.
    """
    return [
        evolve(other, unique=False) for other in written if other.name != index.name and other.name in schema.covering
    ]


def claim_existing(planner: VersionedRowPlanner, rows: Sequence[Row]) -> Protocol[list[UniqueViolation]]:
    """Claims the values that rows hold, for a build or a repair of a unique index.

    Returns an error for each row whose value another row holds. If a row has changed since it was read, an unused claim
    may remain. The next row with that value takes the claim over.

    Args:
        planner: a planner with this index only.
    """
    errors: list[UniqueViolation] = []
    for look in range(LOOKS):
        lacking = yield from unclaimed_rows(planner, rows)
        violations = yield from _claim(planner, lacking)
        if not violations:
            break
        before = {row.row: row for row in lacking}
        again: Sequence[Row | None] = yield GetRows(planner.schema.table, list(violations), planner.schema.row_columns)
        rows = []
        for key, row in zip(violations, again, strict=True):
            if row is None:
                continue
            if look + 1 == LOOKS or planner.stored(planner.old(row)) == planner.stored(planner.old(before[key])):
                errors.append(violations[key])  # both rows held the value when the violation was found
            else:
                rows.append(row)
    return errors


def _claim(planner: VersionedRowPlanner, rows: Sequence[Row]) -> Protocol[dict[bytes, UniqueViolation]]:
    claims = {row.row: RowClaims(held_claims(planner, planner.old(row))) for row in rows}
    errors: dict[bytes, UniqueViolation] = {}
    while claims:
        claimed = yield from claim_values(planner, claims, (yield ReadClock()))
        for row, each in claimed.items():
            if isinstance(each.error, UniqueViolation):
                errors[row] = each.error
            elif each.error is not None:
                raise each.error
        claims = {row: claims[row] for row, each in claimed.items() if each.refused and each.error is None}
    return errors


# --- claims without rows ----------------------------------------------------------------------------------------------


@frozen
class FoundClaim:
    """A claim that was found, with its row key in the index table and its cell."""

    key: bytes
    cell: Cell


@frozen(eq=False)
class ClaimFindings:
    """The findings about claims.

    Attributes:
        released: claims of values that were given up.
        unheld: claims for rows that do not hold the value, old enough that no writer is about to put the value.
        pending: claims for rows that do not hold the value, but younger.
    """

    released: Sequence[FoundClaim]
    unheld: Sequence[FoundClaim]
    pending: Sequence[FoundClaim]


def check_claims(
    planner: VersionedRowPlanner, index: Index, claims: Sequence[FoundClaim], grace: int
) -> Protocol[ClaimFindings]:
    """Compares claims with the rows for which they were made.

    Args:
        planner: a planner with this index only.
        grace: G in ms.
    """
    rows = yield from _owners(planner, claims)
    now = yield ReadClock()
    released = [claim for claim in claims if owner_of(claim.cell.value) is None]
    odd = [claim for claim in claims if not _holds(planner, index, claim, rows)]
    old = [claim for claim in odd if now - _newest(planner, claim, rows) > grace]
    return ClaimFindings(released, old, [claim for claim in odd if claim not in old])


def release_unheld(
    planner: VersionedRowPlanner, index: Index, claims: Sequence[FoundClaim]
) -> Protocol[list[FoundClaim]]:
    """Releases claims whose rows do not hold the value, see `check_claims`. Returns the claims that were released.

    The rows are fenced first, so that a writer that has claimed the value and is about to put its row is refused.

    Args:
        planner: a planner with this index only.
    """
    rows = yield from _owners(planner, claims)
    now = yield ReadClock()
    fenced: dict[bytes, list[FoundClaim]] = {}
    fences = []
    for claim in claims:
        owner = owner_of(claim.cell.value)
        if owner is None or _holds(planner, index, claim, rows):
            continue
        if owner not in fenced:
            old = planner.old(rows[owner])
            timestamp, error = planner.time_of_fence(owner, old, now)
            if error is not None:
                continue
            fences.append((old, fence(planner, owner, old, timestamp)))
        fenced.setdefault(owner, []).append(claim)
    if not fences:
        return []
    through = yield from put_fences(planner, fences, now)
    freed = [claim for applied, of_owner in zip(through, fenced.values(), strict=True) if applied for claim in of_owner]
    if not freed:
        return []
    changes = [
        change_claim(planner, Claim(index.table, claim.key, index, ()), claim.cell, RELEASED + planner.nonce(), now)
        for claim in freed
    ]
    done = yield CheckAndMutateRows(index.table, changes)
    return [claim for claim, applied in zip(freed, done, strict=True) if applied]


def _owners(planner: VersionedRowPlanner, claims: Sequence[FoundClaim]) -> Protocol[dict[bytes, Row | None]]:
    owners = list(dict.fromkeys(owner for claim in claims if (owner := owner_of(claim.cell.value)) is not None))
    if not owners:
        return {}
    rows: Sequence[Row | None] = yield GetRows(planner.schema.table, owners, planner.schema.row_columns)
    return dict(zip(owners, rows, strict=True))


def _holds(planner: VersionedRowPlanner, index: Index, claim: FoundClaim, rows: dict[bytes, Row | None]) -> bool:
    """Returns whether the row of a claim holds the claimed value, or the claim is released."""
    owner = owner_of(claim.cell.value)
    return owner is None or Claim(index.table, claim.key, index, ()) in held_claims(planner, planner.old(rows[owner]))


def _newest(planner: VersionedRowPlanner, claim: FoundClaim, rows: dict[bytes, Row | None]) -> int:
    """Returns the timestamp of a claim or of the version of its row, whichever is later."""
    owner = owner_of(claim.cell.value)
    return (
        claim.cell.timestamp
        if owner is None
        else max(claim.cell.timestamp, planner.version_time(planner.old(rows[owner])))
    )
