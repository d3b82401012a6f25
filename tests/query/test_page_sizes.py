"""How many rows a page reads where a filter on the server, or the client, drops some of them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from tests.support.beds import Bed
from tests.support.examples import examples

ROWS = 5000


@hb.model(table="page_sizes", family="d")
class Note:
    user: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t")
    until: hb.Column[int | None] = hb.column("u", default=None)

    by_text = hb.index("text")


@hb.model(table="page_sizes_logged", family="d", salt=hb.RandomSalt(2), immutable=True)
class Logged:
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t")


def note(number: int, user: int = 1) -> Note:
    return Note(user=user, number=number, text=str(number % 3), until=None if number % 2 else 5)


class Counted:
    """A store in memory with some objects, which counts the rows that each call reads."""

    def __init__(self, model: Any = Note, every: Any = None) -> None:
        self.calls: list[Any] = []
        store = hb.connect("memory:", on_call=self.calls.append)
        hb.create_tables(store, model)
        self.session = hb.Session(store)
        self.session.bulk_add(map(note, range(ROWS)) if every is None else every)
        self.query = self.session.query(model)
        self.calls.clear()

    def rows(self, of: str = "scan") -> list[int]:
        """The rows of each scan, or of another operation, since the last call."""
        found = [call.rows for call in self.calls if call.operation == of]
        self.calls.clear()
        return found


@pytest.fixture(scope="module")
def counted() -> Counted:
    return Counted()


EXACT = (
    Note.text == "1",
    Note.text.in_(["1", "2"]),
    Note.text >= "1",
    Note.text.startswith("2"),
    Note.until.is_(None),
    Note.until > 3,
    Note.until.is_(None) | (Note.until > 3),
    (Note.text == "1") & (Note.until == 5),
)


@pytest.mark.lengthy
@pytest.mark.parametrize("asked", EXACT)
def test_a_filter_on_the_server_leaves_the_page_its_size(counted: Counted, asked: Any) -> None:
    query = counted.query.where(Note.user == 1, asked)
    plain = counted.query.where(Note.user == 1)
    for each in (of.use_index("primary") for of in (query, query.reversed(), plain, plain.reversed())):
        page = each.page(20)
        assert (len(page), counted.rows()) == (20, [21])
        assert (len(each.page(20, after=page.next_token)), counted.rows()) == (20, [21])
        assert (len(each.limit(20).all()), counted.rows()) == (20, [20])
        assert (each.first() is not None, counted.rows()) == (True, [1])
        assert (each.exists(), counted.rows()) == (True, [1])


def test_a_page_of_several_users_has_it_too() -> None:
    counted = Counted(every=(note(number, user) for user in (1, 2) for number in range(300)))
    query = counted.query.where(Note.user.in_([1, 2]), Note.until == 5).order_by(Note.number)
    page = query.page(20)
    assert [(each.number, each.user) for each in page] == [
        (number, user) for number in range(0, 20, 2) for user in (1, 2)
    ]
    assert counted.rows() == [21, 21]


@pytest.mark.lengthy
def test_what_the_client_drops_is_read_in_growing_portions(counted: Counted) -> None:
    query = counted.query.where(Note.user == 1, Note.text != "1").use_index("primary")
    assert (len(query.page(20)), counted.rows()) == (20, [21, 42])
    assert (query.first() == note(0), counted.rows()) == (True, [8])
    far = counted.query.where(Note.user == 1, Note.text != "0", Note.text != "1", Note.text != "2").use_index("primary")
    assert (far.page(20).items, counted.rows()) == ([], [21, 42, 84, 168, 336, 672, 1000, 1000, 1000, 677])
    assert (far.first(), len(counted.rows()) <= ROWS // 200) == (None, True)
    assert (far.all(), counted.rows()) == ([], [1000] * 5)
    named = counted.query.where(Note.text == "1", Note.until != 5)
    assert len(named.page(20)) == 20
    assert counted.calls[0].table == "page_sizes.by_text"
    assert (counted.rows("scan"), counted.rows("get")) == ([21, 42], [])
    assert (named.where(Note.number != 1, Note.until != None).first(), sum(counted.rows())) == (None, 1667)  # noqa: E711


@hb.model(table="page_sizes_salted", family="d", salt=hb.HashSalt(16))
class Spread:
    user: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.UInt32)
    text: hb.Column[str] = hb.column("t")


@pytest.mark.lengthy
def test_a_long_read_takes_hardly_more_calls_than_before() -> None:
    users = Counted(every=(note(number, user) for user in range(0, 200, 2) for number in range(50)))
    far = users.query.where(
        Note.user.in_(range(0, 200, 2)), Note.text != "0", Note.text != "1", Note.text != "2"
    ).use_index("primary")
    assert (far.page(20).items, len(users.rows())) == ([], 103)  # one for each range, and three while the limit grows
    spread = Counted(Spread, [Spread(user=1, number=number, text="a") for number in range(ROWS)])
    none = spread.query.where(Spread.text != "a").allow_full_scan()
    assert (none.page(20).items, len(spread.rows())) == ([], 32)  # two for each bucket


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_a_page_reads_at_most_twice_the_rows_that_it_needs(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.sampled_from("abc"), max_size=200))
    model = data.draw(st.sampled_from([Note, Logged]))
    more = {"user": 1} if model is Note else {}
    counted = Counted(model, [model(number=number, text=text, **more) for number, text in enumerate(texts)])
    asked = data.draw(
        st.sampled_from([model.text == "a", model.text != "a", model.text.in_(["a", "b"]), ~model.text.startswith("b")])
    )
    matches = asked.test()
    expected = [number for number, text in enumerate(texts) if matches({"text": text})]
    turned = data.draw(st.booleans())
    query = counted.query.where(asked).use_index("primary").allow_full_scan()
    query, expected = (query.reversed(), expected[::-1]) if turned else (query, expected)
    size, found, token = data.draw(st.integers(1, 30)), list[int](), None
    for _ in itertools.count():
        page = query.page(size, after=token)
        start, found = len(found), [*found, *(each.number for each in page)]
        before = expected[start - 1] if start else (len(texts) if turned else -1)
        last = expected[start + size] if start + size < len(expected) else (-1 if turned else len(texts))
        assert sum(counted.rows()) <= 2 * abs(last - before) + 2 * max(8, size + 2)
        token = page.next_token
        if token is None:
            break
    assert found == expected


@pytest.mark.every_store
def test_portions_on_a_server(bed: Bed) -> None:
    session = bed.use(Note)
    session.bulk_add(map(note, range(200)))
    query = session.query(Note).where(Note.user == 1).use_index("primary")
    bed.store.told()
    assert [each.number for each in query.where(Note.text == "1").page(5)] == [1, 4, 7, 10, 13]
    assert [scan.limit for call in bed.store.calls for scan in call.items] == [6]
    bed.store.told()
    rest = query.where(Note.text != "1", Note.number != 2)
    assert [each.number for each in rest.page(6)] == [0, 3, 5, 6, 8, 9]
    assert [scan.limit for call in bed.store.calls for scan in call.items] == [8, 16]
    bed.store.told()
    assert [each.number for each in rest.reversed().page(2)] == [198, 197]
    assert [scan.limit for call in bed.store.calls for scan in call.items] == [8]
    assert [each.number for each in query.where(Note.until != 5).page(150)] == list(range(1, 200, 2))
