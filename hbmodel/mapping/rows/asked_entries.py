"""Finds the index entries of a row that a query asks for, if the row has an entry for each element of a long
collection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from hbmodel.mapping.index_schema import Index
from hbmodel.mapping.rows.entries_of_row import Entries, entries_function
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.mapping.rows.row_codegen import compile_entry
from hbmodel.mapping.schema import TableSchema


def entries_asked_for(schema: TableSchema, index: Index, asked: Mapping[str, Sequence[Any]]) -> Entries:
    """Returns a function like the result of `KeyMapper.entries_code`, except that it leaves out entries with values
    that the query does not ask for.

    Args:
        schema: the schema of the model.
        index: an index of the model.
        asked: the values that a query asks for, by the name of the index part.
    """
    packed: Entries | None = schema.compiled.get(("packed", index.name))
    if packed is None:
        packed = compile_entry(index, partial(KeyMapper(schema).packed_slow, index))
        packed = schema.keep(("packed", index.name), packed)
    return entries_function(index.asked_for(asked), packed)
