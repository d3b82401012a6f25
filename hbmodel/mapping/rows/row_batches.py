"""Decodes the rows of a batch that are objects, by a function that is made once per model and projection."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hbmodel.encoding.codegen import Code
from hbmodel.mapping.rows.liveness import existence_code
from hbmodel.mapping.rows.mapper import RowDecoder, Values
from hbmodel.mapping.rows.row_check import checks_rows
from hbmodel.mapping.rows.row_codegen import compile_decode_objects
from hbmodel.store.values import Row

DecodeObjects = Callable[[Iterable[Row]], list[tuple[bytes, Values]]]
"""A function that accepts rows of a table, and returns the key without the salt and the values of each row that is
an object.
"""


def decode_objects(reader: RowDecoder) -> DecodeObjects:
    """Returns the function with which a decoder decodes many rows. The function returns the same results and raises the
    same errors as the decoder's `exists` and `values` for one row after the other.
    """
    key = ("objects", type(reader), reader.indexed, reader.names, reader.adopting)
    function: DecodeObjects | None = reader.schema.compiled.get(key)
    if function is None:
        plain = type(reader) is RowDecoder
        function = reader.schema.keep(key, _compiled(reader) if plain else _row_by_row(reader))
    return function


def _compiled(reader: RowDecoder) -> DecodeObjects:
    schema = reader.schema

    def exists(code: Code) -> str:
        if checks_rows(schema):
            return f"{code.name(reader.exists)}(row)"
        return existence_code(code, schema, reader.indexed, reader.adopting)

    return compile_decode_objects(schema, reader.fields, exists, reader.values_slow)


def _row_by_row(reader: RowDecoder) -> DecodeObjects:
    exists, values, width = reader.exists, reader.values, reader.schema.salt.width
    return lambda rows: [(row.row[width:], values(row)) for row in rows if exists(row)]
