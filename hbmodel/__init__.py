"""A data mapper for HBase: declare row keys, salts and indexes on attrs classes; write and query typed objects.

import hbmodel as hb

The names that most programs need are here. The other names are in modules that need not be imported separately:
`hb.codecs`, `hb.errors`, `hb.ids`, `hb.indexes`, `hb.migration`, `hb.salts`, `hb.schema`, `hb.store`, `hb.tables`,
`hb.timeseries` and `hb.types`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbmodel._lazy import lazy

if TYPE_CHECKING:
    from hbmodel import codecs as codecs
    from hbmodel import errors as errors
    from hbmodel import ids as ids
    from hbmodel import indexes as indexes
    from hbmodel import migration as migration
    from hbmodel import salts as salts
    from hbmodel import schema as schema
    from hbmodel import store as store
    from hbmodel import tables as tables
    from hbmodel import timeseries as timeseries
    from hbmodel import types as types
    from hbmodel._version import __version__
    from hbmodel.encoding.codecs import (
        Bytes,
        Codec,
        Datetime,
        EnumOf,
        Float64,
        Int32,
        Int64,
        Json,
        Text,
        UInt32,
        UInt64,
    )
    from hbmodel.encoding.salts import HashSalt, RandomSalt
    from hbmodel.errors import (
        CapabilityError,
        ConditionFailed,
        ConflictError,
        DeclarationError,
        DecodingError,
        EncodingError,
        FullScanRefused,
        HbmodelError,
        IncompleteRow,
        MultipleResultsFound,
        NoResultFound,
        PartialWrite,
        QueryError,
        RowExists,
        RowNotFound,
        SchemaMismatch,
        SessionError,
        StoreError,
        StoreUnavailable,
        TokenError,
        UniqueViolation,
        UnknownOutcome,
    )
    from hbmodel.mapping.declare.computed import computed
    from hbmodel.mapping.declare.family_options import family
    from hbmodel.mapping.declare.fields import Column, Key, column, counter, flag, key, version
    from hbmodel.mapping.declare.index_declaration import asc, desc, each, index
    from hbmodel.mapping.declare.map_declaration import Map, map_column
    from hbmodel.mapping.declare.model import mixin, model
    from hbmodel.mapping.rows.keys_of_objects import decode, row_key
    from hbmodel.mapping.rows.object_copies import asdict, evolve
    from hbmodel.protocol.writes import Outcome
    from hbmodel.query.ask.continuation_tokens import Page
    from hbmodel.query.ask.query import Query
    from hbmodel.session.connect import connect
    from hbmodel.session.factory import SessionFactory
    from hbmodel.session.session import Session
    from hbmodel.store.port import Store
    from hbmodel.tables.advice.describe import describe
    from hbmodel.tables.alter import alter
    from hbmodel.tables.creation.comparison.compare_tables import diff
    from hbmodel.tables.creation.create import create_tables
    from hbmodel.tables.creation.drop import drop_tables
    from hbmodel.tables.creation.split_strategies import ByBucket
else:
    __getattr__, __dir__ = lazy(
        __name__,
        modules=(
            "codecs",
            "errors",
            "ids",
            "indexes",
            "migration",
            "salts",
            "schema",
            "store",
            "tables",
            "timeseries",
            "types",
        ),
        names={
            "_version": "__version__",
            "encoding.codecs": "Bytes Codec Datetime EnumOf Float64 Int32 Int64 Json Text UInt32 UInt64",
            "encoding.salts": "HashSalt RandomSalt",
            "errors": (
                "CapabilityError ConditionFailed ConflictError DeclarationError DecodingError "
                "EncodingError FullScanRefused HbmodelError IncompleteRow MultipleResultsFound "
                "NoResultFound PartialWrite QueryError RowExists RowNotFound SchemaMismatch SessionError "
                "StoreError StoreUnavailable TokenError UniqueViolation UnknownOutcome"
            ),
            "mapping.declare.computed": "computed",
            "mapping.rows.object_copies": "asdict evolve",
            "mapping.declare.family_options": "family",
            "mapping.declare.fields": "Column Key column counter flag key version",
            "mapping.declare.index_declaration": "asc desc each index",
            "tables.advice.describe": "describe",
            "mapping.declare.map_declaration": "Map map_column",
            "mapping.declare.model": "mixin model",
            "mapping.rows.keys_of_objects": "decode row_key",
            "protocol.writes": "Outcome",
            "query.ask.continuation_tokens": "Page",
            "query.ask.query": "Query",
            "session.connect": "connect",
            "session.factory": "SessionFactory",
            "session.session": "Session",
            "store.port": "Store",
            "tables.alter": "alter",
            "tables.creation.create": "create_tables",
            "tables.creation.comparison.compare_tables": "diff",
            "tables.creation.drop": "drop_tables",
            "tables.creation.split_strategies": "ByBucket",
        },
    )

__all__ = [
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
    "__version__",
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
