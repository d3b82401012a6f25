"""Frozen descriptions of models, for the rest of the library: fields, indexes and the table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from types import GeneratorType
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import attrs
from attrs import frozen

from hbmodel.encoding.codecs import Dictionary
from hbmodel.encoding.codecs.enums import members_of
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.encoding.salts import BoundSalt
from hbmodel.errors import DeclarationError, UnknownField, UnknownIndex
from hbmodel.mapping.index_schema import Index
from hbmodel.mapping.map_columns import MapField
from hbmodel.mapping.model_field import REQUIRED, Field, FieldKind
from hbmodel.mapping.wide import WideLayout
from hbmodel.store.values import Family
from hbmodel.store.wide.wide_rows import ROW_VERSION, WideRows

__all__ = [
    "COMPILED_KEPT",
    "COUNTER_ZERO",
    "EXPIRY_QUALIFIER",
    "FLAG",
    "KEY_FORMAT_VERSION",
    "LIVE",
    "LIVENESS_QUALIFIER",
    "PRIMARY",
    "REQUIRED",
    "ROW_VERSION_QUALIFIER",
    "SPARE_FLAG_QUALIFIER",
    "STAMP_QUALIFIER",
    "STATUS_QUALIFIER",
    "VERSION_QUALIFIER",
    "Field",
    "FieldKind",
    "Index",
    "TableSchema",
    "schema_of",
]

KEY_FORMAT_VERSION = 1
"""Version of the byte formats of row keys, index entries and system cells; stored in the registry."""

VERSION_QUALIFIER = b"_v"
LIVENESS_QUALIFIER = b"_l"
SPARE_FLAG_QUALIFIER = b"_"
EXPIRY_QUALIFIER = b"_t"
STAMP_QUALIFIER = b"_p"
MOVE_QUALIFIER = STAMP_QUALIFIER + b"m"  # no stamp has this qualifier, because the qualifiers of stamps are longer
CLAIM_QUALIFIER = b"_u"
STATUS_QUALIFIER = b"_s"
ROW_VERSION_QUALIFIER = b"_r"
LIVE = b"\x01"
"""First byte of the liveness cell of a live row, followed by the time of expiry (8 bytes) if the row expires; the cell
of a dead row contains 00 and a nonce.
"""

FLAG = b"\x01"
"""Value of the existence flag."""

CLAIMED: Final = b"\x00"
"""The first byte of a row's flag while an insert has claimed its key; the nonce of the claim follows."""

_CLAIM_LENGTH = 9

COUNTER_ZERO = bytes(8)

COMPILED_KEPT = 256
"""The maximum number of generated functions and decoders that a model caches."""

PRIMARY: Final = "primary"
"""Name of the path through the primary table; other paths have the names of indexes."""

T = TypeVar("T")


