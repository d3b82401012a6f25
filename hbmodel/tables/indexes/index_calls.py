"""Builds, checks, repairs and drops indexes while programs read and write the tables."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from hbmodel.errors import CapabilityError
from hbmodel.mapping.schema import Index, schema_of
from hbmodel.protocol.driver import drive
from hbmodel.protocol.indexed.index_repair import purge_markers
from hbmodel.store.port import Store, check_store
from hbmodel.store.values import Scan
from hbmodel.store.wide.folded import folded
from hbmodel.tables.creation.declared import SplitsOption
from hbmodel.tables.creation.existing_tables import is_dropping
from hbmodel.tables.creation.index_tables import check_readable, naming_lost_tables
from hbmodel.tables.ids.dictionaries import within_names
from hbmodel.tables.indexes.index_arguments import check_choices, check_work
from hbmodel.tables.indexes.index_report import IndexBuild, IndexReport
from hbmodel.tables.indexes.index_states import IndexStates
from hbmodel.tables.indexes.index_sweeps import Report, Throttle
from hbmodel.tables.indexes.index_work import TIMES, IndexTimes, IndexWork, check_times, waiting
from hbmodel.tables.indexes.shared_ranges import CLAIM_LIFE, Counts
from hbmodel.tables.registry.registered_fields import check_layout, match_indexes
from hbmodel.tables.registry.registration import ABSENT, BUILDING, READABLE, VERIFYING, IndexState
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry

BATCH = 500
"""The number of rows that one round trip of a build or a check reads."""


@within_names
def build_index(
    store: Store,
    model: type[Any],
    index: str | Index,
    *,
    rows_per_second: float | None = None,
    bytes_per_second: float | None = None,
    dry_run: bool = False,
    progress: Report | None = None,
    splits: SplitsOption = None,
    times: IndexTimes = TIMES,
    batch_size: int = BATCH,
    claim_life: float = CLAIM_LIFE,
    registry: str = REGISTRY_TABLE,
) -> IndexBuild:
    """Builds a declared index on a table that is in use, and makes it readable.

    Any number of programs may call this at the same time, on one or many machines, for example with `map` of an
    executor. They use the registry to divide the regions of the table among them, and all calls return when the index
    is built. If a call is killed, its work is completed by another call that is running, or by the next call.

    Programs may write during the build. Their sessions maintain the index as soon as they have noticed the change in
    the registry. So the build first waits for programs that may still write without maintaining the index (up to three
    times, if this is the table's first index), and reports them to `progress`. Then the build puts entries for all
    rows. After that, it checks all rows for missing entries. From then on, queries may use the index.

    Args:
        store: the store that holds the tables.
        model: the model that declares the index.
        index: the name of the index, or the index as a model attribute.
        rows_per_second: maximum rate at which this call reads.
        bytes_per_second: the maximum rate in bytes of keys and cells.
        dry_run: only read the rows and count the entries that would be put, and for a unique index also the rows that
            share a value (only the first million values are remembered for this). Nothing is changed, and the call does
            not wait.
        progress: called regularly with an `IndexProgress`.
        splits: where the regions of the index table begin, as for `create_tables`.
        times: the times on which all programs that use the table agree.
        batch_size: rows in one round trip.
        claim_life: the number of seconds without a response from this program after which another program takes over
            its range.
        registry: name of the registry table.

    Returns:
        The work that all programs have done together. Its `state` is `building` or `verifying` if some rows were
            refused (because their entries are too long or their values cannot be read), or if rows have the same value
            in a unique index. Correct those rows and call again.

    Raises:
        SchemaMismatch: the table is not registered, or its registered layout is different.
        UnknownIndex: the model does not declare the index.
        CapabilityError: the index is unique, and the store has no check-and-mutate.
        IndexUnavailable: the index was dropped in the meantime.
        TableNotFound: another program has dropped the table, or the table of the live index.
        DeclarationError: an argument is invalid.
    """
    check_work(batch_size=batch_size, claim_life=claim_life, progress=progress)
    check_choices(dry_run=dry_run)
    work = IndexWork.of(store, model, index, times, registry, progress)
    work.check_buildable()
    throttle = Throttle(rows_per_second, bytes_per_second)
    if dry_run:
        return work.dry_build(throttle, batch_size)
    total = Counts()
    missing = 0
    first, already = True, False
    while True:
        registration = work.states.until_building(splits)
        state = work.states.state(registration)
        assert state is not None, "an index is registered before it is built"
        sweeps = work.sweeps(state.table, registration.rows, throttle, batch_size, claim_life)
        if first:
            sweeps.begin_again()
            first, already = False, state.state == READABLE
        if state.state == READABLE:
            check_readable(store, work.schema.table, work.index.name, state.table, work.schema.family)
            sweeps.forget()  # this also deletes the progress that a killed program has left
            return evolve(work.built(READABLE, total, missing), already=already)
        if state.state == BUILDING:
            with naming_lost_tables(work.schema.table, work.index.name, state.table):
                total = sweeps.build()
            if total.unfinished:
                return work.built(BUILDING, total, missing)
            work.states.change(BUILDING, VERIFYING)
        elif state.state == VERIFYING:
            if not total.rows:  # other programs have already built it
                total = sweeps.counted_in("building")
            with naming_lost_tables(work.schema.table, work.index.name, state.table):
                checked = sweeps.verify()
            missing = checked.missing
            if checked.unfinished:
                # the build counted rows and entries; this check found the rows that prevent the end of the build
                found_now = evolve(
                    total,
                    refused=checked.refused,
                    samples=checked.samples,
                    duplicates=checked.duplicates,
                    duplicated=checked.duplicated,
                )
                return work.built(VERIFYING, found_now, missing)
            work.states.rows_adopted()
            work.states.change(VERIFYING, READABLE)


def drop_index(
    store: Store,
    model: type[Any],
    index: str | Index,
    *,
    dry_run: bool = False,
    times: IndexTimes = TIMES,
    progress: Report | None = None,
    registry: str = REGISTRY_TABLE,
) -> list[str]:
    """Drops an index while programs read and write. Returns the names of the dropped tables.

    The model need not declare the index. First, queries stop using the index. For this, the call waits for one lease
    (`readers`), with every kind of store. Then writes stop maintaining the index. When no program can write the index
    any more (the call reports the `writers` to `progress`), its table is dropped. If a call is killed, the next call
    completes the work. If the index is built again, it gets a new table with a different name.

    Args:
        store: the store that holds the tables.
        model: the model of the table.
        index: name of the index in the registry.
        dry_run: only return the tables that would be dropped. Nothing is changed, and the call does not wait.
        times: the times on which all programs that use the table agree.
        progress: called regularly with an `IndexProgress`.
        registry: name of the registry table.

    Raises:
        UnknownIndex: the registry has no index of this name for the model.
    """
    check_store(store)
    check_times(times)
    check_work(progress=progress)
    check_choices(dry_run=dry_run)
    schema = schema_of(model)
    name = schema.index(index).name if isinstance(index, Index) else index
    states = IndexStates(store, Registry(store, registry), schema, name, times.drain, waiting(progress))
    return states.to_drop()[1] if dry_run else states.drop()


@within_names
def verify_index(
    store: Store,
    model: type[Any],
    index: str | Index,
    *,
    sample: int | None = None,
    rows_per_second: float | None = None,
    bytes_per_second: float | None = None,
    progress: Report | None = None,
    times: IndexTimes = TIMES,
    batch_size: int = BATCH,
    registry: str = REGISTRY_TABLE,
) -> IndexReport:
    """Compares every row with its index entries, and every entry with its row, and changes nothing.

    The result is correct even if programs write at the same time. Entries that seem to be missing are checked again,
    and only entries older than the grace time count as stale.

    Args:
        store: the store that holds the tables.
        model: the model that declares the index.
        index: the name of the index, or the index as a model attribute.
        sample: check about this many rows, and as many entries, from all parts of the tables; with None, all are
            checked.
        rows_per_second: maximum rate at which this call reads.
        bytes_per_second: the maximum rate in bytes of keys and cells.
        progress: called regularly with an `IndexProgress`.
        times: the times on which all programs that use the table agree.
        batch_size: rows in one round trip.
        registry: name of the registry table.

    Raises:
        IndexUnavailable: the index is not built.
        SchemaMismatch: the table is not registered, or the registered layout of rows or entries is not the model's.
    """
    check_work(batch_size=batch_size, sample=sample, progress=progress)
    work = IndexWork.of(store, model, index, times, registry, progress)
    return work.check("verifying", False, sample, Throttle(rows_per_second, bytes_per_second), batch_size)


@within_names
def repair_index(
    store: Store,
    model: type[Any],
    index: str | Index,
    *,
    dry_run: bool = False,
    rows_per_second: float | None = None,
    bytes_per_second: float | None = None,
    progress: Report | None = None,
    times: IndexTimes = TIMES,
    batch_size: int = BATCH,
    registry: str = REGISTRY_TABLE,
) -> IndexReport:
    """Puts missing index entries. Deletes entries that match no row, if they are older than the grace time.

    It can run while programs write, and any number of repairs can run at the same time. Every program that writes the
    table must use the same `times`. Entries of rows with a TTL are not changed, because they expire together with their
    rows.

    Args:
        store: the store that holds the tables.
        model: the model that declares the index.
        index: the name of the index, or the index as a model attribute.
        dry_run: only report what would be done.
        rows_per_second: maximum rate at which this call reads.
        bytes_per_second: the maximum rate in bytes of keys and cells.
        progress: called regularly with an `IndexProgress`.
        times: the times on which all programs that use the table agree.
        batch_size: rows in one round trip.
        registry: name of the registry table.

    Raises:
        IndexUnavailable: the index is not built.
        SchemaMismatch: the table is not registered, or the registered layout of rows or entries is not the model's.
    """
    check_work(batch_size=batch_size, progress=progress)
    check_choices(dry_run=dry_run)
    work = IndexWork.of(store, model, index, times, registry, progress)
    return work.check("repairing", not dry_run, None, Throttle(rows_per_second, bytes_per_second), batch_size)


def purge_rows(
    store: Store,
    model: type[Any],
    *,
    dry_run: bool = False,
    rows_per_second: float | None = None,
    times: IndexTimes = TIMES,
    batch_size: int = BATCH,
    registry: str = REGISTRY_TABLE,
) -> int:
    """Deletes the markers of deleted indexed rows, if the markers are older than the grace time. Returns how many were
    deleted.

    It can run while programs write, and in any number of programs at the same time.

    Args:
        store: the store that holds the tables.
        model: the model of the table.
        dry_run: only count the markers that are old enough.
        rows_per_second: maximum rate at which this call reads.
        times: the times on which all programs that use the table agree.
        batch_size: rows in one round trip.
        registry: name of the registry table.

    Raises:
        SchemaMismatch: the table has another layout.
        CapabilityError: the table's first index is not built yet. Until then, only the marker distinguishes the remains
            of a deleted row from a live row without system cells.
    """
    check_store(store)
    check_times(times)
    check_work(batch_size=batch_size)
    check_choices(dry_run=dry_run)
    throttle = Throttle(rows_per_second)
    schema, catalog = schema_of(model), Registry(store, registry)
    registration = catalog.read(schema)
    if registration is None or registration.rows in {"plain", "unindexed"}:
        return 0
    check_layout(schema, registration)
    if registration.rows != "indexed":
        raise CapabilityError(
            "Markers cannot be purged before the first index of the table is built: build it first.",
            table=schema.table,
            rows=registration.rows,
        )
    clock, grace, purged = times.clock(catalog), round(times.grace * 1000), 0
    view = folded(store, schema.wide_rows)
    (batches,) = view.scan(schema.table, [Scan(columns=(schema.liveness_column,), batch_size=batch_size)])
    for rows in batches:
        purged += len(
            drive(
                view, purge_markers(schema, rows, grace, not dry_run, checks=view.capabilities.check_and_mutate), clock
            )
        )
        throttle.passed(rows)
    return purged


def index_status(
    store: Store,
    model: type[Any],
    *,
    sample: int = 1000,
    times: IndexTimes = TIMES,
    registry: str = REGISTRY_TABLE,
) -> list[IndexReport]:
    """Reports the registered state of each index of a model, and how many of its entries differ from the rows in a
    sample.

    Args:
        store: the store that holds the tables.
        model: the model of the table.
        sample: how many rows, and how many entries, are checked for each index; with 0, none are checked.
        times: the times on which all programs that use the table agree.
        registry: name of the registry table.
    """
    check_store(store)
    check_times(times)
    check_work(sample=sample, least=0)
    schema = schema_of(model)
    registration = Registry(store, registry).read(schema)
    live: dict[str, IndexState] = {}
    if registration is not None:
        matched = match_indexes(schema, registration)
        known = {state.cell for state in matched.states.values()}
        live = {
            **{state.name: state for cell, state in registration.indexes.items() if cell not in known},
            **matched.states,
        }
    reports: list[IndexReport] = []
    for name in sorted({*schema.indexes, *live}):
        state = live[name].state if name in live else ABSENT
        dropping = name in live and is_dropping(live[name])
        if state == ABSENT or not sample or name not in schema.indexes:
            preparing = state == ABSENT and registration is not None and registration.rows in {"marking", "mixed"}
            reports.append(IndexReport(schema.table, name, state, dropping=dropping, preparing=preparing))
        else:
            report = verify_index(store, model, name, sample=sample, times=times, registry=registry)
            reports.append(evolve(report, dropping=dropping))
    return reports
