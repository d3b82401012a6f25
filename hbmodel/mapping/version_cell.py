"""The version cell of versioned models: 02 or 03, the version in 8 bytes, and the nonces of the write that put the cell
and of earlier writes.

The first version of a row is the time of its write in ms, and every further version is one more. Each write of a row
has a later time than the write before it. So a row never has the same version twice, even if it is deleted, all its
traces are purged, and it is put again.

If a row moves between two tables, its cell begins with 04 or 05, and has nine more bytes after the version. The first
of them is 01 in the table where the row is sealed, and 00 in the table to which the row was copied. The others are the
nonce of this step. The version and the other nonces move unchanged with the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from hbmodel.encoding.codecs.base import JSON, Codec, wrong_type
from hbmodel.encoding.codecs.integers import floor_integer
from hbmodel.errors import DecodingError, EncodingError
from hbmodel.mapping.next_version import NextVersion

LAST_WRITE_WINS = b"\x01"
"""First byte of a version cell in last-write-wins mode; the nonce follows."""

VERSIONED, TRUNCATED = b"\x02", b"\x03"
"""First byte of a version cell in versioned mode: 02 if the cell has the nonces of all writes since the row's first
version, 03 if it has only the latest nonces.
"""

MOVED, MOVED_TRUNCATED = b"\x04", b"\x05"
"""The counterparts of `VERSIONED` and `TRUNCATED` for a row that was sealed, or put, by a move between tables."""

SEALED, OPENED = b"\x01", b"\x00"
"""The byte after the version in the cell of a row that was moved; the nonce of the step follows."""

NONCE_LENGTH = 8
UNKNOWN = 0
"""The version of an object that was not read; no row has this version."""

HIGHEST = 2**63 - 1
_START = len(VERSIONED) + 8
_STEP = len(SEALED) + NONCE_LENGTH


@frozen
class VersionCell:
    """A parsed version cell.

    Attributes:
        version: the version of the row; 0 if there is no cell, or if the cell was put by a last-write-wins write.
        nonces: the nonces of the write that put the cell and of the writes before it, the latest first.
        complete: whether `nonces` contains the nonces of all writes since the row's first version.
        step: the step of a move between tables that sealed or copied the row, as a byte and its nonce; otherwise empty.
    """

    version: int = UNKNOWN
    nonces: Sequence[bytes] = ()
    complete: bool = True
    step: bytes = b""

    @property
    def sealed(self) -> bool:
        """Whether the row must not be written in this table, because the row is moving, or has moved, to a different
        table.
        """
        return self.step[:1] == SEALED

    @classmethod
    def of(cls, data: bytes) -> VersionCell:
        """Parses a version cell, the inverse of `data`; raises `DecodingError`."""
        if not data or data[:1] == LAST_WRITE_WINS:
            return cls()
        if (
            data[:1] in {MOVED, MOVED_TRUNCATED}
            and len(data) >= _START + _STEP
            and not (len(data) - _START - _STEP) % NONCE_LENGTH
        ):
            step, rest = data[_START : _START + _STEP], data[_START + _STEP :]
            nonces = tuple(rest[at : at + NONCE_LENGTH] for at in range(0, len(rest), NONCE_LENGTH))
            return cls(int.from_bytes(data[len(MOVED) : _START]), nonces, data[:1] == MOVED, step)
        if data[:1] not in {VERSIONED, TRUNCATED} or len(data) <= _START or (len(data) - _START) % NONCE_LENGTH:
            raise DecodingError("The version cell was not written by a versioned model.", length=len(data))
        nonces = tuple(data[at : at + NONCE_LENGTH] for at in range(_START, len(data), NONCE_LENGTH))
        return cls(int.from_bytes(data[len(VERSIONED) : _START]), nonces, data[:1] == VERSIONED)

    def next(self, nonce: bytes, timestamp: int, count: int) -> VersionCell:
        """Returns the cell that the next write puts, at the time `timestamp`. The cell keeps at most `count` earlier
        nonces.
        """
        version = self.version + 1 if self.version else max(timestamp, 1)
        return VersionCell(version, (nonce, *self.nonces[:count]), self.complete and len(self.nonces) <= count)

    def sealed_by(self, nonce: bytes) -> VersionCell:
        """Returns the cell of the same version in a row that is sealed."""
        return VersionCell(self.version, self.nonces, self.complete, SEALED + nonce)

    def opened_by(self, nonce: bytes) -> VersionCell:
        """Returns the cell of the same version in the copy of a sealed row. It differs from every cell that was at this
        place before.
        """
        return VersionCell(self.version, self.nonces, self.complete, OPENED + nonce)

    @property
    def data(self) -> bytes:
        """The bytes of the cell."""
        if self.step:
            kind = MOVED if self.complete else MOVED_TRUNCATED
            return kind + self.version.to_bytes(8) + self.step + b"".join(self.nonces)
        return (VERSIONED if self.complete else TRUNCATED) + self.version.to_bytes(8) + b"".join(self.nonces)


def entry_version(data: bytes) -> bytes:
    """Returns the version cell of a row for its entries, without the nonces of earlier writes, which entries do not
    need.
    """
    if data[:1] == LAST_WRITE_WINS:
        return data
    return data[: _START + NONCE_LENGTH + _STEP * (data[:1] in {MOVED, MOVED_TRUNCATED})]


@frozen
class VersionCodec(Codec[int]):
    """Reads the version out of a version cell."""

    python_type = int
    key = False

    def encode(self, value: int) -> bytes:
        if isinstance(value, NextVersion):
            value = value.required
        if type(value) is not int:
            raise wrong_type(int, value)
        if not 0 <= value <= HIGHEST:
            raise EncodingError("A version must be a number of at most 63 bits.")
        return VERSIONED + value.to_bytes(8)

    def floor(self, value: int) -> int | None:
        return floor_integer(value.required if isinstance(value, NextVersion) else value, 0, HIGHEST)

    def decode(self, data: bytes) -> int:
        return int.from_bytes(data[len(VERSIONED) :]) if len(data) == _START else VersionCell.of(data).version

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "version"}
