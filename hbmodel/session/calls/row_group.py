"""Local transactions, in which the objects of one row are read, and then changed only if the row has not changed
since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, TypeVar

from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.errors import (
    CapabilityError,
    HbmodelError,
    IncompleteKey,
    PartialWrite,
    SessionError,
    StoreError,
    UnknownField,
    UnknownName,
)
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.rows.mapper import KeyMapper, key_of, version_of
from hbmodel.mapping.schema import TableSchema, schema_of, schema_of_object
from hbmodel.mapping.version_cell import UNKNOWN
from hbmodel.protocol.versioned.versioned_plan import RowVersion, row_written
from hbmodel.protocol.writes import DeleteRow, Outcome, put_object
from hbmodel.query.ask.query import Query
from hbmodel.session.calls.group_queries import GroupQueries
from hbmodel.session.calls.update import update_call
from hbmodel.session.commit.batches import Pending
from hbmodel.session.commit.conflict_retries import RETRIES, again_upon_conflict, waits_between
from hbmodel.session.commit.shared_row_batches import row_of
from hbmodel.session.commit.unit_of_work import UnitOfWork
from hbmodel.session.get_many import known_rows
from hbmodel.session.thread_guard import Guard, guarded
from hbmodel.store.port import Store
from hbmodel.store.wide.row_versions import RowVersionCell, link_row_versions, read_versions_of
from hbmodel.store.wide.wide_rows import ROW_VERSION

T = TypeVar("T")
R = TypeVar("R")
Values = tuple[Any, ...]

_STOPPED = (
    "The commit of the group stopped partway: call commit() again, or discard(), before the first use of a model "
    "of another column family."
)

_NAMED_ELSEWHERE = {
    **dict.fromkeys(("insert", "prepend"), "add(obj), if get(Model, key=value) has returned None"),
    **dict.fromkeys(("put", "put_all", "update_key"), "update(obj, field=value), or add(obj)"),
    **dict.fromkeys(("add_all", "bulk_add"), "add(obj) for each object"),
    "delete_key": "delete(obj)",
    "get_many": "query(Model)",
    **dict.fromkeys(("rollback", "close"), "discard() to drop what is pending"),
    **dict.fromkeys(("increment", "increment_key", "rekey"), "the call of a session, which is not part of the group"),
}
"""The names of calls that a group does not have, and what to write instead."""

_OTHER_ROW = "A group accepts only objects of its own row: use a session for others."


class Reader(Protocol):
    """The session through which a group reads."""

    _guard: Guard

    def get(self, model: type[T], /, **key: Any) -> T | None:
        """See `Session.get`."""
        ...

    def get_one(self, model: type[T], /, **key: Any) -> T:
        """See `Session.get_one`."""
        ...

    def query(self, model: type[T]) -> Query[T]:
        """See `Session.query`."""
        ...


class RowGroup:
    """A local transaction over the objects in one row, which may be of several versioned models.

    The commit makes all changes at once, in one atomic mutation. The mutation is applied only if the row still has the
    version that it had at the start of the group, that is, if no program has added, changed or deleted an object of the
    row since. If the row has another version, the commit raises `ConflictError`. Nothing is locked. Objects of other
    rows are not accepted. A group belongs to its session and its thread. A row has one version for each column family
    that its models use. The first use of a model of another family links the two versions; from then on they are one
    version of the whole row.

    As a context manager it commits on a clean exit and discards on an exception.

    Args:
        session: reads the objects.
        store: the store with the table.
        work: makes the unit of work for an attempt that requires the given version of the row.
        model: one of the models of the row.
        key: the fields of its row key.

    Raises:
        SessionError: the model's objects do not share rows, or it has no version.
        IncompleteKey: key fields are missing; the error names them.
        CapabilityError: the store has no check-and-mutate.
    """

    def __init__(
        self,
        session: Reader,
        store: Store,
        work: Callable[[RowVersion], UnitOfWork],
        model: type[Any],
        key: Mapping[str, Any],
    ) -> None:
        schema = schema_of(model)
        if not isinstance(schema.layout, ObjectKeyLayout) or not schema.versioned:
            raise SessionError(
                "A group needs a row that objects share and that has a version: declare key fields with "
                "in_qualifier=True, or a kind, and a field such as version: hb.Column[int] = hb.version().",
                table=schema.table,
                model=model.__qualname__,
            )
        if not store.capabilities.check_and_mutate:
            raise CapabilityError(
                "A group needs a store with check-and-mutate: embedded, or HBase through its Thrift2 gateway.",
                table=schema.table,
            )
        self._session, self._store, self._work_of, self._guard = session, store, work, session._guard
        self._schema, self._table = schema, schema.table
        self._values = _row_values(schema, key)
        self._row = _row(schema, self._values)
        self._work: UnitOfWork | None = None
        self._version = RowVersionCell(b"", b"", 0)
        self._families: set[bytes] = set()  # the column families whose objects have this version

    # --- reading ------------------------------------------------------------------------------------------------------

    @guarded
    def get(self, model: type[T], /, **key: Any) -> T | None:
        """Returns the object in this row that has the given key fields, or None.

        Args:
            model: the class of the object, which may differ from the group's.
            **key: the key fields that are not in the row key. A split time must be given too, unless it is the one that
                was given to the group.

        Raises:
            SessionError: an object with this key is in another row; or the group has not used the model's column family
                before, and a commit has stopped partway.
            IncompleteKey: key fields are missing; the error names them.
            ConflictError: the group has not used the model's column family before, and the row has changed.
        """
        return self._session.get(model, **self._whole_key(model, key))

    @guarded
    def get_one(self, model: type[T], /, **key: Any) -> T:
        """Returns the object in this row that has the given key fields.

        Args:
            model: the class of the object, which may differ from the group's.
            **key: as for `get`.

        Raises:
            RowNotFound: there is no such object.
            SessionError: as for `get`.
            IncompleteKey: key fields are missing; the error names them.
            ConflictError: as for `get`.
        """
        return self._session.get_one(model, **self._whole_key(model, key))

    def _whole_key(self, model: type[Any], key: Mapping[str, Any]) -> dict[str, Any]:
        """Begins the work on the column family of a model, and returns all key fields of an object in this row."""
        fields = self._fields(model)
        values = tuple(key.get(name, value) for name, value in zip(fields, self._values, strict=True))
        if not key.keys().isdisjoint(fields):
            self._check_values(schema_of(model), values)
        self._begun(schema_of(model))
        return {**dict(zip(fields, values, strict=True)), **key}

    @guarded
    def query(self, model: type[T]) -> Query[T]:
        """Returns a query on the objects of a model in the row. Its `delete()` is written at the commit of the group,
        and returns the number of objects that the query finds.
        """
        schema, fields = schema_of(model), self._fields(model)
        self._begun(schema)
        of_session = self._session.query(model)
        query: Query[T] = Query(of_session.terms, GroupQueries(of_session._source, self._take_deletes))
        conditions: list[Predicate] = []
        for name, value in zip(fields, self._values, strict=True):
            field = getattr(model, name)
            halves = schema.layout.halves if isinstance(schema.layout, ObjectKeyLayout) else None
            if halves is None or halves.of.name != name:
                conditions.append(field == value)
            else:
                first, last = halves.ends(value)
                conditions += [field >= first, field <= last]
        return query.where(*conditions) if conditions else query.allow_full_scan()

    # --- writing ------------------------------------------------------------------------------------------------------

    @guarded
    def add(self, obj: Any) -> None:
        """See `Session.add`; the object must belong to the row."""
        schema = schema_of_object(obj)
        self._take(Pending(schema, obj, [put_object(schema, obj)], copy=obj))

    @guarded
    def update(self, obj: T, /, *, condition: Predicate | None = None, **changes: Any) -> T:
        """See `Session.update`; the object must belong to the row."""
        call = update_call(obj, changes, condition)
        self._take(call)
        changed: T = call.copy
        return changed

    @guarded
    def delete(self, obj: Any) -> None:
        """See `Session.delete`; the object must belong to the row."""
        schema = schema_of_object(obj)
        rows = KeyMapper(schema).rows(key_of(schema, obj))
        self._take(Pending(schema, obj, [DeleteRow(obj, row, version_of(schema, obj)) for row in rows]))

    @guarded
    def _take_deletes(self, schema: TableSchema, keys: Sequence[Mapping[str, Any]]) -> None:
        for key in keys:
            self._take(Pending(schema, key, [DeleteRow(key, row, UNKNOWN) for row in known_rows(schema, key)]))

    def _take(self, call: Pending) -> None:
        self._fields(call.schema.model)
        for write in call.writes:
            if row_of(call.schema, write.row) != self._row:
                raise SessionError(_OTHER_ROW, table=call.schema.table, key=write.row)
        self._begun(call.schema).add(call)

    def _check_values(self, schema: TableSchema, values: Values) -> None:
        """Raises `SessionError` for row key fields of another row."""
        try:
            own = _row(schema, values) == self._row
        except UnknownName:  # a name without an id cannot be in the key of this row
            own = False
        if not own:
            raise SessionError(_OTHER_ROW, table=schema.table, key=values)

    # --- life ---------------------------------------------------------------------------------------------------------

    @guarded
    def commit(self) -> list[Outcome]:
        """Writes all pending changes and ends the attempt; the next read begins another one.

        Raises:
            ConflictError: the row has changed since the attempt began; nothing is written.
            RowNotFound: an updated object does not exist; nothing is written.
            PartialWrite: the store failed; `commit()` continues.
        """
        if self._work is None:
            return []
        try:
            outcomes = self._work.commit()
        except (StoreError, PartialWrite):
            raise
        except HbmodelError:
            self.discard()
            raise
        self._work = None
        return outcomes

    def discard(self) -> None:
        """Drops all pending changes and ends the attempt."""
        if self._work is not None:
            self._work.discard()
            self._work = None

    def retry(self, function: Callable[[Self], R], *, attempts: int = RETRIES) -> R:
        """Runs a function that reads and changes objects through the group, and then commits. If this raises
        `ConflictError`, both are repeated.

        After another error nothing is pending, except after `PartialWrite` and `UnknownOutcome`; see `Session.retry`.

        Args:
            function: called with the group; its result is returned.
            attempts: the maximum number of runs. Between runs there are random waits, which tend to grow.

        Raises:
            ConflictError: the error of the last attempt.
            SessionError: calls are pending already.
        """
        if self._work is not None and self._work.waiting:
            raise SessionError("Commit or discard pending calls before retry(): a conflict would discard them.")
        self.discard()
        return again_upon_conflict(self, function, waits_between(attempts))

    if not TYPE_CHECKING:  # type checkers report these by themselves

        def __getattr__(self, name: str) -> NoReturn:
            advice = _NAMED_ELSEWHERE.get(name)
            raise AttributeError(
                f"A group has no attribute {name!r}" + (f": write {advice}." if advice else "."), name=name, obj=self
            )

    def __enter__(self) -> Self:
        self._begun(self._schema)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def _begun(self, schema: TableSchema) -> UnitOfWork:
        """Returns the unit of work of the attempt. The first call of an attempt reads the version of the row, before
        any object is read.

        The first call for a model of a different column family links the version in that family to this version.
        """
        if self._work is None:
            self._version = self._version_in(self._schema)
            self._work = self._work_of(RowVersion(self._version.value or None))
            self._families = {self._schema.family}
        if schema.family not in self._families:
            if self._work.stopped:
                raise SessionError(_STOPPED, table=self._table, key=self._row, model=schema.model.__qualname__)
            self._share_version(schema, self._work)
            self._families.add(schema.family)
        return self._work

    def _version_in(self, schema: TableSchema) -> RowVersionCell:
        """Returns the version of the row in the column family of a model."""
        (version,) = read_versions_of(self._store, self._table, {self._row: [schema.family + b":" + ROW_VERSION]})[
            self._row
        ]
        return version

    def _share_version(self, schema: TableSchema, work: UnitOfWork) -> None:
        """Links the row's version in the column family of a model to the group's version. Raises `ConflictError` if the
        row no longer has the group's version.
        """
        while True:
            mine, other = self._version_in(self._schema), self._version_in(schema)
            if (mine.column, mine.value) != (self._version.column, self._version.value):
                self.discard()
                raise row_written(self._table, self._row)
            if other.column == mine.column:
                return
            linked = link_row_versions(self._store, self._table, {self._row: [mine, other]})
            if self._row in linked:
                self._version = linked[self._row]
                work.pin(RowVersion(self._version.value))
                return

    def _fields(self, model: type[Any]) -> tuple[str, ...]:
        """Returns the row key fields of a model; raises `SessionError` if its objects are not in the row of this
        group.
        """
        schema = schema_of(model)
        layout = schema.layout
        fields = tuple(layout.names[: layout.rows]) if isinstance(layout, ObjectKeyLayout) else ()
        if schema.table != self._table or not schema.versioned or len(fields) != len(self._values):
            raise SessionError(
                "The objects of this model are not in the row of the group: use a session for them.",
                table=schema.table,
                model=model.__qualname__,
            )
        if _row(schema, self._values) != self._row:
            raise SessionError(
                "This model does not store these values in the row of the group: use a session for its objects.",
                table=schema.table,
                model=model.__qualname__,
            )
        return fields

    def __repr__(self) -> str:
        return f"RowGroup({self._table!r}, {self._row!r})"


def _row_values(schema: TableSchema, key: Mapping[str, Any]) -> Values:
    """Returns the values of the row key in key order; raises `IncompleteKey` or `UnknownField`."""
    layout = schema.layout
    assert isinstance(layout, ObjectKeyLayout)
    names = layout.names[: layout.rows]
    unknown = sorted(set(key) - set(names))
    if unknown:
        raise UnknownField(
            "A group takes the fields of the row key only.", table=schema.table, field=unknown[0], known=names
        )
    missing = [name for name in names if name not in key]
    if missing:
        raise IncompleteKey(
            "Give every field of the row key: they identify the row of the group.", table=schema.table, missing=missing
        )
    return tuple(key[name] for name in names)


def _row(schema: TableSchema, values: Values) -> bytes:
    """Returns the key of the row that has these values."""
    assert schema.wide is not None
    names = schema.layout.names
    parts = schema.layout.pack_leading(values)
    salt = schema.salt
    prefix = salt.prefix(salt.bucket_of_fields(dict(zip(names, parts, strict=False)))) if salt.width else b""
    return schema.wide.form.cut(prefix + b"".join(parts))[0]
