"""Claims of unique values, as sans-IO generators: a row of the index table for each value, changed only by
check-and-mutate.

A value is claimed before its row is written, and released after the row no longer has the value. It is released only if
the claim still has the bytes that were read. A claim whose owner does not have the value is taken over only after the
owner's row is fenced: the version that writes of the row check is changed, so that a writer that is about to put the
value into the owner's row is refused. A claim is never deleted.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import define, field, frozen

from hbmodel.errors import DecodingError, EncodingError, HbmodelError, IncompleteRow, KeyTooLong, UniqueViolation
from hbmodel.mapping.schema import Index
from hbmodel.protocol.indexed.indexed_batch import by_table
from hbmodel.protocol.indexed.indexed_plan import DEAD, OldRow, RowPlan
from hbmodel.protocol.indexed.indexed_write import finish
from hbmodel.protocol.operations import CheckAndMutateRows, CheckLease, GetRows, Protocol, PutRows, Together
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.store.values import Cell, ConditionalChange, Put, Row

CLAIMED, RELEASED = b"\x01", b"\x00"
"""The first byte of a claim. A nonce of 8 bytes follows, and then the row key of the owner."""

_OWNER = 1 + 8

YOUNG = 1_000
"""The age in ms up to which a claim may belong to a writer that has not written its row yet."""


@frozen
class Claim:
    """The row of an index table that records the owner of a value."""

    table: str
    key: bytes
    index: Index = field(eq=False)
    values: Sequence[Any] = field(eq=False)


@frozen
class RowClaims:
    """How a write of a row changes claims.

    Attributes:
        wanted: the claims of the values that the row will hold.
        left: the claims of the values that the row gives up.
    """

    wanted: Sequence[Claim] = ()
    left: Sequence[Claim] = ()


def claim_of(index: Index, entry: bytes) -> Claim | None:
    """Returns the claim that belongs to an entry of a unique index, or None if one of the values is None."""
    values = index.layout.unpack(entry, index.salt.width)[: len(index.fields)]
    if any(value is None for value in values):
        return None
    key = b"".join(index.layout.pack_leading(values))
    bucket = index.salt.prefix(zlib.crc32(key) % len(index.salt.prefixes)) if index.salt.width else b""
    return Claim(index.table, bucket + key, index, values)


def held_claims(planner: VersionedRowPlanner, old: OldRow) -> list[Claim]:
    """Returns the claims that a row needs for its current values."""
    unique = [index for index in planner.indexes if index.unique]
    if not unique or not old.live or old.row is None:
        return []
    try:
        values = planner.reader.values(old.row)
    except (IncompleteRow, DecodingError):  # a damaged row can nevertheless be overwritten and deleted
        return []
    claims: list[Claim | None] = []
    for index in unique:
        # If no key can hold a value, the row is older than the index, and there is no claim for the value.
        with suppress(KeyTooLong, EncodingError):
            claims += [claim_of(index, entry) for entry in planner.keys.entries(index, values, old.row.row)]
    return [claim for claim in claims if claim is not None]


def claims_of(planner: VersionedRowPlanner, plan: RowPlan, old: OldRow) -> RowClaims:
    """Returns how a planned write changes claims. A value that does not change already has its claim."""
    unique = {index.table: index for index in planner.indexes if index.unique}
    if not unique or (not plan.entries and plan.outcome.action != "deleted"):
        return RowClaims()
    before = held_claims(planner, old)
    after = [
        claim
        for table, put in plan.entries
        if table in unique and (claim := claim_of(unique[table], put.row)) is not None
    ]
    return RowClaims(
        [claim for claim in after if claim not in before], [claim for claim in before if claim not in after]
    )


@define
class Claimed:
    """The result of claiming the values of a row.

    Attributes:
        releases: the changes that give up the old values once the row is written, each with its table.
        refused: whether another write has changed a claim, so that the row must be read and planned again.
        error: the reason why the row cannot be written.
    """

    releases: list[tuple[str, ConditionalChange]] = field(factory=list)
    refused: bool = False
    error: HbmodelError | None = None

    @property
    def ready(self) -> bool:
        """Whether the row can be written."""
        return not self.refused and self.error is None


def claim_values(
    planner: VersionedRowPlanner, rows: Mapping[bytes, RowClaims], now: int, *, wait: bool = False
) -> Protocol[dict[bytes, Claimed]]:
    """Claims the values that rows will hold.

    Args:
        rows: how the write of each row changes claims, in the order of the writes.
        wait: whether a row is read and planned again if another row has claimed its value so recently that a writer may
            still put that row.
    """
    claimed = {row: Claimed() for row in rows}
    all_claims = [claim for claims in rows.values() for claim in (*claims.wanted, *claims.left)]
    if not all_claims:
        return claimed
    cells = yield from read_claims(planner, all_claims)
    takes: list[tuple[bytes, Claim]] = []
    foreign: list[tuple[bytes, Claim, bytes]] = []
    behind = _behind(planner, rows)
    for row, claims in rows.items():
        for claim in claims.left:
            cell = cells.get(claim)
            if cell is not None and owner_of(cell.value) == row:
                claimed[row].releases.append(
                    (claim.table, change_claim(planner, claim, cell, RELEASED + planner.nonce(), now))
                )
        for claim in () if row in behind else claims.wanted:
            owner = None if (cell := cells.get(claim)) is None else owner_of(cell.value)
            if owner is None or owner == row:
                takes.append((row, claim))
            else:
                foreign.append((row, claim, owner))
    young = {claim: at for _, claim, _ in foreign if wait and now - (at := cells[claim].timestamp) < YOUNG}
    takes += yield from _fence(planner, foreign, claimed, now, young)
    changes = [
        (row, claim.table, change_claim(planner, claim, cells.get(claim), CLAIMED + planner.nonce() + row, now))
        for row, claim in takes
        if claimed[row].ready
    ]
    for table, those in by_table((table, (row, change)) for row, table, change in changes).items():
        applied = yield CheckAndMutateRows(table, [change for _, change in those])
        for (row, _), went_through in zip(those, applied, strict=True):
            claimed[row].refused |= not went_through
    for row, (claim, first) in behind.items():
        if claimed[first].ready:
            claimed[row].error = _violation(planner, row, claim, first)
        else:  # the first row may get an error, which leaves the value to this row
            claimed[row].refused = True
    return claimed


def _behind(planner: VersionedRowPlanner, rows: Mapping[bytes, RowClaims]) -> dict[bytes, tuple[Claim, bytes]]:
    """Finds the objects that want the same value as an earlier object which is changed by the same mutation. Returns
    this value and the earlier object for each of them.

    Such an object cannot wait until the earlier object is written, because both are written at once.
    """
    behind: dict[bytes, tuple[Claim, bytes]] = {}
    first: dict[Claim, bytes] = {}
    for row, claims in rows.items() if planner.together else ():
        for claim in claims.wanted:
            if first.setdefault(claim, row) != row and planner.change_together(first[claim], row):
                behind[row] = claim, first[claim]
    return behind


def release(releases: Sequence[tuple[str, ConditionalChange]]) -> Protocol[None]:
    """Releases values of written rows. If a change is refused, another row has already claimed the value."""
    for table, changes in by_table(releases).items():
        yield CheckAndMutateRows(table, changes)


def owner_of(value: bytes) -> bytes | None:
    """Returns the key of the row that owns a claim, or None if the claim is released."""
    return value[_OWNER:] if value[:1] == CLAIMED else None


def read_claims(planner: VersionedRowPlanner, claims: Sequence[Claim]) -> Protocol[dict[Claim, Cell]]:
    """Returns the cells of the claims that exist."""
    column = planner.schema.claim_column
    cells: dict[Claim, Cell] = {}
    for table, those in by_table((claim.table, claim) for claim in dict.fromkeys(claims)).items():
        rows: Sequence[Row | None] = yield GetRows(table, [claim.key for claim in those], [column])
        cells |= {claim: row.columns[column] for claim, row in zip(those, rows, strict=True) if row is not None}
    return cells


def change_claim(
    planner: VersionedRowPlanner, claim: Claim, cell: Cell | None, value: bytes, now: int
) -> ConditionalChange:
    """Returns the change that gives a claim a new value, under the condition that its cell has not changed since it was
    read.
    """
    column = planner.schema.claim_column
    timestamp = now if cell is None else max(now, cell.timestamp + 1)
    return ConditionalChange(
        claim.key, column, None if cell is None else cell.value, [Put(claim.key, {column: value}, timestamp)]
    )


def _fence(
    planner: VersionedRowPlanner,
    foreign: Sequence[tuple[bytes, Claim, bytes]],
    claimed: Mapping[bytes, Claimed],
    now: int,
    young: Mapping[Claim, int],
) -> Protocol[list[tuple[bytes, Claim]]]:
    """Fences the owners of claims that other rows want. Returns the claims that may be taken over, each with the row
    that wants it.

    `young` has the timestamps of young claims. The rows that want a young claim wait for it, unless its owner has
    written its row since.
    """
    if not foreign:
        return []
    owners = list(dict.fromkeys(owner for _, _, owner in foreign))
    rows: Sequence[Row | None] = yield GetRows(planner.schema.table, owners, planner.schema.row_columns)
    olds = {owner: planner.old(row) for owner, row in zip(owners, rows, strict=True)}
    fences: dict[bytes, ConditionalChange] = {}
    free: list[tuple[bytes, Claim, bytes]] = []
    order = {row: number for number, row in enumerate(claimed)}
    waiting: list[tuple[bytes, bytes]] = []
    for row, claim, owner in foreign:
        state = claimed[row]
        # An owner that is itself waiting may give the value up in a later round.
        earlier = owner in claimed and claimed[owner].error is None and order[owner] < order[row]
        if earlier and not _waits_for(planner, waiting, claimed, owner, row):
            waiting.append((row, owner))
            state.refused = True  # an earlier write of this batch may give the value up
        elif claim in held_claims(planner, olds[owner]):
            state.error = _violation(planner, row, claim, owner)
        elif young.get(claim, -1) > planner.version_time(olds[owner]):
            state.refused = True
        else:
            timestamp, error = planner.time_of_fence(owner, olds[owner], now)
            state.error = state.error or error
            fences[owner] = fence(planner, owner, olds[owner], timestamp)
            free.append((row, claim, owner))
    wanted = [
        (owner, change)
        for owner, change in fences.items()
        if any(claimed[row].ready for row, _, by in free if by == owner)
    ]
    if wanted:
        applied = yield from put_fences(planner, [(olds[owner], change) for owner, change in wanted], now)
        through = {owner for (owner, _), went_through in zip(wanted, applied, strict=True) if went_through}
        for row, _, owner in free:
            claimed[row].refused |= owner not in through
    return [(row, claim) for row, claim, _ in free]


def _waits_for(
    planner: VersionedRowPlanner,
    waiting: Sequence[tuple[bytes, bytes]],
    claimed: Mapping[bytes, Claimed],
    one: bytes,
    other: bytes,
) -> bool:
    """Whether the change of an object waits for the change of another object, directly or through other changes, or
    whether both are one change.

    Args:
        waiting: objects that wait, each with the object that it waits for. An object with an error waits no longer.
    """
    if not planner.together:  # each object waits only for earlier ones, and so never for itself
        return False
    goal, seen, reached = planner.changed_with(other), set[bytes](), [planner.changed_with(one)]
    while reached:
        change = reached.pop()
        if change == goal:
            return True
        if change not in seen:
            seen.add(change)
            reached += [
                planner.changed_with(owner)
                for row, owner in waiting
                if claimed[row].error is None and planner.changed_with(row) == change
            ]
    return False


def put_fences(
    planner: VersionedRowPlanner, fences: Sequence[tuple[OldRow, ConditionalChange]], now: int
) -> Protocol[Sequence[bool]]:
    """Puts the verified entries of rows with the new versions, and then carries out the fences of the rows.

    Returns:
        For each fence, whether it was carried out.
    """
    whole = planner.whole
    again = [_entries_again(whole, old, change) for old, change in fences]
    if any(again):
        yield Together(
            [PutRows(name, puts) for name, puts in by_table(entry for each in again for entry in each).items()]
        )
    applied: Sequence[bool] = yield CheckAndMutateRows(
        planner.schema.table, [change for _, change in fences], fences=True
    )
    verified = [
        put for each, through in zip(again, applied, strict=True) if through for put in whole.verifications(each)
    ]
    if verified and (yield CheckLease(now)):
        yield from finish(verified, ())
    return applied


def _entries_again(planner: VersionedRowPlanner, old: OldRow, change: ConditionalChange) -> list[tuple[str, Put]]:
    """Returns the puts that set the new version in the entries of a fenced row.

    The result is empty if objects share rows: a fence changes the version of the row, but the objects keep their
    versions.
    """
    (put,) = change.mutations
    assert isinstance(put, Put), "a fence puts a version"
    assert put.timestamp is not None, "above what was read"
    version = put.cells.get(planner.schema.version_column)
    return [] if version is None else planner.entries_again(old, version, put.timestamp)


def fence(planner: VersionedRowPlanner, row: bytes, old: OldRow, timestamp: int) -> ConditionalChange:
    """Returns the change that fences a row. It changes only the version that writes of the row check, so that programs
    that have read the row before cannot write it any more.

    The version of the object is increased. An absent row also gets a dead marker. If objects share rows, the version of
    the row that holds the object is changed instead, and the objects of the row stay unchanged.
    """
    nonce, shared = planner.nonce(), planner.schema.row_version_column
    if shared is not None:
        return ConditionalChange(row, shared, planner.row_version(old), [Put(row, {shared: nonce}, timestamp)])
    cells = {planner.schema.version_column: planner.version(nonce, old, timestamp)}
    if old.row is None:
        cells[planner.schema.liveness_column] = DEAD + nonce
    return ConditionalChange(row, planner.schema.version_column, planner.stored(old), [Put(row, cells, timestamp)])


def _violation(planner: VersionedRowPlanner, row: bytes, claim: Claim, owner: bytes) -> UniqueViolation:
    index = claim.index
    value = claim.values[0] if len(claim.values) == 1 else tuple(claim.values)
    return UniqueViolation(
        "Another row holds the value of a unique index: choose another value, or change that row (`owner`) first.",
        table=planner.schema.table, key=row, index=index.name, fields=list(index.fields), owner=owner, value=value,
    )  # fmt: skip
