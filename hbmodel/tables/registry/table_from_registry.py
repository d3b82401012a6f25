"""Reads keys of tables that only the registry describes: makes the model of a table, and decodes and encodes keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from attrs import field, frozen

from hbmodel.encoding.codecs.base import COMPLEMENT
from hbmodel.encoding.codecs.times import from_epoch
from hbmodel.encoding.key_field import CompiledKeyField
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.errors import (
    CapabilityError,
    DecodingError,
    EncodingError,
    IncompleteKey,
    InvalidRequest,
    QueryError,
    TableNotFound,
)
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.store.key_text import shell_bytes
from hbmodel.tables.registry.entry_shape import entry_of
from hbmodel.tables.registry.enum_members import registered_members
from hbmodel.tables.registry.registered_model import bucket_known, registered_index, registered_model
from hbmodel.tables.registry.registration import IndexState, Registration
from hbmodel.tables.registry.registry_rows import RegistryKey
from hbmodel.tables.registry.registry_table import Registry


def unknown_table(catalog: Registry, table: str) -> TableNotFound:
    """Returns the error for a table that is not registered. It names the registered primary tables."""
    return TableNotFound(
        "The registry does not know the table: correct its name, or the name of the registry, or register its model "
        "with hb.create_tables() or `hbmodel create`.",
        table=table,
        registry=catalog.table,
        known=list(catalog.tables()),
    )


@frozen
class StoredKey:
    """The parts of a row key, or of the row key and the qualifier of a cell in a wide row.

    Attributes:
        fields: the values of the key fields, by name. If the row key contains only the first part of a split field, the
            value is the beginning of the time bucket.
        bucket: the salt bucket, or None if the table is not salted.
        primary_bucket: the salt bucket of the row, at the end of an index entry's key, or None.
        rest: bytes that are not a complete field, such as the end of a region's bound, or the alias after the key
            fields in a qualifier.
    """

    fields: Mapping[str, Any]
    bucket: int | None = None
    primary_bucket: int | None = None
    rest: bytes = b""


@frozen(eq=False)
class TableFromRegistry:
    """A table, with the model that is made from its registry entry.

    Attributes:
        model: the model made from the registered layout; for an index table, a model of its entries.
        index: for an index table, the name of the index; otherwise None.
        members: the names of the registered members of enumerations, by field name and stored bytes.
    """

    model: type[Any]
    index: str | None = None
    members: Mapping[str, Mapping[bytes, str]] = field(factory=dict)

    @property
    def schema(self) -> TableSchema:
        """The schema of the model."""
        return schema_of(self.model)

    @classmethod
    def find(
        cls, catalog: Registry, table: str, family: str | None = None, kind: str | None = None
    ) -> TableFromRegistry:
        """Finds the primary table or index table with this name.

        Args:
            table: the name of the table in the store.
            family: the default family of the model, if the table holds several models.
            kind: the kind of the model, if the family holds several models, either unchanged or as HBase's shell prints
                it. If it is not given and one of the models has no kind, `family` selects that model.

        Raises:
            TableNotFound: the table is not registered; `known` names the registered primary tables.
            QueryError: the table holds several models, and `family` and `kind` do not select one; `known` names them.
            SchemaMismatch: the registry entry is not enough to read the table.
        """
        matches: list[tuple[RegistryKey, Registration, IndexState | None]] = [
            (*each, None) for each in _registered(catalog, table)
        ]
        matches = matches or list(_indexes(catalog, table))
        if not matches:
            raise unknown_table(catalog, table)
        kinds = None if kind is None else _readings(kind)
        wanted = [
            each
            for each in matches
            if family in (None, each[0].family.decode()) and (kinds is None or each[0].kind in kinds)
        ]
        if family is not None and kind is None and len(wanted) > 1:
            wanted = [each for each in wanted if not each[0].kind]
        if len(wanted) != 1:
            known = [each[0].shown for each in matches]
            raise QueryError("The table has several models: name one by family and kind.", table=table, known=known)
        place, registration, state = wanted[0]
        with entry_of(place.table):
            members = registered_members(registration.layout)
        if state is None:
            return cls(registered_model(place, registration), None, members)
        return cls(registered_index(place, registration, state), state.name, members)

    # --- keys ---------------------------------------------------------------------------------------------------------

    def decode(self, row: bytes, qualifier: bytes | None = None) -> StoredKey:
        """Returns the fields of a row key. If a qualifier of a wide row is given, returns all key fields of the object.

        Raises:
            DecodingError: the row key or the qualifier does not belong to the table.
            CapabilityError: a qualifier was given, but the table has a row for each object.
        """
        schema = self.schema
        if qualifier is not None:
            if schema.wide is None:
                raise CapabilityError(
                    "The table has a row for each object, so its qualifiers contain no key fields: leave out the "
                    "qualifier.",
                    table=schema.table,
                )
            return self._decode_cell(row, qualifier)
        layout = schema.row_layout
        if layout is None:
            if row != schema.row:
                raise DecodingError("The row is not the constant row of its model.", expected=schema.row, found=row)
            return StoredKey({})
        values = layout.unpack(row, schema.salt.width)
        fields = dict(zip(layout.names, self._shown(values), strict=True))
        bucket = self._bucket(row, layout.pack_parts(values) if schema.wide is None else None)
        return StoredKey(fields, bucket, row[-1] if layout.tail else None)

    def _decode_cell(self, row: bytes, qualifier: bytes) -> StoredKey:
        schema, wide = self.schema, self.schema.wide
        assert wide is not None
        end = wide.prefix_end(qualifier)
        if end is None:
            raise DecodingError("A qualifier does not belong to the model.", kind=wide.kind, found=qualifier)
        values = schema.layout.unpack(wide.form.join(row, qualifier[:end]), schema.salt.width)
        bucket = self._bucket(row, schema.layout.pack_parts(values))
        return StoredKey(dict(zip(schema.layout.names, values, strict=True)), bucket, rest=qualifier[end:])

    def _bucket(self, row: bytes, parts: Sequence[bytes] | None) -> int | None:
        """Returns the salt bucket of a row. Raises `DecodingError` if the row's fields belong to a different bucket."""
        salt = self.schema.salt
        if not salt.width:
            return None
        bucket = salt.bucket_at(row)
        if parts is not None and bucket_known(salt.salt) and salt.bucket_of(parts) != bucket:
            raise DecodingError(
                "The key does not begin with the bucket that its fields give.",
                found=bucket,
                expected=salt.bucket_of(parts),
            )
        return bucket

    def _shown(self, values: Sequence[Any]) -> Sequence[Any]:
        """Returns the values of a row key. The value of a split field is the beginning of its time bucket."""
        halves = self._halves
        if halves is None:
            return values
        return (*values[:-1], from_epoch(values[-1] * halves.bucket.codec.scale))

    @property
    def bucket_length(self) -> timedelta | None:
        """The length of the time buckets of a split key field, or None if there is none."""
        return None if self._halves is None else self._halves.every

    @property
    def _halves(self) -> Any:
        layout = self.schema.layout
        return layout.halves if isinstance(layout, ObjectKeyLayout) else None

    def decode_bound(self, bound: bytes) -> StoredKey:
        """Returns the leading fields that are complete in a region's bound, and the bytes after them."""
        schema = self.schema
        layout, salt = schema.row_layout, schema.salt
        if layout is None or not bound:
            return StoredKey({}, rest=bound)
        try:
            bucket = salt.bucket_at(bound) if salt.width else None
        except DecodingError:
            return StoredKey({}, rest=bound)
        values, at = _leading(layout, bound, salt.width)
        if len(values) == len(layout.names):
            values = list(self._shown(values))
        return StoredKey(dict(zip(layout.names, values, strict=False)), bucket, rest=bound[at:])

    def encode(self, key: Mapping[str, Any]) -> list[tuple[bytes, bytes | None]]:
        """Returns the row keys of an object, each with the object's qualifier prefix, or with None if rows are not
        wide.

        With a random salt there are several row keys. For a wide row, the fields of the row key are enough; in this
        case the prefix is None.

        Raises:
            IncompleteKey: fields are missing; the error names them.
            CapabilityError: the table belongs to an index of a table with a random salt. The keys of its entries end
                with a bucket that cannot be computed from the fields.
        """
        schema = self.schema
        if schema.layout.tail:
            raise CapabilityError(
                "The entries end with a random bucket, so their keys cannot be computed from the fields: scan the "
                "index table.",
                table=schema.table,
            )
        if schema.wide is None:
            mapper = KeyMapper(schema)
            return [(row, None) for row in mapper.rows(mapper.complete(key))]
        layout = schema.layout
        assert isinstance(layout, ObjectKeyLayout)
        given = [key[name] for name in layout.names if name in key]
        whole = len(given) == len(layout.names)
        least = layout.names[: layout.rows]
        if not whole and (set(key) != set(least) or layout.halves is not None):
            missing = [name for name in layout.names if name not in key]
            raise IncompleteKey(
                "Give every key field, or only those of the row key.", table=schema.table, missing=missing
            )
        try:
            parts = layout.pack_leading(given)
        except EncodingError as error:
            raise EncodingError(error.message, **{"table": schema.table, **error.details}) from None
        place = (schema.salt.prefix(schema.salt.bucket_of(parts)) if schema.salt.width else b"") + b"".join(parts)
        if whole:
            schema.wide.check(place, table=schema.table)
        row, prefix = schema.wide.form.cut(place)
        return [(row, prefix if whole else None)]


