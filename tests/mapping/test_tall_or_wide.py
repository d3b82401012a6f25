"""`hb.describe(sample=)`: what sampled objects take, tall and wide, against what the same objects really take."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Scan
from hbmodel.tables.advice.tall_or_wide import CELL_BYTES, KeyChoice
from tests.support.beds import HBASE, Bed

START = datetime(2026, 1, 1, tzinfo=UTC)


@hb.model(table="choice_tall", family="d", salt=hb.HashSalt(3, by=("owner",)))
class Tall:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str | None] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    text: hb.Column[str] = hb.column("t")
    size: hb.Column[int | None] = hb.column("s", default=None)


@hb.model(table="choice_wide", family="d", salt=hb.HashSalt(3, by=("owner",)))
class Wide:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str | None] = hb.key(in_qualifier=True)
    number: hb.Key[int] = hb.key(hb.codecs.UInt16, in_qualifier=True)
    text: hb.Column[str] = hb.column("t")
    size: hb.Column[int | None] = hb.column("s", default=None)


@hb.model(table="choice_two", family="d", salt=hb.HashSalt(3, by=("owner",)))
class Two:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str | None] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.UInt16, in_qualifier=True)
    text: hb.Column[str] = hb.column("t")
    size: hb.Column[int | None] = hb.column("s", default=None)


@hb.model(table="choice_split", family="d", kind=b"r")
class Reading:
    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=timedelta(hours=1))
    value: hb.Column[int] = hb.column("v")


@hb.model(table="choice_row", family="d", row=b"all")
class Word:
    text: hb.Key[str] = hb.key(in_qualifier=True)
    count: hb.Column[int] = hb.column("c")


def values() -> Iterator[dict[str, Any]]:
    for n in range(700):
        yield {
            "owner": f"o{n % 5 if n % 2 else 0}\x00",
            "name": None if n % 3 else f"n{n % 7}",
            "number": n,
            "text": "x" * (n % 5),
            "size": n,
        }


@pytest.fixture
def session(bed: Bed) -> hb.Session:
    found = bed.use(Tall, Wide, Two, Reading, Word)
    for model in (Tall, Wide, Two):
        found.add_all(model(**each) for each in values())
        found.commit()
    found.add_all(
        Reading(sensor=sensor, at=START + timedelta(minutes=7 * n), value=n) for sensor in "ab" for n in range(30)
    )
    found.add_all(Word(text=f"w{n}", count=n) for n in range(60))
    found.commit()
    return found


def really(bed: Bed, table: str) -> tuple[int, int, int, int]:
    """Rows, cells, cells of the widest row and bytes."""
    (batches,) = bed.store.scan(table, [Scan()])
    rows = [row for batch in batches for row in batch]
    cells = [(row.row, column, cell.value) for row in rows for column, cell in row.columns.items()]
    size = sum(CELL_BYTES + len(row) + len(column) - 1 + len(value) for row, column, value in cells)
    return len(rows), len(cells), max(len(row.columns) for row in rows), size


def declared(told: hb.types.Description) -> KeyChoice:
    assert told.sample is not None
    (found,) = [each for each in told.sample.choices if each.declared]
    return found


@pytest.mark.lengthy
@pytest.mark.parametrize("bed", ["memory", "embedded", *HBASE], indirect=True)
def test_figures_are_those_of_the_tables(session: hb.Session, bed: Bed) -> None:
    for model in (Tall, Wide, Two, Reading, Word):
        told = hb.describe(model, sample=session)
        choice = declared(told)
        assert told.sample is not None
        assert (choice.rows, told.sample.cells, choice.cells_in_row, choice.bytes) == really(
            bed, hb.schema.schema_of(model).table
        )


@pytest.mark.lengthy
@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_what_would_be_is_what_is_where_it_is_declared(session: hb.Session, bed: Bed) -> None:
    told = [hb.describe(model, sample=bed.store).sample for model in (Wide, Two, Tall)]
    figures = []
    for each in told:
        assert each is not None
        assert (each.objects, len(each.choices), sum(choice.declared for choice in each.choices)) == (700, 3, 1)
        figures.append(
            [(c.row_fields, c.column_fields, c.rows, c.objects_in_row, c.cells_in_row, c.bytes) for c in each.choices]
        )
    assert figures[0] == figures[1] == figures[2]
    assert [number for number, each in enumerate(told) if each is not None and each.choices[number].declared] == [
        0,
        1,
        2,
    ]


@pytest.mark.lengthy
@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_calls_are_those_that_are_made(session: hb.Session, bed: Bed) -> None:
    for model in (Tall, Wide, Two, Reading, Word):
        choice = declared(hb.describe(model, sample=session))
        bed.store.calls.clear()
        session.query(model).allow_full_scan().page(20)
        scans = [scan for call in bed.store.calls for scan in call.items]
        buckets = hb.schema.schema_of(model).salt.buckets
        assert len(scans) <= choice.page_calls + buckets - 1
        bed.store.calls.clear()
        session.query(model).allow_full_scan().all()
        assert sum(len(call.items) for call in bed.store.calls if call.name == "scan") == buckets
        assert sum(call.name == "batch" for call in bed.store.calls) <= choice.scan_calls - 1 <= 2


@pytest.mark.lengthy
@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_it_can_be_printed(session: hb.Session) -> None:
    assert str(hb.describe(Reading, sample=session)).splitlines()[1:5] == [
        "60 objects sampled, 60 cells; a get is 1 call",
        "    sensor | at: 2 rows of up to 30 cells, 2400 bytes, page of 20 in 1 call(s), all in 1",
        "  * sensor, at | at: 8 rows of up to 9 cells, 2640 bytes, page of 20 in 1 call(s), all in 1",
        "    sensor, at | alias: 60 rows of up to 1 cells, 2520 bytes, page of 20 in 1 call(s), all in 1",
    ]
    assert "* constant | text" in str(hb.describe(Word, sample=session))


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_an_empty_table_has_no_rows(bed: Bed) -> None:
    session = bed.use(Wide)
    choice = declared(hb.describe(Wide, sample=session))
    assert (choice.rows, choice.cells_in_row, choice.bytes, choice.scan_calls) == (0, 0, 0, 0)
    assert hb.describe(Wide).sample is None
    with pytest.raises(hb.DeclarationError, match="Give a store"):
        hb.describe(Wide, sample="memory:")  # type: ignore[arg-type]
