"""The public names, one by one: a name that is gone or new is seen here first."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import hbmodel
from hbmodel import errors, localhbase, store

TOP = [
    "Alteration",
    "AtKeys",
    "Bool",
    "ByBucket",
    "Bytes",
    "Call",
    "Capabilities",
    "CapabilityError",
    "CellVersion",
    "CertificateRefused",
    "ClockError",
    "Codec",
    "Column",
    "ColumnSlice",
    "Columns",
    "ComputedFieldError",
    "ConditionFailed",
    "ConflictError",
    "Creation",
    "Date",
    "Datetime",
    "DecimalNumber",
    "DecimalText",
    "DeclarationError",
    "DecodingError",
    "Delimited",
    "Description",
    "Dictionary",
    "Diff",
    "Difference",
    "DigestPrefixed",
    "DigestSalt",
    "Duration",
    "EncodingError",
    "EnumOf",
    "Explanation",
    "Family",
    "FamilyExists",
    "FamilyNotFound",
    "FieldExpression",
    "Float64",
    "FromSample",
    "FullScanRefused",
    "HashSalt",
    "HbmodelError",
    "HexText",
    "Hexadecimal",
    "IPAddress",
    "IPv4",
    "IPv6",
    "IdsExhausted",
    "IncompleteKey",
    "IncompleteRow",
    "Index",
    "IndexBuild",
    "IndexProgress",
    "IndexReport",
    "IndexTimes",
    "IndexUnavailable",
    "Int16",
    "Int32",
    "Int64",
    "Int8",
    "InvalidRequest",
    "JavaInt",
    "JavaLong",
    "JavaUTF",
    "Json",
    "Key",
    "KeyTooLong",
    "LocalHBaseError",
    "MapColumns",
    "Migration",
    "MigrationError",
    "MigrationProgress",
    "MigrationReport",
    "MsgPack",
    "Names",
    "NamespaceExists",
    "NamespaceNotFound",
    "NoResult",
    "NotLoaded",
    "OrderNotAvailable",
    "Ordering",
    "Outcome",
    "Page",
    "PartialWrite",
    "Predicate",
    "Query",
    "QueryError",
    "QueryPart",
    "RandomSalt",
    "Region",
    "RegionUse",
    "ReverseStamp",
    "ReverseStampInt",
    "Reversed",
    "ReversedDigits",
    "RowExists",
    "RowMoved",
    "RowGroup",
    "RowKeyError",
    "RowNotFound",
    "Salt",
    "SchemaMismatch",
    "Sequence",
    "SequenceIds",
    "Session",
    "SessionClosed",
    "SessionError",
    "SessionOptions",
    "SessionThreadError",
    "Sessions",
    "SeveralResults",
    "Slices",
    "Store",
    "StoreClosed",
    "StoreError",
    "StoreURLError",
    "StoreUnavailable",
    "TableExists",
    "TableNotFound",
    "TableOutcome",
    "TableSchema",
    "Text",
    "TextSalt",
    "TimeSpan",
    "Timestamp",
    "TokenError",
    "UInt16",
    "UInt32",
    "UInt64",
    "UInt8",
    "UUID128",
    "Uniform",
    "UniqueViolation",
    "UnknownField",
    "UnknownIndex",
    "UnknownName",
    "UnknownOutcome",
    "__version__",
    "alter",
    "asc",
    "asdict",
    "build_index",
    "check_regions",
    "column",
    "columns",
    "computed",
    "connect",
    "counter",
    "create_tables",
    "decode",
    "desc",
    "describe",
    "dictionary",
    "diff",
    "downsample",
    "drop_index",
    "drop_tables",
    "each",
    "evolve",
    "family",
    "flag",
    "index",
    "index_status",
    "key",
    "migrate",
    "mixin",
    "model",
    "purge_rows",
    "repair_index",
    "row_key",
    "schema_of",
    "split_keys",
    "verify_index",
    "version",
]
STORE = [
    "PipelinedStore",
    "BegunAgain",
    "BegunPut",
    "CELL_OVERHEAD",
    "CLOCK_TICK",
    "Capabilities",
    "Cell",
    "ConditionalChange",
    "Delete",
    "EVERYTHING",
    "FOREVER",
    "Family",
    "Get",
    "KeyRange",
    "MAX_CELL_SIZE",
    "MAX_ROW_LENGTH",
    "NO_TABLE",
    "Put",
    "Region",
    "RepeatingStore",
    "Row",
    "Scan",
    "Store",
    "VersionsStore",
    "check_cells",
    "check_row",
    "check_store",
]
ERRORS = [
    "CapabilityError",
    "CertificateRefused",
    "ClockError",
    "ComputedFieldError",
    "ConditionFailed",
    "ConflictError",
    "DeclarationError",
    "DecodingError",
    "EncodingError",
    "FamilyExists",
    "FamilyNotFound",
    "FullScanRefused",
    "HbmodelError",
    "IdsExhausted",
    "IncompleteKey",
    "IncompleteRow",
    "IndexUnavailable",
    "InvalidRequest",
    "KeyTooLong",
    "LocalHBaseError",
    "MigrationError",
    "NamespaceExists",
    "NamespaceNotFound",
    "NoResult",
    "OrderNotAvailable",
    "PartialWrite",
    "QueryError",
    "RowExists",
    "RowMoved",
    "RowKeyError",
    "RowNotFound",
    "SchemaMismatch",
    "SessionClosed",
    "SessionError",
    "SessionThreadError",
    "SeveralResults",
    "StoreClosed",
    "StoreError",
    "StoreURLError",
    "StoreUnavailable",
    "TableExists",
    "TableNotFound",
    "TokenError",
    "UniqueViolation",
    "UnknownField",
    "UnknownIndex",
    "UnknownName",
    "UnknownOutcome",
]
LOCALHBASE = [
    "GATEWAYS",
    "LocalHBase",
    "Settings",
    "Status",
    "default_directory",
    "kill",
    "log_file",
    "prepare",
    "resolved",
    "restart",
    "start",
    "status",
    "stop",
]

QUERY = [
    "after",
    "all",
    "allow_full_scan",
    "as_of",
    "before",
    "count",
    "delete",
    "exists",
    "explain",
    "first",
    "first_of_each",
    "last",
    "limit",
    "load",
    "offset",
    "one",
    "order_by",
    "page",
    "reversed",
    "select",
    "split",
    "terms",
    "use_index",
    "where",
]
"""What completion shows of a query: one name for each thing."""

OPAQUE = {
    "BoundSalt",
    "Computed",
    "Condition",
    "Counter",
    "DeclaredPart",
    "Drain",
    "Field",
    "FlagSpec",
    "IndexField",
    "KeyLayout",
    "Registry",
    "ServerClock",
    "Source",
    "HasStore",
}
"""Types in public signatures that no program names: what declarations return, and what the library hands to itself."""

PUBLIC = {hbmodel: TOP, store: STORE, errors: ERRORS, localhbase: LOCALHBASE}


def names_of(module: ModuleType) -> set[str]:
    """What a module offers: `__all__`, or what it defines itself without an underscore."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return set(listed)
    defined = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    return {name for name in defined if not name.startswith("_")}


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_public_names_stay(module: ModuleType) -> None:
    missing = {name for name in PUBLIC[module] if not hasattr(module, name)}
    assert not missing


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_no_public_name_is_added_unnoticed(module: ModuleType) -> None:
    assert names_of(module) == set(PUBLIC[module])