@frozen(eq=False)
class TableSchema:
    """All declarations of a model, resolved. Two schemas are equal only if they are the same object.

    Attributes:
        model: the class.
        table: name of the primary table.
        family: default column family.
        fields: every field, in declaration order.
        layout: layout of the primary row key, without salt. If objects share rows, the layout of the object key, see
            `ObjectKeyLayout`.
        salt: salt of the primary table.
        indexes: the indexes, by name.
        immutable: whether rows never change after they are written.
        external: whether other programs write the table; deletes then touch mapped columns only.
        blind_puts: whether whole objects are put without a read of their rows.
        exists: qualifier of the flag that marks a row as existing, or None.
        flag_value: the value that a put writes into the flag's cell.
        witness: `family:qualifier` of the column that shows which rows of an external table are objects, or None.
        families: options of the model's families.
        computed: fields that are computed from others and not stored.
        row: the one row that contains all objects, or None.
        kind: the byte that is the prefix of the model's qualifiers, or nothing.
        wide: the layout of a wide model; None if each object has its own row.
        maps: map columns, which are not among the fields.
        replaces: the earlier layout from which the model's objects move into this layout, or None. Rows of the earlier
            layout are decoded to objects of this model.
        successor: if this schema is an earlier layout of another model, the table to which the objects move; otherwise
            empty.
        declared: the decorated class with the same declarations, if this model only has a different table; None for a
            decorated class.
        of_tables: the models with the same declarations and a different table, by table. Models that are no longer used
            are dropped.
        compiled: functions that were generated for the model, by purpose; see `keep`.
    """

    model: type[Any]
    table: str
    family: bytes
    fields: Sequence[Field]
    layout: KeyLayout
    salt: BoundSalt
    indexes: Mapping[str, Index]
    immutable: bool = False
    external: bool = False
    blind_puts: bool = True
    exists: bytes | None = None
    flag_value: bytes = FLAG
    witness: bytes | None = None
    families: Sequence[Family] = attrs.field(factory=tuple)
    computed: Sequence[Field] = ()
    row: bytes | None = None
    kind: bytes = b""
    wide: WideLayout | None = None
    maps: tuple[MapField, ...] = ()
    replaces: TableSchema | None = None
    successor: str = ""
    declared: type[Any] | None = None
    of_tables: WeakValueDictionary[str, type[Any]] = attrs.field(factory=WeakValueDictionary, init=False, repr=False)
    compiled: dict[Any, Any] = attrs.field(factory=dict, init=False, repr=False)

    def keep(self, key: Hashable, value: T) -> T:
        """Caches a function, or another object made for the model, in `compiled`. The cache is limited, because queries
        that select fields may need any number of functions.
        """
        if len(self.compiled) >= COMPILED_KEPT:
            self.compiled.clear()
        self.compiled[key] = value
        return value

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """Fields by attribute name, including computed ones."""
        return {f.name: f for f in (*self.fields, *self.computed)}

    @cached_property
    def key_fields(self) -> Sequence[Field]:
        """Fields of the row key, in key order."""
        return tuple(f for f in self.fields if f.is_key)

    @cached_property
    def columns(self) -> Sequence[Field]:
        """Fields stored in cells, counters included, in declaration order."""
        return tuple(f for f in self.fields if not f.is_key)

    @cached_property
    def dictionaries(self) -> Sequence[Dictionary]:
        """The dictionaries used by the model's fields."""
        return tuple(dict.fromkeys(f.codec for f in (*self.fields, *self.computed) if isinstance(f.codec, Dictionary)))

    @cached_property
    def version_field(self) -> Field | None:
        """The field declared with `hb.version()`, or None."""
        return next((f for f in self.fields if f.kind == "version"), None)

    @cached_property
    def versioned(self) -> bool:
        """Whether rows have a version that every write is checked against."""
        return self.version_field is not None

    @cached_property
    def optional_columns(self) -> frozenset[bytes]:
        """Columns that store None as an empty cell. A put may omit this cell if there can be no older cell to hide."""
        return frozenset(f.column for f in self.columns if f.none_may_be_left_out)

    @cached_property
    def family_names(self) -> Sequence[bytes]:
        """Every family of the model, sorted."""
        return tuple(
            sorted({self.family, *(f.family for f in self.columns), *(map_field.family for map_field in self.maps)})
        )

    @cached_property
    def registry_keys(self) -> Sequence[tuple[str, bytes, bytes]]:
        """For each family of the model: the table, the family and the kind."""
        return tuple((self.table, family, self.kind) for family in self.family_names)

    @cached_property
    def exists_column(self) -> bytes | None:
        """`family:qualifier` of the existence flag."""
        return None if self.exists is None else self.family + b":" + self.exists

    def is_flag(self, value: bytes) -> bool:
        """Whether a cell of the existence flag with this value says that the row exists. Other programs may put any
        value into the cell.
        """
        return not is_claim(value) if self.external else value == FLAG

    @cached_property
    def any_cell_shows(self) -> bool:
        """Whether any cell in the model's families shows that a row of an external table is an object.

        The cells of other programs need not be cells of the model. So reads must request all cells of the families, or
        rows without the model's cells would be missing.
        """
        return self.external and self.wide is None and self.exists is None and self.witness is None

    @cached_property
    def spare_flag_column(self) -> bytes | None:
        """`family:qualifier` of an existence flag that only some rows have. None if no row needs such a flag, or no row
        may have it.

        An update checks a cell that is not empty, to be sure that its row still exists. Every row has such a cell if
        the model has a required column that is never empty, or a declared flag. Rows of immutable models are not
        updated. A table that other programs write gets only the model's own cells. An object that consists of one cell
        with an empty qualifier has no place for another cell.
        """
        if (
            self.external
            or self.immutable
            or self.exists is not None
            or (self.wide is not None and self.wide.qualifiers.raw)
        ):
            return None
        if any(f.never_empty for f in self.columns):
            return None
        return self.family + b":" + SPARE_FLAG_QUALIFIER

    def spare_flag(self, cells: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Returns the flag, if a row with these cells needs it because no other cell could show later that the row
        exists; otherwise nothing.

        If a model has no required columns, and some of its columns store None by deleting the cell, every row has the
        flag: a delete of such a cell may hide the cell of a put in the same millisecond.
        """
        column = self.spare_flag_column
        if column is None or (not self._all_may_be_deleted and any(map(cells.get, self.proving_columns))):
            return {}
        return {column: FLAG}

    @cached_property
    def _all_may_be_deleted(self) -> bool:
        return not self.required_columns and any(f.null == "delete" for f in self.columns)

    @cached_property
    def proving_columns(self) -> Sequence[bytes]:
        """The columns whose cells each show that a row exists, if the model has no declared flag. These are the
        required columns or, if there are no required columns, all columns.
        """
        return self.required_columns or tuple(f.column for f in self.columns)

    @cached_property
    def counter_columns(self) -> frozenset[bytes]:
        """The columns that the server increments."""
        return frozenset(f.column for f in self.columns if f.kind == "counter")

    @cached_property
    def liveness_column(self) -> bytes:
        """`family:qualifier` of the liveness cell of indexed and versioned models."""
        return self.family + b":" + LIVENESS_QUALIFIER

    @cached_property
    def version_column(self) -> bytes:
        """`family:qualifier` of the version cell of indexed and versioned models."""
        return self.family + b":" + VERSION_QUALIFIER

    @cached_property
    def row_version_column(self) -> bytes | None:
        """`family:qualifier` under which reads of a versioned wide model's objects return the version of the row. None
        for any other model.
        """
        return None if self.wide is None or not self.versioned else self.family + b":" + ROW_VERSION_QUALIFIER

    @cached_property
    def claim_column(self) -> bytes:
        """`family:qualifier` of the claims of unique values, in index tables."""
        return self.family + b":" + CLAIM_QUALIFIER

    @cached_property
    def status_column(self) -> bytes:
        """`family:qualifier` of the cell that contains the status of an entry, verified or not; see `covering`."""
        return self.family + b":" + STATUS_QUALIFIER

    @cached_property
    def covering(self) -> frozenset[str]:
        """Names of the indexes whose verified entries answer queries without a read of their rows."""
        return frozenset(name for name, index in self.indexes.items() if index.verified)

    @cached_property
    def expiry_column(self) -> bytes:
        """`family:qualifier` of the cell with the time at which a row expires, for models without indexes."""
        return self.family + b":" + EXPIRY_QUALIFIER

    @cached_property
    def stamp_prefix(self) -> bytes:
        """The first bytes of a stamp's `family:qualifier`; 8 more bytes follow. A stamp is a temporary cell. It is put
        to learn the time of the server that holds the row.
        """
        return self.family + b":" + STAMP_QUALIFIER

    @cached_property
    def move_column(self) -> bytes:
        """`family:qualifier` of the mark of an object that is being moved to another key; see
        `protocol.indexed.move_marks`.
        """
        return self.family + b":" + MOVE_QUALIFIER

    @cached_property
    def _system_columns(self) -> frozenset[bytes]:
        row_version = () if self.row_version_column is None else (self.row_version_column,)
        maps = (map_field.column for map_field in self.maps)
        return frozenset((self.liveness_column, self.version_column, self.expiry_column, *row_version, *maps))

    @cached_property
    def maps_by_name(self) -> Mapping[str, MapField]:
        """Map columns by attribute name."""
        return {map_field.name: map_field for map_field in self.maps}

    @cached_property
    def kept_columns(self) -> tuple[bytes, ...]:
        """The columns of the cells whose timestamps say when entries of a map column were last put. If objects share
        rows, a delete leaves these cells.

        The delete removes only the entries that it has found, but an earlier put of entries may still take effect
        afterwards. If the delete hid the timestamp of that put, the put of a new object would not know of its entries,
        and they would become visible in the new object. For the same reason, the put of a new object does not overwrite
        these cells with empty ones.
        """
        return tuple(map_field.column for map_field in self.maps if map_field.marked)

    @cached_property
    def row_columns(self) -> Sequence[bytes]:
        """The columns that must be read for a whole row. These are the families or, for a model with map columns,
        single columns, including system columns.
        """
        if not self.maps:
            return self.family_names
        flag = [flag for flag in (self.exists_column, self.spare_flag_column) if flag is not None]
        moving = (self.move_column,) if self.versioned else ()
        return tuple(sorted({*self._system_columns, *flag, *moving, *(f.column for f in self.columns)}))

    def is_system(self, column: bytes) -> bool:
        """Whether a column contains system data, which is not part of the object. A row that has only such columns is
        not an object.
        """
        return column in self._system_columns or column.startswith(self.stamp_prefix)

    @cached_property
    def wide_rows(self) -> WideRows | None:
        """Describes how a store keeps the objects of a wide model in rows. None if objects do not share rows."""
        wide = self.wide
        if wide is None:
            return None
        columns, rare = [f.column for f in self.columns], tuple[bytes, ...]()
        columns += [] if self.exists_column is None else [self.exists_column]
        if self.indexes or self.versioned:
            columns += [self.version_column, self.liveness_column]
        elif not wide.qualifiers.raw:
            columns.append(self.expiry_column)
            rare = (self.liveness_column,)  # a program whose model declares an index may put this cell
        if self.spare_flag_column is not None:
            columns.append(self.spare_flag_column)
        columns += self.kept_columns
        prefix_end, version = wide.prefix_end, self.row_version_column
        if version is not None and prefix_end(ROW_VERSION) is not None:  # looks like an object's key fields
            prefix_end = lambda qualifier: None if qualifier == ROW_VERSION else wide.prefix_end(qualifier)  # noqa: E731
        rows = WideRows(
            self.table,
            wide.family,
            wide.form,
            prefix_end,
            columns,
            row_version=version,
            rare=rare,
            strict=self.external and self.witness is None,
        )
        return attrs.evolve(rows, kept=self.kept_columns, more=True) if self.maps else rows

    @cached_property
    def row_layout(self) -> KeyLayout | None:
        """The layout of the keys of the primary table's rows, without salt; None if all objects are in one row."""
        return self.layout.row if isinstance(self.layout, ObjectKeyLayout) else self.layout

    @cached_property
    def required_columns(self) -> Sequence[bytes]:
        """Columns that a stored row must have."""
        return tuple(f.column for f in self.columns if f.required)

    def field(self, name: str) -> Field:
        """Returns the field of that name; raises `UnknownField`."""
        field = self.by_name.get(name) if isinstance(name, str) else None
        if field is None:
            raise UnknownField("The model has no such field.", table=self.table, field=name, known=sorted(self.by_name))
        return field

    def index(self, wanted: str | Index) -> Index:
        """Returns the index of that name, or the given index attribute of the model class; raises `UnknownIndex`."""
        name = wanted.name if isinstance(wanted, Index) else wanted
        index = self.indexes.get(name) if isinstance(name, str) else None
        if index is None or (isinstance(wanted, Index) and index is not wanted):
            told = name if isinstance(name, str) else type(name).__name__
            raise UnknownIndex(
                "The model has no such index: name a declared one.",
                table=self.table,
                index=told,
                known=sorted(self.indexes),
            )
        return index

    @cached_property
    def layout_spec(self) -> Mapping[str, Any]:
        """The registry's canonical description of everything that must not change silently; indexes are registered
        separately.
        """
        versioned = {"version": True} if self.versioned else {}
        row = {} if self.row is None else {"row": self.row.decode("latin-1")}
        kind = {"kind": self.kind.decode("latin-1")} if self.kind else {}
        members = {place: named for place, field in self.stored_places if (named := members_of(field.codec))}
        return {
            "format": KEY_FORMAT_VERSION,
            "key": self.layout.field_specs,
            "salt": self.salt.spec,
            "columns": {
                f.column.decode("latin-1"): {
                    "name": f.name,
                    "kind": f.kind,
                    "codec": f.codec.spec,
                    "nullable": f.nullable,
                    "null": "absent" if f.unescaped else f.null,
                }
                for f in self.columns
                if f.kind != "version"
            }
            | {map_field.column.decode("latin-1"): map_field.spec for map_field in self.maps},
            "exists": None if self.exists is None else self.exists.decode("latin-1"),
            **({"flag": "any"} if self.external and self.exists is not None else {}),
            **versioned,
            **row,
            **kind,
            **({"members": members} if members else {}),
        }

    @cached_property
    def stored_places(self) -> Sequence[tuple[str, Field]]:
        """The place of each stored field, for the registry: key fields, columns, counters, the version, and the values
        of map columns.
        """
        keys = [(f"key {at}", key_field) for at, key_field in enumerate(self.key_fields)]
        values = [(map_field.column.decode("latin-1"), map_field.value) for map_field in self.maps]
        return (*keys, *((field.column.decode("latin-1"), field) for field in self.columns), *values)


def is_claim(flag: bytes) -> bool:
    """Whether the value of an existence flag means only that an insert has claimed the key."""
    return len(flag) == _CLAIM_LENGTH and flag.startswith(CLAIMED)


_COLLECTIONS = (list, tuple, set, frozenset, GeneratorType)
"""Types of collections in which a caller may give several objects or models where one is expected."""


def schema_of(model: type[Any]) -> TableSchema:
    """Returns the schema of a class decorated with `model`; raises `DeclarationError`, a `TypeError`, for anything
    else.
    """
    # the same as `_schema_in`, but without a call, because every use of a model runs this code
    schema = vars(model).get("__hbmodel__") if isinstance(model, type) else None
    if not isinstance(schema, TableSchema) or schema.model is not model:
        raise _no_model(model)
    return schema


def schema_of_object(obj: object) -> TableSchema:
    """Returns the schema of an object's model; raises `DeclarationError`, a `TypeError`, for anything that is not an
    object of a model.
    """
    schema = vars(type(obj)).get("__hbmodel__")
    if not isinstance(schema, TableSchema):
        raise _no_object(obj)
    return schema


def _schema_in(model: object) -> TableSchema | None:
    schema = vars(model).get("__hbmodel__") if isinstance(model, type) else None
    return schema if isinstance(schema, TableSchema) else None


def _no_model(given: object) -> DeclarationError:
    """Returns the error of a call that takes a model, but was given something else."""
    found = given.__qualname__ if isinstance(given, type) else type(given).__qualname__
    if _schema_in(given) is not None:
        return DeclarationError(
            "Another decorator has made a new class of the model, which cannot be used: leave it out. hb.model makes "
            "the class an attrs class.",
            found=found,
        )
    if _schema_in(type(given)) is not None:
        return DeclarationError("Give the class of a model, not an object of it.", found=found)
    if isinstance(given, str):
        return DeclarationError("Give the class of a model, not its name.", found=found)
    if isinstance(given, _COLLECTIONS):
        return DeclarationError("Give each model as a separate argument, such as f(store, A, B).", found=found)
    return _undecorated(given, found) or DeclarationError(
        "This is not a model: declare the class with @hb.model(table=...).", found=found
    )


def _no_object(given: object) -> DeclarationError:
    """Returns the error of a call that takes an object of a model, but was given something else."""
    found = type(given).__qualname__
    if isinstance(given, type):
        return DeclarationError("Give an object of a model, not a class.", found=given.__qualname__)
    if given is None:
        return DeclarationError("Give an object of a model: get() and first() return None if there is none.")
    if isinstance(given, Mapping):
        return DeclarationError("Give an object of a model: Model(**values) makes one from a mapping.", found=found)
    if isinstance(given, _COLLECTIONS):
        return DeclarationError("Give one object of a model per call; add_all() takes several.", found=found)
    return _undecorated(type(given), found) or DeclarationError(
        "Give an object of a model: its class is declared with @hb.model(table=...). Calls that end in _key take "
        "the model and its key.",
        found=found,
    )


def _undecorated(given: object, found: str) -> DeclarationError | None:
    """Returns the error for a class that extends a model, or None for any other argument."""
    for base in given.__mro__[1:] if isinstance(given, type) else ():
        if _schema_in(base) is not None:
            return DeclarationError(
                "The class extends a model and is not a model itself: put the shared fields into a mixin (hb.mixin), "
                "and declare both classes with @hb.model.",
                found=found,
                model=base.__qualname__,
            )
    return None
