"""HBase's second Thrift service, from the definition beside this module, with rows that are decoded in place and as cheaply as may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import thriftpy2
from thriftpy2.thrift import TApplicationException, TType

_definition: Any = thriftpy2.load(Path(__file__).with_name("thrift2.thrift"))

SERVICE: Any = _definition.THBaseService

TColumn: Any = _definition.TColumn
TColumnFamilyDescriptor: Any = _definition.TColumnFamilyDescriptor
TColumnIncrement: Any = _definition.TColumnIncrement
TColumnValue: Any = _definition.TColumnValue
TCompareOp: Any = _definition.TCompareOp
TDelete: Any = _definition.TDelete
TDeleteType: Any = _definition.TDeleteType
TGet: Any = _definition.TGet
TIncrement: Any = _definition.TIncrement
TMutation: Any = _definition.TMutation
TPut: Any = _definition.TPut
TReadType: Any = _definition.TReadType
TRowMutations: Any = _definition.TRowMutations
TScan: Any = _definition.TScan
TTableDescriptor: Any = _definition.TTableDescriptor
TTableName: Any = _definition.TTableName

TIOError: type[Exception] = _definition.TIOError
TIllegalArgument: type[Exception] = _definition.TIllegalArgument

FAILURES: tuple[type[Exception], ...] = (TIOError, TIllegalArgument, TApplicationException)
"""The exceptions by which the gateway answers: those that the service declares, and Thrift's own for "internal error"."""


class ResultCell:
    """A cell as decoded.

    thriftpy2 fills the attributes that `thrift_spec` names. Its own classes have an `__init__` in Python that sets each of them
    first; without it a row of six cells takes a third less time.
    """

    __slots__ = ("family", "qualifier", "timestamp", "value")

    family: bytes
    qualifier: bytes
    value: bytes
    timestamp: int

    thrift_spec = _definition.TColumnValue.thrift_spec


class _ByColumn:
    """The cells of a row by column, made when first asked for and then an attribute of the row like any other."""

    def __get__(self, row: ResultRow, owner: type) -> dict[bytes, ResultCell]:
        cells = {cell.family + b":" + cell.qualifier: cell for cell in row.columnValues}
        row.__dict__["columns"] = cells
        return cells


class ResultRow:
    """A row as decoded; an absent one has neither key nor cells."""

    row: bytes = b""
    columnValues: list[ResultCell] = []  # noqa: RUF012  # the definition's name; replaced, never changed

    columns = _ByColumn()

    thrift_spec = {  # noqa: RUF012  # thriftpy2 takes nothing but a dict
        **_definition.TResult.thrift_spec,
        2: (TType.LIST, "columnValues", (TType.STRUCT, ResultCell), True),
    }


SERVICE.getMultiple_result.thrift_spec[0] = (TType.LIST, "success", (TType.STRUCT, ResultRow), False)
SERVICE.getScannerRows_result.thrift_spec[0] = (TType.LIST, "success", (TType.STRUCT, ResultRow), False)
SERVICE.getScannerResults_result.thrift_spec[0] = (TType.LIST, "success", (TType.STRUCT, ResultRow), False)
SERVICE.increment_result.thrift_spec[0] = (TType.STRUCT, "success", ResultRow, False)
