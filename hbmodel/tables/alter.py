"""Changes live tables to match their models, if the changes are safe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from hbmodel.errors import CapabilityError, FamilyExists, MigrationError, SchemaMismatch
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.protocol.relocation.migration_phases import BEFORE, DONE
from hbmodel.store.port import Store
from hbmodel.store.values import FOREVER, Family
from hbmodel.tables.creation.comparison.column_differences import REQUIRED
from hbmodel.tables.creation.comparison.compare_tables import SHARED_LIFE, diff
from hbmodel.tables.creation.comparison.differences_as_text import Diff, Difference
from hbmodel.tables.creation.comparison.entry_differences import NULLABLE_LATER
from hbmodel.tables.creation.comparison.held_members import members_in_use
from hbmodel.tables.creation.create import create_tables, shell_line
from hbmodel.tables.creation.declared import SplitsOption
from hbmodel.tables.creation.index_tables import LOST_INDEX, REBUILD
from hbmodel.tables.creation.planned_tables import replaced_tables
from hbmodel.tables.ids.id_tables import Declared, models_and_ids
from hbmodel.tables.indexes.index_arguments import check_choices, check_work
from hbmodel.tables.indexes.index_states import IndexStates
from hbmodel.tables.indexes.index_sweeps import Report
from hbmodel.tables.indexes.index_work import TIMES, IndexTimes, check_times, waiting
from hbmodel.tables.registry.gone_tables import GONE, WHY_GONE
from hbmodel.tables.registry.layout_changes import allow_none, declare_nullable, keep_members, rename_fields
from hbmodel.tables.registry.migration_phase import check_moves
from hbmodel.tables.registry.nullable_columns import none_must_wait
from hbmodel.tables.registry.registered_fields import match_indexes
from hbmodel.tables.registry.registration import ABSENT
from hbmodel.tables.registry.registry_rows import ROWS, registry_row
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry
from hbmodel.tables.roll.other_programs import OtherPrograms


@frozen
class Alteration:
    """The result of `alter`.

    Attributes:
        applied: the differences that were removed.
        left: the differences that remain: regions of live tables, indexes to be built, and live indexes that the models
            do not declare.
        dropped: the tables of dropped indexes.
    """

    applied: Diff
    left: Diff
    dropped: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n".join(
            [
                *(str(part) for part in (self.applied, self.left) if part),
                *(f"dropped {table}" for table in self.dropped),
            ]
        )


@frozen
class _FamilyChange:
    """All changes of one family of a live table."""

    table: str
    family: Family
    added: bool
    order: int


@frozen
class AlterationPlan:
    """What `alter` changes, after all checks.

    Attributes:
        schemas: the given models.
        replaced: the models that they replace, if objects still have to move.
        differences: how the live tables differ from the models.
        families: the families to add or to change, in this order.
    """

    schemas: Sequence[TableSchema]
    replaced: Sequence[TableSchema]
    differences: Diff
    families: Sequence[_FamilyChange]


def alter(
    store: Store,
    *models: Declared,
    splits: SplitsOption = None,
    lossy: bool = False,
    drop: bool = False,
    times: IndexTimes = TIMES,
    progress: Report | None = None,
    registry: str = REGISTRY_TABLE,
) -> Alteration:
    """Changes live tables to match their models. It creates tables, adds families, changes options of families, and
    registers everything else.

    If a field or an index has a new name but the same bytes, it is renamed in the registry. If several renames are
    possible, the model must choose one with `renamed_from=`. A new index on existing rows is registered as absent, and
    `build_index` builds it. After a crash, repeating the call completes the changes. Programs with older models
    continue to work during the call, because everything that these models declare is kept.

    Args:
        store: the store that holds the tables.
        models: the models of the tables.
        splits: as for `create_tables`, for tables that are created. For live tables, differences in the regions are
            only reported.
        lossy: also apply changes that lose data: a shorter TTL, fewer versions.
        drop: also drop the indexes that the models do not declare, as `drop_index` does. Programs that still declare
            such an index first stop reading it and then stop writing it. After that, its table is dropped. Programs
            that use the given models can write again after the first step, which takes one lease. The registry also
            forgets the members of enumerations that the given models do not have. If a sample of about 100 rows of a
            table holds such a member, the call is refused. Rows outside the sample may hold such a member unnoticed.
        times: the times on which all programs that use the tables agree. The call waits only if an index is dropped, or
            if the model newly allows None in a column.
        progress: called with an `IndexProgress` while the call waits.
        registry: name of the registry table.

    Raises:
        SchemaMismatch: a difference cannot be changed (key layout, salt, codecs, a live index); a change would lose
            data; rows hold a member of an enumeration that the registry would forget; or no row of a sample has a new
            required column: `differences` contains the reasons. Or objects are being moved into or out of a table, and
            the models do not declare this with `replaces=`. Or a family would get a longer TTL, and a model that is not
            given shares it and has indexes. Nothing was changed.
        CapabilityError: the store does not support a change. Nothing was changed, and `shell` contains the commands for
            HBase's shell.
        MigrationError: the model newly allows None in a column, and the objects of its table are being moved. Nothing
            was changed.
    """
    check_times(times)
    check_work(progress=progress)
    plan = planned_alteration(store, models, splits=splits, lossy=lossy, drop=drop, registry=registry)
    catalog = Registry(store, registry)
    for change in plan.families:
        if change.added:
            _add(store, change)
        else:
            store.modify_family(change.table, change.family)
    _allow_none(store, catalog, plan.schemas, times, progress)
    for schema in (*plan.replaced, *plan.schemas):
        rename_fields(catalog, schema)
    for schema in plan.schemas if drop else ():
        keep_members(catalog, schema)
    dropped = (
        [table for schema in plan.schemas for table in _drop_undeclared(store, catalog, schema, times, progress)]
        if drop
        else []
    )
    create_tables(store, *models, splits=splits, registry=registry)
    left = [each for each in plan.differences if each.effect == "left" and not (drop and each.undeclared)]
    return Alteration(
        Diff(tuple(each for each in plan.differences if each not in left)), Diff(tuple(left)), tuple(dropped)
    )


def planned_alteration(
    store: Store, models: Sequence[Declared], *, splits: SplitsOption, lossy: bool, drop: bool, registry: str
) -> AlterationPlan:
    """Plans what `alter` changes, and changes nothing. Raises the errors of `alter`."""
    check_choices(lossy=lossy, drop=drop)
    schemas = dict.fromkeys(schema_of(model) for some in models_and_ids(models) for model in some)
    catalog = Registry(store, registry)
    differences = diff(store, *models, splits=splits, registry=registry, sample=0)
    replaced = replaced_tables(store, [*schemas], catalog)
    _check_moves(catalog, (*replaced, *schemas))
    _check_changes((*_unreadable(store, models, registry, differences), *differences), lossy)
    if drop:
        _check_members(store, catalog, schemas)
    changes = _family_changes(differences, {schema.table for schema in (*schemas, *replaced)})
    if changes and not store.capabilities.alter:
        lines = [
            shell_line(store.add_family if change.added else store.modify_family, change.table, change.family)
            for change in changes
        ]
        raise CapabilityError(
            "This store cannot alter tables: run the lines in `hbase shell`, then repeat the call, or use an "
            "hbase+thrift2: store.",
            tables=sorted({change.table for change in changes}),
            shell="\n".join(lines),
        )
    return AlterationPlan([*schemas], replaced, differences, changes)


def _allow_none(
    store: Store, catalog: Registry, schemas: Iterable[TableSchema], times: IndexTimes, progress: Report | None
) -> None:
    """Registers that columns may be None, once no program can still read or write with a model that does not allow None
    in them.
    """
    if catalog.table not in store.tables():
        return
    changed = [(schema, places) for schema in schemas if (places := declare_nullable(catalog, schema))]
    for schema, _ in changed:  # a new revision, so that the programs on the writers' roll read the registry again
        while (registration := catalog.read(schema)) is not None:
            if catalog.change_rows(schema, registration, registration.rows):
                break
    others = OtherPrograms(store, catalog, times.drain, waiting(progress))
    for schema, places in changed:
        while (registration := catalog.read(schema)) is not None:
            row, since, now = registry_row(schema), registration.rows_since, catalog.server_time()
            # The call waits for readers too: with the earlier model, they could not read a row with None, or would not
            # find such a row.
            if others.have_written(row, registration, ROWS, since, now) and others.have_read(since, now):
                break
        allow_none(catalog, schema, places)


def _check_moves(catalog: Registry, schemas: Iterable[TableSchema]) -> None:
    """Checks the models against the migrations of their tables.

    Raises:
        SchemaMismatch: objects move into or out of a table, and the models do not declare this with `replaces=`. One
            of the two tables would be changed, and not the other.
        MigrationError: a model newly allows None in a column, and the objects of its table are being moved.
    """
    for schema in schemas:
        registration = catalog.read(schema)
        if registration is None:
            continue
        phase = BEFORE if registration.move is None else registration.move.phase
        if phase not in {BEFORE, DONE} and none_must_wait(schema, registration.layout):
            raise MigrationError(
                "The objects of the table are being moved: finish the migration, or roll it back, before you "
                "allow None in a column.",
                table=schema.table,
                phase=phase,
            )
        check_moves(schema, registration.move, registration.cells)


def _drop_undeclared(
    store: Store, catalog: Registry, schema: TableSchema, times: IndexTimes, progress: Report | None
) -> list[str]:
    """Drops all indexes that a model does not declare, in parallel. Returns the names of the deleted tables.

    This includes indexes whose tables remain only because a call that dropped or built them was killed.
    """
    registration = None if catalog.table not in store.tables() else catalog.read(schema)
    if registration is None:
        return []
    drops = [
        IndexStates(store, catalog, schema, state.name, times.drain, waiting(progress), state.cell)
        for state in match_indexes(schema, registration).undeclared
        if state.state != ABSENT or state.entry.get("left") or state.entry.get("creating")
    ]
    for each in drops:
        each.hide()
    for each in drops:
        each.leave()  # from then on programs with this model may write
    return [table for each in drops for table in each.drop()]


def _check_changes(differences: Iterable[Difference], lossy: bool) -> None:
    """Raises `SchemaMismatch` if a difference cannot be changed, or, without `lossy`, would lose data."""
    differences = list(differences)
    stopping = [difference for difference in differences if difference.effect == "refused"]
    refused = [str(difference) for difference in stopping]
    if refused and all(difference.why == WHY_GONE for difference in stopping):
        raise SchemaMismatch(GONE, table=stopping[0].table, differences=refused)
    if refused and all(difference.why == SHARED_LIFE for difference in stopping):
        raise SchemaMismatch(
            "A model that is not given shares a column family that would get a longer TTL: give hb.alter() all models "
            "of the table, each with the same TTL.",
            table=stopping[0].table,
            family=stopping[0].family,
            differences=refused,
        )
    if refused and all(difference.why == NULLABLE_LATER for difference in stopping):
        raise SchemaMismatch(
            "A model that replaces another cannot newly allow None in a column: let the migration end, remove "
            "replaces= from the model, and repeat the call.",
            table=stopping[0].table,
            differences=refused,
        )
    if refused and all(REBUILD in (difference.why or "") for difference in stopping):
        raise SchemaMismatch(LOST_INDEX, table=stopping[0].table, differences=refused)
    if refused:
        raise SchemaMismatch(
            "The live tables cannot be altered to match the models: declare what is live, as `differences` "
            "lists it; declare a changed column under another name and alias, and a changed index under another name; "
            "or use a new table.",
            differences=refused,
        )
    losing = [str(difference) for difference in differences if difference.effect == "lossy"]
    if losing and not lossy:
        raise SchemaMismatch(
            "Altering the tables would lose data: pass lossy=True (--lossy on the command line) if that is intended.",
            differences=losing,
        )


def _unreadable(
    store: Store, models: Sequence[Declared], registry: str, differences: Iterable[Difference]
) -> list[Difference]:
    """Returns the new required columns that no sampled row has. Rows are read only if there are new columns."""
    if not any(each.kind == "column" and each.live is None for each in differences):
        return []
    sampled = diff(store, *models, registry=registry)
    return [each for each in sampled if each.declared == REQUIRED and each.effect == "refused"]


def _check_members(store: Store, catalog: Registry, schemas: Iterable[TableSchema]) -> None:
    held = [str(each) for schema in schemas for each in members_in_use(store, catalog, schema)]
    if held:
        raise SchemaMismatch(
            "Rows hold members of enumerations that the models do not have, so the registry must not forget these "
            "members: see `differences`.",
            differences=held,
        )


def _add(store: Store, change: _FamilyChange) -> None:
    try:
        store.add_family(change.table, change.family)
    except FamilyExists:  # another program has just created it, perhaps with different options
        store.modify_family(change.table, change.family)


def _family_changes(found_differences: Iterable[Difference], primary_tables: set[str]) -> Sequence[_FamilyChange]:
    """Returns the changes of families, in an order that keeps index entries from expiring before their rows, even after
    a crash between two changes.
    """
    options: dict[tuple[str, str], list[Difference]] = {}
    changes: list[_FamilyChange] = []
    for difference in found_differences:
        if difference.effect == "left":
            continue
        if difference.kind == "family":
            # new families come last, because their cells may live longer than the existing index entries
            changes.append(_FamilyChange(difference.table, difference.declared, True, 3))
        elif difference.kind == "option" and difference.family is not None:
            options.setdefault((difference.table, difference.family), []).append(difference)
    for (table, family), differences in options.items():
        values: dict[str, Any] = {}
        order = 0
        for difference in differences:
            option = str(difference.option)
            if option == "ttl":
                values["ttl"] = FOREVER if difference.declared is None else difference.declared
                shorter, of_index = difference.effect == "lossy", table not in primary_tables
                # Index entries must live at least as long as rows: a longer TTL is set on the index tables first, a
                # shorter one on the index tables last.
                order = (2 if of_index else 1) if shorter else (1 if of_index else 2)
            elif option.startswith("configuration."):
                values.setdefault("configuration", {})[option.removeprefix("configuration.")] = difference.declared
            else:
                values[option] = difference.declared
        changes.append(_FamilyChange(table, Family(family.encode(), **values), False, order))
    return sorted(changes, key=lambda change: change.order)