def _registered(catalog: Registry, table: str) -> list[tuple[RegistryKey, Registration]]:
    return [
        (place, registration)
        for place in catalog.keys_of_table(table)
        if (registration := catalog.read(place)) is not None
    ]


def _indexes(catalog: Registry, table: str) -> Iterator[tuple[RegistryKey, Registration, IndexState | None]]:
    """Yields the indexes to which an index table belongs. The name of the table is `<table>.<index>`, perhaps followed
    by a number.
    """
    for name in (table[:at] for at, letter in enumerate(table) if letter == "."):
        for place, registration in _registered(catalog, name):
            yield from ((place, registration, state) for state in registration.indexes.values() if state.table == table)


def _leading(layout: KeyLayout, bound: bytes, start: int) -> tuple[list[Any], int]:
    """Returns the values of the complete fields with which a bound begins, and the position where they end."""
    values: list[Any] = []
    flipped = bound.translate(COMPLEMENT)
    for slot in layout.slots:
        if start >= len(bound):
            break
        try:
            value, end = _field(slot, bound, flipped, start)
        except DecodingError:
            break
        if end > len(bound):
            break
        values.append(value)
        start = end
    return values, start


def _field(slot: CompiledKeyField, bound: bytes, flipped: bytes, start: int) -> tuple[Any, int]:
    if slot.unterminated:
        return slot.decode_unterminated(bound[start:]), len(bound)
    return slot.decode_part(flipped if slot.of.desc else bound, start)


def _readings(kind: str) -> set[bytes]:
    """Returns the kinds that a text may stand for."""
    readings = {kind.encode(errors="surrogateescape")}
    with suppress(InvalidRequest):
        readings.add(shell_bytes(kind))
    return readings
