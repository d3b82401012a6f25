"""Gathers changes of rows, so that each row is changed by one atomic mutation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import chain

from attrs import define, evolve, field

from hbmodel.errors import CapabilityError, StoreClosed, StoreUnavailable, TableNotFound
from hbmodel.store.checks.row_sizes import MAX_ROW_BYTES, cell_bytes, check_row_size
from hbmodel.store.gate import pass_gate
from hbmodel.store.port import Store
from hbmodel.store.values import ConditionalChange, Delete, Put

NOT_ATOMIC = (
    "Objects that share a row are written in one mutation. This store supports that only if all are put with the same "
    "timestamp and TTL, or all are deleted: use an hbase+thrift2: store, commit the objects separately, or open the "
    "session with atomic_rows=False."
)


def combined(mutations: Iterable[Put | Delete]) -> list[Put | Delete]:
    """Joins mutations: for each row, the result has one put for each timestamp and TTL, and one delete for each
    timestamp.

    Deletes of whole rows are not changed.
    """
    puts: dict[tuple[bytes, int | None, int | None], dict[bytes, bytes]] = {}
    deletes: dict[tuple[bytes, int | None], tuple[dict[bytes, None], dict[bytes, None]]] = {}
    whole: list[Delete] = []
    for mutation in mutations:
        if isinstance(mutation, Put):
            puts.setdefault((mutation.row, mutation.timestamp, mutation.ttl), {}).update(mutation.cells)
        elif mutation.columns or mutation.families:
            families, columns = deletes.setdefault((mutation.row, mutation.timestamp), ({}, {}))
            families.update(dict.fromkeys(mutation.families))
            columns.update(dict.fromkeys(mutation.columns))
        else:
            whole.append(mutation)
    return [
        *whole,
        *(
            Delete(row, tuple(families), tuple(columns), timestamp)
            for (row, timestamp), (families, columns) in deletes.items()
        ),
        *(Put(row, cells, timestamp, ttl) for (row, timestamp, ttl), cells in puts.items()),
    ]


def change_together(
    store: Store, table: str, changes: Sequence[ConditionalChange], *, atomic: bool = True
) -> list[bool]:
    """Carries out conditional changes, after joining those of each row. Returns for each given change whether it
    was applied.

    Changes of a row with the same condition are joined, but no more of them than fit into a call. The others are not
    applied. If `atomic` is True and the conditions of a row differ, none of its changes is sent or applied. A change
    without mutations only states which version of the row was read. If a row has only changes without mutations, they
    count as applied without a call, even if they have read the versions of several column families.

    Args:
        atomic: whether all changes of a row must be in one call.

    Raises:
        InvalidRequest: the changes of a row must be in one call, but have more than 4 MiB; nothing was sent.
    """
    taken: dict[object, list[int]] = {}
    sizes: dict[int, int] = {}
    differ: set[bytes] = set()
    written = {change.row for change in changes if change.mutations}
    for at, change in enumerate(changes):
        of_row = taken.setdefault(change.row if atomic else (change.row, change.column, change.expected), [at])
        first = changes[of_row[0]]
        if first.column != change.column and change.row not in written:
            of_row.append(at)
            continue
        if (first.column, first.expected) != (change.column, change.expected):
            differ.add(change.row)
            continue
        size = sum(cell_bytes(change.row, m.cells.items()) for m in change.mutations if isinstance(m, Put))
        total = sizes.get(of_row[0], 0) + size
        if atomic:
            check_row_size(table, change.row, total)
        if of_row[0] != at:
            if total > MAX_ROW_BYTES:
                continue
            of_row.append(at)
        sizes[of_row[0]] = total
    if atomic:
        taken = {row: of_row for row, of_row in taken.items() if row not in differ}
    changes_of_rows = [
        ConditionalChange(
            changes[of_row[0]].row,
            changes[of_row[0]].column,
            changes[of_row[0]].expected,
            combined(m for at in of_row for m in changes[at].mutations),
        )
        for of_row in taken.values()
    ]
    applied = [False] * len(changes)
    sent = [change for change in changes_of_rows if change.mutations]
    answers = iter(store.check_and_mutate_many(table, sent) if sent else ())
    for of_row, change in zip(taken.values(), changes_of_rows, strict=True):
        went_through = next(answers) if change.mutations else True
        for at in of_row:
            applied[at] = went_through
    return applied


@define
class RowChanges:
    """Mutations of rows of one table that have been gathered but not carried out yet.

    Attributes:
        shared: the rows whose changes must all be made in one atomic mutation. In any other row, the puts are made
            before the deletes if the store does not support both in one call.
        wrote: whether any row may have been changed.
        in_doubt: whether changes at the server's time may have been carried out already, so that another attempt might
            carry them out twice.
    """

    store: Store
    table: str
    shared: Set[bytes]
    wrote: bool = field(default=False, init=False)
    in_doubt: bool = field(default=False, init=False)
    _rows: dict[bytes, list[Put | Delete]] = field(factory=dict, init=False)

    def __bool__(self) -> bool:
        return bool(self._rows)

    @property
    def rows(self) -> Set[bytes]:
        """The rows that will be changed. After an error, some of them may already have been changed."""
        return frozenset(self._rows)

    def add(self, mutations: Iterable[Put | Delete]) -> None:
        """Gathers mutations."""
        for mutation in mutations:
            self._rows.setdefault(mutation.row, []).append(mutation)

    def joined(self, changes: Sequence[ConditionalChange]) -> list[ConditionalChange]:
        """Returns the conditional changes, in which the first change of each row also contains the mutations gathered
        for the row.
        """
        joined_changes: list[ConditionalChange] = []
        seen: set[bytes] = set()
        for change in changes:
            more = [] if change.row in seen else self._rows.get(change.row, [])
            seen.add(change.row)
            joined_changes.append(evolve(change, mutations=[*change.mutations, *more]) if more else change)
        return joined_changes

    def drop(self, rows: Iterable[bytes]) -> None:
        """Forgets the gathered mutations of some rows."""
        for row in rows:
            self._rows.pop(row, None)

    def clear(self) -> None:
        """Forgets all gathered mutations."""
        self._rows.clear()

    def carry_out(self, held_back: Set[bytes] = frozenset()) -> None:
        """Changes the rows. After an error, any subset of them may have been changed, and this method can be called
        again.

        Args:
            held_back: rows that are not changed now; the mutations gathered for them are kept.

        Raises:
            CapabilityError: a shared row cannot be changed by one mutation; nothing was sent.
            InvalidRequest: a shared row would be changed in more than 4 MiB; nothing was sent.
        """
        puts: list[Put] = []
        deletes: list[Delete] = []
        changes: list[Sequence[Put | Delete]] = []
        atomic = self.store.capabilities.mutate_row
        for row, gathered in self._rows.items():
            if row in held_back:
                continue
            mutations = combined(gathered)
            if row in self.shared:
                check_row_size(
                    self.table, row, sum(cell_bytes(row, m.cells.items()) for m in mutations if isinstance(m, Put))
                )
                if len(mutations) > 1 and not atomic:
                    raise CapabilityError(NOT_ATOMIC, table=self.table, key=row)
            if len(mutations) > 1 and atomic:
                changes.append(mutations)
                continue
            puts += [mutation for mutation in mutations if isinstance(mutation, Put)]
            deletes += [mutation for mutation in mutations if isinstance(mutation, Delete)]
        try:
            if puts:
                self.store.put(self.table, puts)
                self.wrote = True
            if deletes:
                if puts:
                    pass_gate()
                self.store.delete(self.table, deletes)
                self.wrote = True
            for number, change in enumerate(changes):
                if puts or deletes or number:
                    pass_gate()
                self.store.mutate_row(self.table, change)
                self.wrote = True
        except BaseException as error:
            if not isinstance(error, StoreUnavailable | StoreClosed | TableNotFound):
                self.wrote = True
                self.in_doubt |= any(m.timestamp is None for m in chain(puts, deletes, *changes))
            raise
        self.in_doubt = False
        self.drop([row for row in self._rows if row not in held_back])
