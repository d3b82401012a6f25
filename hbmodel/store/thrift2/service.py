"""HBase's second Thrift service, from the definition next to this module, with rows that are decoded in place and as
fast as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import thriftpy2
from msgspec import Struct
from thriftpy2.thrift import TApplicationException, TType

_definition: Any = thriftpy2.load(Path(__file__).with_name("hbase.thrift"))

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
TNamespaceDescriptor: Any = _definition.TNamespaceDescriptor
TPut: Any = _definition.TPut
TReadType: Any = _definition.TReadType
TRowMutations: Any = _definition.TRowMutations
TScan: Any = _definition.TScan
TTableDescriptor: Any = _definition.TTableDescriptor
TTimeRange: Any = _definition.TTimeRange
TTableName: Any = _definition.TTableName

TIOError: type[Exception] = _definition.TIOError
TIllegalArgument: type[Exception] = _definition.TIllegalArgument

FAILURES: tuple[type[Exception], ...] = (TIOError, TIllegalArgument, TApplicationException)
"""The exceptions that the gateway may return: the exceptions that the service declares, and Thrift's exception for
"internal error".
"""


class ResultCell(Struct, gc=False):
    """A decoded cell.

    thriftpy2 sets the attributes in `thrift_spec`. Its own classes have an `__init__` in Python, and the garbage
    collector traverses their objects again and again while more are decoded. Without these two costs, reading takes a
    third less time.
    """

    thrift_spec: ClassVar[dict[int, Any]] = _definition.TColumnValue.thrift_spec

    family: bytes = b""
    qualifier: bytes = b""
    value: bytes = b""
    timestamp: int = 0


class ResultRow(Struct, gc=False):
    """A decoded row. An absent row has neither key nor cells. The garbage collector does not track it, because it is
    never part of a reference cycle.
    """

    thrift_spec: ClassVar[dict[int, Any]] = {
        **_definition.TResult.thrift_spec,
        2: (TType.LIST, "columnValues", (TType.STRUCT, ResultCell), True),
    }

    row: bytes = b""
    columnValues: Sequence[ResultCell] = ()
    by_column: dict[bytes, ResultCell] | None = None

    @property
    def columns(self) -> dict[bytes, ResultCell]:
        """The cells by column. The mapping is made when it is needed for the first time."""
        columns = self.by_column
        if columns is None:
            cells = self.columnValues
            if cells and cells[0].family == cells[-1].family:  # cells are sorted, so all of them have this family
                prefix = cells[0].family + b":"
                columns = {prefix + cell.qualifier: cell for cell in cells}
            else:
                columns = {cell.family + b":" + cell.qualifier: cell for cell in cells}
            self.by_column = columns
        return columns


class GetColumn(Struct, gc=False):
    """A `TColumn`, which is a column or a family to be read."""

    thrift_spec: ClassVar[dict[int, Any]] = {number: _definition.TColumn.thrift_spec[number] for number in (1, 2)}

    family: bytes
    qualifier: bytes | None


class GetRow(Struct, gc=False):
    """A `TGet` to be sent."""

    thrift_spec: ClassVar[dict[int, Any]] = _definition.TGet.thrift_spec

    row: bytes
    columns: Sequence[Any] | None
    filterString: bytes | None = None
    timeRange: Any = None
    maxVersions: int | None = None


def time_range(before: int | None) -> Any:
    """Returns the range of the times below `before`, or None for all times."""
    return None if before is None else TTimeRange(minStamp=0, maxStamp=before)


class PutCell(Struct, gc=False):
    """A `TColumnValue` to be sent. It has no `__init__` in Python, and the garbage collector does not track it."""

    thrift_spec: ClassVar[dict[int, Any]] = {
        number: _definition.TColumnValue.thrift_spec[number] for number in (1, 2, 3)
    }

    family: bytes
    qualifier: bytes
    value: bytes


class PutRow(Struct, gc=False):
    """A `TPut` to be sent."""

    thrift_spec: ClassVar[dict[int, Any]] = {
        **_definition.TPut.thrift_spec,
        2: (TType.LIST, "columnValues", (TType.STRUCT, PutCell), True),
    }

    row: bytes
    columnValues: list[PutCell]
    timestamp: int | None
    attributes: dict[bytes, bytes] | None


SERVICE.getMultiple_result.thrift_spec[0] = (TType.LIST, "success", (TType.STRUCT, ResultRow), False)
SERVICE.getScannerRows_result.thrift_spec[0] = (TType.LIST, "success", (TType.STRUCT, ResultRow), False)
SERVICE.getScannerResults_result.thrift_spec[0] = (TType.LIST, "success", (TType.STRUCT, ResultRow), False)
SERVICE.increment_result.thrift_spec[0] = (TType.STRUCT, "success", ResultRow, False)
