"""The findings of a check of a table: contradictions between a model and the stored bytes, each with advice on what to
do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from attrs import define, field, frozen

Kind = Literal[
    "key",
    "key-bytes",
    "bucket",
    "other-row",
    "value",
    "value-bytes",
    "value-form",
    "required",
    "no-object",
    "no-column",
    "qualifier",
    "empty-qualifier",
    "undeclared",
    "future",
    "no-milliseconds",
    "system-cell",
    "family-undeclared",
    "family-ttl",
    "family-versions",
]


@frozen
class _About:
    """The text that all findings of one kind have in common.

    Attributes:
        what: what was found.
        do: what the user should declare or do instead.
        note: whether such a finding is only information, so that it does not prevent the adoption of the table.
    """

    what: str
    do: str
    note: bool = False


ABOUT: Final[Mapping[Kind, _About]] = {
    "key": _About(
        "the row key cannot be read as the key fields",
        "declare the key fields with the order, codecs and widths of the program that writes the table",
    ),
    "key-bytes": _About(
        "the key fields can be read, but hbmodel writes them with other bytes, so gets would not find the row",
        "declare the codec of the program that writes the table",
    ),
    "bucket": _About(
        "the row is not in the salt bucket that the model computes, so gets and queries would miss it",
        "declare the number of buckets, the hash and the fields of the salt that the other program uses; if the hashed "
        "bytes differ from those of the fields in the key, give TextSalt a function as choose=",
    ),
    "other-row": _About(
        "the row is not the one that the model names with row=, so queries do not read it",
        "declare a key field for the row key, or accept that only one row is read",
    ),
    "value": _About(
        "the value cannot be decoded, so reads of the row raise DecodingError",
        "declare the codec of the program that writes the column",
    ),
    "value-bytes": _About(
        "the value can be decoded, but hbmodel writes it with other bytes, so == does not find it",
        "declare the codec of the program that writes the column",
    ),
    "value-form": _About(
        "the value can be decoded, and hbmodel writes the same value with other bytes, such as other spaces in JSON",
        "nothing, if the other programs can read both forms",
        note=True,
    ),
    "required": _About(
        "the row lacks a column that has no default, so reads of the row raise IncompleteRow",
        "give the column a default, or declare with exists= which cell every object has",
    ),
    "no-object": _About(
        "the row has no cell that makes it an object of the model, so queries leave it out",
        "leave out exists=, name the cell that every object has, or accept that these rows are left out",
    ),
    "no-column": _About(
        "the row has none of the model's columns, and would be read as an object that has only default values",
        "declare the columns that the row has, or declare with exists= which cell every object has",
    ),
    "qualifier": _About(
        "the qualifier cannot be read as key fields and alias, so reads that meet the cell raise DecodingError",
        "declare the key fields in the qualifier with the codecs and widths of the program that writes the table, or "
        "name a column with exists= whose cells alone are objects",
    ),
    "empty-qualifier": _About(
        "the qualifier is empty, which is not the key of an object: reads and deletes of objects leave the cell out",
        "accept the finding, and read such a cell with store.get()",
    ),
    "undeclared": _About(
        "no field explains the column: reads ignore it, and deletes of an object leave it",
        "declare a column, or accept the finding",
    ),
    "future": _About(
        "the timestamp is in the future: until then, puts and deletes of this cell at the current time have no effect",
        "correct the clock of the program that wrote the cell, or write the cell again",
    ),
    "no-milliseconds": _About(
        "the timestamp is not in milliseconds: puts and deletes of this cell at the current time never have an effect",
        "let the other program write milliseconds; until then, do not write the column",
    ),
    "system-cell": _About(
        "hbmodel wrote the cell for an index or a version of the row, so the table, or the table that it was copied "
        "from, is one of hbmodel's own: rows that are deleted there would be read as objects",
        "declare the model without external=True, or use the table's own registry, or copy only live rows",
    ),
    "family-undeclared": _About(
        "neither this model nor a registered one has a column in the family: its cells are neither read nor deleted, "
        "and do not make a row an object",
        "nothing, or declare columns with family=, or a model of its own for the family",
        note=True,
    ),
    "family-ttl": _About(
        "the family has a TTL, so cells of a row that were put at different times vanish at different times",
        "give columns a default if they can vanish before others",
        note=True,
    ),
    "family-versions": _About(
        "the family keeps several versions of a cell",
        "nothing: reads return the newest one; store.versions() returns older ones too, and so does session.versions() "
        "for a column that is declared with versions=",
        note=True,
    ),
}


@frozen
class Finding:
    """One contradiction between a model and the cells of a table.

    Its text has one line.

    Attributes:
        kind: what was found, such as `value`; the page on external tables lists all kinds.
        subject: the name of the field, or of the column or family if the field is not known; None if the finding is
            about whole rows.
        count: the number of sampled objects with this finding; for `qualifier`, `empty-qualifier`,
            `undeclared`, `future`, `no-milliseconds` and `system-cell`, the number of cells.
        key: the row key of the first example; None for a finding about a family.
        found: the bytes that do not fit, from the first example, at most 64 of them, or None.
        detail: more about the first example, such as the message of the codec.
    """

    kind: Kind
    subject: str | None
    count: int
    key: bytes | None = None
    found: bytes | None = None
    detail: str | None = None

    @property
    def name(self) -> str:
        """The name of this finding for `accept`, which is the kind or, if there is a subject, the kind, a colon and the
        subject.
        """
        return self.kind if self.subject is None else f"{self.kind}:{self.subject}"

    @property
    def what(self) -> str:
        """What was found, in a sentence."""
        return ABOUT[self.kind].what

    @property
    def do(self) -> str:
        """What the user should declare or do instead."""
        return ABOUT[self.kind].do

    @property
    def note(self) -> bool:
        """Whether the finding is only information, so that it does not prevent the adoption."""
        return ABOUT[self.kind].note

    def __str__(self) -> str:
        shown = [f"key={self.key!r}"] if self.key is not None else []
        shown += [f"found={self.found!r}"] if self.found is not None else []
        shown += [self.detail] if self.detail is not None else []
        example = f" [{', '.join(shown)}]" if shown else ""
        return f"{'~' if self.note else '!'} {self.name}: {self.count}: {self.what}{example}. To do: {self.do}."


SHOWN = 64
"""The maximum number of bytes of a value that a finding shows."""

SUBJECTS = 20
"""For each family, at most this many undeclared columns are separate findings."""


@define
class _Counted:
    count: int
    key: bytes | None
    found: bytes | None
    detail: str | None


@define
class Collected:
    """Counts findings, and keeps the first example for each kind and subject."""

    _counted: dict[tuple[Kind, str | None], _Counted] = field(factory=dict)

    def add(
        self,
        kind: Kind,
        subject: str | None = None,
        *,
        key: bytes | None = None,
        found: bytes | None = None,
        detail: str | None = None,
    ) -> None:
        """Counts one finding."""
        known = self._counted.get((kind, subject))
        if known is None:
            cut = None if found is None else found[:SHOWN]
            self._counted[(kind, subject)] = _Counted(1, key, cut, detail)
        else:
            known.count += 1

    def add_column(self, kind: Kind, column: bytes, **example: Any) -> None:
        """Counts one cell of a column. If findings were already counted for `SUBJECTS` columns of the family, the cells
        of other columns are counted for the family.
        """
        name = text_of(column)
        if (kind, name) not in self._counted:
            family = text_of(column.partition(b":")[0]) + ":"
            few = sum(other == kind and (at or "").startswith(family) for other, at in self._counted) < SUBJECTS
            name = name if few else f"{family}*"
        self.add(kind, name, **example)

    def findings(self) -> Sequence[Finding]:
        """Returns all findings, in the order of their kinds, notes last."""
        order = {kind: (about.note, at) for at, (kind, about) in enumerate(ABOUT.items())}
        found = [
            Finding(kind, subject, each.count, each.key, each.found, each.detail)
            for (kind, subject), each in self._counted.items()
        ]
        return sorted(found, key=lambda finding: (order[finding.kind], finding.subject or ""))


def text_of(column: bytes) -> str:
    """Returns a column or family as text: printable ASCII as it is, other bytes as `\\xNN`."""
    return "".join(chr(byte) if 32 < byte < 127 and byte != 92 else f"\\x{byte:02x}" for byte in column)
