"""Attributes that HBase's client attaches to an operation, by name."""

from __future__ import annotations

import struct

TTL_ATTRIBUTE = b"_ttl"
"""The name of the attribute that gives the cells of a put a TTL (`Mutation.OP_ATTRIBUTE_TTL`)."""


def ttl_attributes(ttl: int | None) -> dict[bytes, bytes]:
    """Returns the attributes of a put: its TTL in ms as 8 bytes, big-endian, or nothing."""
    return {} if ttl is None else {TTL_ATTRIBUTE: struct.pack(">q", ttl)}
