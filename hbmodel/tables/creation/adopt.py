"""Registers a model for a table that other programs write, if a sample of the table shows that the model fits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, get_args

from attrs import evolve, frozen

from hbmodel.errors import DeclarationError, TableNotFound
from hbmodel.mapping.schema import schema_of
from hbmodel.store.port import Store, check_store
from hbmodel.tables.adoption.adopt_findings import Finding, Kind
from hbmodel.tables.adoption.sample_against_model import judge_sample
from hbmodel.tables.creation.create import Creation, carried_out, planned
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry

SAMPLE = 1_000
"""About how many rows `adopt` reads."""


@frozen
class Adoption:
    """The findings in a sample of a table, and whether the model was registered.

    Its text has a line for the counts, and one for each finding.

    Attributes:
        table: the name of the table.
        rows: how many rows were read; rows without a cell in the families of the model do not count.
        objects: how many objects of the model in these rows can be read.
        unreadable: how many objects cannot be read, so that reads of them raise an error.
        absent: how many rows (in a wide model, objects) the model leaves out. `objects`, `unreadable` and `absent` add
            up to the number of all objects (or rows).
        findings: contradictions to the model; notes come last.
        accepted: the names of findings that were accepted.
        creation: the result of the registration; None if the model was not registered.
        model: the name of the model.
    """

    table: str
    rows: int
    objects: int
    unreadable: int
    absent: int
    findings: Sequence[Finding]
    accepted: Collection[str] = ()
    creation: Creation | None = None
    model: str = ""

    @property
    def open(self) -> Sequence[Finding]:
        """The findings that prevent the registration, because they are neither notes nor accepted."""
        return [finding for finding in self.findings if not finding.note and not self._is_accepted(finding)]

    @property
    def adopted(self) -> bool:
        """Whether the model was registered."""
        return self.creation is not None

    def __str__(self) -> str:
        counts = (
            f"{self.table}: {self.rows} rows read: {self.objects} objects of {self.model}, {self.unreadable} "
            f"unreadable, {self.absent} left out: {'adopted' if self.adopted else 'not adopted'}"
        )
        return "\n".join([counts, *map(self._line, self.findings)])

    def _line(self, finding: Finding) -> str:
        return f"{finding} (accepted)" if self._is_accepted(finding) else str(finding)

    def _is_accepted(self, finding: Finding) -> bool:
        return not finding.note and (finding.name in self.accepted or finding.kind in self.accepted)


def adopt(
    store: Store,
    model: type[Any],
    *,
    sample: int = SAMPLE,
    accept: Collection[str] = (),
    registry: str = REGISTRY_TABLE,
) -> Adoption:
    """Checks whether an external model fits a table that other programs write. If it does, registers the model.

    Rows from the start, the middle and the end of every region are read, with at most 1,000 cells each. Only the
    families of the model are read: queries do not return rows without a cell in these families. Keys and cells are
    decoded as the model declares and encoded again; the bytes must be the same. Salt buckets are computed again. Rows,
    cells and qualifiers that do not fit the model are counted. Cells are also counted if their timestamps are so high
    that later puts by hbmodel would not exceed them. The ids of a dictionary are not translated to names. Cells of
    other models that are registered for the table are not counted, nor are rows that have only such cells.

    The table is only read. If there is a finding that is neither a note nor accepted, nothing is registered.

    Args:
        store: the store that holds the table.
        model: a model with `external=True`.
        sample: about how many rows are read, at least 1.
        accept: the names of findings that do not prevent the registration. A name is a kind, such as `"undeclared"`, or
            a kind with a subject, such as `"undeclared:d:x"`.
        registry: name of the registry table.

    Returns:
        The findings, and whether the model was registered. `create_tables` registers it and also creates the index
        tables.

    Raises:
        DeclarationError: the model is not external, an accepted kind does not exist, or the sample is not a whole
            number of at least 1.
        TableNotFound: the table does not exist.
        FamilyNotFound: the table lacks a column family of the model.
        SchemaMismatch: the table is registered with another layout.
    """
    check_store(store)
    schema = schema_of(model)
    if not schema.external:
        raise DeclarationError(
            "Only tables that other programs write are adopted: declare the model with external=True. For tables of "
            "hbmodel, use hb.create_tables.",
            table=schema.table,
        )
    if type(sample) is not int or sample < 1:
        raise DeclarationError("sample must be a whole number of at least 1: the number of rows.", found=repr(sample))
    accepted = (accept,) if isinstance(accept, str) else tuple(accept)
    for name in accepted:
        if name.partition(":")[0] not in get_args(Kind):
            raise DeclarationError(
                "There is no such kind of finding to accept.", found=name, known=sorted(get_args(Kind))
            )
    if schema.table not in store.tables():
        raise TableNotFound("There is no such table to adopt: correct the name of the table.", table=schema.table)
    catalog = Registry(store, registry)
    plans = planned(store, (model,), None, catalog)
    others = catalog.uses_of_others(schema)
    judged = judge_sample(
        store,
        schema,
        sample,
        has_system_cells=any(plan.has_system_cells(schema) for plan in plans),
        others=[use.owns for use in others],
        families={family for use in others for family in use.families},
    )
    tally = judged.tally
    adoption = Adoption(
        schema.table,
        tally.rows,
        tally.objects,
        tally.unreadable,
        tally.absent,
        judged.findings,
        accepted,
        model=model.__name__,
    )
    if adoption.open:
        return adoption
    return evolve(adoption, creation=carried_out(store, plans, catalog))
