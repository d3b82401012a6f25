"""Converts between objects and rows, by functions that are compiled once per model and projection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

from attrs import frozen

from hbmodel.encoding.key_layout import check_length
from hbmodel.errors import DecodingError, EncodingError, IncompleteKey, IncompleteRow, QueryError, UnknownField
from hbmodel.mapping.map_columns import Taken
from hbmodel.mapping.rows.entries_of_row import Entries, entries_function
from hbmodel.mapping.rows.liveness import existence
from hbmodel.mapping.rows.row_check import with_row_check
from hbmodel.mapping.rows.row_codegen import (
    compile_decode,
    compile_entries,
    compile_entry,
    compile_rows,
    compile_rows_of_entry,
    compile_take,
)
from hbmodel.mapping.schema import Field, Index, TableSchema, schema_of_object
from hbmodel.mapping.version_cell import UNKNOWN
from hbmodel.store.values import CELL_OVERHEAD, MAX_CELL_SIZE, Row

T = TypeVar("T")

Values = dict[str, Any]


@frozen(eq=False)
class RowDecoder:
    """Decodes rows of one model, for one set of fields.

    Attributes:
        indexed: whether rows are known to have system cells.
        names: the wanted fields; None means all of them.
        adopting: whether rows without system cells exist too. If `indexed` is true as well, the table has rows of both
            kinds. If `indexed` is false, no row is known to have system cells, but another program may add them to rows
            at any time.
    """

    schema: TableSchema
    indexed: bool
    names: frozenset[str] | None = None
    adopting: bool = False

    @classmethod
    def of(
        cls, schema: TableSchema, indexed: bool, names: frozenset[str] | None = None, adopting: bool = False
    ) -> RowDecoder:
        """Returns the decoder of a model for these fields, which is made only once."""
        decoder: RowDecoder | None = schema.compiled.get((indexed, names, adopting))
        if decoder is None:
            decoder = schema.keep((indexed, names, adopting), cls(schema, indexed, names, adopting))
        return decoder

    @cached_property
    def fields(self) -> Sequence[Field]:
        """The fields that are decoded from cells."""
        return tuple(f for f in self.schema.columns if self.names is None or f.name in self.names)

    @cached_property
    def anchors(self) -> Sequence[bytes]:
        """Columns such that every existing row has a cell in at least one of these columns. A projection also reads
        these columns, to find the rows that have none of the wanted cells.

        There are no such columns if any cell of an object is enough to show that its row exists.
        """
        liveness = self.schema.liveness_column
        if self.indexed and not self.adopting:
            return (liveness,)
        schema = self.schema
        own = schema.exists_column or schema.witness
        if own is None and not schema.any_cell_shows:
            own = next(iter(schema.required_columns), None)
        if own is None:
            return ()
        return (own, liveness) if self.adopting else (own,)

    @cached_property
    def whole_families(self) -> bool:
        """Whether reads of an external table request whole families, with cells that no field needs, because any cell
        shows that its row exists.
        """
        return self.schema.any_cell_shows and not (self.indexed and not self.adopting)

    @cached_property
    def columns(self) -> Sequence[bytes]:
        """The columns that a get or scan requests: whole families for whole objects without map columns, otherwise only
        the columns that are needed.
        """
        if self.names is not None and self.anchors:
            return tuple(sorted({*self.anchors, *(f.column for f in self.fields)}))
        if self.whole_families:
            return self.schema.family_names
        if self.schema.external:
            flag = () if self.schema.exists_column is None else (self.schema.exists_column,)
            marks = (self.schema.liveness_column,) if self.indexed or self.adopting else ()
            return tuple(sorted({*flag, *marks, *(f.column for f in self.schema.columns)}))
        return self.schema.row_columns

    @cached_property
    def columns_of_gets(self) -> Sequence[bytes]:
        """The columns that a get requests. For objects that share rows these are single columns, not families, unless
        whole objects are read together with the version of their row.
        """
        if (
            self.schema.wide is None
            or self.schema.versioned
            or not self.anchors
            or self.columns != self.schema.family_names
        ):
            return self.columns
        return tuple(sorted({*self.anchors, *(f.column for f in self.schema.columns)}))

    @cached_property
    def exists(self) -> Callable[[Row], bool]:
        """Whether a row that was read is an object of the model; see `liveness` and `row_check`."""
        return with_row_check(self.schema, existence(self.schema, self.indexed, self.adopting))

    @cached_property
    def values(self) -> Callable[[Row], Values]:
        """Decodes the key and the wanted cells of an existing row. Raises `IncompleteRow` or `DecodingError` if this is
        not possible.
        """
        schema = self.schema
        decode: Callable[[Row], Values] | None = schema.compiled.get(("values", self.names))
        if decode is None:
            decode = schema.keep(("values", self.names), compile_decode(schema, self.fields, self.values_slow))
        return decode

    @property
    def values_slow(self) -> Callable[[Row], Values]:
        """Does the same as `values`, but field by field, which is slower and reports the cause of an error in a row."""
        schema = self.schema
        key_names, unpack, start = schema.layout.names, schema.layout.unpack, schema.salt.width
        steps = tuple(
            (f.name, f.column, f.decode_cell, None if f.required else f.default_value, f.empty_is_missing)
            for f in self.fields
        )

        def decode(row: Row) -> Values:
            cells = row.columns
            name = column = None
            try:
                values = dict(zip(key_names, unpack(row.row, start), strict=True))
                for name, column, from_cell, default, no_empty in steps:
                    cell = cells.get(column)
                    if cell is not None and (cell.value or not no_empty):
                        values[name] = from_cell(cell.value)
                    elif default is not None:
                        values[name] = default()
                    else:
                        raise IncompleteRow(
                            "The row lacks a required column: give the field a default, or put the whole object "
                            "with add().",
                            table=schema.table,
                            key=row.row,
                            field=name,
                            column=column,
                        )
            except DecodingError as error:
                raise DecodingError(
                    error.message,
                    **{
                        **error.details,
                        "table": schema.table,
                        "key": row.row,
                        "field": error.details.get("field", name),
                        "column": column,
                    },
                ) from None
            return values

        return decode

    @cached_property
    def make(self) -> Callable[[Values], Any]:
        """Builds an object from all its values without running `__init__`, because the values were checked before they
        were stored.
        """
        model = self.schema.model
        new, assign = object.__new__, object.__setattr__
        after = getattr(model, "__attrs_post_init__", None)

        def build(values: Values) -> Any:
            built = new(model)
            assign(built, "__dict__", values)
            if after is not None:
                after(built)
            return built

        return build


@frozen(eq=False)
class KeyMapper:
    """Packs row keys and index entry keys of one model."""

    schema: TableSchema

    def complete(self, key: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the key fields in key order; raises `IncompleteKey` or `UnknownField`."""
        names = self.schema.layout.names
        unknown = sorted(set(key) - set(names), key=repr)
        if unknown:
            raise UnknownField(
                "The row key has no such field.", table=self.schema.table, field=unknown[0], known=list(names)
            )
        missing = [name for name in names if name not in key]
        if missing:
            raise IncompleteKey("Give every field of the row key.", table=self.schema.table, missing=missing)
        return tuple(key[name] for name in names)

    def given(self, key: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, ...]:
        """Returns the key fields in key order, from a mapping or from the values themselves."""
        if isinstance(key, Mapping):
            return self.complete(key)
        if isinstance(key, str | bytes) or not isinstance(key, Sequence):
            raise QueryError(
                "A key must be a mapping of key fields, or a tuple of their values in key order, such as (1,).",
                table=self.schema.table,
                found=type(key).__name__,
            )
        return tuple(key)

    @classmethod
    def rows_code(cls, schema: TableSchema) -> Callable[[Mapping[str, Any] | Sequence[Any]], list[bytes]]:
        """Returns a function that accepts a key in a form that the method `given` accepts, and returns the result of
        `rows` for this key. The function is made once for each model.
        """
        function: Callable[[Mapping[str, Any] | Sequence[Any]], list[bytes]] | None = schema.compiled.get("rows")
        return schema.keep("rows", compile_rows(schema, cls(schema).plain_rows)) if function is None else function

    def plain_rows(self, key: Mapping[str, Any] | Sequence[Any]) -> list[bytes]:
        """Does the same as the function of `rows_code`. It is slower, but reports the cause of an error in a key."""
        return self.rows(self.given(key))

    def parts(self, key: Sequence[Any]) -> list[bytes]:
        """Returns the packed key fields; raises `EncodingError` with the field's name."""
        try:
            return self.schema.layout.pack_parts(key)
        except EncodingError as error:
            raise type(error)(error.message, **{"table": self.schema.table, **error.details}) from None

    def rows(self, key: Sequence[Any]) -> list[bytes]:
        """Returns every row key under which an object with this key may be stored: one, or one for each bucket of a
        random salt.
        """
        parts, salt = self.parts(key), self.schema.salt
        joined = b"".join(parts)
        rows = (
            [prefix + joined for prefix in salt.prefixes]
            if salt.random
            else [salt.prefix(salt.bucket_of(parts)) + joined]
        )
        self._check(rows[0])
        return rows

    def _check(self, row: bytes) -> None:
        wide, table = self.schema.wide, self.schema.table
        if wide is None:
            check_length(row, table=table)
        else:
            wide.check(row, table=table)

    def new_row(self, key: Sequence[Any]) -> bytes:
        """Returns the row key under which a new object is written. If the salt is random, this call draws the
        bucket.
        """
        parts, salt = self.parts(key), self.schema.salt
        row = b"".join(parts)
        if salt.width:
            row = salt.prefix(salt.draw() if salt.random else salt.bucket_of(parts)) + row
        self._check(row)
        return row

    def entries(self, index: Index, values: Mapping[str, Any], row: bytes) -> tuple[bytes, ...]:
        """Row keys of the entries in `index` for the object that has these values and the row key `row`."""
        return self.entries_code(index)(values, row)

    def entries_code(self, index: Index) -> Entries:
        """Returns a function that accepts the values and the row key of an object, and returns the row keys of the
        entries in `index`. The function is made once for each index.
        """
        schema = self.schema
        function: Entries | None = schema.compiled.get(("entries", index.name))
        if function is None:
            packed = compile_entry(index, partial(self.packed_slow, index))
            function = schema.keep(("entries", index.name), entries_function(index, packed))
        return function

    def packed_slow(self, index: Index, values: Mapping[str, Any], row: bytes) -> tuple[bytes, ...]:
        """Returns the row key of the only entry for these values. The key is packed field by field, which is slower but
        reports the cause of an error.
        """
        try:
            parts = index.layout.pack_parts([values[name] for name in index.layout.names])
        except EncodingError as error:
            raise EncodingError(error.message, **{"table": index.table, "index": index.name, **error.details}) from None
        tail = bytes((self.schema.salt.bucket_at(row),)) if index.layout.tail else b""
        entry = index.salt.prefix(index.salt.bucket_of(parts)) + b"".join(parts) + tail
        check_length(entry, table=index.table, index=index.name)
        return (entry,)

    def rows_of_entry_code(self, index: Index) -> Callable[[bytes], list[bytes]]:
        """Returns the method `row_of_entry` for one index, as a function that is made once for each index."""
        schema, plain = self.schema, partial(self.row_of_entry, index)
        if schema.salt.random:
            return plain
        function: Callable[[bytes], list[bytes]] | None = schema.compiled.get(("rows", index.name))
        return (
            schema.keep(("rows", index.name), compile_rows_of_entry(schema, index, plain))
            if function is None
            else function
        )

    def row_of_entry(self, index: Index, entry: bytes) -> list[bytes]:
        """Returns the row keys of the rows to which an entry may belong. If the salt is random, the row in the bucket
        that the entry names comes first, and the rows in the other buckets follow.
        """
        values = index.layout.unpack(entry, index.salt.width)
        rows = self.rows([values[at] for at in index.primary_positions])
        if not index.layout.tail:
            return rows
        bucket = entry[-1]
        return [rows[bucket], *rows[:bucket], *rows[bucket + 1 :]]


