"""The writes of a program that moves objects between two tables.

As in a session, each write follows the current entries of the tables in the registry.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

from attrs import evolve, frozen

from hbmodel.errors import SchemaMismatch
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.driver import Clock, drive
from hbmodel.protocol.operations import Protocol
from hbmodel.protocol.relocation.migration_phases import RowTranslator
from hbmodel.protocol.relocation.row_seals import Way
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.store.port import Store
from hbmodel.tables.registry.registration import Binding
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.binding_cache import BindingCache


class _Outdated(SchemaMismatch):
    """Raised if the phase is over, or the indexes of a table have changed."""


@frozen(eq=False)
class MovePlan:
    """How rows are copied or moved from one table to the other, according to the registry at the time of the plan.

    Attributes:
        source: the binding of the table that rows come from.
        target: the binding of the table that rows go to.
        mover: makes the rows for the other table.
        way: for versioned models, how rows are sealed, copied and closed; None for other models.
    """

    source: Binding
    target: Binding
    mover: RowTranslator
    way: Way | None = None

    @classmethod
    def of(cls, source: Binding, target: Binding, *, back: bool, seals: bool, bound: int) -> MovePlan:
        """Makes the plan for copying or moving rows between the tables of two layouts.

        Args:
            back: whether rows move back into the old table.
            seals: whether the phase is one in which rows of versioned models are sealed.
        """
        versioned = target.schema.versioned
        mover = RowTranslator(source.reader, target.schema, target.written, versioned or target.writes_system_cells)
        if not versioned:
            return cls(source, target, mover)
        leaves, enters = (VersionedRowPlanner(binding.schema, binding.written, bound) for binding in (source, target))
        return cls(source, target, mover, Way(leaves, evolve(enters, over_closed=back), back, seals))

    def check_writable(self) -> None:
        """Raises `IndexUnavailable` if a table to be written has an index that the model does not declare."""
        self.target.check_writable()
        if self.way is not None:
            self.source.check_writable()


class MoveWrites:
    """The writes of one piece of work in one phase. A program that waits until no write follows the phase any more also
    waits for these writes.

    Args:
        old: the layout whose row in the registry records the phase.
        lease: for how many seconds the registry is trusted.
        longest_call: the maximum duration of a call to the store, in seconds.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        old: TableSchema,
        new: TableSchema,
        phase: str,
        lease: float,
        longest_call: float,
    ) -> None:
        self._store, self._registry, self._old, self._new, self._phase = store, registry, old, new, phase
        self._known = BindingCache(lease)
        self._roll = None if store.capabilities.gated_writes else self._known.roll(longest_call)

    def carry_out(self, protocol: Protocol[bool], plan: MovePlan, clock: Clock) -> bool:
        """Runs a protocol to its end.

        Returns:
            The result of the protocol, or False if the plan is no longer current, so that a new plan is needed for the
                rest.
        """
        rows = [registry_row(self._old), registry_row(self._new)]
        gate = partial(self._check, plan)
        try:
            with (
                nullcontext()
                if self._roll is None
                else self._roll.calls(self._store, self._registry.table, rows) as calls
            ):
                if calls is not None:
                    calls.begin()
                return drive(self._store, protocol, clock, gate)
        except _Outdated:
            return False

    def _check(self, plan: MovePlan) -> None:
        """Raises `_Outdated` if a plan is no longer current."""
        try:
            holds = self._bind(self._old).phase == self._phase
            for planned in (plan.source, plan.target):
                now = self._bind(planned.schema)
                # A phase that has begun again after a rollback counts as a different phase: rows that were read before
                # may have been deleted.
                holds = holds and now.writes_like(planned) and now.phase_since == planned.phase_since
        except SchemaMismatch as error:
            raise _Outdated(error.message, **error.details) from error
        if not holds:
            raise _Outdated("The objects are now moved in another way.", table=self._old.table)

    @property
    def _bind(self) -> Callable[[TableSchema], Binding]:
        """A function that returns the binding of a layout.

        If the store checks the registry inside the transaction of each write (`gated_writes`), the function returns the
        current binding. Otherwise, it returns a binding with which the program's line on the roll still allows writes.
        """
        roll = self._roll
        if roll is None:
            return lambda schema: self._known.binding(schema, self._registry)
        return lambda schema: self._known.binding_to_write(schema, self._registry, roll, self._store)

    def leave(self) -> None:
        """Takes the program off the writers' roll, because the work is done."""
        self._known.leave(self._store)
