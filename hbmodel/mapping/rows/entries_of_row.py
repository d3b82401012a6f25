"""The row keys of a row's index entries, for all kinds of indexes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from hbmodel.errors import ComputedFieldError
from hbmodel.mapping.index_schema import Index
from hbmodel.mapping.predicates import And
from hbmodel.mapping.schema import TableSchema

Entries = Callable[[Mapping[str, Any], bytes], tuple[bytes, ...]]
"""A function that accepts the values of a row's fields and the row key. It returns the row keys of the row's entries in
one index, without duplicates.
"""


def entry_families(schema: TableSchema, index: Index) -> tuple[bytes, ...]:
    """Returns the sorted families of an index table. These are the model's default family, which contains the version
    cell, and the families of the covered columns.
    """
    return tuple(sorted({schema.family, *(schema.by_name[name].family for name in index.covers)}))


def entries_function(index: Index, packed: Entries) -> Entries:
    """Returns the function that returns the entries of a row in an index.

    Args:
        index: an index of the model.
        packed: a function that returns one entry. It is called with the values of the fields and, in addition, one
            value for each part of the index, by the name of the part's operand.
    """
    if index.is_plain:
        return packed
    accepts = And(tuple(index.conditions)).test() if index.conditions else None
    names = tuple(part.operand.name for part in index.parts)
    takers = tuple(part.values_of for part in index.parts)

    def entries(values: Mapping[str, Any], row: bytes) -> tuple[bytes, ...]:
        try:
            if accepts is not None and not accepts(values):
                return ()
            choices = [take(values) for take in takers]
        except ComputedFieldError as error:
            raise ComputedFieldError(
                error.message, **{"index": index.name, "table": index.table, **error.details}
            ) from None
        keys: dict[bytes, None] = {}
        for chosen in product(*choices):
            keys.update(dict.fromkeys(packed({**values, **dict(zip(names, chosen, strict=True))}, row)))
        return tuple(keys)

    return entries
