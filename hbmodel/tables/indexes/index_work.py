"""The parts that all operations on an index of a model have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from attrs import asdict, define, evolve, frozen

from hbmodel.errors import CapabilityError, DeclarationError, SessionError
from hbmodel.mapping.schema import Index, TableSchema, schema_of
from hbmodel.protocol.corrected_clock import CLOCK_BOUND, GRACE, LONGEST_CALL, ServerClock, check_grace
from hbmodel.protocol.driver import drive
from hbmodel.protocol.indexed.index_build import RowIndexer
from hbmodel.protocol.indexed.index_repair import repair_entries, reverify_entries
from hbmodel.protocol.indexed.index_verify import Entry, find_missing, find_stale
from hbmodel.protocol.versioned.claim_comparison import FoundClaim, answering, check_claims, release_unheld
from hbmodel.protocol.versioned.versioned_plan import VersionedRowPlanner
from hbmodel.store.checks.numbers import is_finite
from hbmodel.store.port import Store, check_store
from hbmodel.store.values import Row, Scan
from hbmodel.store.wide.folded import folded
from hbmodel.tables.creation.index_tables import naming_lost_tables
from hbmodel.tables.creation.row_samples import Sample, sample_rows
from hbmodel.tables.indexes.index_report import SAMPLES, IndexBuild, IndexReport
from hbmodel.tables.indexes.index_states import IndexStates
from hbmodel.tables.indexes.index_sweeps import IndexProgress, Report, Sweeps, Throttle, counted
from hbmodel.tables.indexes.repeated_values import RepeatedValues
from hbmodel.tables.indexes.shared_ranges import CLAIM_LIFE, LOOK, Counts
from hbmodel.tables.registry.registration import ABSENT, LEASE, MAINTAINED_BY_ALL
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.logged_waits import LoggedWaits
from hbmodel.tables.roll.other_programs import Awaited, Drain, Waited


@frozen
class IndexTimes:
    """The times, in seconds, on which all programs that use a table must agree.

    Attributes:
        lease: the longest lease of all sessions.
        longest_call: how long a call to HBase may last (the gateway's `hbase.client.operation.timeout`).
        grace: how old an entry must be before it may be treated as an orphan. It must be more than twice the longest
            call plus four clock bounds.
        clock_bound: the largest difference between a program's clock and the server's.

    Raises:
        SessionError: a value is not a number of seconds, or the grace time is too short.
    """

    lease: float = LEASE
    longest_call: float = LONGEST_CALL / 1000
    grace: float = GRACE / 1000
    clock_bound: float = CLOCK_BOUND / 1000

    def __attrs_post_init__(self) -> None:
        for name, seconds in asdict(self).items():
            if not is_finite(seconds) or seconds < 0:
                raise SessionError("Times must be numbers of seconds, at least 0.", option=name, found=repr(seconds))
        check_grace(*(round(seconds * 1000) for seconds in (self.grace, self.longest_call, self.clock_bound)))

    def clock(self, registry: Registry, valid: Callable[[], bool] = lambda: True) -> ServerClock:
        """Returns a clock that follows the server's clock. `valid` returns whether the schema in use is still
        current.
        """
        return ServerClock.of_seconds(
            registry.server_time, valid, grace=self.grace, bound=self.clock_bound, longest_call=self.longest_call
        )

    @property
    def drain(self) -> Drain:
        """How long other programs may still follow an earlier state."""
        return Drain(self.lease, self.longest_call, self.clock_bound)


ATTEMPTS = 5
"""The maximum number of attempts to put missing entries. Another attempt is made if the previous one took so long that
its entries may have been too late.
"""

TIMES = IndexTimes()


def check_times(times: object) -> None:
    """Raises `DeclarationError` if the value is not an `IndexTimes`."""
    if not isinstance(times, IndexTimes):
        raise DeclarationError("times must be an hb.indexes.IndexTimes.", found=repr(times))


def waiting(progress: Report | None) -> Waited:
    """Returns a function that waits for a part of the time that is left. Before it waits, it reports the time and the
    programs for which the work waits. If `progress` is None, it logs long waits.
    """
    logged = LoggedWaits()

    def wait(seconds: float, whom: Awaited, writers: Sequence[str]) -> None:
        if progress is not None:
            progress(IndexProgress("waiting", 0, None, 0, seconds, whom, tuple(writers)))
        else:
            logged(seconds, whom, writers)
        time.sleep(min(LOOK, seconds))

    return wait


@define
class _Tally:
    """The findings of a check so far."""

    report: IndexReport
    samples: list[tuple[str, str]]

    def add(self, **more: int) -> None:
        self.report = evolve(self.report, **{name: getattr(self.report, name) + count for name, count in more.items()})

    def note(self, problem: str, keys: Iterable[bytes]) -> None:
        self.samples += [(problem, key.hex()) for key in keys][: max(0, SAMPLES - len(self.samples))]


@frozen
class IndexWork:
    """One index of one model, with the objects that operations on the index need."""

    store: Store
    registry: Registry
    schema: TableSchema
    index: Index
    times: IndexTimes
    states: IndexStates
    progress: Report | None

    @classmethod
    def of(
        cls,
        store: Store,
        model: type[Any],
        index: str | Index,
        times: IndexTimes,
        registry: str,
        progress: Report | None,
    ) -> IndexWork:
        """Prepares the work on one index, which is given by its name or as an attribute of the model."""
        check_store(store)
        check_times(times)
        schema = schema_of(model)
        declared, catalog = schema.index(index), Registry(store, registry)
        states = IndexStates(store, catalog, schema, declared.name, times.drain, waiting(progress))
        return cls(folded(store, schema.wide_rows), catalog, schema, declared, times, states, progress)

    def check_buildable(self) -> None:
        """Raises `CapabilityError` for a unique index in a store that cannot claim values."""
        if self.index.unique and not self.store.capabilities.check_and_mutate:
            raise CapabilityError(
                "A unique index needs a store with check-and-mutate: embedded, or HBase through its Thrift2 gateway.",
                table=self.schema.table,
                index=self.index.name,
            )

    def sweeps(
        self,
        table: str,
        rows: str,
        throttle: Throttle,
        batch_size: int,
        claim_life: float = CLAIM_LIFE,
        maintained_by_all: bool = True,
    ) -> Sweeps:
        """Returns the sweeps for the live index table."""
        live, adopting = (
            evolve(self.index, table=table, maintained_by_all=maintained_by_all),
            rows not in {"indexed", "plain"},
        )
        indexer = RowIndexer(self.schema, (live,), adopting, plain=rows == "plain")
        clock = self.times.clock(self.registry, lambda: not (adopting and self.states.rows_are_adopted))
        then = self.sweeps(table, "indexed", throttle, batch_size, claim_life) if adopting else None
        look = min(LOOK, self.times.lease)
        claims: VersionedRowPlanner | None = None
        if live.unique:
            others = answering(self.schema, live, self.registry.bind(self.schema).written)
            claims = VersionedRowPlanner(self.schema, (live,), clock.bound, adopting=adopting, answering=others)
        return Sweeps(
            self.store,
            self.registry,
            indexer,
            live,
            clock,
            throttle,
            batch_size,
            self.progress,
            claim_life,
            then,
            claims,
            look,
        )

    def built(self, state: str, counts: Counts, missing: int) -> IndexBuild:
        """Returns the result of a build."""
        return IndexBuild(
            self.schema.table,
            self.index.name,
            state,
            counts.rows,
            counts.entries,
            counts.adopted,
            counts.missing + missing,
            counts.refused,
            counts.samples,
            counts.duplicates,
            counts.duplicated,
        )

    def dry_build(self, throttle: Throttle, batch_size: int) -> IndexBuild:
        """Counts the entries that a build would put, without writing."""
        registration = self.states.as_declared()
        sweeps = self.sweeps(self.index.table, registration.rows, throttle, batch_size)
        (batches,) = self.store.scan(self.schema.table, [Scan(columns=sweeps.indexer.columns, batch_size=batch_size)])
        repeated_values = RepeatedValues(self.index) if self.index.unique else None
        total = Counts()
        for rows in batches:
            row_entries = [entries for row in rows if (entries := sweeps.indexer.of(row)) is not None]
            total += counted(row_entries)
            if repeated_values is not None:
                total += repeated_values.counted(row_entries)
            throttle.passed(rows)
        state = self.states.state(registration)
        return self.built(ABSENT if state is None else state.state, total, 0)

    # --- both directions ----------------------------------------------------------------------------------------------

    def check(
        self,
        phase: Literal["verifying", "repairing"],
        mend: bool,
        sample: int | None,
        throttle: Throttle,
        batch_size: int,
    ) -> IndexReport:
        """Checks rows and entries, all or a sample, and repairs them if requested."""
        registration, state = self.states.live()
        sweeps = self.sweeps(
            state.table, registration.rows, throttle, batch_size, maintained_by_all=state.state in MAINTAINED_BY_ALL
        )
        tally = _Tally(IndexReport(self.schema.table, self.index.name, state.state, sampled=sample is not None), [])
        began = time.monotonic()
        with naming_lost_tables(self.schema.table, self.index.name, state.table):
            rows_read = self._check_all(sweeps, state.table, mend, sample, throttle, batch_size, phase, tally)
        seconds = time.monotonic() - began
        whole = None if rows_read.share is None else seconds / rows_read.share
        return evolve(tally.report, seconds=seconds, whole=whole, samples=tuple(tally.samples))

    def _check_all(
        self,
        sweeps: Sweeps,
        index_table: str,
        mend: bool,
        sample: int | None,
        throttle: Throttle,
        batch_size: int,
        phase: Literal["verifying", "repairing"],
        tally: _Tally,
    ) -> Sample:
        """Checks both tables, and returns the rows that were read."""
        rows_read = self._read(self.schema.table, sweeps.indexer.columns, sample, batch_size)
        for rows in rows_read.batches:
            self._check_rows(sweeps, rows, mend, tally)
            throttle.passed(rows)
            self._show(phase, tally)
        if self.index.unique:
            for rows in self._read(index_table, (self.schema.claim_column,), sample, batch_size).batches:
                self._check_claims(sweeps, rows, mend, tally)
                throttle.passed(rows)
                self._show(phase, tally)
        # A row of the index table with neither a version cell nor a status is the claim of a unique value.
        for rows in self._read(index_table, sweeps.indexer.entry_columns, sample, batch_size).batches:
            self._check_entries(sweeps, [Entry.of(self.schema, sweeps.index, row) for row in rows], mend, tally)
            throttle.passed(rows)
            self._show(phase, tally)
        return rows_read

    def _read(self, table: str, columns: Sequence[bytes], sample: int | None, batch_size: int) -> Sample:
        """Returns all rows of a table, or a sample of them."""
        if sample is not None:
            return sample_rows(self.store, table, sample, columns)
        (batches,) = self.store.scan(table, [Scan(columns=columns, batch_size=batch_size)])
        return Sample(batches, 1.0)

    def _check_rows(self, sweeps: Sweeps, rows: Sequence[Row], mend: bool, tally: _Tally) -> None:
        findings = drive(self.store, find_missing(sweeps.indexer, rows), sweeps.clock)
        tally.add(rows=findings.live, missing=len(findings.missing), refused=len(findings.refused))
        tally.note("missing", (entries.row for entries in findings.missing))
        tally.note("refused", (entries.row for entries in findings.refused))
        self._check_claimed(sweeps, rows, mend, tally)
        if not mend or not findings.missing:
            return
        for _ in range(ATTEMPTS):
            put = sweeps.put_missing(findings)
            if put is not None:
                tally.add(put=put.entries)
                return

    def _check_claimed(self, sweeps: Sweeps, rows: Sequence[Row], mend: bool, tally: _Tally) -> None:
        """Counts the rows whose unique value is not claimed. With `mend`, claims these values.

        Rows whose value seems to be unclaimed are read again first, because they may have changed.
        """
        lacking = sweeps.unclaimed(rows)
        if lacking:
            again = self.store.get(self.schema.table, [row.row for row in lacking], sweeps.indexer.columns)
            lacking = sweeps.unclaimed([row for row in again if row is not None])
        tally.add(unclaimed=len(lacking))
        tally.note("unclaimed", (row.row for row in lacking))
        if mend and lacking:
            tally.add(claimed=len(lacking) - sweeps.claim(lacking).duplicates)

    def _check_claims(self, sweeps: Sweeps, rows: Sequence[Row], mend: bool, tally: _Tally) -> None:
        """Counts the claims whose rows do not have the value. With `mend`, releases these claims."""
        assert sweeps.claims is not None, "only unique indexes have claims"
        claims = [FoundClaim(row.row, row.columns[self.schema.claim_column]) for row in rows]
        findings = drive(
            self.store, check_claims(sweeps.claims, sweeps.index, claims, round(self.times.grace * 1000)), sweeps.clock
        )
        tally.add(unheld=len(findings.unheld), released=len(findings.released), pending=len(findings.pending))
        tally.note("unheld", (claim.key for claim in findings.unheld))
        if mend and findings.unheld:
            tally.add(
                freed=len(drive(self.store, release_unheld(sweeps.claims, sweeps.index, findings.unheld), sweeps.clock))
            )

    def _check_entries(self, sweeps: Sweeps, entries: Sequence[Entry], mend: bool, tally: _Tally) -> None:
        grace = round(self.times.grace * 1000)
        findings = drive(self.store, find_stale(sweeps.indexer, sweeps.index, entries, grace), sweeps.clock)
        counted = sum(not entry.bare for entry in entries)
        tally.add(
            entries=counted, stale=len(findings.stale), pending=len(findings.pending), expiring=len(findings.expiring)
        )
        # A mark alone, without its entry, is no outdated entry: its row was counted as a row without an entry.
        outdated = [entry for entry in findings.outdated if not entry.bare]
        tally.add(unverified=len(findings.unverified), bare=len(findings.bare), outdated=len(outdated))
        tally.note("stale", (entry.key for entry in findings.stale))
        tally.note("outdated", (entry.key for entry in outdated))
        if mend and (wrong := [*findings.stale, *findings.bare]):
            gone = drive(self.store, repair_entries(sweeps.indexer, sweeps.index, wrong, grace), sweeps.clock)
            tally.add(deleted=len(gone))
        if mend and sweeps.index.maintained_by_all:
            for kind, entries_again in (("verified", findings.unverified), ("updated", outdated)):
                put = drive(
                    self.store, reverify_entries(sweeps.indexer, sweeps.index, entries_again, grace), sweeps.clock
                )
                tally.add(**{kind: len(put)})

    def _show(self, phase: Literal["verifying", "repairing"], tally: _Tally) -> None:
        if self.progress is not None:
            self.progress(IndexProgress(phase, 0, None, tally.report.rows))
