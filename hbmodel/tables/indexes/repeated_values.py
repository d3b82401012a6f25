"""Finds the rows that share a value of a unique index, in one pass over a table and without writing."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from attrs import Factory, define

from hbmodel.mapping.schema import Index
from hbmodel.protocol.indexed.index_build import RowEntries
from hbmodel.protocol.versioned.unique_values import claim_of
from hbmodel.tables.indexes.index_report import SAMPLES
from hbmodel.tables.indexes.shared_ranges import Counts

REMEMBERED = 1_000_000
"""How many values are remembered, which takes about 200 MB. Later values are compared with these, but not with one
another.
"""


@define
class RepeatedValues:
    """Counts the rows whose value an earlier row already has.

    Args:
        index: a unique index.
        remembered: how many values are remembered.
    """

    index: Index
    remembered: int = REMEMBERED
    _rows: dict[bytes, bytes] = Factory(dict)

    def counted(self, rows: Iterable[RowEntries]) -> Counts:
        """Returns the number of these rows that repeat a value, with some examples in the form in which a build reports
        them.
        """
        repeated: list[tuple[str, str, str]] = []
        for row in rows:
            claims = [claim for _, put in row.entries if (claim := claim_of(self.index, put.row)) is not None]
            for claim in claims:
                digest = blake2b(claim.key, digest_size=16).digest()
                owner = self._rows.get(digest)
                if owner is None:
                    if len(self._rows) < self.remembered:
                        self._rows[digest] = row.row
                elif owner != row.row:
                    values = claim.values[0] if len(claim.values) == 1 else tuple(claim.values)
                    repeated.append((repr(values), row.row.hex(), owner.hex()))
                    break
        return Counts(duplicates=len(repeated), duplicated=tuple(repeated[:SAMPLES]))
