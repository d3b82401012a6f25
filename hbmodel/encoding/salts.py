"""Salts: a short prefix of the row key that spreads adjacent rows over buckets, computed from key fields or random."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

from attrs import Factory, field, frozen

from hbmodel.encoding.codecs import JSON
from hbmodel.encoding.codecs.reversed_and_digests import digest_function
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout, unescaped
from hbmodel.errors import DeclarationError, DecodingError, RowKeyError
from hbmodel.store.ranges import KeyRange, prefix_successor


def _field_names(by: Any) -> tuple[str, ...]:
    names = (by,) if isinstance(by, str) else tuple(by)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise DeclarationError('by takes names of key fields, each once: by=("user",).', found=repr(by))
    return names


class Salt(ABC):
    """How rows are spread over buckets: the number of buckets, the prefix of each, and the bucket of a row.

    Attributes:
        buckets: the number of buckets.
        width: length of every bucket's prefix, in bytes.
        by: names of the key fields whose bytes determine the bucket; empty means all.
        random: whether the bucket is random instead of computed. If it is random, a model with indexes needs a prefix
            of one byte, the number of the bucket, because index entries also end with this byte.
    """

    __slots__ = ()

    buckets: int
    width: int
    by: tuple[str, ...] = ()
    random: bool = False

    @abstractmethod
    def prefix(self, bucket: int) -> bytes:
        """Returns the prefix of all keys in a bucket. The prefix has `width` bytes, and each bucket has a different
        one.
        """

    @abstractmethod
    def bucket(self, data: bytes) -> int:
        """Returns the bucket of a row.

        Args:
            data: the bytes that the fields in `by` have in the key, joined in key order.

        Raises:
            RowKeyError: the bucket is random, so it cannot be computed from the key.
        """

    @property
    @abstractmethod
    def spec(self) -> dict[str, JSON]:
        """The salt as canonical JSON."""

    def draw(self) -> int:
        """Returns a random bucket, for a random salt."""
        raise RowKeyError(
            "The bucket of this salt is computed from the key, not chosen at random.", salt=type(self).__name__
        )

    def bind(self, layout: KeyLayout) -> BoundSalt:
        """Applies the salt to the keys of a layout.

        Raises:
            DeclarationError: `by` names something that is not a key field, or the prefixes are invalid.
        """
        unknown = [name for name in self.by if name not in layout.names]
        if unknown:
            raise DeclarationError(
                "A salt is computed from key fields: by= takes only these.", unknown=unknown, fields=layout.names
            )
        bound = BoundSalt(self, layout.names)
        kinds = {(type(prefix), len(prefix)) for prefix in bound.prefixes}
        if kinds != {(bytes, self.width)} or len(set(bound.prefixes)) < bound.buckets:
            raise DeclarationError(
                "Every bucket of a salt needs a different prefix of `width` bytes.", salt=type(self).__name__
            )
        return bound


MOST_BUCKETS = 4096
"""The maximum number of buckets of a `TextSalt`, as many as the largest `DigestSalt` has."""


def _bucket_count(buckets: Any) -> int:
    if type(buckets) is not int or not 2 <= buckets <= 256:
        raise DeclarationError("A salt of one byte must have 2 to 256 buckets.", found=buckets)
    return buckets


@frozen
class _ComputedByte(Salt):
    """One byte, the number of the bucket, which is computed from the fields' bytes."""

    buckets: int = field(converter=_bucket_count)
    by: tuple[str, ...] = field(default=(), converter=_field_names)

    width = 1

    def prefix(self, bucket: int) -> bytes:
        return bytes((bucket,))


@frozen
class HashSalt(_ComputedByte):
    """One byte: zlib's crc32 of the fields' bytes, modulo the number of buckets.

    A query that fixes all fields in `by` reads one bucket. Any other query reads all buckets and merges them.

    Args:
        buckets: 2 to 256.
        by: names of key fields; by default all of them.
    """

    def bucket(self, data: bytes) -> int:
        return crc32(data) % self.buckets

    @property
    def spec(self) -> dict[str, JSON]:
        return {"salt": "hash", "buckets": self.buckets, "by": list(self.by)}


@frozen
class RandomSalt(Salt):
    """One random byte for each write. This spreads rows most evenly, but is only for rows that never change. A get
    reads all buckets in one call.

    Args:
        buckets: 2 to 256.
    """

    buckets: int = field(converter=_bucket_count)

    width = 1
    random = True

    def prefix(self, bucket: int) -> bytes:
        return bytes((bucket,))

    def bucket(self, data: bytes) -> int:
        raise RowKeyError("A random salt is drawn for each write: the bucket cannot be computed from the key.")

    def draw(self) -> int:
        return secrets.randbelow(self.buckets)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"salt": "random", "buckets": self.buckets, "by": []}


