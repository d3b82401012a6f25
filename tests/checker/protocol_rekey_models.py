"""The models whose objects move to another key in the model checker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import hbmodel as hb


@hb.model(table="moved", family="d")
class Bare:
    """No index."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)


@hb.model(table="moved_indexed", family="d")
class Indexed:
    """One index; the last write wins."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)

    by_tag = hb.index("tag")


@hb.model(table="moved_expiring", family="d")
class Expiring:
    """One index; the last write wins, and the row has a TTL."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)

    by_tag = hb.index("tag")


@hb.model(table="moved_wide_expiring", family="d", row=b"r")
class WideExpiring:
    """Objects of one row that have a TTL; the last write wins."""

    name: hb.Key[str] = hb.key(in_qualifier=True)
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)

    by_tag = hb.index("tag")


@hb.model(table="moved_fact", family="d", immutable=True)
class Fact:
    """One index of rows that never change."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)

    by_tag = hb.index("tag")


@hb.model(table="moved_versioned", family="d")
class Versioned:
    """One index, and a version."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag")


@hb.model(table="moved_unique", family="d")
class Unique:
    """One unique index."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", unique=True)


@hb.model(table="moved_wide", family="d", row=b"r")
class Wide:
    """Objects of one row; the last write wins."""

    name: hb.Key[str] = hb.key(in_qualifier=True)
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)

    by_tag = hb.index("tag")


@hb.model(table="moved_wide_bare", family="d", row=b"r")
class WideBare:
    """Objects of one row without an index."""

    name: hb.Key[str] = hb.key(in_qualifier=True)
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)


@hb.model(table="moved_wide_versioned", family="d", row=b"r")
class WideVersioned:
    """Objects of one row that has a version."""

    name: hb.Key[str] = hb.key(in_qualifier=True)
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag")


@hb.model(table="moved_covered", family="d")
class Covered:
    """A covering index, and a version."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", covers=("who",))


@hb.model(table="moved_covered_fact", family="d", immutable=True)
class CoveredFact:
    """A covering index of rows that never change."""

    name: hb.Key[str] = hb.key()
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)

    by_tag = hb.index("tag", covers=("who",))


@hb.model(table="moved_wide_covered", family="d", row=b"r")
class WideCovered:
    """Objects of one row that has a version, and a covering index."""

    name: hb.Key[str] = hb.key(in_qualifier=True)
    who: hb.Column[int] = hb.column("w", hb.codecs.UInt8)
    tag: hb.Column[int] = hb.column("t", hb.codecs.UInt8)
    version: hb.Column[int] = hb.version()

    by_tag = hb.index("tag", covers=("who",))


MODELS: Mapping[str, type[Any]] = {
    "bare": Bare,
    "indexed": Indexed,
    "fact": Fact,
    "versioned": Versioned,
    "unique": Unique,
    "wide": Wide,
    "wide bare": WideBare,
    "wide versioned": WideVersioned,
    "expiring": Expiring,
    "wide expiring": WideExpiring,
    "covered": Covered,
    "covered fact": CoveredFact,
    "wide covered": WideCovered,
}
LIVES = frozenset({"expiring", "wide expiring"})
"""The models whose object has a TTL."""

EXACT = frozenset({"versioned", "unique", "wide versioned", "covered", "wide covered"})
"""The models that lose no write which is acknowledged."""

COVERED = frozenset({"covered", "covered fact", "wide covered"})
"""The models whose index answers queries by itself."""
