"""The stored description of a table: its families and split keys, derived values, and checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec
from attrs import asdict, evolve, field, frozen

from hbmodel.errors import FamilyExists, FamilyNotFound, StoreError
from hbmodel.store.checks.rows import NO_FAMILY
from hbmodel.store.checks.tables import check_new_table
from hbmodel.store.embedded.cells import Cells
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import FOREVER, Family, Region


def _sorted_families(families: Iterable[Family]) -> tuple[Family, ...]:
    return tuple(sorted((_with_defaults(family) for family in families), key=lambda family: family.name))


def _with_defaults(family: Family) -> Family:
    """Returns the family as HBase would report it, with HBase's defaults for options that are None
    (`ColumnFamilyDescriptorBuilder`).
    """
    return evolve(
        family,
        max_versions=family.max_versions or 1,
        ttl=None if family.ttl == FOREVER else family.ttl,
        compression=family.compression or "NONE",
        bloom_filter=family.bloom_filter or "ROW",
        block_size=family.block_size or 65_536,
        in_memory=bool(family.in_memory),
    )


def _sorted_keys(keys: Iterable[bytes]) -> tuple[bytes, ...]:
    return tuple(sorted(keys))


@frozen(slots=False)
class TableDescriptor:
    """The current families and split keys of a table.

    Attributes:
        families: the families, sorted by name.
        split_keys: the first keys of all regions but the first, sorted.
    """

    families: tuple[Family, ...] = field(converter=_sorted_families)
    split_keys: tuple[bytes, ...] = field(converter=_sorted_keys, default=())

    def encode(self) -> bytes:
        """Returns the layout in the form in which the file stores it."""
        return msgspec.msgpack.encode({"families": self.families, "split_keys": self.split_keys})

    @classmethod
    def decode(cls, data: bytes) -> TableDescriptor:
        """Decodes the bytes that `encode` has made.

        Raises:
            StoreError: the bytes have another form.
        """
        try:
            stored = msgspec.msgpack.decode(data, type=_StoredLayout)
        except msgspec.DecodeError as error:
            raise StoreError("The embedded store's file is damaged: the layout of a table cannot be read.") from error
        return cls(stored.families, stored.split_keys)

    def with_family(self, table: str, family: Family) -> TableDescriptor:
        """Returns the layout with one more family. Raises `FamilyExists`."""
        if family.name in self.by_name:
            raise FamilyExists("The table already has a column family of that name.", table=table, family=family.name)
        return TableDescriptor((*self.families, family), self.split_keys)

    def with_changes(self, table: str, family: Family) -> TableDescriptor:
        """Returns the layout with the options that `family` specifies. Raises `FamilyNotFound`."""
        live = self.family(table, family.name)
        given = {name: value for name, value in asdict(family, recurse=False).items() if value is not None}
        given["configuration"] = {**live.configuration, **family.configuration}
        return TableDescriptor(
            [evolve(live, **given) if each is live else each for each in self.families], self.split_keys
        )

    @cached_property
    def prefixes(self) -> tuple[bytes, ...]:
        """For each family, the prefix of its columns: the name and the colon."""
        return tuple(family.name + b":" for family in self.families)

    @cached_property
    def by_name(self) -> dict[bytes, Family]:
        """The families by name."""
        return {family.name: family for family in self.families}

    @cached_property
    def lives(self) -> dict[bytes, int]:
        """The TTLs of families in ms, by family; families without a TTL are left out."""
        return {family.name: family.ttl * 1000 for family in self.families if family.ttl is not None}

    @cached_property
    def versions(self) -> dict[bytes, int]:
        """How many versions of a cell each family keeps."""
        return {family.name: family.max_versions or 1 for family in self.families}

    @cached_property
    def keeps_versions(self) -> bool:
        """Whether a family keeps more than one version of a cell."""
        return any(number > 1 for number in self.versions.values())

    @cached_property
    def plain_order(self) -> bool:
        """Whether the byte order of columns is the same as HBase's order (by family, then qualifier)."""
        return list(self.prefixes) == sorted(self.prefixes)

    def ordered(self, cells: Cells) -> Cells:
        """Sorts cells, which are sorted by their bytes, in HBase's order (by family, then qualifier)."""
        if self.plain_order:
            return cells
        return dict(sorted(cells.items(), key=lambda item: item[0].partition(b":")))

    def family_of(self, table: str, column: bytes) -> Family:
        """Returns the family of a column, written `family:qualifier` or only `family`.

        Raises:
            FamilyNotFound: the table has no such family.
        """
        return self.family(table, column.partition(b":")[0])

    def family(self, table: str, name: bytes) -> Family:
        """Returns the family of that name.

        Raises:
            FamilyNotFound: the table has no such family.
        """
        family = self.by_name.get(name)
        if family is None:
            raise FamilyNotFound(NO_FAMILY, table=table, family=name)
        return family

    def regions(self, table: str, identity: int) -> list[Region]:
        """Returns the regions between the split keys. Their names have HBase's form: table, start key, number."""
        starts = (b"", *self.split_keys)
        stops = (*self.split_keys, None)
        prefix, suffix = table.encode() + b",", b",%d." % identity
        return [
            Region(KeyRange(start, stop), prefix + start + suffix) for start, stop in zip(starts, stops, strict=True)
        ]


class _StoredLayout(msgspec.Struct):
    families: list[Family]
    split_keys: list[bytes]


def new_layout(table: str, families: Sequence[Family], split_keys: Sequence[bytes]) -> TableDescriptor:
    """Returns the layout of a new table, after the checks that HBase's client and master make.

    Raises:
        InvalidRequest: HBase refuses a name, an option or a split key.
    """
    check_new_table(table, families, split_keys)
    return TableDescriptor(families, split_keys)