def key_of(schema: TableSchema, obj: object) -> tuple[Any, ...]:
    """Returns the key fields of an object, in key order."""
    return tuple(getattr(obj, name) for name in schema.layout.names)


def cells_of(schema: TableSchema, obj: object) -> dict[bytes, bytes]:
    """Returns the cells of an object's ordinary columns, without counters; None becomes an empty cell.

    Raises:
        EncodingError: a value cannot be stored exactly; the error names the field.
    """
    return {f.column: encode_cell(schema, f, getattr(obj, f.name)) for f in schema.columns if f.kind == "column"}


def take(schema: TableSchema, obj: object) -> Taken:
    """Returns the data of an object to write: its values by field name, its row key, and its cells. If the salt is
    random, this call draws the bucket.

    Raises:
        EncodingError: a value cannot be stored exactly; the error names the field.
        KeyTooLong: the row key would be too long.
    """
    taken: Callable[[object], Taken] | None = schema.compiled.get("take")
    if taken is None:
        taken = schema.keep("take", compile_take(schema, partial(take_slow, schema)))
    return taken(obj)


def entries_of(schema: TableSchema, values: Mapping[str, Any], row: bytes) -> dict[str, tuple[bytes, ...]]:
    """Returns the row keys of an object's entries in each declared index, by the name of the index. Raises the same
    errors as `KeyMapper.entries`.
    """
    function: Callable[[Mapping[str, Any], bytes], dict[str, tuple[bytes, ...]]] | None = schema.compiled.get("entries")
    if function is None:
        keys = KeyMapper(schema)
        function = compile_entries({name: keys.entries_code(index) for name, index in schema.indexes.items()})
        function = schema.keep("entries", _as_stored(schema, function))
    return function(values, row)


