"""How many versions columns keep: what `hb.column(versions=n)` makes of their families, from the declaration to live
tables.
"""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.errors import CapabilityError, DeclarationError, SchemaMismatch
from hbmodel.tables.creation.declared import plan_tables
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE
from tests.support.beds import Bed, fresh


def declare(*versions: int | None, table: str = "wanting", **options: Any) -> Any:
    """A model with a column for each number, in the families `d` and `e` by turns."""
    body: dict[str, Any] = {"name": hb.key()}
    annotations: dict[str, Any] = {"name": hb.Key[str]}
    for at, number in enumerate(versions):
        body[f"c{at}"] = hb.column(f"c{at}", default=0, family="de"[at % 2], versions=number)
        annotations[f"c{at}"] = hb.Column[int]
    if options.pop("indexed", False):
        body["by_c0"] = hb.index("c0", covers=("c1",))
    return hb.model(table=table, family=options.pop("family", "d"), **options)(
        type("Wanting", (), {**body, "__annotations__": annotations})
    )


def kept(model: Any) -> dict[bytes, int | None]:
    return {family.name: family.max_versions for family in hb.schema.schema_of(model).families}


def test_a_family_keeps_what_the_column_wants_that_wants_most() -> None:
    assert kept(declare(None, None)) == {b"d": None, b"e": None}
    assert kept(declare(3, None)) == {b"d": 3, b"e": None}
    assert kept(declare(3, 2, 5, None)) == {b"d": 5, b"e": 2}
    assert kept(declare(3, None, family=hb.family("d", max_versions=4))) == {b"d": 4, b"e": None}
    assert kept(declare(1, None)) == {b"d": 1, b"e": None}


def test_nothing_else_changes() -> None:
    without, with_some = hb.schema.schema_of(declare(None, None)), hb.schema.schema_of(declare(9, 9))
    assert without.layout_spec == with_some.layout_spec
    assert without.fields == with_some.fields
    one = without.model(name="a", c0=1, c1=2)
    other = with_some.model(name="a", c0=1, c1=2)
    stores = [fresh(without.model), fresh(with_some.model)]
    for store, obj in zip(stores, (one, other), strict=True):
        session = hb.Session(store)
        session.add(obj)
        session.commit()
    found = [store.get("wanting", [b"a"])[0] for store in stores]
    assert [{column: cell.value for column, cell in row.columns.items()} for row in found if row is not None] == [
        {b"d:c0": hb.Int64.encode(1), b"e:c1": hb.Int64.encode(2)}
    ] * 2


@pytest.mark.parametrize("versions", [0, -1, 2**31, 1.5, True, "3"])
def test_numbers_that_are_none(versions: Any) -> None:
    with pytest.raises(DeclarationError, match="A column must keep at least one version") as error:
        declare(versions, None)
    assert error.value.details["field"] == "c0"


def test_declarations_that_contradict_each_other() -> None:
    with pytest.raises(DeclarationError, match="max_versions"):
        declare(3, None, family=hb.family("d", max_versions=2))
    with pytest.raises(DeclarationError, match="Rows of an immutable model never change, so their cells have"):
        declare(3, None, immutable=True)
    with pytest.raises(DeclarationError, match='null="delete" hides the older versions of the cell'):

        @hb.model(table="wanting_none", family="d")
        class Hidden:
            name: hb.Key[str] = hb.key()
            text: hb.Column[str | None] = hb.column("t", default=None, null="delete", versions=2)


def test_models_that_share_a_family_have_the_most() -> None:
    def kind(letter: bytes, versions: int | None) -> Any:
        body = {"owner": hb.key(), "number": hb.key(in_qualifier=True), "text": hb.column("t", versions=versions)}
        annotations = {"owner": hb.Key[str], "number": hb.Key[int], "text": hb.Column[str]}
        return hb.model(table="sharing", family="d", kind=letter)(
            type("Kind", (), {**body, "__annotations__": annotations})
        )

    kinds = [kind(letter, versions) for letter, versions in ((b"a", 2), (b"b", 7), (b"c", None), (b"d", 3))]
    for order in (kinds, kinds[::-1]):
        (table,) = plan_tables([hb.schema.schema_of(model) for model in order], None, REGISTRY_TABLE)
        assert [family.max_versions for family in table.families] == [7]


def test_tables_keep_them_and_index_tables_do_not(bed: Bed) -> None:
    model = declare(3, 2, table="wanting_live", indexed=True)
    bed.use(model)
    families = {family.name: family.max_versions for family in bed.store.families("wanting_live")}
    assert families == {b"d": 3, b"e": 2}
    assert {family.max_versions for family in bed.store.families("wanting_live.by_c0")} == {1}
    assert not hb.diff(bed.store, model)


@pytest.mark.every_store
def test_diff_and_alter(bed: Bed) -> None:
    bed.use(declare(None, 2, table="wanting_altered"))
    more, fewer = declare(4, 2, table="wanting_altered"), declare(4, 1, table="wanting_altered")
    assert "max_versions" in str(hb.diff(bed.store, more))
    if not bed.store.capabilities.alter:
        with pytest.raises(CapabilityError) as error:
            hb.alter(bed.store, more)
        assert "VERSIONS => 4" in error.value.shell
        return
    hb.alter(bed.store, more)
    assert [family.max_versions for family in bed.store.families("wanting_altered")] == [4, 2]
    with pytest.raises(SchemaMismatch):
        hb.alter(bed.store, fewer)
    hb.alter(bed.store, fewer, lossy=True)
    assert [family.max_versions for family in bed.store.families("wanting_altered")] == [4, 1]
