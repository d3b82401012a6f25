"""Pages and the continuation tokens between them: a token contains the position and query of a page, never an offset.

Before base64, a token consists of: version (1 byte), digest of the query (8), direction (1), number of items before the
position (8; all bits are ones if the query has no limit or offset), length of the path's name (1), the name, the
position (an entry or row key, without salt), checksum (4). The direction is 0 for the items after the position and 1
for those before it. Tokens without a position have 2 or 3 instead: with 2 the page starts from the query's first item,
with 3 from its last. With a token key, the whole token is encrypted and authenticated instead of having a checksum.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from attrs import frozen

from hbmodel.errors import SessionError, TokenError

R_co = TypeVar("R_co", covariant=True)

TOKEN_VERSION = 2
_NOT_COUNTED = 2**64 - 1
_DIGEST = 8
_BACKWARDS, _FROM_THE_EDGE = 1, 2


@frozen
class Page(Generic[R_co]):
    """The items of a page and the tokens of the neighbouring pages; it can be iterated and has a length.

    Attributes:
        items: in the query's order.
        next_token: for `page(size, after=...)`; None only if no item follows the page.
        previous_token: for `page(size, before=...)`; None only if no item precedes the page.
        skipped: the number of rows that could not be read and were left out; see `Query.on_unreadable`.
    """

    items: Sequence[R_co]
    next_token: str | None
    previous_token: str | None = None
    skipped: int = 0

    def __iter__(self) -> Iterator[R_co]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def at_start(self) -> bool:
        """Whether no item precedes this page."""
        return self.previous_token is None

    @property
    def at_end(self) -> bool:
        """Whether no item follows this page."""
        return self.next_token is None


@frozen
class Token:
    """A decoded continuation token.

    Attributes:
        query: digest of the query with its values.
        path: name of the path that was read, `primary` or an index.
        position: the last key of the previous page, or the first key of the next page, without salt; None to start from
            the first or last item of the query.
        passed: the number of the query's items before the position; None if the query has no limit or offset.
        backwards: whether the token is for the items before the position.
    """

    query: bytes
    path: str
    position: bytes | None
    passed: int | None
    backwards: bool = False


class Seal(Protocol):
    """Encrypts and authenticates tokens."""

    def encrypt(self, data: bytes) -> bytes:
        """Encrypts `data`."""
        ...

    def decrypt(self, data: bytes) -> bytes:
        """Decrypts data from `encrypt`; raises `TokenError` for anything else."""
        ...


def digest_of(*parts: object) -> bytes:
    """Returns a digest of nested tuples of text, bytes and numbers. It is the same in every process."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=_DIGEST).digest()


def encode_token(token: Token, seal: Seal | None = None) -> str:
    """Returns the token as URL-safe text."""
    path = token.path.encode()
    passed = _NOT_COUNTED if token.passed is None else min(token.passed, _NOT_COUNTED)
    direction = _BACKWARDS * token.backwards + _FROM_THE_EDGE * (token.position is None)
    head = bytes((TOKEN_VERSION,)) + token.query + bytes((direction,)) + passed.to_bytes(8, "big")
    body = head + bytes((len(path),)) + path + (token.position or b"")
    data = body + zlib.crc32(body).to_bytes(4, "big") if seal is None else seal.encrypt(body)
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_token(text: str, query: bytes | None, seal: Seal | None = None) -> Token:
    """Reads a token, and checks that it belongs to a query.

    Args:
        query: the digest of the query, or None if the caller checks it.

    Raises:
        TokenError: the token is damaged, encrypted with another key, of another version, or belongs to another query.
    """
    if not isinstance(text, str) or not text.isascii():
        raise TokenError("A continuation token must be the next_token or previous_token of an earlier page.")
    if not text:
        raise TokenError("The continuation token is empty: pass None for the first page.")
    try:
        data = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenError("The continuation token is damaged: start from the first page.") from None
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != text:
        raise TokenError("The continuation token is damaged: start from the first page.")
    body = _unchecked(data) if seal is None else seal.decrypt(data)
    if not body or body[0] != TOKEN_VERSION:
        raise TokenError("The continuation token is from another version of hbmodel: start from the first page.")
    head = 1 + _DIGEST + 1 + 8
    if len(body) <= head or len(body) < head + 1 + body[head] or body[1 + _DIGEST] > _BACKWARDS + _FROM_THE_EDGE:
        raise TokenError("The continuation token is damaged: start from the first page.")
    digest = body[1 : 1 + _DIGEST]
    if query is not None and digest != query:
        raise TokenError(
            "The continuation token belongs to another query: repeat the query that returned the token, "
            "or start from the first page."
        )
    direction, passed = body[1 + _DIGEST], int.from_bytes(body[2 + _DIGEST : head], "big")
    name_end = head + 1 + body[head]
    try:
        path = body[head + 1 : name_end].decode()
    except UnicodeDecodeError:
        raise TokenError("The continuation token is damaged: start from the first page.") from None
    position = None if direction & _FROM_THE_EDGE else body[name_end:]
    if position is None and len(body) > name_end:
        raise TokenError("The continuation token is damaged: start from the first page.")
    return Token(digest, path, position, None if passed == _NOT_COUNTED else passed, bool(direction & _BACKWARDS))


def _unchecked(data: bytes) -> bytes:
    if len(data) < 4 or zlib.crc32(data[:-4]).to_bytes(4, "big") != data[-4:]:
        raise TokenError("The continuation token is damaged: start from the first page.")
    return data[:-4]


_NO_PACKAGE = (
    "Encrypted tokens need a package that is not installed: install hbmodel with its extra `tokens` (in a checkout: "
    "pip install -e '.[tokens]')."
)


class FernetSeal:
    """Encrypts tokens with Fernet (AES-128-CBC and HMAC-SHA256) from the `cryptography` package.

    Args:
        key: 32 bytes in URL-safe base64, as returned by `cryptography.fernet.Fernet.generate_key()`.

    Raises:
        SessionError: the key is invalid, or the package is not installed.
    """

    def __init__(self, key: bytes | str) -> None:
        try:
            from cryptography.fernet import Fernet
        except ModuleNotFoundError as error:
            raise SessionError(_NO_PACKAGE, option="token_key", missing=error.name) from error
        try:
            self._fernet = Fernet(key)
        except (TypeError, ValueError, binascii.Error):
            raise SessionError(
                "A token key must be 32 bytes in URL-safe base64, as Fernet.generate_key() returns them.",
                option="token_key",
            ) from None

    def encrypt(self, data: bytes) -> bytes:
        """Encrypts `data`."""
        return base64.urlsafe_b64decode(self._fernet.encrypt(data))

    def decrypt(self, data: bytes) -> bytes:
        """Decrypts data from `encrypt`; raises `TokenError` for anything else."""
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(base64.urlsafe_b64encode(data))
        except InvalidToken:
            raise TokenError(
                "The continuation token is damaged or sealed with another key: start from the first page."
            ) from None
