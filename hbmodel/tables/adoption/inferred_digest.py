"""Finds out whether row keys begin with a digest of the rest of the key, or of the field after it, as programs write
them that spread keys by hand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from attrs import evolve, frozen

from hbmodel.encoding.codecs import DigestPrefixed
from hbmodel.tables.adoption.codec_guess import CodecGuess, literal

ALGORITHMS: Final = ("md5", "sha1", "sha256")
"""The digests that are tried, the first choice first."""


@frozen
class FoundDigest:
    """A digest at the beginning of keys.

    Attributes:
        length: how many bytes, or hex digits, of the digest the keys have.
        hex: whether the digest is written as hex digits.
        separator: the bytes between the digest and the field, or nothing.
        rests: the keys without the digest and the separator.
        whole: whether the digest is that of the whole rest, rather than of its first field.
    """

    algorithm: str
    length: int
    hex: bool
    separator: bytes
    rests: Sequence[bytes]
    whole: bool = True

    def before(self, guess: CodecGuess) -> CodecGuess:
        """Returns the codec of the field together with its digest."""
        arguments = [guess.text, str(self.length)]
        arguments += [f'algorithm="{self.algorithm}"'] if self.algorithm != "md5" else []
        arguments += ["hex=True"] if self.hex else []
        arguments += [f"separator={literal(self.separator.decode())}"] if self.separator else []
        unit = "hex digits" if self.hex else "bytes"
        return evolve(
            guess,
            text=f"hb.codecs.DigestPrefixed({', '.join(arguments)})",
            codec=DigestPrefixed(guess.codec, self.length, self.algorithm, self.hex, self.separator),
            likely=True,
            reason=f"{guess.reason}, after the first {self.length} {unit} of its {self.algorithm.upper()}",
        )


def find_digest(
    keys: Sequence[bytes],
    separators: Sequence[bytes],
    first_fields: Callable[[Sequence[bytes]], Sequence[bytes] | None],
    proof: float,
) -> FoundDigest | None:
    """Returns the digest with which all keys begin, or None. It is the digest of the whole rest of each key, or else of
    the first field of the rest.

    Args:
        separators: the bytes that may follow the digest.
        first_fields: returns the first field of each key without a digest, or None if the keys are a single field.
        proof: how many bits of the digests of different values must agree, so that the agreement is not taken for
            chance.
    """
    for candidate in _candidates(min(keys, key=len), separators):
        separator, start = candidate.separator, candidate.length + len(candidate.separator)
        rests = [key[start:] for key in keys]
        if not all(rests) or not all(key.startswith(separator, candidate.length) for key in keys):
            continue
        if _begins_all(candidate, keys, rests, proof):
            return evolve(candidate, rests=rests)
        fields = first_fields(rests)
        if fields is not None and _begins_all(candidate, keys, fields, proof):
            return evolve(candidate, rests=rests, whole=False)
    return None


def _begins_all(found: FoundDigest, keys: Sequence[bytes], digested: Sequence[bytes], proof: float) -> bool:
    """Returns whether each key begins with the digest of the bytes at the same place in `digested`, and whether the
    agreement is more than chance.
    """
    bits = len(set(digested)) * found.length * (4 if found.hex else 8)
    return bits >= proof and all(key.startswith(_digest(found, data)) for key, data in zip(keys, digested, strict=True))


def _candidates(key: bytes, separators: Sequence[bytes]) -> Iterator[FoundDigest]:
    """Yields the digests that a single key may begin with. There are few, so not every digest is tried on all keys."""
    for algorithm in ALGORITHMS:
        size = hashlib.new(algorithm, usedforsecurity=False).digest_size
        for hex in (True, False):
            for length in range(1, min(size * (2 if hex else 1), len(key) - 1) + 1):
                for separator in (b"", *separators):
                    rest = key[length + len(separator) :]
                    candidate = FoundDigest(algorithm, length, hex, separator, ())
                    if key.startswith(separator, length) and any(
                        field and key.startswith(_digest(candidate, field))
                        for field in (rest, *(rest.partition(delimiter)[0] for delimiter in separators))
                    ):
                        yield candidate


def _digest(found: FoundDigest, data: bytes) -> bytes:
    digest = hashlib.new(found.algorithm, data, usedforsecurity=False)
    return (digest.hexdigest().encode() if found.hex else digest.digest())[: found.length]
