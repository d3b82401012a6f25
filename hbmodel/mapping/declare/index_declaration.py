"""The function that declares an index, and the functions that declare the parts of an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hbmodel.encoding.salts import Salt
from hbmodel.mapping.declare.declaration import IndexSpec
from hbmodel.mapping.index_kinds.base import DeclaredPart
from hbmodel.mapping.index_kinds.multi_valued import EachField
from hbmodel.mapping.index_kinds.plain import IndexField
from hbmodel.mapping.predicates import Predicate


def index(
    *fields: str | DeclaredPart,
    covers: Sequence[str] = (),
    salt: Salt | None = None,
    skip_none: bool = False,
    where: Callable[[Any], Predicate] | None = None,
    unique: bool = False,
    renamed_from: str | None = None,
) -> Any:
    """Declares an index table.

    Args:
        fields: names of the fields by which rows are looked up, in key order. `asc("at")` and `desc("at")` set a
            direction; other fields keep their own. `each("tags")` uses the elements of a collection. The rest of the
            primary key is appended automatically.
        covers: a tuple of columns that are also stored in the entries. On versioned and immutable models, entries
            answer queries that need no other columns.
        salt: salt of the index table. Its argument `by` names fields of the index.
        skip_none: excludes rows that have None in a field of the index. A query can use the index only if it excludes
            None in these fields: by `==`, `<`, `startswith` and similar conditions, or by `~field.is_(None)`.
        where: excludes rows that do not satisfy a condition: `where=lambda ticket: ticket.state == "open"`. A query can
            use the index only if it repeats this condition, or has a condition that clearly implies it.
        unique: whether no two rows may have the same values in these fields (None excepted); a write that would break
            this rule raises `UniqueViolation`. Only for versioned models.
        renamed_from: the former name of the index, with the same entries.
    """
    parts = tuple(part if isinstance(part, DeclaredPart) else IndexField(part, None) for part in fields)
    return IndexSpec(parts, covers, salt, skip_none, where, unique, renamed_from)


def each(name: str, *, desc: bool = False) -> DeclaredPart:
    """Declares a part of an index that contains the elements of a collection field: each distinct element has its own
    entry.

    Queries use such an index for the condition `Model.tags.contains("x")`. Rows whose collection is empty or None have
    no entries.
    """
    return EachField(name, desc)


def asc(name: str) -> IndexField:
    """Declares an index field that sorts ascending, even if the field sorts descending in the row key."""
    return IndexField(name, False)


def desc(name: str) -> IndexField:
    """Declares an index field that sorts descending, even if the field sorts ascending in the row key."""
    return IndexField(name, True)
