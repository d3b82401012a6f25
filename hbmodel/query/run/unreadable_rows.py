"""Counts the objects of a read that continues after rows that cannot be read, and collects the errors of these rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from hbmodel.errors import DecodingError
from hbmodel.mapping.rows.mapper import KeyMapper, Values
from hbmodel.mapping.rows.unreadable import RowError, Unreadable, readable
from hbmodel.protocol.indexed.entry_verifier import EntryVerifier
from hbmodel.protocol.operations import Protocol
from hbmodel.store.values import Row

Found = tuple[bytes, Values]
"""An item before it is made into an object, as in the executor."""


def up_to(items: Iterable[Found], count: int | None) -> Iterator[Found]:
    """Yields the items up to and including the object with this number, with the unreadable rows before this object."""
    left = count
    if left == 0:
        return
    for item in items:
        yield item
        if left is not None and readable(item[1]):
            left -= 1
            if not left:
                return


@frozen
class Portion:
    """The objects of a page and one more object, if there is one, and the errors of the page.

    Attributes:
        objects: the objects that the offset does not skip.
        errors: the errors of the unreadable rows of the page. These are the rows before its last object, and the rows
            after it if no object follows. So pages that are read one after another report every row once.
    """

    objects: Sequence[Found]
    errors: Sequence[RowError]


def portion(items: Iterable[Found], skip: int, take: int, last: bool) -> Portion:
    """Returns the portion of a page.

    Args:
        items: in the order of the read, from the start of the page on.
        skip: the number of objects to skip.
        take: the number of objects of the page.
        last: whether the query's limit is reached with `take` objects. In this case, unreadable rows after them are not
            reported.
    """
    objects: list[Found] = []
    errors: list[RowError] = []
    behind: list[RowError] = []
    seen = 0
    for item in items:
        values = item[1]
        if isinstance(values, Unreadable):
            behind.append(values.error)
            continue
        seen += 1
        if seen > skip:
            objects.append(item)
        if seen > skip + take:
            return Portion(objects, errors)
        errors += behind
        behind = []
    return Portion(objects, errors if last and seen == skip + take else errors + behind)


@frozen(eq=False)
class TolerantVerifier(EntryVerifier):
    """Compares index entries with rows, some of which cannot be read.

    An entry whose row cannot be read is returned with the error of that row, because it is not known whether the entry
    is current. For such rows, the verifier's reader must return `Unreadable`.
    """

    def verify(self, entries: Sequence[bytes]) -> Protocol[list[Values | None]]:
        """Returns the values of the row of each entry, or None for an entry that must not be returned."""
        rows_of = KeyMapper(self.schema).rows_of_entry_code(self.index)
        answers: list[Values | None] = []
        sound: list[bytes] = []
        for entry in entries:
            try:
                rows_of(entry)
            except DecodingError as error:
                details = {**error.details, "table": self.index.table, "key": entry}
                answers.append(Unreadable(DecodingError(error.message, **details)))
            else:
                answers.append(None)
                sound.append(entry)
        verified = iter((yield from EntryVerifier.verify(self, sound)))
        return [next(verified) if answer is None else answer for answer in answers]

    def _decide(self, entry: bytes, row: Row) -> Values | None:
        values = self.reader.values(row)
        if isinstance(values, Unreadable):
            return values
        return values if self._stands_for(entry, self._entries_of(values, row.row)) and self.accepts(values) else None