def _as_stored(
    schema: TableSchema, entries: Callable[[Mapping[str, Any], bytes], dict[str, tuple[bytes, ...]]]
) -> Callable[[Mapping[str, Any], bytes], dict[str, tuple[bytes, ...]]]:
    """Extends the function `entries`: the new function first converts the values to the form that a read returns,
    because readers will compare entries with values in this form.
    """
    names = frozenset[str]().union(*(index.reads for index in schema.indexes.values() if not index.is_plain))
    if not names:
        return entries
    forms = [(name, schema.by_name[name].as_stored) for name in names]
    return lambda values, row: entries({**values, **{name: stored(values[name]) for name, stored in forms}}, row)


def take_slow(schema: TableSchema, obj: object) -> Taken:
    """Does the same as `take`, but field by field, which is slower and reports the cause of an error in an object."""
    row = KeyMapper(schema).new_row(key_of(schema, obj))
    return {f.name: getattr(obj, f.name) for f in schema.fields}, row, cells_of(schema, obj)


LARGE = MAX_CELL_SIZE // 2
"""The maximum number of bytes of a value that fits in a cell with any row key and column."""


def check_size(schema: TableSchema, field: Field, cell: bytes, *keys: bytes) -> None:
    """Raises `EncodingError` if HBase would not store the cell in a row with the longest of the given row keys."""
    if len(cell) > LARGE and max(map(len, keys)) + len(field.column) + len(cell) + CELL_OVERHEAD > MAX_CELL_SIZE:
        raise EncodingError(
            "The value is too large: a cell of HBase, with its row key and column, has at most 10 MiB.",
            table=schema.table, field=field.name, length=len(cell),
        )  # fmt: skip


