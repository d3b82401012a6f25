"""Checks how well a model fits a sample of a table's rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import frozen

from hbmodel.encoding.codecs.dictionary import numbers_as_names
from hbmodel.mapping.schema import TableSchema
from hbmodel.store.port import Store
from hbmodel.tables.adoption.adopt_findings import Finding
from hbmodel.tables.adoption.row_against_model import ColumnTest, RowJudge, Tally
from hbmodel.tables.adoption.table_sample import sampled_rows


@frozen
class Judgement:
    """The result of judging a sample of a table."""

    tally: Tally
    findings: Sequence[Finding]


def judge_sample(
    store: Store,
    schema: TableSchema,
    count: int,
    *,
    has_system_cells: bool,
    others: Sequence[ColumnTest] = (),
    families: Collection[bytes] = (),
) -> Judgement:
    """Judges about `count` rows of the model's table. Only rows that have a cell in the model's families are judged.

    Args:
        has_system_cells: whether it is registered that hbmodel adds cells to the table's rows.
        others: for each other registered model of the table, a function that tells whether a column belongs to that
            model. Such columns need no declaration.
        families: the families of the other registered models. Their columns need no declaration either.
    """
    judge = RowJudge(store, schema, has_system_cells, others)
    with numbers_as_names():
        for row in sampled_rows(store, schema.table, count, schema.family_names):
            judge.judge(row)
    for family in store.families(schema.table):
        name = family.name.decode("utf-8", "backslashreplace")
        declared = next((each for each in schema.families if each.name == family.name), None)
        if declared is None:
            if family.name not in families:
                judge.collected.add("family-undeclared", name)
            continue
        if family.ttl is not None and family.ttl != declared.ttl:
            judge.collected.add("family-ttl", name, detail=f"ttl={family.ttl} s")
        if (family.max_versions or 1) > (declared.max_versions or 1):
            judge.collected.add("family-versions", name, detail=f"max_versions={family.max_versions}")
    return Judgement(judge.tally, judge.collected.findings())
