"""Schemas with families of newer programs."""

from __future__ import annotations

import hbmodel as hb
from hbmodel.mapping.newer_families import with_families
from hbmodel.mapping.schema import schema_of


@hb.model(table="wider", family="d")
class Thing:
    name: hb.Key[str] = hb.key()
    text: hb.Column[str] = hb.column("t", family="e")


SCHEMA = schema_of(Thing)


def test_a_schema_that_has_the_families_stays_as_it_is() -> None:
    assert with_families(SCHEMA, set()) is SCHEMA
    assert with_families(SCHEMA, {b"e"}) is SCHEMA
    assert with_families(SCHEMA, {b"d", b"e"}) is SCHEMA


def test_further_families_are_added() -> None:
    wider = with_families(SCHEMA, {b"a", b"e"})
    assert wider.family_names == (b"a", b"d", b"e")
    assert SCHEMA.family_names == (b"d", b"e")
    assert wider.row_columns == wider.family_names
    assert (wider.model, wider.table, wider.columns, wider.layout_spec) == (
        SCHEMA.model,
        SCHEMA.table,
        SCHEMA.columns,
        SCHEMA.layout_spec,
    )


def test_code_is_generated_for_it_once() -> None:
    assert with_families(SCHEMA, {b"a"}) is with_families(SCHEMA, {b"a", b"d"})
