"""The statements of the page on known layouts about rows of Kafka Connect and JanusGraph, on every store."""

from __future__ import annotations

import struct

import pytest

import hbmodel as hb
from hbmodel.codecs import java
from hbmodel.store import Put
from tests.support.beds import Bed, cells_of


@hb.model(table="sink_payments", family="d", external=True)
class Payment:
    """A record of Kafka Connect, under its fields with a delimiter."""

    shop: hb.Key[str] = hb.key(hb.codecs.Delimited("|"))
    number: hb.Key[int] = hb.key(hb.UInt32)
    delimiter: hb.Key[bytes] = hb.key(hb.Bytes(1))
    line: hb.Key[int] = hb.key(hb.codecs.UInt16)
    total: hb.Column[float | None] = hb.column("total", java.Double, default=None)


@hb.model(table="graph_of_janus", family="e", external=True)
class Relation:
    """A property or an edge of JanusGraph, in the row of its vertex."""

    key: hb.Key[int] = hb.key(hb.UInt64)
    column: hb.Key[bytes] = hb.key(in_qualifier=True)
    value: hb.Column[bytes] = hb.column("")


def record(shop: bytes, number: int, line: int, total: float) -> Put:
    """As `ToPutFunction` makes it: the fields of the key are columns too."""
    parts = {b"shop": shop, b"number": struct.pack(">i", number), b"line": struct.pack(">h", line)}
    fields = {**parts, b"total": struct.pack(">d", total)}
    return Put(b"|".join(parts.values()), {b"d:" + name: value for name, value in fields.items()})


def test_records_of_kafka_connect(bed: Bed) -> None:
    session = bed.use(Payment)
    number = int.from_bytes(b"a||b", "big")  # which has the delimiter's byte
    bed.store.put("sink_payments", [record(b"oslo", each, 2, 9.5) for each in (7, 300, number)])
    payments = session.query(Payment).where(Payment.shop == "oslo")
    assert [each.number for each in payments] == [7, 300, number]
    assert [each.total for each in payments.where(Payment.number > 299)] == [9.5, 9.5]
    assert [each.number for each in payments.order_by(Payment.number.desc()).limit(1)] == [number]
    assert session.get(Payment, shop="oslo", number=300, delimiter=b"|", line=2) is not None


def test_text_with_the_delimiter_cannot_be_read(bed: Bed) -> None:
    session = bed.use(Payment)
    bed.store.put("sink_payments", [record(b"oslo", 7, 2, 9.5), record(b"os|lo", 7, 2, 1.0)])
    payments = session.query(Payment).allow_full_scan()
    with pytest.raises(hb.DecodingError) as raised:
        payments.all()
    assert raised.value.key == b"os|lo|\x00\x00\x00\x07|\x00\x02"
    unreadable: list[Exception] = []
    assert [each.shop for each in payments.on_unreadable(unreadable.append)] == ["oslo"]
    assert len(unreadable) == 1


def test_a_delete_would_leave_the_columns_of_the_key(bed: Bed) -> None:
    session = bed.use(Payment)
    bed.store.put("sink_payments", [record(b"oslo", 7, 2, 9.5)])
    before = cells_of(bed.store, "sink_payments")
    session.delete_key(Payment, shop="oslo", number=7, delimiter=b"|", line=2)
    with pytest.raises(hb.CapabilityError):
        session.commit()
    assert cells_of(bed.store, "sink_payments") == before


def test_relations_of_a_vertex_by_their_kind(bed: Bed) -> None:
    session = bed.use(Relation)
    columns = [b"\x02", b"\x50\x94", b"\x70\x96\x01", b"\x70\x97\x02"]
    for vertex in (0x0800000000000080, 0x0800000000000088):
        cells = {b"e:" + column: b"v" for column in columns}
        bed.store.put("graph_of_janus", [Put(vertex.to_bytes(8, "big"), cells)])
    of_vertex = session.query(Relation).where(Relation.key == 0x0800000000000080)
    assert [each.column for each in of_vertex] == columns
    edges = of_vertex.where(Relation.column >= b"\x60", Relation.column < b"\x80")
    assert [each.column for each in edges] == columns[2:]
    page = of_vertex.page(3)
    assert [each.column for each in of_vertex.page(3, after=page.next_token).items] == columns[3:]
    assert hb.tables.adopt(bed.store, Relation).adopted
