"""Tests of what is said to reads of pages, of times and of versions that make no sense."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import hbmodel as hb
from hbmodel.store import Put


@hb.model(table="refused_reads", family="d")
class Visit:
    number: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("n")


@hb.model(table="refused_kept_reads", family="d")
class Kept:
    number: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("n", versions=3)


@pytest.fixture
def session() -> Iterator[hb.Session]:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Visit, Kept)
        yield hb.Session(store)


def test_a_column_with_more_versions_than_its_family() -> None:
    with pytest.raises(hb.DeclarationError, match="A column keeps more versions than"):

        @hb.model(table="refused_versions", family=hb.family("d", max_versions=2))
        class TooMany:
            number: hb.Key[int] = hb.key(hb.UInt32)
            name: hb.Column[str] = hb.column("n", versions=3)


def test_a_page_between_two_tokens(session: hb.Session) -> None:
    with pytest.raises(hb.QueryError, match="Give after= for the next page or before="):
        session.query(Visit).allow_full_scan().page(3, after="a", before="b")


def test_a_token_of_the_other_direction(session: hb.Session) -> None:
    session.add_all(Visit(number=number, name="n") for number in range(5))
    session.commit()
    query = session.query(Visit).allow_full_scan()
    token = query.page(2).next_token
    with pytest.raises(hb.TokenError, match=r"Give next_token as page\(size, after=\.\.\.\) and previous_token as"):
        query.page(2, before=token)


def test_times_that_no_cell_has(session: hb.Session) -> None:
    query = session.query(Visit)
    with pytest.raises(hb.QueryError, match=r"as_of\(\) takes a datetime with a time zone"):
        query.as_of(datetime(2026, 1, 1))
    with pytest.raises(hb.QueryError, match="Cells have no timestamps before 1970"):
        query.as_of(datetime(1969, 12, 31, tzinfo=UTC))


def test_versions_of_a_column_that_keeps_none(session: hb.Session) -> None:
    with pytest.raises(hb.QueryError, match="The column keeps only its newest version"):
        session.versions(Visit, Visit.name, number=1)


def test_a_version_that_no_calendar_has(session: hb.Session) -> None:
    session.store.put("refused_kept_reads", [Put(bytes(4), {b"d:n": b"ann"}, timestamp=2**62)])
    with pytest.raises(hb.DecodingError, match="The cell's timestamp is later than the year 9999"):
        session.versions(Kept, Kept.name, number=0)
