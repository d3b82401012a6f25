"""Where the bytes of a table go, counted over its stored cells."""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Scan
from tests.support.models import Order, order


@hb.model(table="long_names", family="content")
class LongNames:
    user: hb.Key[int] = hb.key(hb.Int64)
    title: hb.Column[str] = hb.column("the_title")
    note: hb.Column[str | None] = hb.column("note", default=None, null="delete")


@hb.model(table="wide_names", family="d")
class WideNames:
    user: hb.Key[int] = hb.key(hb.Int64)
    post: hb.Key[str] = hb.key(in_qualifier=True)
    title: hb.Column[str] = hb.column("t")


def described(model: Any, objects: list[Any]) -> tuple[hb.types.Description, list[tuple[bytes, bytes, bytes]]]:
    """The description of the objects, and the stored cells: row, column, value."""
    with hb.connect("memory:") as store, hb.Session(store) as session:
        hb.create_tables(store, model)
        session.add_all(objects)
        session.commit()
        (batches,) = store.scan(hb.schema.schema_of(model).table, [Scan()])
        cells = [
            (row.row, column, cell.value) for batch in batches for row in batch for column, cell in row.columns.items()
        ]
        return hb.describe(model, sample=session), cells


OBJECTS = {
    LongNames: [LongNames(user=n, title="x" * n, note="n" if n % 2 else None) for n in range(8)],
    WideNames: [WideNames(user=n % 2, post="\0" * n, title="abc") for n in range(6)],
    Order: [order(n) for n in range(5)],
}


@pytest.mark.parametrize("model", OBJECTS, ids=lambda model: model.__name__)
def test_the_parts_are_those_of_the_stored_cells(model: Any) -> None:
    found, cells = described(model, OBJECTS[model])
    cost = found.bytes
    assert cost is not None
    assert (cost.objects, cost.cells) == (len(OBJECTS[model]), len(cells))
    assert cost.row_key == sum(len(row) for row, _, _ in cells)
    assert cost.family == sum(len(column.partition(b":")[0]) for _, column, _ in cells)
    assert cost.qualifier == sum(len(column.partition(b":")[2]) for _, column, _ in cells)
    assert cost.value == sum(len(value) for _, _, value in cells)
    assert (cost.timestamp, cost.frame) == (8 * len(cells), 12 * len(cells))
    assert (
        cost.total
        == sum(cost.parts.values())
        == sum(20 + len(row) + len(column) - 1 + len(value) for row, column, value in cells)
    )
    assert f"{cost.total / cost.objects:.1f} bytes each" in str(found)


def test_what_shorter_names_save() -> None:
    found, _ = described(LongNames, OBJECTS[LongNames])
    assert found.bytes is not None
    assert {name.name: (name.bytes, name.cells, name.saved) for name in found.bytes.names} == {
        "content:": (7, 12, 9_000_000), "content:the_title": (9, 8, 8_000_000), "content:note": (4, 4, 1_500_000),
    }  # fmt: skip


def test_what_other_forms_take() -> None:
    found, _ = described(LongNames, OBJECTS[LongNames])
    assert found.bytes is not None
    users = {each.form: (each.bytes, each.saved) for each in found.bytes.codecs if each.field == "user"}
    assert users == {
        "stored": (8, 0),
        "unsigned, 1 byte": (1, 10_500_000),
        "decimal text of 1": (1, 10_500_000),
        "hex text of 1": (1, 10_500_000),
        "md5": (16, -12_000_000),
        "md5 as hex text": (32, -36_000_000),
    }
    wide, _ = described(WideNames, OBJECTS[WideNames])
    assert wide.bytes is not None
    assert {each.field: each.bytes for each in wide.bytes.codecs if each.form == "stored"} == {
        "user": 8,
        "post": 7,
        "title": 3,
    }


def test_an_empty_table_says_so() -> None:
    found, _ = described(LongNames, [])
    assert "no objects sampled" in str(found)


TEXTS = {
    "numbers of one width": (["00000000000000000017", "18446744073709551615"], "number, unsigned, 8 bytes", 8),
    "numbers without zeros in front": (["7", "40000"], "number, unsigned, 2 bytes", 2),
    "numbers that lose their zeros": (["007", "40000"], None, 0),
    "numbers beyond 64 bits": (["18446744073709551616"], None, 0),
    "digits of another script": (["\N{ARABIC-INDIC DIGIT ONE}"], None, 0),
    "UUIDs": (["0189c0de-0000-7000-8000-00000000abcd"] * 2, "UUID, 16 bytes", 16),
    "hex digits": (["00ff", "ab01"], "bytes, 2", 2),
    "hex digits of both cases": (["00fF"], None, 0),
    "hex digits of several widths": (["00ff", "ab"], None, 0),
    "an odd number of hex digits": (["0ff"], None, 0),
    "words": (["cafe", "bar"], None, 0),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_that_another_type_holds(name: str) -> None:
    """A number kept as text is compared with the binary number, not only with digests."""

    @hb.model(table="texts", family="d")
    class Named:
        name: hb.Key[str] = hb.key()
        size: hb.Column[int] = hb.column("s")

    texts, form, size = TEXTS[name]
    found, _ = described(Named, [Named(name=text, size=1) for text in texts])
    assert found.bytes is not None
    forms = {each.form: each.bytes for each in found.bytes.codecs if each.field == "name"}
    expected = {"stored", "md5", "md5 as hex text"} | ({form} if form else set())
    assert forms.keys() == expected
    if form:
        assert forms[form] == size


def test_every_hot_value_is_named() -> None:
    @hb.model(table="hot", family="d")
    class Hot:
        user: hb.Key[int] = hb.key(hb.UInt32)
        number: hb.Key[int] = hb.key(hb.UInt32)
        size: hb.Column[int] = hb.column("s")

    found, _ = described(Hot, [Hot(user=n % 8, number=n, size=1) for n in range(80)])
    (counts,) = found.prefixes
    assert sorted(counts.hot) == [(user, 0.125) for user in range(8)]


def test_names_that_are_stored_as_ids_have_no_other_forms() -> None:
    hosts = hb.ids.dictionary("byte_cost_hosts", hb.UInt32)

    @hb.model(table="byte_cost_named", family="d")
    class Named:
        host: hb.Key[str] = hb.key(hosts)
        number: hb.Key[int] = hb.key(hb.UInt32)
        rack: hb.Column[str] = hb.column("r", hosts)

    with hb.connect("memory:") as store, hb.Session(store) as session:
        hb.create_tables(store, Named, hosts)
        session.add_all(Named(host=f"host {n}", number=n, rack="a") for n in range(3))
        session.commit()
        cost = hb.describe(Named, sample=session).bytes
    assert cost is not None
    assert {each.field for each in cost.codecs} == {"number"}