def encode_cell(schema: TableSchema, field: Field, value: Any) -> bytes:
    """Returns the cell of one value. Raises `EncodingError`, with the name of the field, if the value cannot be
    stored.
    """
    if value is None and not field.nullable:
        raise EncodingError(
            "The field does not allow None: give it a value, or add `| None` to its annotation.",
            table=schema.table,
            field=field.name,
        )
    try:
        return field.encode_cell(value)
    except EncodingError as error:
        raise EncodingError(error.message, **{**error.details, "table": schema.table, "field": field.name}) from None


def version_of(schema: TableSchema, obj: object) -> int:
    """Returns the version with which an object was read, or 0 if the object has no version. Raises `EncodingError` if a
    program has set the attribute to something that is not a version.
    """
    field = schema.version_field
    return UNKNOWN if field is None else int(field.codec.decode(encode_cell(schema, field, getattr(obj, field.name))))


def give_version(schema: TableSchema, obj: object, version: int) -> None:
    """Sets the version of an object. This is allowed for frozen objects too, because their hash and `==` ignore the
    version.

    If an update fails, the copy that it returned gets back the version from before the update. If the copy kept the new
    version, another program could write the row and thereby give it this version, and the copy would seem to have been
    read after that write.
    """
    if schema.version_field is not None:
        object.__setattr__(obj, schema.version_field.name, version)


def changed_copy(obj: T, changes: Mapping[str, Any], version: int = UNKNOWN) -> T:
    """Returns a copy of an object in which some fields are changed. It gets the given version if the model has a
    version.
    """
    schema = schema_of_object(obj)
    values = {f.name: getattr(obj, f.name) for f in schema.fields} | {
        name: getattr(obj, name) for name in schema.maps_by_name
    }
    if schema.version_field is not None:
        values[schema.version_field.name] = version
    changed: T = RowDecoder(schema, indexed=False).make({**values, **changes})
    return changed
