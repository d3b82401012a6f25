"""Salts: prefixes that spread consecutive row keys over a table."""

from __future__ import annotations

from hbmodel.encoding.salts import DigestSalt, HashSalt, PhoenixSalt, RandomSalt, Salt, TextSalt

__all__ = [
    "DigestSalt",
    "HashSalt",
    "PhoenixSalt",
    "RandomSalt",
    "Salt",
    "TextSalt",
]
