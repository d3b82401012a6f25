"""The registry's entries of the kinds of indexes: another condition, another element or another version is another
layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.schema import schema_of
from hbmodel.tables.registry.layout_differences import canonical_json


def half(number: int) -> int:
    """What the computed field is."""
    return number // 2


def declared(index: Any, version: int = 1, of: Sequence[str] = ("x",)) -> Any:
    """A model with one index."""
    body = {
        "a": hb.key(),
        "x": hb.column("x"),
        "y": hb.column("y", default=None),
        "tags": hb.column("t", hb.Json(list[str])),
        "half": hb.computed(half, of=of, version=version),
        "by": index,
    }
    hints = {"a": hb.Key[int], "x": hb.Column[int], "y": hb.Column[int | None], "tags": hb.Column[list[str]]}
    return hb.model(table="kinds_kept")(type("Kept", (), {**body, "__annotations__": hints}))


KINDS = {
    "plain": declared(hb.index("y")),
    "without None": declared(hb.index("y", skip_none=True)),
    "not null where": declared(hb.index("y", where=lambda m: ~m.y.is_(None))),
    "where": declared(hb.index("y", where=lambda m: m.x > 1)),
    "another bound": declared(hb.index("y", where=lambda m: m.x > 2)),
    "another comparison": declared(hb.index("y", where=lambda m: m.x >= 1)),
    "more": declared(hb.index("y", where=lambda m: (m.x > 1) & (m.a == 1))),
    "each": declared(hb.index(hb.each("tags"))),
    "each, turned": declared(hb.index(hb.each("tags", desc=True))),
    "each, where": declared(hb.index(hb.each("tags"), where=lambda m: m.tags.contains("a") | m.tags.contains("b"))),
    "computed": declared(hb.index("half")),
    "second version": declared(hb.index("half"), version=2),
    "of another field": declared(hb.index("half"), of=("a",)),
    "where computed": declared(hb.index("y", where=lambda m: m.half == 1)),
    "where computed, second version": declared(hb.index("y", where=lambda m: m.half == 1), version=2),
}


@pytest.mark.parametrize("found", KINDS)
@pytest.mark.parametrize("live", KINDS)
def test_kinds_that_differ_are_a_mismatch(live: str, found: str) -> None:
    store = hb.connect("memory:")
    hb.create_tables(store, KINDS[live])
    if live == found:
        hb.create_tables(store, KINDS[found])
        assert hb.Session(store).query(KINDS[found]).allow_full_scan().count() == 0
        return
    with pytest.raises(hb.SchemaMismatch, match="does not have the layout") as caught:
        hb.create_tables(store, KINDS[found])
    assert "index by" in str(caught.value)
    with pytest.raises(hb.SchemaMismatch, match="does not have the layout"):
        hb.Session(store).query(KINDS[found]).allow_full_scan().count()


def test_the_same_condition_in_other_words_of_python_is_the_same() -> None:
    store = hb.connect("memory:")
    hb.create_tables(store, declared(hb.index("y", where=lambda m: (m.x > 1) & m.a.in_([2, 1]))))

    def where(model: Any) -> hb.types.Predicate:
        condition: hb.types.Predicate = ((model.a == 1) | (model.a == 2)) & (model.x > 1)
        return condition

    hb.create_tables(store, declared(hb.index("y", where=where)))


def test_what_is_kept() -> None:
    """Bytes of the registry, which must never change."""
    kept = {name: canonical_json(schema_of(model).indexes["by"].spec) for name, model in KINDS.items()}
    plain = kept["plain"]
    assert plain == (
        b'{"covers":[],"declared":["y"],"fields":[{"codec":{"bits":64,"codec":"int","signed":true},"desc":false,"name":"y","nullable":true},'
        b'{"codec":{"bits":64,"codec":"int","signed":true},"desc":false,"name":"a","nullable":false}],'
        b'"salt":{"by":[],"salt":"none"},"tail":0}'
    )
    assert kept["without None"] == plain.replace(b'"name":"y","nullable":true', b'"name":"y","nullable":false')
    assert kept["where"] == plain[:-1] + b',"where":[[">","x","018000000000000001"]]}'
    assert kept["more"] == plain[:-1] + b',"where":[["=","a","018000000000000001"],[">","x","018000000000000001"]]}'
    assert b'"kinds":{"tags[]":{"each":"tags"}}' in kept["each"]
    assert b'"where":[["contains","tags","0161","0162"]]' in kept["each, where"]
    assert (
        b'"kinds":{"half":{"codec":{"bits":64,"codec":"int","signed":true},"computed":{"of":["x"],"version":2}}}'
        in kept["second version"]
    )
    assert b'"computed":{"of":["x"],"version":1}' in kept["where computed"]
