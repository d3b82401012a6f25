"""Changes the key of a table in use, by moving its objects, phase by phase, into a table with a different layout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from attrs import field, frozen

from hbmodel.errors import CapabilityError, DeclarationError, MigrationError, SchemaMismatch
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.protocol.relocation.migration_phases import (
    BEFORE,
    CLOSED,
    CUT,
    DONE,
    HALTING,
    MOVING,
    PREPARED,
    RETURNED,
    RETURNING,
    TURNED,
)
from hbmodel.store.port import Store, check_store
from hbmodel.store.values import Scan
from hbmodel.tables.creation.create import create_tables
from hbmodel.tables.creation.declared import SplitsOption
from hbmodel.tables.creation.drop import drop_tables
from hbmodel.tables.indexes.index_arguments import check_choices, check_work
from hbmodel.tables.indexes.index_calls import verify_index
from hbmodel.tables.indexes.index_sweeps import Throttle
from hbmodel.tables.indexes.index_work import TIMES, IndexTimes, check_times
from hbmodel.tables.indexes.shared_ranges import CLAIM_LIFE, Progress
from hbmodel.tables.migration.copy_and_compare import Compared, Copying, copying_row
from hbmodel.tables.migration.migration_report import MigrationProgressReport, MigrationReport
from hbmodel.tables.migration.move_writes import MovePlan, MoveWrites
from hbmodel.tables.migration.phase_waits import is_over, wait_for
from hbmodel.tables.migration.sealing import Sealing
from hbmodel.tables.registry.layout_changes import keep_names
from hbmodel.tables.registry.migration_phase import TableMove
from hbmodel.tables.registry.nullable_columns import BindingWithoutNone
from hbmodel.tables.registry.registration import Registration
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry
from hbmodel.tables.roll.logged_waits import LoggedWaits
from hbmodel.tables.roll.other_programs import OtherPrograms

BATCH = 500
"""The number of rows that one round trip reads."""

_REFUSED = (
    "Some rows could not be copied: status() says which, and why. Mend them and call start() again. Rows that do not "
    "fit the new model can be changed only after roll_back()."
)
_REFUSED_BACK = (
    "Some rows of the new table do not fit the old model, so they could not be copied back: `samples` names some. Read "
    "these objects, and delete their rows from the new table with Store.delete(). Then call roll_back() again, and add "
    "the objects with values that fit."
)
_ROLLED_BACK = "The migration is being rolled back: finish that first with roll_back()."


def migrate(
    store: Store,
    model: type[Any],
    *,
    offline: bool = False,
    rows_per_second: float | None = None,
    bytes_per_second: float | None = None,
    progress: MigrationProgressReport | None = None,
    times: IndexTimes = TIMES,
    batch_size: int = BATCH,
    claim_life: float = CLAIM_LIFE,
    registry: str = REGISTRY_TABLE,
) -> Migration:
    """Returns a migration that moves objects into a model's table from the table of the model that this model replaces.

    The steps are methods of the result. Immutable objects (`immutable=True`) and versioned objects move while programs
    run. Other objects might change after they were copied, and no order of calls can prevent that. So such objects are
    moved in a maintenance window, with `offline=True`.

    Args:
        store: the store that holds the tables.
        model: the model of the new table, declared with `@hb.model(replaces=...)`.
        offline: whether programs are refused from the start until the cutover. If False, they continue to read and
            write.
        rows_per_second: the maximum rate at which each step reads, in rows; None for no limit.
        bytes_per_second: the maximum rate in bytes of keys and cells; None for no limit.
        progress: called regularly with a `MigrationProgress`.
        times: the times on which all programs that use the tables agree.
        batch_size: rows in one round trip.
        claim_life: the number of seconds without a response from this program after which another program takes over
            its range.
        registry: name of the registry table.

    Raises:
        DeclarationError: the model replaces no other model, or an argument is invalid.
        CapabilityError: the objects are mutable and not versioned, and `offline` is False; or they are versioned, and
            `offline` is True or the store has no check-and-mutate.
    """
    check_store(store)
    check_times(times)
    check_choices(offline=offline)
    check_work(batch_size=batch_size, claim_life=claim_life, progress=progress)
    throttle = Throttle(rows_per_second, bytes_per_second)
    schema = schema_of(model)
    if schema.replaces is None:
        raise DeclarationError(
            "The model does not replace another: declare the new layout with @hb.model(replaces=...).",
            table=schema.table,
        )
    if schema.versioned:
        if not store.capabilities.check_and_mutate:
            raise CapabilityError(
                "Versioned objects can be moved only in a store with check-and-mutate: embedded, or HBase through "
                "its Thrift2 gateway.",
                table=schema.table,
            )
        if offline:
            raise CapabilityError(
                "Versioned objects move while programs run: leave out offline=True.", table=schema.table
            )
    elif not schema.immutable and not offline:
        raise CapabilityError(
            "Objects that change can be moved only while no program writes them: a change made after the copy would be "
            "lost. Declare the models immutable=True, or use a maintenance window: hb.migration.migrate(..., "
            "offline=True), or --offline on the command line.",
            table=schema.table,
        )
    return Migration(
        store,
        schema,
        schema.replaces,
        Registry(store, registry),
        times,
        throttle,
        batch_size,
        claim_life,
        offline,
        progress,
    )


@frozen(eq=False, repr=False)
class Migration:
    """The steps of a migration, see `migrate`. Any program can repeat any step: finished work is not done again.

    Attributes:
        store: the store that holds the tables.
        new: the schema of the new table.
        old: the schema of the old table.
        registry: the registry of the store.
        times: the times on which all programs that use the tables agree.
        throttle: limits the rate.
        batch_size: rows in one round trip.
        claim_life: the number of seconds without a response from this program after which another program takes over
            its range.
        offline: whether programs are refused during the migration.
        progress: called with the progress, or None.
    """

    store: Store
    new: TableSchema
    old: TableSchema
    registry: Registry
    times: IndexTimes
    throttle: Throttle
    batch_size: int
    claim_life: float
    offline: bool
    progress: MigrationProgressReport | None
    _logged: LoggedWaits = field(factory=LoggedWaits, init=False)  # used if there is no `progress`

    def __repr__(self) -> str:
        return f"Migration({self.old.table} -> {self.new.table})"

    # --- the steps ----------------------------------------------------------------------------------------------------

    def status(self) -> MigrationReport:
        """Returns the state of the migration, as the registry records it."""
        registration = self.registry.read(self.old)
        if registration is None:
            return self._report(self.registry.bind(self.old).phase)
        phase = _phase(registration)
        if phase in {BEFORE, PREPARED, RETURNED} or self._drops_new(phase):
            return self._report(phase)
        with self._copying(back=phase == RETURNING, phase=phase) as copying:
            return self._report(phase, copying.claims.progress())

    def start(self, splits: SplitsOption = None) -> MigrationReport:
        """Creates the new table, makes programs use both tables, and copies all rows.

        Several programs may call this and share the work. From now on, programs that have only the old model are
        refused. Other programs notice a new phase when their registry lease ends. So this call waits for a lease, and
        for the programs on the writers' roll.

        Args:
            splits: where the regions of the new table begin, as for `create_tables`. By default, a salted table gets
                one region for each salt bucket, because all rows arrive at once.

        Raises:
            SchemaMismatch: the old table is not registered, or a table does not match the models.
            MigrationError: the new table holds rows or another model, or the migration is being rolled back.
        """
        self._logged.begin()
        while True:
            registration = self._registered()
            phase = _phase(registration)
            if phase == BEFORE:
                self._begin(registration, splits)
            elif phase == PREPARED:
                self._after_drain(registration, MOVING)
            elif phase in {MOVING, CLOSED}:
                self._check_way(registration)
                self._check_new_kept(phase)
                if self._over(registration):
                    with self._copying(phase=phase) as copying:
                        copying.begin_again()
                        copying.copy()
                    return self.status()
            elif phase in {HALTING, TURNED, RETURNING, RETURNED}:
                raise MigrationError(_ROLLED_BACK, table=self.old.table, phase=phase)
            else:
                return self.status()

    def verify(self) -> MigrationReport:
        """Compares every row of each table with the other table, and the indexes of the new table with its rows, and
        changes nothing.
        """
        phase = _phase(self._registered())
        if phase in {BEFORE, RETURNED}:
            raise MigrationError(
                "No objects are being moved, so there is nothing to compare: call start() first.",
                table=self.old.table,
                phase=phase,
            )
        self._check_new_kept(phase)
        with self._copying(phase=phase) as copying:
            forth = copying.compare(mend=False)
        with self._copying(back=True, phase=phase) as copying:
            back = copying.compare(mend=False)
        check = partial(verify_index, self.store, self.new.model, times=self.times, registry=self.registry.table)
        compared, indexes = back if phase == RETURNING else forth, [check(index) for index in sorted(self.new.indexes)]
        report = partial(
            MigrationReport,
            self.old.table,
            self.new.table,
            phase,
            refused=compared.refused,
            samples=compared.samples,
            missing=compared.missing,
            indexes=indexes,
            checked=True,
        )
        if self.new.versioned:  # each object is in only one of the tables
            return report(rows=forth.rows + back.rows, only_new=back.rows)
        return report(rows=compared.rows, differing=compared.differing, only_new=back.missing)

    def cut_over(self) -> MigrationReport:
        """Checks every row once more, and makes programs use only the new table.

        The old table remains until it is dropped. After this step, the migration cannot be rolled back.

        Raises:
            MigrationError: a row has not been copied, or cannot be copied.
            TableNotFound: another program has dropped one of the two tables.
        """
        self._logged.begin()
        while True:
            registration = self._registered()
            phase = _phase(registration)
            if phase in {MOVING, CLOSED, CUT}:
                self._check_way(registration)
            if phase in {MOVING, CLOSED}:
                self._check_new_kept(phase)
                self._check_copied()
                with self._copying(phase=phase) as copying:
                    self._complete(copying)
                # If the old table has no rows left, the new table has not been read yet, and may no longer exist.
                self.store.get(self.new.table, [b"\0"], [self.new.liveness_column])
                self._change(registration, CUT)
            elif phase == CUT:
                self._after_drain(registration, DONE)
            elif phase == DONE:
                self.registry.mark_moving(self.old, self.new, moving=False)
                return self.status()
            else:
                raise MigrationError(
                    "Not every row has been copied: call start() first.", table=self.old.table, phase=phase
                )

    def roll_back(self) -> MigrationReport:
        """Makes programs use only the old table again, and drops the new table. This is possible until the cutover.

        Rows that only the new table has are copied into the old one first.

        Raises:
            MigrationError: programs already use only the new table, or a row cannot be copied back.
            IndexUnavailable: a table has a live index that this program's model does not declare, so that this program
                could not copy rows.
        """
        self._logged.begin()
        while True:
            registration = self._registered()
            phase = _phase(registration)
            if phase in {PREPARED, MOVING, CLOSED}:
                self._check_way(registration)
            if phase == MOVING:  # a program that cannot copy rows must not begin what only others could finish
                for back in (False, True):
                    self._plan(back, phase).check_writable()
            if phase == PREPARED:
                self._change(registration, RETURNED)
            elif phase == MOVING:
                self._change(registration, HALTING if self.new.versioned else RETURNING)
            elif phase == HALTING:
                if self._over(registration):
                    with self._copying(phase=phase) as copying:
                        copying.compare(mend=True)  # this completes moves that have begun
                    self._change(registration, TURNED)
            elif phase == TURNED:
                self._after_drain(registration, RETURNING)
            elif phase == RETURNING:
                if self._over(registration):
                    with self._copying(back=True, phase=RETURNING) as copying:
                        copying.begin_again()
                        copying.copy()
                        self._complete(copying)
                    self._change(registration, RETURNED)
            elif phase in {RETURNED, CLOSED}:
                if self._over(registration):
                    if self.new.versioned:
                        self._reopen(phase)
                    self._drop_new()
                    self._change(registration, BEFORE)
            elif phase == BEFORE:
                return self._report(BEFORE)
            else:
                raise MigrationError(
                    "After the cutover, programs use only the new table. To go back, declare a model with the old "
                    "layout that replaces this model, in another table, or in the old one after hb.drop_tables(), and "
                    "migrate again.",
                    table=self.new.table,
                    phase=phase,
                )

    # --- from phase to phase ------------------------------------------------------------------------------------------

    def _registered(self) -> Registration:
        registration = self.registry.read(self.old)
        if registration is None:
            existing = self.store.tables()
            over = self.new.table in existing and self.old.table not in existing
            raise SchemaMismatch(
                "The table that the model replaces does not exist, and programs use the new table alone, as after the "
                "migration. So there is nothing to move: remove replaces= from the model."
                if over
                else "The table that the model replaces is not registered: call hb.create_tables() with the model of "
                "that table first.",
                table=self.old.table,
                registry=self.registry.table,
            )
        return registration

    def _begin(self, registration: Registration, splits: SplitsOption) -> None:
        if {*self.registry.rows_of_table(self.new.table)} - {registry_row(self.new)}:
            raise MigrationError(
                "Another model is stored in the new table, which a rollback would drop: give the new model a table of "
                "its own.",
                table=self.new.table,
            )
        create_tables(self.store, self.new.model, splits=splits, registry=self.registry.table)
        keep_names(self.registry, self.old, registration.layout, self.new)
        old, new = self.registry.bind(self.old), self.registry.bind(self.new)
        if isinstance(old, BindingWithoutNone):
            raise SchemaMismatch(
                "The registry does not allow None yet in a column of the old table, and after a rollback programs with "
                "the earlier model could not read rows with None: call hb.alter() with the model of the old table "
                "first.",
                table=self.old.table,
                columns=[f.column.decode("latin-1") for f in old.waiting],
            )
        for binding in (old, new):
            binding.check_writable()
            unbuilt = [
                name for name in binding.schema.indexes if name not in {index.name for index in binding.readable}
            ]
            if unbuilt or binding.rows not in {"unindexed", "indexed"}:
                raise SchemaMismatch(
                    "Build the indexes of the table first.", table=binding.schema.table, index=next(iter(unbuilt), None)
                )
        (batches,) = self.store.scan(self.new.table, [Scan(limit=1, batch_size=1)])
        holds_rows = any(rows for rows in batches)
        if _phase(self._registered()) != BEFORE:
            return  # another program has already begun this phase, and has copied rows
        if holds_rows:
            raise MigrationError(
                "The new table holds rows, and a migration must begin with an empty one. If an earlier migration moved "
                "these rows, keep them, and give the new model another table. Otherwise drop the table.",
                table=self.new.table,
            )
        self._forget()
        self.registry.mark_moving(self.old, self.new, moving=True)
        self._change(registration, CLOSED if self.offline else PREPARED)

    def _forget(self) -> None:
        """Deletes the progress of the copying from the registry."""
        rows = [copying_row(self.old, self.new), copying_row(self.new, self.old)]
        self.registry.delete(rows)

    def _drop_new(self) -> None:
        self._forget()
        self.registry.mark_moving(self.old, self.new, moving=False)
        drop_tables(self.store, self.new.model, registry=self.registry.table)

    def _change(self, registration: Registration, phase: str) -> None:
        """Begins a phase, unless another program has changed the phase since it was read."""
        offline = self.offline if _phase(registration) == BEFORE else _begun_offline(registration)
        self.registry.change_move(self.old, self.new, registration, phase, offline)

    def _after_drain(self, registration: Registration, phase: str) -> None:
        if self._over(registration):
            self._change(registration, phase)

    def _over(self, registration: Registration) -> bool:
        """Returns whether all programs follow the current phase. If a program may still follow the previous phase,
        waits a moment.
        """
        wait = partial(wait_for, self.progress, self._logged)
        others = OtherPrograms(self.store, self.registry, self.times.drain, wait)
        return is_over(registration, registry_row(self.old), others)

    def _check_way(self, registration: Registration) -> None:
        """Raises `MigrationError` if the migration was begun with another value of `offline`."""
        begun = _begun_offline(registration)
        if begun != self.offline:
            way = (
                "in a maintenance window: give offline=True, or --offline on the command line"
                if begun
                else "without a maintenance window: leave out offline=True, or --offline on the command line"
            )
            raise MigrationError(f"The migration was begun {way}.", table=self.old.table)

    def _drops_new(self, phase: str) -> bool:
        """Returns whether a rollback of a migration in a maintenance window has begun to drop the new table. There is
        no separate phase for this: the drop has begun if the registry no longer records that objects are moved into the
        table.
        """
        return phase == CLOSED and not self.registry.moves_into(self.new)

    def _check_new_kept(self, phase: str) -> None:
        if self._drops_new(phase):
            raise MigrationError(_ROLLED_BACK, table=self.old.table, phase=phase)

    def _check_copied(self) -> None:
        status = self.status()
        if not status.copied:
            raise MigrationError(
                _REFUSED if status.refused else "Not every row has been copied: call start() again.",
                table=self.old.table,
                ranges=status.ranges,
                finished=status.finished,
                refused=status.refused or None,
            )

    def _complete(self, copying: Copying) -> None:
        """Copies the rows that are missing in the target table. Raises `MigrationError` if a row cannot be copied."""
        compared: Compared = copying.compare(mend=True)
        if compared.refused:
            raise MigrationError(
                _REFUSED if copying.plan.target.schema is self.new else _REFUSED_BACK,
                table=self.old.table, refused=compared.refused, samples=list(compared.samples),
            )  # fmt: skip

    # --- what a copy needs --------------------------------------------------------------------------------------------

    @contextmanager
    def _copying(self, *, back: bool = False, phase: str) -> Iterator[Copying]:
        """Makes the object that copies the rows of one table into the other, for its block. At the end of the block,
        this program leaves the writers' roll.
        """
        plan, move = partial(self._plan, back, phase), self._registered().move
        writes = MoveWrites(
            self.store, self.registry, self.old, self.new, phase, self.times.lease, self.times.longest_call
        )
        kind = Sealing if self.new.versioned else Copying
        try:
            yield kind(
                self.store,
                self.registry,
                plan(),
                plan,
                writes,
                self.times.clock(self.registry),
                self.throttle,
                self.batch_size,
                lambda: self._still(move),
                self.progress,
                self.claim_life,
            )
        finally:
            writes.leave()

    def _reopen(self, phase: str) -> None:
        """Removes the marks of the move from the rows of the old table. The new table may already have been dropped."""
        with self._copying(phase=phase) as copying:
            assert isinstance(copying, Sealing), "rows of versioned models are sealed"
            copying.reopen()

    def _plan(self, back: bool, phase: str) -> MovePlan:
        old = self.registry.bind(self.old)
        new = old if phase == RETURNED else self.registry.bind(self.new)  # may already be dropped
        source, target = (new, old) if back else (old, new)
        bound = round(1000 * self.times.clock_bound)
        return MovePlan.of(source, target, back=back, seals=phase in {MOVING, RETURNING}, bound=bound)

    def _still(self, move: TableMove | None) -> None:
        registration = self._registered()
        if registration.move != move:  # after a rollback the phase may be the same, but it belongs to a different move
            message = "Another program moved the migration to another phase in the meantime: call status()."
            raise MigrationError(message, table=self.old.table, phase=_phase(registration))

    def _report(self, phase: str, progress: Progress | None = None) -> MigrationReport:
        old, new = self.old.table, self.new.table
        if progress is None:
            return MigrationReport(old, new, phase)
        counts = progress.counts
        return MigrationReport(
            old, new, phase, counts.rows, progress.ranges, progress.done, counts.refused, counts.samples
        )


def _phase(registration: Registration) -> str:
    return BEFORE if registration.move is None else registration.move.phase


def _begun_offline(registration: Registration) -> bool:
    """Returns whether the migration was begun in a maintenance window."""
    return registration.move is not None and registration.move.offline
