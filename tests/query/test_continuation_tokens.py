"""Continuation tokens: their contents, that all damage is noticed, and that each belongs to one query of one model."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any
from zlib import crc32

import pytest
from cryptography.fernet import Fernet
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.query.ask.argument_checks import MOST
from hbmodel.query.ask.continuation_tokens import FernetSeal, Page, Token, decode_token, digest_of, encode_token
from hbmodel.query.ask.query import Query
from tests.support.examples import examples

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@hb.model(table="events", salt=hb.HashSalt(4, by=("user",)))
class Event:
    user: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    name: hb.Column[str] = hb.column("n")
    level: hb.Column[int | None] = hb.column("l", default=None)

    by_name = hb.index("name")
    by_level = hb.index("level", "name")


@hb.model(table="events", family="x", salt=hb.HashSalt(4, by=("user",)))
class Beside:
    """In the same table as `Event`, with the same key, in its own family."""

    user: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    name: hb.Column[str] = hb.column("n")


@hb.model(table="other", salt=hb.HashSalt(4, by=("user",)))
class Other:
    user: hb.Key[int] = hb.key(hb.codecs.UInt8)
    number: hb.Key[int] = hb.key(hb.codecs.UInt16)
    name: hb.Column[str] = hb.column("n")


TOKENS = st.builds(
    Token,
    query=st.binary(min_size=8, max_size=8),
    path=st.text(max_size=20),
    position=st.one_of(st.none(), st.binary(max_size=40)),
    passed=st.one_of(st.none(), st.integers(0, 2**64 - 2)),
    backwards=st.booleans(),
)


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_the_bytes_of_a_token() -> None:
    text = encode_token(Token(b"digest__", "by_name", b"\x00key", 5, backwards=True))
    body = b"\x02" + b"digest__" + b"\x01" + (5).to_bytes(8, "big") + b"\x07by_name" + b"\x00key"
    assert base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) == body + crc32(body).to_bytes(4, "big")


@given(TOKENS)
def test_tokens_read_back(token: Token) -> None:
    text = encode_token(token)
    assert decode_token(text, token.query) == token
    assert decode_token(text, None) == token
    assert text.isascii()
    assert not set(text) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@settings(max_examples=examples(20))
@given(TOKENS)
def test_sealed_tokens_read_back(token: Token) -> None:
    seal = FernetSeal(Fernet.generate_key())
    assert decode_token(encode_token(token, seal), token.query, seal) == token


def test_a_limit_beyond_every_table_is_none() -> None:
    assert decode_token(encode_token(Token(bytes(8), "primary", b"", 2**70)), None).passed is None


@given(TOKENS, st.data())
def test_any_change_of_a_character_is_an_error(token: Token, data: st.DataObject) -> None:
    text = encode_token(token)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda c: c != text[at]))
    with pytest.raises(hb.TokenError):
        decode_token(text[:at] + other + text[at + 1 :], None)


@given(TOKENS, st.data())
def test_any_change_of_a_byte_is_an_error(token: Token, data: st.DataObject) -> None:
    text = encode_token(token)
    raw = bytearray(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(hb.TokenError):
        decode_token(base64.urlsafe_b64encode(raw).rstrip(b"=").decode(), None)


@given(TOKENS)
def test_any_part_of_a_token_is_an_error(token: Token) -> None:
    text = encode_token(token)
    for length in range(len(text)):
        with pytest.raises(hb.TokenError):
            decode_token(text[:length], None)
        with pytest.raises(hb.TokenError):
            decode_token(text[length + 1 :], None)


WHOLE = encode_token(Token(bytes(8), "p", b"", 1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "=",
        "a",
        "AAAA",
        "AAAAAA==",
        "!!!!",
        " ",
        "ä",
        "\0",
        "a" * 1000,
        "=" * 8,
        None,
        b"AAAA",
        3,
        WHOLE + "=",
        WHOLE.encode(),
    ],
)
def test_what_was_never_a_token(text: Any) -> None:
    with pytest.raises(hb.TokenError):
        decode_token(text, None)


def with_checksum(body: bytes) -> str:
    return base64.urlsafe_b64encode(body + crc32(body).to_bytes(4, "big")).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The continuation token is from another version of hbmodel"),
        # what the version before this one wrote
        (b"\x01" + bytes(30), "The continuation token is from another version of hbmodel"),
        (b"\x03" + bytes(30), "The continuation token is from another version of hbmodel"),
        (b"\x00" + bytes(30), "The continuation token is from another version of hbmodel"),
        (b"\x02", "damaged"),
        (b"\x02" + bytes(17), "damaged"),
        (b"\x02" + bytes(17) + b"\x05abcd", "damaged"),
        (b"\x02" + bytes(17) + b"\x01\xff", "damaged"),
        (b"\x02" + bytes(8) + b"\x04" + bytes(8) + b"\x01p", "damaged"),
        (b"\x02" + bytes(8) + b"\x02" + bytes(8) + b"\x01pkey", "damaged"),
    ],
)
def test_tokens_of_another_make(body: bytes, message: str) -> None:
    with pytest.raises(hb.TokenError, match=message):
        decode_token(with_checksum(body), None)


def test_a_token_of_another_query_is_told() -> None:
    text = encode_token(Token(b"digest__", "primary", b"key", None))
    with pytest.raises(hb.TokenError, match="another query"):
        decode_token(text, b"DIGEST__")


def test_digests_tell_values_apart_and_are_the_same_everywhere() -> None:
    assert digest_of("a", b"a", None, 1, ("x",)).hex() == digest_of("a", b"a", None, 1, ("x",)).hex()
    assert (
        len({digest_of(*parts) for parts in [("a",), (b"a",), ("a", None), (("a",),), (1,), ("1",), (True,), ()]}) == 8
    )
    assert digest_of("t", ("=", "k", b"\x01")) == blake2b(b"('t', ('=', 'k', b'\\x01'))", digest_size=8).digest()


# --- seals ------------------------------------------------------------------------------------------------------------


def test_a_sealed_token_shows_nothing() -> None:
    seal = FernetSeal(Fernet.generate_key())
    text = encode_token(Token(b"digest__", "by_secret_name", b"secret key of a row", 5), seal)
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    for part in (b"secret", b"by_", b"digest"):
        assert part not in raw
    assert encode_token(Token(b"digest__", "p", b"", 5), seal) != encode_token(Token(b"digest__", "p", b"", 5), seal)


def test_a_seal_opens_only_what_it_closed() -> None:
    token = Token(b"digest__", "primary", b"key", None)
    one, two = FernetSeal(Fernet.generate_key()), FernetSeal(Fernet.generate_key().decode())
    sealed = encode_token(token, one)
    for text, seal in [(sealed, two), (sealed, None), (encode_token(token), one), (sealed[:-4], one), ("", one)]:
        with pytest.raises(hb.TokenError):
            decode_token(text, None, seal)


@settings(max_examples=examples(50))
@given(st.data())
def test_any_change_of_a_sealed_token_is_an_error(data: st.DataObject) -> None:
    seal = FernetSeal(Fernet.generate_key())
    text = encode_token(Token(b"digest__", "primary", b"key", None), seal)
    letters = "AZaz09-_="
    at, number = data.draw(st.integers(0, len(text) - 1)), data.draw(st.integers(0, len(letters) - 1))
    # the seal is another one each time, and what is drawn must not depend on it
    other = letters[number - (letters[number] == text[at])]
    with pytest.raises(hb.TokenError):
        decode_token(text[:at] + other + text[at + 1 :], None, seal)


@pytest.mark.parametrize("key", [b"", "short", b"x" * 44, "ä" * 44, 3, b"AAAA" * 10])
def test_what_is_no_token_key(key: Any) -> None:
    with pytest.raises(hb.SessionError, match="A token key must be 32 bytes in URL-safe") as caught:
        FernetSeal(key)
    assert caught.value.option == "token_key"


# --- pages ------------------------------------------------------------------------------------------------------------


def test_a_page_without_a_token_is_the_last() -> None:
    assert Page((1, 2), None).at_end
    assert not Page((1, 2), "token").at_end
    assert Page((1, 2), None).at_start
    assert not Page((1, 2), None, "token").at_start


@pytest.fixture(scope="module")
def store() -> Any:
    """Twelve events of two users."""
    with hb.connect("memory:") as store:
        hb.create_tables(store, Event, Beside, Other)
        with hb.Session(store) as session:
            for number in range(12):
                session.add(Event(user=number % 2, number=number, name="ab"[number % 2], level=number % 3))
                session.add(Beside(user=number % 2, number=number, name="x"))
                session.add(Other(user=number % 2, number=number, name="x"))
        yield store


def events(store: hb.Store) -> Query[Event]:
    return hb.Session(store).query(Event).where(Event.user == 1)


class Marked:
    """The fields of two kinds in one row."""

    owner: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.UInt32, in_qualifier=True)
    name: hb.Column[str] = hb.column("n")
    marks: hb.Map[str, int] = hb.map_column("m", factory=dict)


@hb.model(table="paged_kinds", family="d", kind=b"a")
class First(Marked):
    """One kind."""


@hb.model(table="paged_kinds", family="d", kind=b"b")
class Second(Marked):
    """The other kind."""


def test_a_token_belongs_to_one_kind() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, First, Second)
        with hb.Session(store) as session:
            for model in (First, Second):
                session.add_all(
                    model(owner="ann", number=n, name="x", marks=dict.fromkeys("abcd", n)) for n in range(4)
                )
        session = hb.Session(store)
        first, second = (session.query(model).where(model.owner == "ann") for model in (First, Second))
        token = first.page(2).next_token
        assert [each.number for each in first.page(2, after=token).items] == [2, 3]
        with pytest.raises(hb.TokenError, match="another query"):
            second.page(2, after=token)
        marks, others = (session.entries(model.marks, owner="ann", number=1) for model in (First, Second))
        token = marks.page(2).next_token
        assert marks.page(2, after=token).items == [("c", 1), ("d", 1)]
        with pytest.raises(hb.TokenError, match="another query"):
            others.page(2, after=token)


def test_a_token_goes_on_where_the_page_ended(store: hb.Store) -> None:
    first = events(store).page(2)
    second = events(store).page(2, after=first.next_token)
    third = events(store).page(9, after=second.next_token)
    assert [[item.number for item in page.items] for page in (first, second, third)] == [[1, 3], [5, 7], [9, 11]]
    assert third.at_end


Change = Callable[[hb.Store], Query[Any]]


def base(store: hb.Store) -> Query[Event]:
    return hb.Session(store).query(Event).where(Event.user == 1, Event.number >= 2).limit(5)


CHANGES: dict[str, Change] = {
    "other value": lambda store: hb.Session(store).query(Event).where(Event.user == 0, Event.number >= 2).limit(5),
    "other bound": lambda store: hb.Session(store).query(Event).where(Event.user == 1, Event.number >= 3).limit(5),
    "other operator": lambda store: hb.Session(store).query(Event).where(Event.user == 1, Event.number > 2).limit(5),
    "one predicate less": lambda store: hb.Session(store).query(Event).where(Event.user == 1).limit(5),
    "one predicate more": lambda store: base(store).where(Event.level == 1),
    "no predicate": lambda store: hb.Session(store).query(Event).allow_full_scan().limit(5),
    "other direction": lambda store: base(store).reversed(),
    "an order": lambda store: base(store).order_by(Event.number),
    "the opposite order": lambda store: base(store).order_by(Event.number.desc()),
    "other limit": lambda store: base(store).limit(6),
    "no limit": lambda store: hb.Session(store).query(Event).where(Event.user == 1, Event.number >= 2),
    "an offset": lambda store: base(store).offset(1),
    "other path": lambda store: base(store).use_index("by_name").allow_full_scan(),
    "other table": lambda store: hb.Session(store).query(Other).where(Other.user == 1, Other.number >= 2).limit(5),
    "other family": lambda store: hb.Session(store).query(Beside).where(Beside.user == 1, Beside.number >= 2).limit(5),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_token_belongs_to_one_query(store: hb.Store, name: str) -> None:
    token = base(store).page(2).next_token
    assert token is not None
    message = (
        "The page of the continuation token was not read through the path that use_index"
        if name == "other path"
        else None
    )
    with pytest.raises(hb.TokenError, match=message):
        CHANGES[name](store).page(2, after=token)


def test_a_token_does_not_mind_what_changes_nothing(store: hb.Store) -> None:
    token = base(store).page(2).next_token
    again = [
        hb.Session(store).query(Event).limit(5).where(Event.number >= 2).where(Event.user == 1),
        base(store).allow_full_scan(),
        base(store).use_index("primary"),
        base(store).reversed().reversed(),
    ]
    for query in again:
        assert [item.number for item in query.page(2, after=token).items] == [7, 9]
    assert base(store).select(Event.number).page(3, after=token).items == [(7,), (9,), (11,)]


def test_a_token_keeps_its_path(store: hb.Store) -> None:
    """The planner itself would choose another path for the same query."""
    query = hb.Session(store).query(Event).where(Event.user == 1, Event.name == "b")
    begun = query.use_index("primary").page(2)
    assert query.explain().path == "by_name"
    rest = query.page(9, after=begun.next_token)
    assert [item.number for item in [*begun.items, *rest.items]] == [1, 3, 5, 7, 9, 11]


def test_a_path_that_cannot_be_read_any_more_is_told(store: hb.Store) -> None:
    query = events(store)
    digest = decode_token(query.page(2).next_token or "", None).query
    for path in ("by_colour", "by_level", ""):
        with pytest.raises(hb.TokenError):
            query.page(2, after=encode_token(Token(digest, path, b"\x01\x00\x03", None)))


def test_an_altered_token_does_not_widen_the_query(store: hb.Store) -> None:
    """A checksum does not prevent forged tokens; but such a token returns only rows of the query itself."""
    query = events(store).limit(4)
    token = decode_token(query.page(2).next_token or "", None)
    for position in (b"", b"\x00", b"\x00\x00\x05", b"\xff" * 9, b"\x01\x00\x00"):
        for passed in (None, 0, 1, 3, 4, 99, 2**64 - 2):
            items = query.page(99, after=encode_token(Token(token.query, token.path, position, passed))).items
            assert {item.user for item in items} <= {1}
            assert len(items) <= max(0, 4 - (passed or 0))
            items = query.page(
                99, before=encode_token(Token(token.query, token.path, position, passed, backwards=True))
            ).items
            assert {item.user for item in items} <= {1}
            assert len(items) <= min(4, passed or 0)


def test_sealed_sessions(store: hb.Store) -> None:
    key = Fernet.generate_key()
    sealed = hb.Session(store, token_key=key).query(Event).where(Event.user == 1)
    token = sealed.page(2).next_token
    assert [item.number for item in sealed.page(9, after=token).items] == [5, 7, 9, 11]
    assert (
        hb.Session(store, token_key=key).query(Event).where(Event.user == 1).page(1, after=token).items[0].number == 5
    )
    for session in (hb.Session(store), hb.Session(store, token_key=Fernet.generate_key())):
        with pytest.raises(hb.TokenError):
            session.query(Event).where(Event.user == 1).page(2, after=token)
    with pytest.raises(hb.TokenError):
        sealed.page(2, after=events(store).page(2).next_token)


@pytest.mark.parametrize("size", [0, -1, True, 1.0, "2", None])
def test_a_page_holds_at_least_one_item(store: hb.Store, size: Any) -> None:
    with pytest.raises(hb.QueryError, match="Give a whole number of at least"):
        events(store).page(size)


def test_a_page_may_be_larger_than_any_table(store: hb.Store) -> None:
    page = events(store).limit(MOST).offset(1).page(MOST)
    assert ([item.number for item in page.items], page.at_end) == ([3, 5, 7, 9, 11], True)
    assert len(events(store).limit(MOST).page(2).items) == 2


def test_times_in_a_query_bind_the_token_by_their_value() -> None:
    @hb.model(table="timed")
    class Timed:
        at: hb.Key[datetime] = hb.key()
        name: hb.Column[str] = hb.column("n")

    with hb.connect("memory:") as store:
        hb.create_tables(store, Timed)
        with hb.Session(store) as session:
            session.add_all(Timed(at=NOON + timedelta(hours=n), name="x") for n in range(4))
        token = hb.Session(store).query(Timed).where(Timed.at >= NOON).page(1).next_token
        east = NOON.astimezone(datetime.now().astimezone().tzinfo)
        assert len(hb.Session(store).query(Timed).where(Timed.at >= east).page(9, after=token).items) == 3