def test_a_query_shows_one_name_for_each_thing() -> None:
    assert [name for name in dir(hbmodel.Query) if not name.startswith("_")] == QUERY
    query = hbmodel.Session(hbmodel.connect("memory:")).query(Named)
    assert [name for name in dir(query) if not name.startswith("_")] == QUERY


@hbmodel.model(table="named")
class Named:
    name: hbmodel.Key[str] = hbmodel.key()
    size: hbmodel.Column[int] = hbmodel.column("s")


def signatures() -> Iterator[Any]:
    """The public functions and methods."""
    for module, names in PUBLIC.items():
        for name in names:
            value = getattr(module, name)
            if not inspect.isclass(value):
                yield value
                continue
            for attribute in dir(value):
                of = inspect.getattr_static(value, attribute)
                if not attribute.startswith("_"):
                    yield getattr(of, "fget", None) or getattr(of, "func", None) or getattr(of, "__func__", of)


def types_in(hint: Any) -> Iterator[Any]:
    """The classes that an annotation names."""
    for part in (hint, typing.get_origin(hint)):
        if inspect.isclass(part):
            yield part
    for argument in typing.get_args(hint):
        for part in argument if isinstance(argument, list) else [argument]:
            yield from types_in(part)


def test_what_users_meet_in_signatures_is_public() -> None:
    public = {id(getattr(module, name)) for module, names in PUBLIC.items() for name in names}
    met = {
        kind.__name__
        for function in signatures()
        if inspect.isfunction(function) and function.__module__.startswith("hbmodel.")
        for hint in typing.get_type_hints(function).values()
        for kind in types_in(hint)
        if kind.__module__.startswith("hbmodel.") and id(kind) not in public
    }
    assert met <= OPAQUE
