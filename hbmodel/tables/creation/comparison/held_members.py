"""Finds registered members of enumerations that a model lacks but that a sample of live rows holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Flag
from typing import Any

from attrs import evolve, frozen

from hbmodel.encoding.codecs.dictionary import numbers_as_names
from hbmodel.encoding.codecs.enums import EnumOf
from hbmodel.errors import DecodingError
from hbmodel.mapping.schema import Field, TableSchema
from hbmodel.store.filters import And, KeyOnly, Pagination
from hbmodel.store.port import Store
from hbmodel.store.values import Get, Row
from hbmodel.store.wide.folded import folded
from hbmodel.tables.creation.comparison.differences_as_text import Difference
from hbmodel.tables.creation.comparison.object_places import object_places
from hbmodel.tables.creation.comparison.undeclared_columns import CELLS
from hbmodel.tables.creation.row_samples import SAMPLE, sample_rows
from hbmodel.tables.registry.entry_shape import entry_of
from hbmodel.tables.registry.enum_members import MemberChange, member_changes
from hbmodel.tables.registry.registration import Binding, Registration
from hbmodel.tables.registry.registry_table import Registry

_HELD_MEMBER = (
    "reading such a row would raise DecodingError: write another member into all of these rows with a model that has "
    "it, then repeat the call; or keep the member"
)


@frozen
class HeldMembers:
    """The members of enumerations that sampled objects hold although the model lacks them.

    Attributes:
        objects: how many objects were read.
        held: for each member that the model lacks, how many objects hold it; members that no object holds are left out.
        fields: the name of each member's field.
    """

    objects: int
    held: Mapping[MemberChange, int]
    fields: Mapping[MemberChange, str]


def members_in_use(store: Store, catalog: Registry, schema: TableSchema) -> Iterator[Difference]:
    """Yields the differences for members of enumerations that the model lacks but a sample of rows holds. The registry
    must not forget such members.
    """
    entry = catalog.read(schema) if {catalog.table, schema.table} <= set(store.tables()) else None
    if entry is None:
        return
    found = held_members(store, schema, entry, SAMPLE)
    for change, objects in found.held.items():
        live = f"field {found.fields[change]} holds it in {objects} of {found.objects} sampled objects"
        yield Difference(schema.table, "member", change.what, None, live, "refused", _HELD_MEMBER)


def held_members(store: Store, schema: TableSchema, registration: Registration, count: int) -> HeldMembers:
    """Returns the registered members that a model lacks but that sampled objects still hold.

    Args:
        registration: the model's registry entry.
        count: about how many rows are read, with at most `CELLS` cells each.
    """
    with entry_of(schema.table):
        changes = member_changes(schema.layout_spec, registration.layout)
        gone = [_Gone.of(schema, change) for change in changes if not change.declared]
    held = {each.change: 0 for each in gone}
    fields = {each.change: each.field.name for each in gone}
    if not gone:
        return HeldMembers(0, {}, {})
    layout = evolve(schema.layout, fields=[evolve(of, codec=_stored(of.codec)) for of in schema.layout.fields])
    exists = Binding(schema, (), (), (), registration.rows).reader.exists
    objects = 0
    with numbers_as_names():
        for row in _objects(store, schema, tuple({each.field.column for each in gone if each.mapped}), count):
            if not exists(row):
                continue
            objects += 1
            try:
                key: Sequence[Any] = layout.unpack(row.row, schema.salt.width)
            except DecodingError:
                key = ()
            for each in gone:
                held[each.change] += any(map(each.holds, each.values(key, row)))
    return HeldMembers(objects, {change: number for change, number in held.items() if number}, fields)


@frozen
class _Gone:
    """A member that a model lacks, and the place where objects would hold it.

    Attributes:
        field: the model's field, with a codec that reads the members' values instead of the members.
        at: the position of the field among the key fields; None for a column.
        mapped: whether the field is for the values of a map column.
        member: the member's value.
        flag: whether stored values may be combinations of members.
    """

    change: MemberChange
    field: Field
    at: int | None
    mapped: bool
    member: Any
    flag: bool

    @classmethod
    def of(cls, schema: TableSchema, change: MemberChange) -> _Gone:
        """Returns the member of a change that `member_changes` returns."""
        at = int(change.place.removeprefix("key ")) if change.place.startswith("key ") else None
        maps = {map_field.column: map_field.value for map_field in schema.maps}
        column = change.place.encode("latin-1")
        field = (
            schema.key_fields[at]
            if at is not None
            else maps.get(column) or next(each for each in schema.columns if each.column == column)
        )
        codec: EnumOf[Any] = field.codec  # type: ignore[assignment]  # the registry has members of no other codec
        member, flag = codec.codec.decode(bytes.fromhex(change.code)), issubclass(codec.python_type, Flag)
        return cls(change, evolve(field, codec=codec.codec), at, column in maps, member, flag)

    def values(self, key: Sequence[Any], row: Row) -> Iterator[Any]:
        """Yields the values of the field in an object, or nothing if they cannot be read."""
        if self.at is not None:
            yield from key[self.at : self.at + 1]
            return
        column, decode = self.field.column, self.field.decode_cell
        names = (
            [name for name in row.columns if name.startswith(column) and name != column] if self.mapped else [column]
        )
        for name in names:
            cell = row.columns.get(name)
            if cell is None or (not cell.value and (self.mapped or self.field.empty_is_missing)):
                continue
            try:
                yield decode(cell.value)
            except DecodingError:
                continue

    def holds(self, value: Any) -> bool:
        """Returns whether a value is the member's value, or a combination of flags that contains the member."""
        if self.flag and value is not None and self.member:
            return bool(value & self.member == self.member)
        return bool(value == self.member)


def _stored(codec: Any) -> Any:
    """Returns the codec of the values of an enumeration's members. Returns any other codec unchanged."""
    return codec.codec if isinstance(codec, EnumOf) else codec


def _objects(store: Store, schema: TableSchema, maps: tuple[bytes, ...], count: int) -> Iterator[Row]:
    """Yields sampled objects with their own cells and with the entries of some map columns.

    Args:
        maps: the map columns.
    """
    families = sorted({*schema.family_names} & {family.name for family in store.families(schema.table)})
    own = {field.column for field in schema.columns} | {schema.liveness_column, schema.expiry_column}
    own |= {column for column in (schema.exists_column, schema.spare_flag_column) if column is not None}
    own = {column for column in own if column.partition(b":")[0] in families}
    sampled = sample_rows(store, schema.table, count, families, And((Pagination(CELLS, 0), KeyOnly())))
    for batch in sampled.batches:
        gets = [
            Get(place, sorted({*own, *(name for name in names if maps and name.startswith(maps))}))
            for row in batch
            for place, names in object_places(schema, row.row, row.columns)
        ]
        for found in folded(store, schema.wide_rows).get_each(schema.table, gets) if gets else ():
            if found is not None:
                yield found
