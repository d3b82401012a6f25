"""Counts the columns of sampled rows by family, and decides which of them a proposed model declares."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from attrs import define, field, frozen

from hbmodel.encoding.codecs import Bytes
from hbmodel.errors import DeclarationError
from hbmodel.mapping.declare.allowed_names import as_qualifier
from hbmodel.mapping.declare.family_options import family_name
from hbmodel.store.values import Row
from hbmodel.tables.adoption.adopt_findings import SHOWN
from hbmodel.tables.adoption.codec_guess import ENOUGH, in_bytes, literal
from hbmodel.tables.adoption.inferred_columns import ValueProfile
from hbmodel.tables.adoption.table_sample import CELLS

MANY: Final = 50
"""If a family has more than this many qualifiers, the qualifiers may be data."""

MOST: Final = 10_000
"""The maximum number of qualifiers of a family whose values are examined."""

MOST_KINDS: Final = 3
"""If the qualifiers of a family have at most this many prefixes, a model is proposed for each prefix."""

PREFIX: Final = re.compile(rb"[A-Za-z][A-Za-z0-9]*[^A-Za-z0-9]")

SHARE: Final = 10
"""A column of a wide family is listed if at least one in this many rows has it, and more than one row in all."""


@frozen
class ColumnFound:
    """A column that the model declares.

    Attributes:
        everywhere: whether every sampled row has the column.
    """

    family: bytes
    qualifier: bytes
    profile: ValueProfile
    everywhere: bool


@define
class FamilyFound:
    """The columns of one family.

    Attributes:
        profiles: the profile of the values of each column, by qualifier.
        more: how many cells do not have one of the first `MOST` qualifiers.
    """

    profiles: dict[bytes, ValueProfile] = field(factory=dict)
    more: int = 0


@frozen
class CellObjects:
    """A family whose qualifiers are data, so that each cell may be an object.

    Attributes:
        qualifiers: the qualifiers whose values were examined, in order.
        more: whether the family has further qualifiers.
        profile: the common properties of the values of all cells.
    """

    family: bytes
    qualifiers: Sequence[bytes]
    more: bool
    profile: ValueProfile


@frozen
class Chosen:
    """The columns and families that the models for the sampled rows declare.

    Attributes:
        columns: the columns to declare, by family and qualifier.
        flag: the cell that has the same value in every row, if nothing else shows that a row exists.
        objects: the families that need separate models.
        notes: comments about what is left out.
    """

    columns: Sequence[ColumnFound]
    flag: ColumnFound | None
    objects: Sequence[CellObjects]
    notes: Sequence[str]


@define
class SampledColumns:
    """The profiles of the columns of sampled rows."""

    rows: int = 0
    families: dict[bytes, FamilyFound] = field(factory=dict)
    cut: bool = False

    def add(self, row: Row) -> None:
        """Adds one row to the profiles."""
        self.rows += 1
        self.cut = self.cut or len(row.columns) >= CELLS
        for column, cell in row.columns.items():
            name, _, qualifier = column.partition(b":")
            family = self.families.setdefault(name, FamilyFound())
            profile = family.profiles.get(qualifier)
            if profile is None and len(family.profiles) >= MOST:
                family.more += 1
                continue
            if profile is None:
                profile = family.profiles[qualifier] = ValueProfile()
            profile.add(cell.value)

    def chosen(self) -> Chosen:
        """Returns the columns to declare. The result is empty only if none of the sampled columns can be declared."""
        notes = ["some rows have more cells than were read: columns at their ends may be missing"] if self.cut else []
        columns: list[ColumnFound] = []
        rare: list[ColumnFound] = []
        objects: list[CellObjects] = []
        for name, family in sorted(self.families.items()):
            if not _is_declarable(name):
                notes.append(f"left out: a model cannot name the family {name[:SHOWN]!r}")
                continue
            usable = dict(_declarable(name, family.profiles, notes))
            if self._are_data(usable):
                objects.append(CellObjects(name, sorted(usable), family.more > 0, ValueProfile.of_all(usable.values())))
                continue
            listed = usable
            if len(family.profiles) > MANY:
                least = max(self.rows / SHARE, min(self.rows, 2))
                listed = {each: profile for each, profile in usable.items() if profile.count >= least}
                if left := [each for each in usable if each not in listed]:
                    notes.append(_wide(name, left, family.more, listed))
            for qualifier, profile in sorted(usable.items()):
                found = ColumnFound(name, qualifier, profile, profile.count == self.rows)
                (columns if qualifier in listed else rare).append(found)
        if not columns and rare and not objects:
            notes.append("its column is declared only because a model needs one")
            columns = [max(rare, key=lambda found: found.profile.count)]
        flag = self._flag(columns)
        return Chosen([found for found in columns if found is not flag], flag, objects, notes)

    def _are_data(self, profiles: Mapping[bytes, ValueProfile]) -> bool:
        """Returns whether the qualifiers of a family may be data: there are many, none is in most rows, and all values
        have one form.
        """
        if len(profiles) <= MANY or b"" in profiles or _kinds([*profiles], ()):
            return False
        if any(2 * profile.count > self.rows for profile in profiles.values()):
            return False
        known = ValueProfile.of_all(profiles.values()).guess().codec is not Bytes
        return known or all(profile.guess().codec is Bytes for profile in profiles.values())

    def _flag(self, columns: Sequence[ColumnFound]) -> ColumnFound | None:
        """Returns a column whose value is the same single byte (not 00) in every row. Returns None if there is no such
        column, or if every row also has a column with other values.
        """
        everywhere = [found for found in columns if found.everywhere]
        if any(not _is_flag(found, self.rows) for found in everywhere):
            return None
        return next(iter(sorted(everywhere, key=lambda found: found.qualifier != b"_0")), None)


def _is_flag(found: ColumnFound, rows: int) -> bool:
    profile = found.profile
    known = found.qualifier == b"_0" or profile.first == b"x" or rows >= ENOUGH
    return profile.constant and profile.widths == (1, 1) and known and any(profile.first) and found.qualifier != b""


def _is_declarable(family: bytes) -> bool:
    try:
        return family_name(family.decode()) == family
    except (DeclarationError, UnicodeDecodeError):
        return False


def _declarable(
    family: bytes, profiles: Mapping[bytes, ValueProfile], notes: list[str]
) -> Iterator[tuple[bytes, ValueProfile]]:
    """Yields the columns, without those whose names hbmodel uses for system cells."""
    for qualifier, profile in profiles.items():
        try:
            as_qualifier("", qualifier, empty=True, external=True)
        except DeclarationError:
            notes.append(
                f"left out: {family + b':' + qualifier[:SHOWN]!r} has a name that hbmodel uses for its own cells; if "
                "hbmodel wrote them, declare the model without external=True"
            )
        else:
            yield qualifier, profile


def _wide(family: bytes, left: Sequence[bytes], more: int, listed: Collection[bytes]) -> str:
    """Returns the note about qualifiers that the model does not list."""
    number = f"more than {len(left)}" if more else f"{len(left)}"
    widths = [len(qualifier) for qualifier in left]
    kinds = _kinds(left, listed)
    advice = (
        f"if so, declare a model for those that begin with {' and one for '.join(map(repr, kinds))}, with kind= and a "
        "key field with in_qualifier=True"
        if kinds
        else "if so, declare key fields with in_qualifier=True"
    )
    return (
        f"the rows may be wide, with objects in the qualifiers of the family {literal(family.decode())}: {number} "
        f"qualifiers are not listed, of {in_bytes([min(widths), max(widths)])}, such as {min(left)[:SHOWN]!r}; {advice}"
    )


def _kinds(left: Sequence[bytes], listed: Collection[bytes]) -> Sequence[bytes]:
    """Returns the prefixes of the qualifiers, each up to the first separator, if there are only a few prefixes and
    every qualifier has one. No listed qualifier may begin with one of these prefixes.
    """
    kinds: set[bytes] = set()
    for qualifier in left:
        match = PREFIX.match(qualifier)
        if match is None or len(kinds) > MOST_KINDS:
            return ()
        kinds.add(match[0])
    if len(kinds) > MOST_KINDS or any(qualifier.startswith(kind) for qualifier in listed for kind in kinds):
        return ()
    return sorted(kinds)
