"""HBase's first Thrift service, from the definition that happybase ships, as thriftpy2 generates it."""

from __future__ import annotations

import importlib
from typing import Any

from thriftpy2.thrift import TApplicationException

importlib.import_module("happybase")  # loads its Hbase.thrift as a module of this name
_generated: Any = importlib.import_module("Hbase_thrift")

SERVICE: Any = _generated.Hbase

BatchMutation: Any = _generated.BatchMutation
ColumnDescriptor: Any = _generated.ColumnDescriptor
Mutation: Any = _generated.Mutation
TScan: Any = _generated.TScan

IllegalArgument: type[Exception] = _generated.IllegalArgument

FAILURES: tuple[type[Exception], ...] = (_generated.IOError, IllegalArgument, _generated.AlreadyExists, TApplicationException)
"""The exceptions by which the gateway answers: those that the service declares, and Thrift's own for "internal error"."""
