"""HBase's first Thrift service, from the definition that happybase ships, with rows that are decoded as fast as
possible.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec import Struct
from thriftpy2.thrift import TApplicationException, TType

importlib.import_module("happybase")  # importing happybase loads its Hbase.thrift as a module of this name
_generated: Any = importlib.import_module("Hbase_thrift")

BatchMutation: Any = _generated.BatchMutation
ColumnDescriptor: Any = _generated.ColumnDescriptor
Mutation: Any = _generated.Mutation
TScan: Any = _generated.TScan

IllegalArgument: type[Exception] = _generated.IllegalArgument

FAILURES: tuple[type[Exception], ...] = (
    _generated.IOError,
    IllegalArgument,
    _generated.AlreadyExists,
    TApplicationException,
)
"""The exceptions that the gateway may return: the exceptions that the service declares, and Thrift's exception for
"internal error".
"""


class ResultCell(Struct, gc=False):
    """A decoded cell. See the docstring of `ResultCell` in the second service for the reason for this class."""

    thrift_spec: ClassVar[dict[int, Any]] = _generated.TCell.thrift_spec

    value: bytes = b""
    timestamp: int = 0


class ResultRow(Struct, gc=False):
    """A decoded row. The garbage collector does not track it, because it is never part of a reference cycle."""

    thrift_spec: ClassVar[dict[int, Any]] = {
        1: _generated.TRowResult.thrift_spec[1],
        2: (TType.MAP, "columns", (TType.STRING, (TType.STRUCT, ResultCell)), False),
    }

    row: bytes = b""
    columns: dict[bytes, ResultCell] = {}


def in_order(rows: Sequence[Any]) -> Sequence[Any]:
    """Returns the same rows, with the cells of each row sorted by column, compared as unsigned bytes.

    The gateway sorts cells by Java's signed bytes, so that bytes from 80 to FF come first. For columns without such
    bytes, both orders are the same.
    """
    for row in rows:
        columns = row.columns
        if not b"".join(columns).isascii():
            row.columns = {column: columns[column] for column in sorted(columns)}
    return rows


class PutCell(Struct, gc=False):
    """A `Mutation` to be sent, which puts a cell. It has no `__init__` in Python, and the garbage collector does not
    track it.
    """

    thrift_spec: ClassVar[dict[int, Any]] = {number: _generated.Mutation.thrift_spec[number] for number in (2, 3)}

    column: bytes
    value: bytes


class PutRow(Struct, gc=False):
    """A `BatchMutation` of puts, to be sent."""

    thrift_spec: ClassVar[dict[int, Any]] = {
        1: _generated.BatchMutation.thrift_spec[1],
        2: (TType.LIST, "mutations", (TType.STRUCT, PutCell), False),
    }

    row: bytes
    mutations: list[PutCell]


def _with_our_rows(reply: Any) -> Any:
    """Returns a class for replies that are lists of rows, which are decoded into `ResultRow`. happybase's class is not
    changed.
    """
    return type(
        reply.__name__,
        (reply,),
        {"thrift_spec": {**reply.thrift_spec, 0: (TType.LIST, "success", (TType.STRUCT, ResultRow), False)}},
    )


class _Service(_generated.Hbase):  # type: ignore[misc]  # generated, so nothing is known of it
    getRowsWithColumns_result = _with_our_rows(_generated.Hbase.getRowsWithColumns_result)
    getRowsWithColumnsTs_result = _with_our_rows(_generated.Hbase.getRowsWithColumnsTs_result)
    scannerGetList_result = _with_our_rows(_generated.Hbase.scannerGetList_result)


SERVICE: Any = _Service
