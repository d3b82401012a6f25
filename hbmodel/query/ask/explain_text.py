"""The result of `explain()`, which describes how a query is executed, as a value and as text.

It contains none of the query's values, except those that describe the slices of wide rows that are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from attrs import asdict, field, frozen

from hbmodel.store.filters import And as AllOf
from hbmodel.store.filters import Filter, FirstCellOnly, KeyOnly, RowContains, ValueFilter
from hbmodel.store.filters import Or as AnyOf
from hbmodel.store.wide.page_sizes import PAGE_SIZES

Access = Literal["get", "scan", "scan + get", "nothing"]

Covering = Literal["verified", "incomplete", "copy"]
"""How a query uses the covered columns of an index. `verified` entries answer the query; `incomplete` entries lack
fields that it needs; a `copy` is never used for an answer.
"""


@frozen
class Slices:
    """The slices of wide rows that a plan reads.

    Attributes:
        rows: the rows, as text with values.
        columns: the columns of each row, as text with values.
        number: the number of slices. A slice has the same column ranges in one row, or in each row of a range of rows.
        ranges: the number of column ranges in a slice.
        scans: the number of scans until the first item, over all buckets.
        turns: how many times the query waits for scans.
        end_searched: whether the rows are read backwards, so that more scans search for the end of a row of many
            columns.
    """

    rows: str
    columns: str
    number: int
    ranges: int
    scans: int
    turns: int
    end_searched: bool = False


@frozen
class Explanation:
    """The result of `explain()`. Print it to see it as readable text.

    Attributes:
        path: `primary` or the name of the index.
        table: the table that is read first.
        kinds: the options by which the index differs from a plain one (`where state == ...`, `each of tags`, ...).
        access: `get`, `scan`, `scan + get` (through an index), or `nothing` if the conditions contradict each other.
        equalities: names of the leading key fields that the query fixes.
        range_field: the next key field, if the query bounds it.
        buckets: the number of salt buckets that are read.
        of_buckets: the number of salt buckets of the table.
        ranges: the number of key ranges that are scanned, over all buckets.
        backwards: whether the scans run backwards.
        server: the filter on the server, or None.
        client: the conditions that the client checks on every row.
        calls: the number of calls to the store until the first item; calls for different buckets run concurrently.
        round_trips: how many times the query waits for answers to these calls.
        calls_saved: how many of the calls a store with one-call scans would save (`Capabilities.one_call_scans`).
        full_scan: whether the scan is unbounded.
        scan_calls: how many of the calls are for scans. A whole page needs the same number, unless it is longer than a
            batch of rows.
        gets: how many of the calls are multi-gets. If verified entries answer the query, there are none, but unverified
            entries take one more call. For objects that share rows, the Thrift1 gateway needs one call for each set of
            columns. In this case a query through an index may need more calls, because only one object is counted.
        covering: for an index that covers columns: `verified` (its verified entries answer the query without a read of
            the row), `incomplete` (entries lack fields that the query needs, so rows are read) or `copy` (rows are
            always read); otherwise None.
        lacking: names of the fields that the entries lack.
        state: the state of the index that is used, otherwise None.
        unreadable: the declared indexes that no query can use, each with its state.
        lease: seconds after which a running session notices that the state of an index has changed, or None.
        slices: the slices of rows of a wide model, if they are scanned, otherwise None.
        limit: the number of rows read from each bucket, if only the query's limit bounds the scan, otherwise None.
        merged: the fields for which the query gives several values whose ranges are merged, so that the items have the
            order of the fields after them.
        dropping: the conditions that only the client tests. If there are any, a batch of rows may contain no item.
        at_least: whether `calls` and `round_trips` are only the minimum for the first item. This is so if the client
            tests conditions, if one bucket has several `ranges`, of which the first ones may be empty, or if wide rows
            are read backwards.
        whole: the families that are read as a whole although the query does not need all their cells. This is necessary
            in an external table, where any cell may be the only cell of a row.
        as_of: the time as of which the rows are read, otherwise None.
        skipped: the number of items that are skipped by separate scans, which leave out the cells that are needed only
            for the result. `calls` and `round_trips` include these scans. 0 if the offset is small or an index is read.
    """

    path: str
    table: str
    kinds: Sequence[str]
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
    round_trips: int
    calls_saved: int
    full_scan: bool
    scan_calls: int = 0
    gets: int = 0
    covering: Covering | None = None
    lacking: Sequence[str] = ()
    state: str | None = None
    unreadable: Mapping[str, str] = field(factory=dict)
    lease: float | None = None
    slices: Slices | None = None
    limit: int | None = None
    merged: Sequence[str] = ()
    dropping: Sequence[str] = ()
    at_least: bool = False
    as_of: datetime | None = None
    whole: Sequence[str] = ()
    skipped: int = 0

    @property
    def as_json(self) -> dict[str, Any]:
        """The explanation for JSON, with its `text`."""
        as_of = None if self.as_of is None else self.as_of.isoformat()
        return {**asdict(self), "as_of": as_of, "text": str(self)}

    def __str__(self) -> str:
        fixed = ", ".join(self.equalities) or "nothing"
        calls = f"{self.scan_calls} for scans, {self.gets} for gets"
        least = "at least " if self.at_least else ""
        lines = [
            f"{self.access} of {self.table} ({', '.join((self.path, *self.kinds))})",
            f"  key:     {fixed} fixed"
            + (f", {self.range_field} bounded" if self.range_field else "")
            + (" - full scan" if self.full_scan else "")
            + (f" - at most {self.limit} row(s) of each bucket" if self.limit is not None else ""),
            f"  scans:   {self.ranges} range(s) in {self.buckets} of {self.of_buckets} bucket(s)"
            + (f", merged over {', '.join(self.merged)}" if self.merged else "")
            + (", backwards" if self.backwards else ""),
            f"  server:  {self.server or 'no filter'}",
            f"  client:  {', '.join(self.client) or 'no check'}",
            *(
                []
                if self.as_of is None
                else [f"  as of:   {self.as_of.isoformat()}, in the versions that the columns keep"]
            ),
            *([] if not self.whole else [f"  cells:   {self._of_families}"]),
            *self._of_rows,
            *(
                [f"  offset:  {self.skipped} items are skipped by their keys, with scans of their own"]
                if self.skipped
                else []
            ),
            f"  calls:   {least}{self.calls} until the first item ({calls}), in {least}{self.round_trips} round trip(s)"
            + (
                f"; {self.calls - self.calls_saved} where a scan is one call (hbase+thrift2:)"
                if self.calls_saved
                else ""
            ),
        ]
        if self.at_least:
            lines.append(f"  why:     {self._why}")
        if self.covering is not None:
            lines.append(f"  covers:  {self._covers}")
        lease = "" if self.lease is None else f"; a change of state is noticed within {self.lease:g} s"
        if self.state is not None:
            lines.append(f"  index:   {self.state}{lease}")
        if self.unreadable:
            lines.append(
                f"  not yet: {', '.join(f'{name} is {state}' for name, state in self.unreadable.items())}{lease}"
            )
        return "\n".join(lines)

    @property
    def _why(self) -> str:
        if self.dropping:
            return f"the client drops rows that fail {', '.join(self.dropping)}, and reads on until one passes"
        if self.slices is not None and self.slices.end_searched:
            return (
                f"in a row of more than {PAGE_SIZES.cells[0]} columns, small scans first find where it ends, in about "
                "ten round trips"
            )
        return "the ranges of a bucket are read in order, and the first ones may be empty"

    @property
    def _of_families(self) -> str:
        return (
            f"all in {', '.join(self.whole)}, because a row without any declared column is an object too; "
            "with exists= only the declared columns are read"
        )

    @property
    def _of_rows(self) -> list[str]:
        if self.slices is None:
            return []
        return [
            f"  rows:    {self.slices.rows}",
            f"  columns: {self.slices.columns}",
            f"  slices:  {self.slices.number}, of {self.slices.ranges} range(s) of columns; the client checks "
            "conditions on "
            "columns, and select() does not reduce the cells read in a slice",
        ]

    @property
    def _covers(self) -> str:
        if self.covering == "verified":
            return "verified entries answer without reading rows"
        if self.covering == "incomplete":
            return f"rows are read: entries lack {', '.join(self.lacking)}"
        return "covered values are copies; rows are read"


def describe_filter(node: Filter) -> str:
    """Returns a server filter as text, without its values."""
    match node:
        case AllOf(filters):
            return f"({' & '.join(describe_filter(part) for part in filters)})"
        case AnyOf(filters):
            return f"({' | '.join(describe_filter(part) for part in filters)})"
        case ValueFilter(column, operator):
            return f"{column.decode('utf-8', 'backslashreplace')} {operator} ..."
        case RowContains():
            return "row key contains text"
        case FirstCellOnly():
            return "first cell"
        case KeyOnly():
            return "no values"
    return type(node).__name__