def _prefixes(prefixes: Any) -> tuple[bytes, ...]:
    if isinstance(prefixes, str | bytes):
        raise DeclarationError("A text salt takes a collection of prefixes, not one string.")
    encoded = tuple(prefix.encode() if isinstance(prefix, str) else bytes(prefix) for prefix in prefixes)
    if (
        len(encoded) < 2
        or len(set(encoded)) < len(encoded)
        or len({len(prefix) for prefix in encoded}) > 1
        or not encoded[0]
    ):
        raise DeclarationError("A text salt takes two or more different prefixes of equal length.", found=encoded)
    if len(encoded) > MOST_BUCKETS:
        raise DeclarationError(
            "A text salt takes at most 4096 prefixes, because a scan of the table reads every bucket. If the prefix is "
            "the digest of the first field, declare that field with hb.codecs.DigestPrefixed.",
            found=len(encoded),
        )
    return encoded


@frozen
class TextSalt(Salt):
    """Custom prefixes, such as `a-` and `b-`, for tables that another program salts.

    Args:
        prefixes: text or bytes, of equal length, in the order of the buckets' numbers; at most 4096.
        by: names of key fields; by default all of them.
        choose: a function that returns the bucket's number for the fields' bytes; by default zlib's crc32 modulo the
            number of prefixes.
    """

    prefixes: tuple[bytes, ...] = field(converter=_prefixes)
    by: tuple[str, ...] = field(default=(), converter=_field_names)
    choose: Callable[[bytes], int] | None = None
    buckets: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: len(self.prefixes), takes_self=True)
    )
    width: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: len(self.prefixes[0]), takes_self=True)
    )

    def prefix(self, bucket: int) -> bytes:
        return self.prefixes[bucket]

    def bucket(self, data: bytes) -> int:
        if self.choose is None:
            return crc32(data) % len(self.prefixes)
        bucket = self.choose(data)
        if type(bucket) is not int or not 0 <= bucket < len(self.prefixes):
            raise RowKeyError(
                "The function of a text salt must return a number below `buckets`.", buckets=self.buckets, found=bucket
            )
        return bucket

    @property
    def spec(self) -> dict[str, JSON]:
        return {
            "salt": "text",
            "prefixes": [prefix.hex() for prefix in self.prefixes],
            "by": list(self.by),
            "choose": "crc32" if self.choose is None else "own",
        }


def _digit_count(digits: Any) -> int:
    if type(digits) is not int or not 1 <= digits <= 3:
        raise DeclarationError(
            "A digest salt must have 1 to 3 hex digits: each further digit makes a scan read 16 times as many buckets.",
            found=digits,
        )
    return digits


@frozen
class DigestSalt(Salt):
    """The first hex digits, as lower-case text, of a digest of the fields' bytes, for tables that another program
    salts.

    The bytes are those in the key, including a delimiter after a field. If the other program computes the digest of
    other bytes, use `TextSalt` with a function.

    Args:
        digits: 1 to 3, for 16, 256 or 4096 buckets.
        by: names of key fields; by default all of them.
        algorithm: the name of a digest in `hashlib`.
    """

    digits: int = field(converter=_digit_count)
    by: tuple[str, ...] = field(default=(), converter=_field_names)
    algorithm: str = "md5"
    buckets: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: 1 << 4 * self.digits, takes_self=True)
    )
    width: int = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.digits, takes_self=True))
    _new: Callable[[bytes], Any] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: digest_function(self.algorithm), takes_self=True)
    )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.digits, self.by, self.algorithm)

    def prefix(self, bucket: int) -> bytes:
        return b"%0*x" % (self.digits, bucket)

    def bucket(self, data: bytes) -> int:
        return int(self._new(data).hexdigest()[: self.digits], 16)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"salt": "digest", "digits": self.digits, "by": list(self.by), "algorithm": self.algorithm}


@frozen
class JavaHashSalt(_ComputedByte):
    """One byte, for tables that another program salts: the absolute value of the hash `java.util.Arrays.hashCode` of
    the fields' bytes, modulo the number of buckets.

    Phoenix hashes the whole key (`SaltingUtil`, `SALT_BUCKETS`), OpenTSDB the metric and the tags (`RowKey`). HBase's
    `Bytes.hashCode` is the same hash.

    Args:
        buckets: 2 to 256.
        by: names of key fields; by default all of them.
    """

    def bucket(self, data: bytes) -> int:
        hashed = 1
        for byte in data:
            hashed = (31 * hashed + (byte ^ 0x80) - 0x80) & 0xFFFFFFFF  # Java's bytes are signed, and its int wraps
        return ((1 << 32) - hashed if hashed >> 31 else hashed) % self.buckets

    @property
    def spec(self) -> dict[str, JSON]:
        return {"salt": "java_hash", "buckets": self.buckets, "by": list(self.by)}


@frozen
class NoSalt(Salt):
    """One bucket without a prefix."""

    buckets = 1
    width = 0

    def prefix(self, bucket: int) -> bytes:
        return b""

    def bucket(self, data: bytes) -> int:
        return 0

    @property
    def spec(self) -> dict[str, JSON]:
        return {"salt": "none"}


