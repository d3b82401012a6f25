"""HBase's first Thrift service, from the definition that happybase ships, with rows that are decoded as cheaply as
possible.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec import Struct
from thriftpy2.thrift import TApplicationException, TType

importlib.import_module("happybase")  # loads its Hbase.thrift as a module of this name
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
"""The exceptions by which the gateway answers: those that the service declares, and Thrift's own for "internal
error".
"""


class ResultCell(Struct, gc=False):
    """A cell as decoded; see the second service's `ResultCell` for the reason."""

    thrift_spec: ClassVar[dict[int, Any]] = _generated.TCell.thrift_spec

    value: bytes = b""
    timestamp: int = 0


class ResultRow(Struct, gc=False):
    """A row as decoded. The garbage collector does not track it, since it is in no cycles."""

    thrift_spec: ClassVar[dict[int, Any]] = {
        1: _generated.TRowResult.thrift_spec[1],
        2: (TType.MAP, "columns", (TType.STRING, (TType.STRUCT, ResultCell)), False),
    }

    row: bytes = b""
    columns: dict[bytes, ResultCell] = {}


def in_order(rows: Sequence[Any]) -> Sequence[Any]:
    """The same rows, the cells of each in the order of their columns as unsigned bytes.

    The gateway sorts them by Java's signed bytes, so that 80 to FF come first. Without such bytes both orders are the
    same.
    """
    for row in rows:
        columns = row.columns
        if not b"".join(columns).isascii():
            row.columns = {column: columns[column] for column in sorted(columns)}
    return rows


class PutCell(Struct, gc=False):
    """A `Mutation` that puts, to be sent; without an `__init__` in Python, and not tracked by the garbage collector."""

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
    """The class of a reply that is a list of rows, decoded into our class; happybase's own stays as it is."""
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
