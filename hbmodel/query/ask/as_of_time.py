"""Checks of queries as of a time: whether the time is valid, and whether the model and the columns support them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hbmodel.errors import QueryError
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import TableSchema

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(milliseconds=1)


def moment(schema: TableSchema, time: Any) -> datetime:
    """Returns the time as of which a query reads, in UTC.

    Raises:
        QueryError: `time` has no time zone or is before 1970, or the model replaces another one.
    """
    if not isinstance(time, datetime) or time.utcoffset() is None:
        raise QueryError("as_of() takes a datetime with a time zone.", table=schema.table, found=repr(time))
    try:
        utc = time.astimezone(UTC)
    except OverflowError:
        raise QueryError(
            "The time lies outside the years 1 to 9999 in UTC: give a later or an earlier time.",
            table=schema.table,
            found=repr(time),
        ) from None
    if utc < _EPOCH:
        raise QueryError(
            "Cells have no timestamps before 1970: give a later time.", table=schema.table, found=repr(time)
        )
    if schema.replaces is not None:
        raise QueryError(
            "A model that replaces another cannot be read as of a time: only the newest versions are moved.",
            table=schema.table,
        )
    return utc


def before(time: datetime) -> int:
    """Returns the first millisecond whose writes are not visible. Writes in the millisecond of the time itself are
    visible.
    """
    return (time - _EPOCH) // _TICK + 1


_ONE_VERSION = (
    "The column family keeps only the newest version of its cells: declare hb.column(versions=n), and call hb.alter()."
)

_OWN_CELLS = (
    "The model has no column in its own family, but hbmodel's cells that show which rows exist, and the family keeps "
    'only their newest version: declare family=hb.family("name", max_versions=n), and call hb.alter().'
)

_WHOLE_FAMILIES = (
    "The column family keeps only the newest version of its cells. Every query of this external table reads all "
    "families of the model: declare hb.column(versions=n), and call hb.alter(), or declare exists=, or another model "
    "for this family. store.get_each() with Get(before=) reads cells as of a time."
)


def check_kept(reader: RowDecoder) -> None:
    """Raises `QueryError` if a column that the reader reads keeps only one version."""
    schema = reader.schema
    for field in reader.fields:
        if field.kind == "counter":
            raise QueryError(
                "Increments leave too few versions of a counter to read it as of a time: select() the other fields.",
                table=schema.table, field=field.name,
            )  # fmt: skip
    versioned_families = {family.name for family in schema.families if (family.max_versions or 1) > 1}
    liveness = () if reader.indexed else (schema.liveness_column,)  # no row is certain to have a liveness cell
    lacking = sorted(
        {column.partition(b":")[0] for column in reader.columns if column not in liveness} - versioned_families
    )
    if lacking:
        names = [field.name for field in schema.columns if field.family == lacking[0] and field.kind == "column"]
        message = _WHOLE_FAMILIES if schema.any_cell_shows else _ONE_VERSION if names else _OWN_CELLS
        raise QueryError(
            message,
            table=schema.table,
            family=lacking[0].decode(),
            fields=names,
        )
