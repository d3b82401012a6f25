"""The public names, one by one: a name that is gone or new is seen here first."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest

import hbmodel
from hbmodel import codecs, errors, ids, indexes, localhbase, migration, salts, schema, store, tables, timeseries, types

TOP = [
    "ByBucket",
    "Bytes",
    "CapabilityError",
    "Codec",
    "Column",
    "ConditionFailed",
    "ConflictError",
    "Datetime",
    "DeclarationError",
    "DecodingError",
    "EncodingError",
    "EnumOf",
    "Float64",
    "FullScanRefused",
    "HashSalt",
    "HbmodelError",
    "IncompleteRow",
    "Int32",
    "Int64",
    "Json",
    "Key",
    "Map",
    "MultipleResultsFound",
    "NoResultFound",
    "Outcome",
    "Page",
    "PartialWrite",
    "Query",
    "QueryError",
    "RandomSalt",
    "RowExists",
    "RowNotFound",
    "SchemaMismatch",
    "Session",
    "SessionError",
    "SessionFactory",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "Text",
    "TokenError",
    "UInt32",
    "UInt64",
    "UniqueViolation",
    "UnknownOutcome",
    "alter",
    "asc",
    "asdict",
    "column",
    "computed",
    "connect",
    "counter",
    "create_tables",
    "decode",
    "desc",
    "describe",
    "diff",
    "drop_tables",
    "each",
    "evolve",
    "family",
    "flag",
    "index",
    "key",
    "map_column",
    "mixin",
    "model",
    "row_key",
    "version",
]
CODECS = [
    "Bool",
    "Bytes",
    "Codec",
    "Date",
    "Datetime",
    "DecimalNumber",
    "DecimalText",
    "Delimited",
    "DelimitedInt",
    "Dictionary",
    "DigestPrefixed",
    "Duration",
    "EnumOf",
    "FixedWidth",
    "Float32",
    "Float64",
    "HexText",
    "IPAddress",
    "IPv4",
    "IPv6",
    "Int16",
    "Int32",
    "Int64",
    "Int8",
    "JavaInt",
    "JavaLong",
    "JavaUTF",
    "Json",
    "MsgPack",
    "NonEmpty",
    "PaddedBytes",
    "ReverseDecimalText",
    "ReverseStamp",
    "ReverseStampInt",
    "Reversed",
    "ReversedDigits",
    "Separated",
    "Text",
    "Timestamp",
    "UInt16",
    "UInt24",
    "UInt32",
    "UInt40",
    "UInt48",
    "UInt56",
    "UInt64",
    "as_text",
    "check_codec",
    "java",
    "ordered_bytes",
    "phoenix",
    "UInt8",
    "Unterminated",
    "UUID128",
]
AS_TEXT = ["Bool", "Date", "Datetime", "Decimal", "Float", "Int"]
PHOENIX = [
    "BigInt",
    "Boolean",
    "Char",
    "Date",
    "Decimal",
    "Double",
    "Float",
    "Integer",
    "SmallInt",
    "Time",
    "Timestamp",
    "TinyInt",
    "UnsignedDate",
    "UnsignedInt",
    "UnsignedLong",
    "UnsignedSmallInt",
    "UnsignedTime",
    "UnsignedTimestamp",
    "UnsignedTinyInt",
    "Varchar",
]
JAVA = [
    "BigDecimal",
    "Boolean",
    "Byte",
    "Double",
    "Float",
    "Int",
    "IntText",
    "IntTime",
    "Long",
    "LongTime",
    "ReverseStamp",
    "ReverseStampInt",
    "Short",
    "UTF",
]
ORDERED_BYTES = [
    "Blob",
    "BlobVar",
    "Float32",
    "Float64",
    "Int16",
    "Int32",
    "Int64",
    "Int8",
    "Numeric",
    "String",
]
IDS = [
    "Dictionary",
    "IdSequence",
    "Names",
    "SequenceIds",
    "UidDictionary",
    "dictionary",
    "opentsdb_uids",
]
INDEXES = [
    "IndexBuild",
    "IndexProgress",
    "IndexReport",
    "IndexTimes",
    "build_index",
    "drop_index",
    "index_status",
    "purge_rows",
    "repair_index",
    "verify_index",
]
MIGRATION = [
    "Migration",
    "MigrationProgress",
    "MigrationReport",
    "migrate",
]
SALTS = [
    "DigestSalt",
    "HashSalt",
    "JavaHashSalt",
    "RandomSalt",
    "Salt",
    "TextSalt",
]
SCHEMA = [
    "Index",
    "TableSchema",
    "key_of",
    "schema_of",
    "with_table",
]
TABLES = [
    "Adoption",
    "Alteration",
    "AtKeys",
    "ByBucket",
    "Creation",
    "Diff",
    "Difference",
    "Finding",
    "Forgotten",
    "FromSample",
    "Hexadecimal",
    "InferredField",
    "InferredModel",
    "RegionUse",
    "TableOutcome",
    "TableWriter",
    "Uniform",
    "adopt",
    "check_regions",
    "forget",
    "forget_writer",
    "infer",
    "split_keys",
    "table_writers",
]
TIMESERIES = [
    "TimeSpan",
    "downsample",
]
TYPES = [
    "CellVersion",
    "Description",
    "Explanation",
    "FieldExpression",
    "MapExpression",
    "MapSlice",
    "NotLoaded",
    "Ordering",
    "Predicate",
    "QueryPartition",
    "RowGroup",
    "SessionOptions",
    "Slices",
]
STORE = [
    "PipelinedStore",
    "BegunAgain",
    "BegunPut",
    "CELL_OVERHEAD",
    "CLOCK_TICK",
    "Call",
    "Capabilities",
    "Cell",
    "ChangeAndGetStore",
    "ConditionalChange",
    "ConditionalPut",
    "ConditionalPutsStore",
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
    "CounterOverflow",
    "DeclarationError",
    "DecodingError",
    "EncodingError",
    "FamilyExists",
    "FamilyNotFound",
    "FrozenObject",
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
    "NoResultFound",
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
    "MultipleResultsFound",
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
    "VERSIONS",
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
    "on_unreadable",
    "one",
    "order_by",
    "page",
    "partitions",
    "reversed",
    "select",
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

DECLARED = "a part of a resolved declaration, which the library reads"
READ_ALONE = "a part of a result: programs read its attributes and print it"
EXCUSED_FIELDS = {
    "Description.bytes": READ_ALONE,
    "Description.prefixes": READ_ALONE,
    "Description.sample": READ_ALONE,
    "Index.parts": DECLARED,
    "MapExpression.of": DECLARED,
    "Migration.throttle": "made from the arguments of `hb.migration.migrate`",
    "Query.terms": "what the query asks for, only for the modules that plan and run it: completion leaves it out, "
    "the docstring says so",
    "Scan.filter": "made by the planner; a store passes it to its server or evaluates it",
    "TableSchema.maps": DECLARED,
    "TableSchema.wide": DECLARED,
}
"""Fields of public classes with types that no program names, each with the reason."""

PUBLIC = {
    hbmodel: ["__version__", *TOP],
    codecs: CODECS,
    codecs.as_text: AS_TEXT,
    codecs.java: JAVA,
    codecs.ordered_bytes: ORDERED_BYTES,
    codecs.phoenix: PHOENIX,
    errors: ERRORS,
    ids: IDS,
    indexes: INDEXES,
    localhbase: LOCALHBASE,
    migration: MIGRATION,
    salts: SALTS,
    schema: SCHEMA,
    store: STORE,
    tables: TABLES,
    timeseries: TIMESERIES,
    types: TYPES,
}
MOST = 70
"""The most names that `hb.` may show: what is needed less often stands in a module of its own."""


def names_of(module: ModuleType) -> set[str]:
    """The public names of a module: `__all__`, or the names that it defines itself without an underscore."""
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


def test_few_names_are_at_the_top() -> None:
    assert len(hbmodel.__all__) <= MOST


@pytest.mark.parametrize("package", [hbmodel, tables], ids=lambda package: package.__name__)
def test_names_that_are_loaded_late_are_those_of_type_checkers(package: ModuleType) -> None:
    assert package.__file__ is not None
    tree = ast.parse(Path(package.__file__).read_text())
    seen = {
        f"{alias.name}": node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for name in {*package.__all__, *(name for name, module in seen.items() if module == "hbmodel")}:
        value = getattr(package, name)
        assert value is getattr(import_module(str(seen[name])), name)
        assert name in dir(package)
    with pytest.raises(AttributeError, match="has no attribute 'typo'"):
        package.typo  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_importing_the_package_loads_no_room() -> None:
    program = (
        "import sys, hbmodel\nprint(*sorted(name for name in sys.modules if name.startswith(('hbmodel.', 'attr', "
        "'msgspec'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["hbmodel._lazy"]


def test_a_query_shows_one_name_for_each_thing() -> None:
    query = hbmodel.Session(hbmodel.connect("memory:")).query(Named)
    assert [name for name in dir(query) if not name.startswith("_")] == QUERY
    assert query.terms.schema is hbmodel.schema.schema_of(Named), "the modules of the package read it"
    assert {name for name in dir(hbmodel.Query) if not name.startswith("_")} == {*QUERY, "terms"}


@hbmodel.model(table="named")
class Named:
    name: hbmodel.Key[str] = hbmodel.key()
    size: hbmodel.Column[int] = hbmodel.column("s")


def signatures() -> Iterator[tuple[str, Any]]:
    """The annotations of the public functions, of the methods and properties of public classes, and of their attrs
    fields.
    """
    for module, names in PUBLIC.items():
        for name in names:
            value = getattr(module, name)
            if not inspect.isclass(value):
                yield from annotations_of(name, value)
                continue
            for attribute in dir(value):
                of = inspect.getattr_static(value, attribute)
                if not attribute.startswith("_"):
                    function = getattr(of, "fget", None) or getattr(of, "func", None) or getattr(of, "__func__", of)
                    yield from annotations_of(f"{name}.{attribute}", function)
            if attrs.has(value):
                hints = typing.get_type_hints(value)
                yield from (
                    (f"{name}.{of.name}", hints[of.name]) for of in attrs.fields(value) if not of.name.startswith("_")
                )


def annotations_of(name: str, function: Any) -> Iterator[tuple[str, Any]]:
    """The annotations of a function of this package."""
    if inspect.isfunction(function) and function.__module__.startswith("hbmodel."):
        yield from ((name, hint) for hint in typing.get_type_hints(function).values())


def types_in(hint: Any) -> Iterator[Any]:
    """The classes that an annotation names."""
    for part in (hint, typing.get_origin(hint)):
        if inspect.isclass(part):
            yield part
    for argument in typing.get_args(hint):
        for part in argument if isinstance(argument, list) else [argument]:
            yield from types_in(part)


def test_what_users_meet_in_signatures_and_fields_is_public() -> None:
    public = {id(getattr(module, name)) for module, names in PUBLIC.items() for name in names}
    met = [
        (place, kind.__name__)
        for place, hint in signatures()
        for kind in types_in(hint)
        if kind.__module__.startswith("hbmodel.") and id(kind) not in public
    ]
    assert {(place, kind) for place, kind in met if kind not in OPAQUE and place not in EXCUSED_FIELDS} == set()
    assert {place for place, kind in met if kind not in OPAQUE} == set(EXCUSED_FIELDS), (
        "an excuse that nothing needs any more"
    )