@frozen
class RowSalt(Salt):
    """The salt of a wide model. It is computed from the bytes that fields have in the row key, and not from the bytes
    that they have in the object key.
    """

    salt: Salt
    by: tuple[str, ...]
    buckets: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.salt.buckets, takes_self=True)
    )
    width: int = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.salt.width, takes_self=True))

    @classmethod
    def of(cls, salt: Salt, layout: ObjectKeyLayout) -> RowSalt:
        """Applies a declared salt to the rows of a wide model. By default the salt uses every field of the row key.

        Raises:
            DeclarationError: the salt is random, or names fields that are not in the row key, or the row is constant.
        """
        if salt.random:
            raise DeclarationError(
                "A wide model cannot have a random salt: the objects of a row must be in the same bucket.",
                salt=type(salt).__name__,
            )
        known = layout.names[: layout.rows]
        if not known:
            raise DeclarationError(
                "A constant row cannot have a salt: leave out the salt or row=.", salt=type(salt).__name__
            )
        wrong = [name for name in salt.by if name not in known]
        if wrong:
            raise DeclarationError(
                "The salt of a wide model must be computed from fields of the row key.", unknown=wrong, fields=known
            )
        return cls(salt, tuple(name for name in known if not salt.by or name in salt.by))

    def prefix(self, bucket: int) -> bytes:
        return self.salt.prefix(bucket)

    def bucket(self, data: bytes) -> int:
        return self.salt.bucket(unescaped(data))

    @property
    def spec(self) -> dict[str, JSON]:
        return self.salt.spec


def _positions(bound: BoundSalt) -> tuple[int, ...]:
    return tuple(i for i, name in enumerate(bound.names) if not bound.salt.by or name in bound.salt.by)


@frozen
class BoundSalt:
    """A salt applied to the keys of one layout.

    Attributes:
        names: names of all key fields, in key order.
        by: names of the fields whose bytes determine the bucket, in key order.
        width: length of the prefix, in bytes.
        prefixes: the prefixes of all buckets, in bucket order.
    """

    salt: Salt
    names: tuple[str, ...]
    buckets: int = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.salt.buckets, takes_self=True)
    )
    width: int = field(init=False, eq=False, repr=False, default=Factory(lambda self: self.salt.width, takes_self=True))
    random: bool = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.salt.random, takes_self=True)
    )
    prefixes: tuple[bytes, ...] = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: tuple(map(self.salt.prefix, range(self.buckets))), takes_self=True),
    )
    _positions: tuple[int, ...] = field(init=False, eq=False, repr=False, default=Factory(_positions, takes_self=True))
    by: tuple[str, ...] = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: tuple(self.names[i] for i in self._positions), takes_self=True),
    )
    _by_prefix: Mapping[bytes, int] = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: {p: i for i, p in enumerate(self.prefixes)}, takes_self=True),
    )

    @property
    def spec(self) -> dict[str, JSON]:
        """The salt as canonical JSON, with its fields in key order. Salts with equal specs put equal rows into the same
        bucket.
        """
        return {**self.salt.spec, "by": list(self.by)}

    def prefix(self, bucket: int) -> bytes:
        """Returns the prefix of all keys in a bucket."""
        return self.prefixes[bucket]

    def draw(self) -> int:
        """Returns a random bucket, for a random salt."""
        return self.salt.draw()

    def bucket_of(self, parts: Sequence[bytes]) -> int:
        """Returns the bucket of a row, given the parts of all its key fields in key order.

        Raises:
            RowKeyError: the salt is random.
        """
        if len(self._positions) == len(parts):
            return self.salt.bucket(b"".join(parts))
        return self.salt.bucket(b"".join([parts[i] for i in self._positions]))

    def bucket_of_fields(self, parts: Mapping[str, bytes]) -> int:
        """Returns the bucket of all rows whose fields in `by` have these parts. The parts are given by field name;
        names that are not in `by` are ignored.

        Raises:
            RowKeyError: the salt is random, or a field of `by` is missing.
        """
        missing = [name for name in self.by if name not in parts]
        if missing:
            raise RowKeyError("The bucket depends on fields that were not given: give these too.", missing=missing)
        return self.salt.bucket(b"".join([parts[name] for name in self.by]))

    def bucket_at(self, key: bytes) -> int:
        """Returns the bucket of a stored key.

        Raises:
            DecodingError: the key does not begin with the prefix of a bucket.
        """
        bucket = self._by_prefix.get(key[: self.width])
        if bucket is None:
            raise DecodingError("A stored key does not begin with the prefix of any bucket.", prefix=key[: self.width])
        return bucket

    def range_in(self, bucket: int, keys: KeyRange) -> KeyRange:
        """Returns the range of stored keys of a bucket whose part after the salt is in `keys`."""
        prefix = self.prefixes[bucket]
        return KeyRange(prefix + keys.start, prefix_successor(prefix) if keys.stop is None else prefix + keys.stop)


UNSALTED: Final = BoundSalt(NoSalt(), ())
"""One bucket without a prefix, for any layout."""
