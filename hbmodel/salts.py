"""Salts: prefixes that spread consecutive row keys over a table."""

from __future__ import annotations

from hbmodel.encoding.salts import DigestSalt, HashSalt, JavaHashSalt, RandomSalt, Salt, TextSalt

__all__ = [
    "DigestSalt",
    "HashSalt",
    "JavaHashSalt",
    "RandomSalt",
    "Salt",
    "TextSalt",
]
