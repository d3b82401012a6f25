"""Rows that a model cannot read, for queries that continue after such a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeAlias

from attrs import frozen

from hbmodel.errors import DecodingError, IncompleteRow
from hbmodel.mapping.rows.covering import EntryDecoder
from hbmodel.mapping.rows.mapper import RowDecoder, Values
from hbmodel.mapping.rows.row_check import checks_rows
from hbmodel.store.values import Row

RowError: TypeAlias = DecodingError | IncompleteRow
"""Why a row cannot be read."""

Report: TypeAlias = Callable[[RowError], object]
"""A function that is called with the error of each row that is left out."""


def leave_out(error: RowError) -> None:
    """Ignores the error, for queries that leave out rows without a report."""


class Unreadable(dict[str, Any]):
    """Replaces the values of a row that cannot be read.

    Attributes:
        error: why the row cannot be read.
    """

    __slots__ = ("error",)

    def __init__(self, error: RowError) -> None:
        super().__init__()
        self.error = error


def readable(values: Values) -> bool:
    """Whether these are the values of a row that could be read."""
    return not isinstance(values, Unreadable)


def or_unreadable(accepts: Callable[[Mapping[str, Any]], bool]) -> Callable[[Mapping[str, Any]], bool]:
    """Returns a function that works like `accepts`, but also accepts rows that cannot be read, because it is not known
    whether they match.
    """
    return lambda values: isinstance(values, Unreadable) or accepts(values)


@frozen(eq=False)
class TolerantDecoder(RowDecoder):
    """A decoder whose `values` returns `Unreadable` where the method of a `RowDecoder` raises."""

    @classmethod
    def like(cls, reader: RowDecoder) -> TolerantDecoder:
        """Returns the tolerant decoder of the same rows and fields."""
        return cls(reader.schema, reader.indexed, reader.names, reader.adopting)

    @property
    def _strict(self) -> RowDecoder:
        return RowDecoder.of(self.schema, self.indexed, self.names, self.adopting)

    @cached_property
    def exists(self) -> Callable[[Row], bool]:
        """Whether a row is an object. A row that `row_check` refuses counts as an object that cannot be read."""
        exists = self._strict.exists
        if not checks_rows(self.schema):
            return exists

        def is_there(row: Row) -> bool:
            try:
                return exists(row)
            except DecodingError:
                return True

        return is_there

    @cached_property
    def values(self) -> Callable[[Row], Values]:
        """Decodes the key and the wanted cells of an existing row; raises nothing."""
        decode, exists = self._strict.values, self._strict.exists
        checked = checks_rows(self.schema)

        def values(row: Row) -> Values:
            try:
                if checked:
                    exists(row)
                return decode(row)
            except (DecodingError, IncompleteRow) as error:
                return Unreadable(error)

        return values


@frozen(eq=False)
class TolerantEntryDecoder(EntryDecoder):
    """A decoder whose `values` returns `Unreadable` where the method of an `EntryDecoder` raises."""

    @cached_property
    def values(self) -> Callable[[Row], Values]:
        """Decodes the key and the wanted cells of a verified entry; raises nothing."""
        decode = EntryDecoder(self.schema, self.index, self.names).values

        def values(entry: Row) -> Values:
            try:
                return decode(entry)
            except (DecodingError, IncompleteRow) as error:
                return Unreadable(error)

        return values
