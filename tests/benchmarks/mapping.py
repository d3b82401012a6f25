"""The processor time of mapping for each row, compared with code written by hand for one model, with `struct`."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs

import hbmodel as hb
from hbmodel.mapping.rows.mapper import RowDecoder, take
from hbmodel.store.thrift1.service import ResultCell, ResultRow
from tests.benchmarks.comparison import Case

ROWS = 2000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@hb.model(table="mapped", family="d")
class Mapped:
    sensor: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    place: hb.Column[str] = hb.column("p")
    value: hb.Column[float] = hb.column("v")
    low: hb.Column[int] = hb.column("l", hb.Int32)
    high: hb.Column[int] = hb.column("h", hb.Int32)
    note: hb.Column[str | None] = hb.column("n", default=None)
    count: hb.Column[int] = hb.column("c")


@attrs.define(slots=False, kw_only=True)
class Plain:
    sensor: int
    at: datetime
    place: str
    value: float
    low: int
    high: int
    note: str | None
    count: int


KEY, DOUBLE, WORD, INT = struct.Struct(">IQ"), struct.Struct(">d"), struct.Struct(">Q"), struct.Struct(">I")
ALL, SIGN = (1 << 64) - 1, 1 << 63


def read_by_hand(row: Any) -> Plain:
    sensor, at = KEY.unpack(row.row)
    cells = row.columns
    (bits,) = WORD.unpack(cells[b"d:v"].value)
    note = cells[b"d:n"].value
    return Plain(
        sensor=sensor,
        at=EPOCH + timedelta(microseconds=ALL - at - SIGN),
        place=cells[b"d:p"].value.decode(),
        value=DOUBLE.unpack(WORD.pack(bits ^ SIGN if bits & SIGN else bits ^ ALL))[0],
        low=INT.unpack(cells[b"d:l"].value)[0] - (1 << 31),
        high=INT.unpack(cells[b"d:h"].value)[0] - (1 << 31),
        note=note.decode() if note else None,
        count=WORD.unpack(cells[b"d:c"].value)[0] - SIGN,
    )


def write_by_hand(obj: Any) -> tuple[bytes, dict[bytes, bytes]]:
    (bits,) = WORD.unpack(DOUBLE.pack(obj.value))
    return KEY.pack(obj.sensor, ALL - ((obj.at - EPOCH) // timedelta(microseconds=1) + SIGN)), {
        b"d:p": obj.place.encode(),
        b"d:v": WORD.pack(bits ^ ALL if bits & SIGN else bits ^ SIGN),
        b"d:l": INT.pack(obj.low + (1 << 31)),
        b"d:h": INT.pack(obj.high + (1 << 31)),
        b"d:n": b"" if obj.note is None else obj.note.encode(),
        b"d:c": WORD.pack(obj.count + SIGN),
    }


def mapping_cases() -> Iterator[Case]:
    """Rows, as the gateway's client decodes them, into objects, and objects into row keys and cells."""
    schema = hb.schema.schema_of(Mapped)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    objects = [
        Mapped(
            sensor=n % 100, at=start + timedelta(seconds=n), place=f"hall {n % 7}", value=n / 8, low=-n, high=n,
            note=None if n % 2 else "noted", count=n * 3,
        )
        for n in range(ROWS)
    ]  # fmt: skip
    rows = []
    for obj in objects:
        key, cells = write_by_hand(obj)
        rows.append(
            ResultRow(
                row=key, columns={column: ResultCell(value=value, timestamp=1) for column, value in cells.items()}
            )
        )
        assert take(schema, obj)[1:] == (key, cells)
    reader = RowDecoder.of(schema, indexed=False)
    make, values = reader.make, reader.values
    for obj, row in zip(objects, rows, strict=True):
        assert vars(make(values(row))) == attrs.asdict(read_by_hand(row)) == vars(obj)
    yield Case(
        "row to object / by hand",
        lambda: [make(values(row)) for row in rows],
        lambda: [read_by_hand(row) for row in rows],
        101,
        1.3,
    )
    yield Case(
        "object to row key and cells / by hand",
        lambda: [take(schema, obj) for obj in objects],
        lambda: [write_by_hand(obj) for obj in objects],
        101,
        1.3,
    )
