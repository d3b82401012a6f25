"""Keys in which values of fixed width have a separator after them."""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.tables.creation.live_regions import codec_bytes
from tests.support.beds import fresh


@hb.model(table="separated", family="d", external=True)
class Visit:
    user: hb.Key[int] = hb.key(hb.codecs.Separated(hb.codecs.DecimalText(4), "|"))
    at: hb.Key[int] = hb.key(hb.codecs.Separated(hb.codecs.ReverseDecimalText(6), "::"))
    name: hb.Key[str] = hb.key()
    page: hb.Column[str | None] = hb.column("p", default=None)


TIMES = (0, 5, 30, 99_999, 999_999)


@pytest.fixture
def session() -> hb.Session:
    session = hb.Session(fresh(Visit))
    session.add_all(Visit(user=user, at=at, name="x", page="/") for user in (7, 8) for at in TIMES)
    session.commit()
    return session


def test_keys_are_those_of_the_other_program(session: hb.Session) -> None:
    (batches,) = session.store.scan("separated", [hb.store.Scan()])
    keys = [row.row for batch in batches for row in batch]
    assert keys == sorted(b"%04d|%06d::x" % (user, 999_999 - at) for user in (7, 8) for at in TIMES)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Visit.at >= 30, [999_999, 99_999, 30]),
        (Visit.at < 30, [5, 0]),
        (Visit.at.between(5, 99_999), [99_999, 30, 5]),
        (Visit.at < 10**9, [999_999, 99_999, 30, 5, 0]),
        (Visit.at > -1, [999_999, 99_999, 30, 5, 0]),
        (Visit.at.in_([0, 30]), [30, 0]),
    ],
)
def test_ranges_come_newest_first(session: hb.Session, condition: Any, expected: list[int]) -> None:
    query = session.query(Visit).where(Visit.user == 7, condition)
    assert [visit.at for visit in query] == expected
    assert [visit.at for visit in query.reversed()] == expected[::-1]
    assert [visit.at for visit in query.order_by(Visit.at.desc())] == expected
    page = query.page(1)
    pages = [page]
    while page.next_token is not None:
        pages.append(page := query.page(1, after=page.next_token))
    assert [visit.at for page in pages for visit in page] == expected
    assert query.explain().path == "primary"


def test_a_range_of_the_first_field(session: hb.Session) -> None:
    assert session.query(Visit).where(Visit.user > 7).count() == len(TIMES)
    assert session.query(Visit).where(Visit.user.between(0, 7)).count() == len(TIMES)


def test_a_key_without_its_separator_is_named(session: hb.Session) -> None:
    session.store.put("separated", [hb.store.Put(b"0007/000001::x", {b"d:p": b"/"})])
    with pytest.raises(hb.DecodingError, match="no separator after it") as caught:
        session.query(Visit).allow_full_scan().all()
    assert (caught.value.key, caught.value.field) == (b"0007/000001::x", "user")


def test_the_bytes_of_keys_include_the_separator() -> None:
    assert set(codec_bytes(hb.codecs.Separated(hb.codecs.DecimalText(4), "|"))) == set(b"0123456789|")
    assert set(codec_bytes(hb.codecs.ReverseDecimalText(4))) == set(b"0123456789")
