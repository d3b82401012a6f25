"""What `explain()` answers: how a query is carried out, as a value and as text, without any of the query's values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attrs import frozen

from hbmodel.expressions import Comparison, Predicate
from hbmodel.store import Filter

Access = Literal["get", "scan", "scan + get", "nothing"]


@frozen
class Explanation:
    """What `explain()` returns; its text is made for reading.

    Attributes:
        path: `primary` or the name of the index.
        table: that is read first.
        access: `get`, `scan`, through an index `scan + get`, or `nothing` where the conditions contradict each other.
        equalities: names of the leading key fields that the query fixes.
        range_field: the next key field, if the query bounds it.
        buckets: salt buckets read.
        of_buckets: how many the table has.
        ranges: key ranges scanned, over all buckets.
        backwards: whether the scans run backwards.
        server: what the server filters by, or None.
        client: what the client checks on every row.
        calls: round trips to the first item, at least.
        full_scan: whether nothing bounds the scan.
    """

    path: str
    table: str
    access: Access
    equalities: Sequence[str]
    range_field: str | None
    buckets: int
    of_buckets: int
    ranges: int
    backwards: bool
    server: str | None
    client: Sequence[str]
    calls: int
    full_scan: bool

    def __str__(self) -> str:
        fixed = ", ".join(self.equalities) or "nothing"
        lines = [
            f"{self.access} of {self.table} ({self.path})",
            f"  key:     {fixed} fixed"
            + (f", {self.range_field} bounded" if self.range_field else "")
            + (" - full scan" if self.full_scan else ""),
            f"  scans:   {self.ranges} range(s) in {self.buckets} of {self.of_buckets} bucket(s)"
            + (", backwards" if self.backwards else ""),
            f"  server:  {self.server or 'no filter'}",
            f"  client:  {', '.join(self.client) or 'no check'}",
            f"  calls:   {self.calls} to the first item",
        ]
        return "\n".join(lines)


def describe(predicate: Predicate) -> str:
    """A predicate as text, without its values."""
    parts = getattr(predicate, "parts", None)
    if parts is not None:
        kind = {"And": " & ", "Or": " | ", "Not": ""}[type(predicate).__name__]
        inner = kind.join(describe(part) for part in parts)
        return f"~({inner})" if kind == "" else f"({inner})"
    name = next(iter(predicate.names()))
    if isinstance(predicate, Comparison):
        return f"{name} {'==' if predicate.operator == '=' else predicate.operator} ..."
    return f"{name} {'in' if type(predicate).__name__ == 'In' else 'starts with'} ..."


def describe_filter(of: Filter) -> str:
    """A server filter as text, without its values."""
    inner = getattr(of, "filters", None)
    if inner is not None:
        joined = (" & " if type(of).__name__ == "And" else " | ").join(describe_filter(part) for part in inner)
        return f"({joined})"
    column = getattr(of, "column", None)
    if column is not None:
        return f"{column.decode('latin-1')} {of.operator} ..."  # type: ignore[union-attr]
    return "row key contains text" if type(of).__name__ == "RowContains" else type(of).__name__
