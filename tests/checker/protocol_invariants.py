"""The invariants of every state of the checker's store while the shipped generators run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from attrs import define, field, frozen

from hbmodel.errors import HbmodelError
from hbmodel.mapping.rows.covering import EntryDecoder, fields_held, is_verified
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import LIVE, Index, TableSchema
from tests.checker.behaviour import once
from tests.checker.pool import Pool
from tests.checker.protocol_adapter import (
    ACKNOWLEDGED,
    AGED,
    BEGAN,
    BROKEN,
    EXPIRED,
    NO_ROWS,
    Began,
    Step,
    Steps,
    Store,
    found_row,
    mc,
    visible,
)
from tests.checker.search import Model

NOTHING: frozenset[int] = frozenset()


@frozen(eq=False)
class View:
    """One row as the invariants see it.

    Attributes:
        live: whether it is.
        times: timestamp of each visible cell.
        writers: which writes each cell comes from: one, but for a counter every write that it has counted too.
        values: of a live row, decoded.
        version: the version cell.
        entries: its current entries, each with its index.
        wrong: the error in the row, if it is in a state that no row may have.
    """

    live: bool
    times: dict[bytes, int]
    writers: dict[bytes, frozenset[int]]
    values: tuple[tuple[str, Any], ...] = ()
    version: bytes | None = None
    entries: Sequence[tuple[Index, bytes]] = ()
    wrong: str | None = None


@define(eq=False)
class Watch:
    """The invariants of one model.

    Attributes:
        schema: of the model.
        strict: whether a row whose delete is acknowledged must also be rid of every earlier cell at once.
        trusts: whether an entry answers by itself.
    """

    schema: TableSchema
    strict: bool = True
    trusts: Callable[[TableSchema, Any], bool] = is_verified
    _views: dict[Any, View] = field(factory=dict)
    _answers: dict[Any, Any] = field(factory=dict)
    _wrong: dict[Any, tuple[str, ...]] = field(factory=dict)
    _pools: dict[Any, Pool] = field(factory=dict)

    def pool(self, of: Any) -> Pool:
        """The stores of models that differ in their processes alone."""
        if of not in self._pools or self._pools[of].full:
            self._pools[of] = Pool()
        return self._pools[of]

    @cached_property
    def _keys(self) -> KeyMapper:
        return KeyMapper(self.schema)

    @cached_property
    def _reader(self) -> RowDecoder:
        return RowDecoder(self.schema, indexed=True, names=frozenset(f.name for f in self.schema.columns))

    @cached_property
    def _counters(self) -> frozenset[bytes]:
        return frozenset(f.column for f in self.schema.columns if f.kind == "counter")

    @cached_property
    def _left(self) -> frozenset[bytes]:
        """The cells that a delete may leave: counters, and the cells with the time at which map entries were put."""
        return self._counters.union(self.schema.kept_columns)

    @cached_property
    def _group(self) -> frozenset[bytes]:
        used = {name for index in self.schema.indexes.values() for name in (*index.reads, *index.covers)}
        return frozenset(f.column for f in self.schema.columns if f.name in used) | {self.schema.version_column}

    def view(self, store: Store, row: bytes) -> View:
        """The row in its current state."""
        state = (row, store.get((self.schema.table, row)))
        found = self._views.get(state)
        if found is None:
            found = self._views[state] = self._viewed(store, row)
        return found

    def _viewed(self, store: Store, row: bytes) -> View:
        cells = mc.vis(store, self.schema.table, row)
        times = {column: timestamp for column, timestamp, _ in cells}
        # no removed entries
        shown = [c for c in cells if c[2][0] or not c[0].startswith(tuple(of.column for of in self.schema.maps))]
        writers = {column: frozenset((value[1],)) for column, _, value in shown}
        for column, _, (value, _) in shown:
            if column in self._counters:
                total = int.from_bytes(value, "big")
                writers[column] |= {number for number in range(total.bit_length()) if total >> number & 1}
        bare = {column: value[0] for column, _, value in cells}
        if bare.get(self.schema.liveness_column, b"")[:1] != LIVE:
            return View(False, times, writers)
        if missing := sorted(self._group - bare.keys()):
            return View(True, times, writers, wrong=f"GHOST: the live row lacks {missing}")
        stored: Any = found_row(row, visible(store, self.schema.table, row))
        try:
            values = self._reader.values(stored)
        except HbmodelError as error:
            return View(True, times, writers, wrong=f"GHOST: {error}")
        entries = [(i, entry) for i in self.schema.indexes.values() for entry in self._keys.entries(i, values, row)]
        values |= {of.name: tuple(of.entries(stored.columns).items()) for of in self.schema.maps}
        return View(True, times, writers, tuple(sorted(values.items())), bare[self.schema.version_column], entries)

    def rows(self, store: Store) -> list[bytes]:
        """Every row that has any cell or tombstone."""
        return [row for table, row in store if table == self.schema.table]

    def live(self, store: Store) -> tuple[tuple[bytes, Any], ...]:
        """The live rows with their values: what readers may return."""
        return tuple((row, view.values) for row in self.rows(store) if (view := self.view(store, row)).live)

    # --- invariants ---------------------------------------------------------------------------------------------------

    def check(self, store: Store) -> str | None:
        """The first invariant that does not hold."""
        return next(self._broken(store), None)

    def _broken(self, store: Store) -> Iterator[str]:
        if BROKEN in store:
            yield store[BROKEN]
        history: dict[bytes, dict[int, Began]] = {}
        for key, value in store.items():
            if key[0] == BEGAN:
                history.setdefault(value.row, {})[key[1]] = value
        views = {row: self.view(store, row) for row in {*self.rows(store), *history}}
        for row, view in views.items():
            if view.wrong is not None:
                yield f"{view.wrong}; row {row!r}"
            if view.entries:
                yield from self._known(
                    "entries",
                    (view, *[store.get((of.table, entry)) for of, entry in view.entries]),
                    self._entries,
                    store,
                    row,
                    view,
                )
        yield from self._verified(store)
        if EXPIRED in store:
            yield from self._outlived(store, history)
        over = (store.get(ACKNOWLEDGED), store.get(EXPIRED), store.get(AGED))
        for row, view in views.items():
            if row in history:
                of = history[row]
                yield from self._known("writes", (view, over, *of.items()), self._writes, store, row, view, of)

    def _known(
        self, what: str, parts: tuple[Any, ...], found_out: Callable[..., Iterator[str]], *given: Any
    ) -> tuple[str, ...]:
        """The errors in these parts of a store, computed once for all stores that have them."""
        found = self._wrong.get((what, parts))
        if found is None:
            found = self._wrong[(what, parts)] = tuple(found_out(*given))
        return found

    def _entries(self, store: Store, row: bytes, view: View) -> Iterator[str]:
        """The index is a superset, and an entry with the row's own version agrees with the row."""
        for index, entry in view.entries:
            table = index.table
            cells = {column: value for column, _, value in mc.vis(store, table, entry)}
            if self.schema.version_column not in cells:
                yield f"MISSING entry {entry!r} in {table} of row {row!r}"
            elif (view.version or b"").startswith(cells[self.schema.version_column]):
                covered = [self.schema.by_name[name].column for name in index.covers]
                found = {column: value for column, _, value in visible(store, self.schema.table, row)}
                if any(cells.get(column) != found.get(column) for column in covered):
                    yield f"COVER: entry {entry!r} has the version of row {row!r} and other values"

    @cached_property
    def _covering(self) -> dict[str, EntryDecoder]:
        """Decodes all that the entries of a covering index hold, by its table."""
        schema = self.schema
        indexes = [index for index in schema.indexes.values() if index.name in schema.covering]
        return {index.table: EntryDecoder(schema, index, fields_held(schema, index)) for index in indexes}

    def _verified(self, store: Store) -> Iterator[str]:
        """A verified entry agrees with its row in every state, because a query trusts it."""
        covering = self._covering
        if not covering:
            return
        for (table, entry), cells in store.items():
            if table not in covering:
                continue
            state = (table, entry, cells)
            if state not in self._answers:
                self._answers[state] = self._answer(store, table, entry)
            if (answer := self._answers[state]) is not None:
                view = self.view(store, answer[0])
                yield from self._known("verified", (view, state), self._untrue, view, table, entry, answer[1])

    def _untrue(self, view: View, table: str, entry: bytes, held: dict[str, Any]) -> Iterator[str]:
        shown = dict(view.values)
        entries = [key for index, key in view.entries if index.table == table]
        if not view.live or entry not in entries or any(shown[name] != value for name, value in held.items()):
            yield (
                f"VERIFIED: entry {entry!r} in {table} answers {held}, and its row is "
                f"{shown if view.live else 'not there'}"
            )

    def _answer(self, store: Store, table: str, entry: bytes) -> tuple[bytes, dict[str, Any]] | None:
        found: Any = found_row(entry, visible(store, table, entry))
        if found is None or not self.trusts(self.schema, found):
            return None
        decoder = self._covering[table]
        return self._keys.row_of_entry(decoder.index, entry)[0], decoder.values(found)

    def _outlived(self, store: Store, history: dict[bytes, dict[int, Began]]) -> Iterator[str]:
        """Entries expire with their rows: after that, a process whose puts have all expired has no entries."""
        ended: dict[int, bool] = {}
        for number, write in ((number, write) for writes in history.values() for number, write in writes.items()):
            ended[number // 10] = ended.get(number // 10, True) and write.expires
        tables = {index.table for index in self.schema.indexes.values()}
        for table, entry in ((key[0], key[1]) for key in store if key[0] in tables):
            for column, _, value in mc.vis(store, table, entry):
                if column == self.schema.version_column and ended.get(value[1], False):
                    yield f"OUTLIVES: entry {entry!r} of process {value[1]} in {table}, whose rows have expired"

    def _writes(self, store: Store, row: bytes, view: View, history: dict[int, Began]) -> Iterator[str]:
        acknowledged = store.get(ACKNOWLEDGED, NOTHING)
        gone = [
            n
            for n, write in history.items()
            if n in acknowledged and write.kind == "delete" and write.timestamp > mc.NEG
        ]
        if gone and view.live and not any(write.kind in {"full", "insert"} for write in history.values()):
            yield f"RETURNED: the row is live though delete {gone[0]} is acknowledged, and nothing puts an object"
        for number, write in history.items():
            done = number in acknowledged
            if view.live and done:
                for column in self._covered(write, history, view):
                    if old := view.writers.get(column, NOTHING) & write.over:
                        yield (
                            f"STALE: {column!r} of write {set(old)} shows, though the acknowledged "
                            f"{_name(number, write)} began after it"
                        )
            if view.live and write.revives and number in view.writers[self.schema.liveness_column]:
                for column in view.writers.keys() - self.schema.kept_columns:
                    if old := view.writers[column] & write.over:
                        yield (
                            f"LEFTOVER: {column!r} of write {set(old)} shows in the row that {_name(number, write)} "
                            "put over a dead one"
                        )
            purged = view.times and self.schema.liveness_column not in view.times and not store.keys() & {EXPIRED, AGED}
            if self.strict and write.kind == "delete" and write.timestamp > mc.NEG and (done or purged):
                for column in view.writers.keys() - self._left:
                    if old := view.writers[column] & write.over:
                        yield f"KEPT: {column!r} of write {set(old)} is still there after {_name(number, write)}"
            ended = (write.expires and EXPIRED in store) or write.timestamp <= store.get(AGED, mc.NEG)
            if (
                done
                and write.kind != "delete"
                and not ended
                and self._lost(number, write, view)
                and not _excused(number, write, history)
            ):
                yield (
                    f"LOST: {_name(number, write)} is acknowledged, nothing after it deletes, cells "
                    f"{sorted(view.times.items())}"
                )

    def _covered(self, write: Began, history: dict[int, Began], view: View) -> frozenset[bytes]:
        """The columns that a write determines completely.

        An increment beside a delete may carry what was counted before over the delete, to be shown if a full write that
        read the live row lands after both (DESIGN: a full write leaves the counters of a live row out).
        """
        everything = frozenset(f.column for f in self.schema.columns) | {
            self.schema.version_column,
            self.schema.liveness_column,
        }
        # of an object that is put over another one entries stay
        if self.schema.maps and (write.revives or write.kind == "delete"):
            everything |= view.writers.keys() - self._left
        if write.kind == "delete":
            beside = any(other.kind == "increment" and name not in write.over for name, other in history.items())
            return everything - self._counters if beside else everything
        if write.kind in {"full", "insert"}:
            return everything if write.revives else everything - self._counters
        return frozenset(write.columns)

    def _lost(self, number: int, write: Began, view: View) -> bool:
        if write.kind == "increment":
            return not view.live or not any(number in view.writers.get(column, NOTHING) for column in self._counters)
        return not view.live or any(view.times.get(column, mc.NEG) < write.timestamp for column in write.columns)

    def healed(self, store: Store) -> str | None:
        """When everything has stopped and the grace time is over, one pass of repair leaves exactly the entries of
        live rows.
        """
        after = dict(store)
        current = {(index.table, entry) for row in self.rows(store) for index, entry in self.view(store, row).entries}
        tables = {index.table for index in self.schema.indexes.values()}
        for table, row in store:
            cells = mc.vis(store, table, row) if table in tables else ()
            if cells and (table, row) not in current:
                mc._delrow(after, table, row, max(timestamp for _, timestamp, _ in cells))
        if broken := self.check(after):
            return f"after repair: {broken}"
        orphans = [key for key in after if key[0] in tables and mc.vis(after, *key) and key not in current]
        return f"ORPHAN survives repair: {orphans}" if orphans else None


def _name(number: int, write: Began) -> str:
    return f"write {number} ({write.kind}@{write.timestamp})"


def _excused(number: int, write: Began, history: dict[int, Began]) -> bool:
    """Whether a delete that was not over when the write began may have won: any delete for a partial update, otherwise
    a delete that is not earlier than the write.

    A put that expires also counts as a delete of everything older.
    """
    return any(
        (other.kind == "delete" or (other.expires and name != number))
        and name not in write.over
        and (write.kind not in {"full", "insert"} or other.timestamp >= write.timestamp or number in other.over)
        for name, other in history.items()
    )


@once
def watch_of(schema: TableSchema, strict: bool = True) -> Watch:
    """The invariants of one model, with everything that was found out about its stores."""
    return Watch(schema, strict)


class ProtocolModel(Model):
    """The checker over the processes of one model.

    Args:
        watch: the invariants.
        store: to begin with.
        processes: name (`W...` writes), steps, reading of its clock.
        crashes: how many writers may crash.
        compaction: `any`, `grace` (tombstones younger than the grace time stay) or None; one at most.
        unmoved: name of the indexed field if readers may miss rows in which it changes (a range), else None.
        always: whether the invariants hold in every state or, once everything has stopped, only then.
    """

    def __init__(
        self,
        watch: Watch,
        store: Store,
        processes: Sequence[tuple[str, Callable[[], Steps], int]],
        crashes: int = 1,
        compaction: str | None = None,
        unmoved: str | None = None,
        *,
        always: bool = True,
    ) -> None:
        self.watch, self.compaction, self.unmoved, self.always = watch, compaction, unmoved, always
        self.compacts, self.ages = compaction is not None, compaction == "grace"
        super().__init__(store, processes, crashes, watch.pool((compaction, unmoved, always)))

    def broken(self, store: Store) -> str | None:
        """The invariants."""
        return self.watch.check(store) if self.always else None

    def terminal(self, store: Store) -> str | None:
        """The entries that must remain after repair."""
        return self.watch.healed(store)

    def primary(self, store: Store) -> tuple[Any, ...]:
        """The live rows."""
        return self.watch.live(store)

    def remembered(self, answer: Any) -> Any:
        """Of an entry that a scan found only the key and the time are of interest."""
        if type(answer) is tuple and len(answer) == 2:
            return answer[0], max(timestamp for _, timestamp, _ in answer[1])
        return answer

    def acknowledged(self, store: Store, step: Step) -> Store:
        """Notes the writes that are over."""
        store[ACKNOWLEDGED] = store.get(ACKNOWLEDGED, frozenset((0,))) | step[1]
        return store

    def completed(self, store: Store, dead: frozenset[int]) -> Store:
        """The writes of crashed writers are also over for a write that begins now."""
        new = [key for key, value in store.items() if key[0] == BEGAN and value.new]
        if not new:
            return store
        over = frozenset(key[1] for key in store if key[0] == BEGAN and key[1] // 10 - 1 in dead)
        after = dict(store)
        for key in new:
            after[key] = store[key].completed(over)
        return after

    def over(self, store: Store, process: int) -> bool:
        """Whether every write that the process has begun is acknowledged: of its death nothing more is to be noted
        then.
        """
        acknowledged = store.get(ACKNOWLEDGED, NOTHING)
        return all(key[1] in acknowledged for key in store if key[0] == BEGAN and key[1] // 10 - 1 == process)

    def observed(self, must: frozenset[Any], seen: frozenset[Any]) -> frozenset[Any]:
        """Rows that moved in the index need not be found by a range."""
        return must if self.unmoved is None else frozenset(row for row in must if len(self._moves(row, seen)) == 1)

    def returned(self, found: Sequence[Any], matches: Callable[[Any], bool], seen: frozenset[Any]) -> None:
        """The items of a query match it, and no row is returned twice; the checker tests the rest."""
        if wrong := [one for one in found if not matches(one)]:
            raise mc.Violation(f"DIRTY: the query returned {wrong}, which do not match")
        rows = [one[0] for one in found]
        for row in {row for row in rows if rows.count(row) > 1}:
            if self.unmoved is None or len(self._moves(row, seen)) == 1:
                raise mc.Violation(f"TWICE: the query returned row {row!r} {rows.count(row)} times")

    def _moves(self, row: bytes, states: Any) -> set[Any]:
        return {dict(values)[self.unmoved] for found, values in states if found == row}

    def compacted(self, store: Store, young: int) -> Store | None:
        """The store without its tombstones, except those within the grace time if these are kept."""
        after: Store = {}
        for key, state in store.items():
            if key[0] in NO_ROWS:
                after[key] = state
                continue
            columns = tuple((c, (self._kept(ct, young), ts, v)) for c, (ct, ts, v) in state[1])
            columns = tuple(c for c in columns if c[1][0] != mc.NEG or c[1][1] != mc.NEG)
            kept = type(state)((self._kept(state[0], young), columns))
            if kept != (mc.NEG, ()) or isinstance(key[0], tuple):  # nothing beneath a row is something to know
                after[key] = kept
        return None if after == store else after

    def _kept(self, tombstone: int, young: int) -> int:
        return tombstone if self.compaction == "grace" and tombstone >= young else mc.NEG
