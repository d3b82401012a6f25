"""The gate before requests that change something: wide rows and retries pass it in the middle of an operation."""

from __future__ import annotations

import pytest

import hbmodel as hb
from hbmodel.errors import SchemaMismatch
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.mapping.schema import schema_of
from hbmodel.store import Delete
from hbmodel.store.gate import gated, may_pass, pass_gate
from hbmodel.store.wide.folded import folded
from tests.support.beds import fresh
from tests.support.faulty import RecordingStore


def shut() -> None:
    """Lets nothing pass."""
    assert may_pass(), "what the gate asks for passes none"
    raise SchemaMismatch("changed")


def test_only_what_is_gated_passes_a_gate() -> None:
    pass_gate()
    assert may_pass()
    with gated(shut):
        with pytest.raises(SchemaMismatch):
            pass_gate()
        assert not may_pass()
        with gated(None):
            pass_gate()
    pass_gate()


@hb.model(table="gated", family="d")
class Part:
    """An object of a wide row."""

    group: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    text: hb.Column[str] = hb.column("t")


def test_a_delete_of_an_object_passes_the_gate_once_its_columns_are_listed() -> None:
    with fresh(Part) as inner:
        with hb.Session(inner) as session:
            session.add(Part(group="r", name="a", text="t"))
        store = RecordingStore(inner)
        view, row = folded(store, schema_of(Part).wide_rows), KeyMapper(schema_of(Part)).rows(("r", "a"))[0]
        with gated(shut), pytest.raises(SchemaMismatch):
            view.delete("gated", [Delete(row)])
        assert not any(call.startswith("delete") for call in store.told())
        assert hb.Session(inner).get(Part, group="r", name="a") is not None
        view.delete("gated", [Delete(row)])
        assert hb.Session(inner).get(Part, group="r", name="a") is None
