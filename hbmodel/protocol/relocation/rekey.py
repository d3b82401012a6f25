"""Moves an object to another key, as a sans-IO generator.

The row under the old key is marked first, so that no two programs move the object to different keys. Then the row is
copied to the new key, its unique values are claimed for the new row, and the old row is deleted. So a reader that looks
under the old key and then under the new key finds the object, even if the program crashes at any point. The cells that
a crashed program has left show its progress, and the next call continues from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, evolve, frozen

from hbmodel.errors import ConflictError, RowExists, RowNotFound, SchemaMismatch, UnknownOutcome
from hbmodel.mapping.rows.mapper import RowDecoder, changed_copy
from hbmodel.mapping.schema import TableSchema
from hbmodel.mapping.version_cell import UNKNOWN
from hbmodel.protocol.indexed.move_marks import COPIED, LEAVING, MoveMark, digest_of, mark_of, moved_cells
from hbmodel.protocol.operations import Acknowledge, GetRows, Protocol
from hbmodel.protocol.relocation.rekey_steps import RowMover
from hbmodel.protocol.writes import Outcome, PutObject, put_object
from hbmodel.store.values import Row


@frozen(eq=False)
class Move:
    """An object and its new key.

    Attributes:
        changes: the key fields that change.
        version: the version that the object must have, or 0 for any.
        one_row: whether both keys are in the same row of the table.
    """

    old: bytes
    new: bytes
    changes: Mapping[str, Any]
    version: int = UNKNOWN
    one_row: bool = False


@frozen(eq=False)
class Moved:
    """A moved object, under its new key."""

    outcome: Outcome
    obj: Any


@define(eq=False)
class Progress:
    """The progress of a call that moves an object, as far as the rows may no longer show it.

    Attributes:
        begun: whether the old row was marked or the object was moved.
        stood: whether the call has read the copy while the old row was live.
        moved: the object under its new key, once this call has moved it.
        hidden: the put of the new row, if the same mutation deleted the old row and another delete of the same
            millisecond may have hidden the new row.
    """

    begun: bool = False
    stood: bool = False
    moved: Moved | None = None
    hidden: PutObject | None = None


def rekey(mover: RowMover, move: Move, progress: Progress | None = None) -> Protocol[Moved]:
    """Moves an object. After any error, the protocol can be started again; it then continues from the state that it
    finds.

    Args:
        progress: the progress of the call. A protocol that is started again because the indexes have changed gets the
            same object.

    Raises:
        RowNotFound: there is no object under the old key.
        RowExists: there is another object under the new key.
        ConflictError: another move of the object is not finished, or the object does not have the required version.
    """
    schema, columns = mover.schema, mover.columns
    progress = Progress() if progress is None else progress
    own: bytes | None = None  # the nonce of the copy whose entries are known to exist
    while True:
        (old,) = yield GetRows(schema.table, [move.old], columns)
        # the new row is read second, so that an object that has left the old row is found here
        (new,) = yield GetRows(schema.table, [move.new], columns)
        leaving, copied = _mark(schema, old, LEAVING), _mark(schema, new, COPIED)
        if progress.moved is not None or not mover.live(old):
            if progress.hidden is not None and not mover.live(new):
                yield from mover.copy(progress.hidden)
                continue
            if mover.live(old):  # another program has put an object under the old key since
                leaving = None
            return (yield from _arrived(mover, move, progress, (old, leaving), (new, copied)))
        renewals = None if leaving is None or copied is None or not mover.live(new) else copied.renewals(leaving)
        mine = renewals == 0
        if renewals is not None and renewals < 0:  # the old row has changed since it was read
            continue
        if renewals:  # the copy is outdated and must be deleted
            assert leaving is not None
            assert copied is not None
            if not schema.versioned and digest_of(schema, moved_cells(schema, new)) != copied.digest:
                yield from _written_twice(mover, move, (old, leaving), copied)
            yield from mover.take_back(new)
            continue
        if mover.live(new) and not mine:
            if copied is not None and copied.other == move.old and (yield from _overtaken(mover, move, copied)):
                continue
            if leaving is not None and leaving.other == move.new:
                yield from mover.unmark(old, leaving)
            raise RowExists(
                "A row with the new key exists already: delete it first, or choose another key.",
                table=schema.table,
                key=move.new,
            )
        assert old is not None
        write = copy_of(mover.reader, old, move, mover.end_of(old))
        within = move.one_row and mover.moves_within_row(old)
        if leaving is None:
            yield from _part_with_earlier(mover, old)
        progress.begun |= leaving is not None
        if leaving is None and not (within and mover.moves_unmarked):
            progress.begun = True
            yield from mover.mark(old, MoveMark(LEAVING, mover.nonce(), move.new), move.version)
            continue
        if leaving is not None and leaving.other != move.new:
            raise ConflictError(
                "The object is being moved to another key: call rekey() with that key to finish the move.",
                table=schema.table,
                key=move.old,
                other=leaving.other,
            )
        if within or leaving is None:
            try:
                outcome = yield from mover.move_within_row(old, new, write, move.version)
            except SchemaMismatch:
                progress.hidden = write if mover.left else None
                if mover.placed is not None:
                    progress.moved = _under_new_key(mover.placed, write)
                raise
            if outcome is not None:
                progress.moved = _under_new_key(outcome, write)
                if copied is not None:  # the copy was put when the indexes did not yet allow a move within the row
                    yield from mover.clear(copied, move.new)
                return (yield from _done(mover, progress.moved))
            continue
        if not mine:
            trace = MoveMark(COPIED, leaving.nonce, move.old, digest_of(schema, write.cells))
            try:
                yield from mover.copy(evolve(write, cells={**write.cells, schema.move_column: trace.value}))
            # another program has used the key, or the copy does not exist; the rows are read again
            except (RowExists, UnknownOutcome):
                continue
            own = leaving.nonce
            continue
        assert new is not None
        assert copied is not None
        progress.stood = True
        digest = digest_of(schema, _with_defaults_of(new, write.cells, old))
        if copied.digest != digest and mover.copies_again:
            if digest_of(schema, moved_cells(schema, new)) == copied.digest:
                # Once the mark is renewed, no program deletes the old row because of this copy, so the copy can be
                # deleted.
                yield from mover.mark(old, leaving.renewed(), UNKNOWN, over=leaving)
                continue
            if not schema.versioned:
                yield from _written_twice(mover, move, (old, leaving), copied)
        if own != copied.nonce:  # the program that put the copy may have stopped before it put all entries
            yield from mover.keep_entries(move.new)
            own = copied.nonce
        if not (yield from mover.claim(old, new)):
            continue
        if (yield from mover.leave(old)):
            progress.moved = _as_read(mover, new)
            yield from mover.clear(copied, move.new)
            return (yield from _done(mover, progress.moved))


def copy_of(reader: RowDecoder, row: Row, move: Move, end: int | None = None) -> PutObject:
    """Returns a put of a row's object as a new object under its new key. It contains every stored cell unchanged, and
    the time of expiry.
    """
    schema = reader.schema
    obj = reader.make({**reader.values(row), **move.changes})
    write = evolve(put_object(schema, obj, None if end is None else 1), version=UNKNOWN, end=end)
    return evolve(write, cells={**write.cells, **moved_cells(schema, row)})


def _with_defaults_of(copy: Row, cells: Mapping[bytes, bytes], row: Row) -> Mapping[bytes, bytes]:
    """Returns the cells of an object that was read from a row. A cell that the row lacks gets the default that the copy
    has, because a factory may return another default at each call.
    """
    absent = cells.keys() & copy.columns.keys() - row.columns.keys()
    return {**cells, **{column: copy.columns[column].value for column in absent}}


def _mark(schema: TableSchema, row: Row | None, kind: bytes) -> MoveMark | None:
    mark = mark_of(schema, row)
    return mark if mark is not None and mark.kind == kind else None


def _arrived(
    mover: RowMover,
    move: Move,
    progress: Progress,
    old: tuple[Row | None, MoveMark | None],
    new: tuple[Row | None, MoveMark | None],
) -> Protocol[Moved]:
    """Ends a move whose old row was deleted. It does not matter which program deleted the row, because the copy
    exists.
    """
    table = mover.schema.table
    (left, leaving), (row, copied) = old, new
    if left is not None and leaving is not None:
        yield from mover.clear(leaving, move.old)
    came = copied is not None and copied.other == move.old
    there = row is not None and mover.live(row)
    if progress.moved is None and (not there or not (came or progress.stood)):
        raise RowNotFound("There is no row with this key to move: read the object again.", table=table, key=move.old)
    if there:
        yield from mover.keep_entries(move.new)
    if copied is not None:
        yield from mover.clear(copied, move.new)
    if progress.moved is not None:
        return (yield from _done(mover, progress.moved))
    assert row is not None
    return (yield from _done(mover, _as_read(mover, row)))


def _overtaken(mover: RowMover, move: Move, copied: MoveMark) -> Protocol[bool]:
    """Returns whether the copy belongs to another move, which began after the old row was read."""
    (old,) = yield GetRows(mover.schema.table, [move.old], mover.columns)
    leaving = _mark(mover.schema, old, LEAVING)
    return not mover.live(old) or (leaving is not None and copied.renewals(leaving) is not None)


def _written_twice(mover: RowMover, move: Move, old: tuple[Row | None, MoveMark], copied: MoveMark) -> Protocol[None]:
    """Ends a move whose object was written under both keys, and raises `RowExists`."""
    row, leaving = old
    assert row is not None
    yield from mover.unmark(row, leaving)
    yield from mover.clear(copied, move.new)
    raise RowExists(
        "The object was written under both keys while it moved: read both, and delete the one that is not needed.",
        table=mover.schema.table, key=move.new,
    )  # fmt: skip


def _part_with_earlier(mover: RowMover, row: Row) -> Protocol[None]:
    """Removes the mark of an earlier move that brought the object to this key. Raises `ConflictError` if that move is
    not finished.
    """
    schema = mover.schema
    copied = _mark(schema, row, COPIED)
    if copied is None:
        return
    (before,) = yield GetRows(schema.table, [copied.other], mover.columns)
    leaving = _mark(schema, before, LEAVING)
    if mover.live(before) and leaving is not None and copied.renewals(leaving) is not None:
        raise ConflictError(
            "The move that brought the object to this key is not finished: call rekey() for its old key first.",
            table=schema.table,
            key=row.row,
            other=copied.other,
        )
    yield from mover.clear(copied, row.row)


def _under_new_key(outcome: Outcome, write: PutObject) -> Moved:
    return Moved(outcome, changed_copy(write.subject, {}, outcome.version or UNKNOWN))


def _as_read(mover: RowMover, row: Row) -> Moved:
    return Moved(mover.outcome(row), mover.reader.make(mover.reader.values(row)))


def _done(mover: RowMover, moved: Moved) -> Protocol[Moved]:
    yield Acknowledge([moved])
    yield from mover.finish()
    return moved
