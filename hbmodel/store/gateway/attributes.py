"""Attributes that HBase's client attaches to an operation, by name."""

from __future__ import annotations

import struct

TTL_ATTRIBUTE = b"_ttl"
"""Gives the cells of a put an explicit TTL (`Mutation.OP_ATTRIBUTE_TTL`)."""


def ttl_attributes(ttl: int | None) -> dict[bytes, bytes]:
    """The attributes of a put: its TTL in ms, 8 bytes big-endian, or nothing."""
    return {} if ttl is None else {TTL_ATTRIBUTE: struct.pack(">q", ttl)}
