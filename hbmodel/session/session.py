"""The session, which reads objects, collects writes and commits them together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, NoReturn, Self, TypeVar, overload

from hbmodel.errors import DeclarationError, IncompleteKey, RowNotFound, SessionError, UnknownName
from hbmodel.mapping.declare.map_declaration import MapExpression
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.rows.mapper import KeyMapper, key_of, version_of
from hbmodel.mapping.schema import TableSchema, schema_of, schema_of_object
from hbmodel.mapping.version_cell import UNKNOWN
from hbmodel.protocol.corrected_clock import CLOCK_BOUND, GRACE, LONGEST_CALL, ServerClock
from hbmodel.protocol.expiry import milliseconds
from hbmodel.protocol.writes import DeleteRow, Outcome, put_object
from hbmodel.query.ask.continuation_tokens import FernetSeal, Seal
from hbmodel.query.ask.query import Query, Source
from hbmodel.query.ask.query_partition import QueryPartition
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.query.run.map_entries import MapSlice
from hbmodel.session.bindings import Bindings
from hbmodel.session.calls.dictionary_ids import look_up_keys, look_up_rows, objects_with_names
from hbmodel.session.calls.increment import increment
from hbmodel.session.calls.insert import Inserter, insert_between
from hbmodel.session.calls.map_writes import put_changes, remove_changes
from hbmodel.session.calls.prepend import prepend
from hbmodel.session.calls.put import checked_puts, put, put_rows
from hbmodel.session.calls.put_cells import put_cells
from hbmodel.session.calls.put_fields import PutFields
from hbmodel.session.calls.rekey import rekey
from hbmodel.session.calls.row_group import RowGroup
from hbmodel.session.calls.sending import Sending
from hbmodel.session.calls.update import update_call, update_key_call
from hbmodel.session.commit.batch_runner import BatchRunner
from hbmodel.session.commit.batches import Pending
from hbmodel.session.commit.bulk_add import DEFAULT_BATCH, BulkAdd, OnRefused, Progress
from hbmodel.session.commit.conflict_retries import RETRIES, again_upon_conflict, check_condition, waits_between
from hbmodel.session.commit.migration_routing import MigrationRouting
from hbmodel.session.commit.session_sizes import SESSION_SIZES, SessionSizes
from hbmodel.session.commit.unit_of_work import UnitOfWork
from hbmodel.session.commit.unresolved_deletes import UnresolvedDelete
from hbmodel.session.dictionary_names import SessionNames
from hbmodel.session.get_many import known_rows
from hbmodel.session.names_of_other_libraries import NAMED_ELSEWHERE
from hbmodel.session.options import check_seconds
from hbmodel.session.queries.cell_versions import CellVersion, asks_as_of, get_as_of, versions_of
from hbmodel.session.queries.dictionary_queries import DictionaryQueries
from hbmodel.session.queries.map_runner import slice_of
from hbmodel.session.queries.query_runner import QueryRunner
from hbmodel.session.queries.two_table_queries import TwoTableQueries
from hbmodel.session.thread_guard import Guard, guarded, unguarded
from hbmodel.store.observed import ObservedStore, OnCall
from hbmodel.store.port import Store, check_store
from hbmodel.store.shared_caches import trusted_for
from hbmodel.tables.registry.registration import LEASE, Binding
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry
from hbmodel.tables.roll.binding_cache import BindingCache

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

log = logging.getLogger("hbmodel")


class Session:
    """Reads and writes objects of a store.

    Writes are pending until `commit()`; reads never see pending writes. As a context manager, a session commits on a
    clean exit and discards on an exception. Not thread-safe: open one session per thread, on one store.

    Args:
        store: a store, for example from `hb.connect`.
        registry: name of the registry table.
        lease: seconds for which data from the registry is trusted.
        grace: the minimum age, in seconds, at which a repair may treat an index entry as an orphan. It must be the same
            for every program that writes a table.
        clock_bound: the maximum difference between this machine's clock and the server's, in seconds.
        longest_call: the maximum duration of a call to HBase, in seconds (the gateway's
            `hbase.client.operation.timeout`). It must be the same for every program that writes a table.
        token_key: the key that encrypts continuation tokens; 32 bytes in URL-safe base64. The default is the key of the
            store, see `hb.connect`.
        on_call: called after every call to the store that reads or writes rows, with an `hb.store.Call`: its size,
            duration, number of retries, and error. An exception from the function is logged, and the session continues.
        atomic_rows: if True, the writes of one commit into a shared row are one atomic mutation, and are refused if the
            store does not support it. If False, only the write of each object is atomic.
        cache: metadata that is shared with other sessions; its lease replaces `lease`. By default, sessions of one
            store share their metadata if they have the same registry and the same times.
        sizes: how much is read and written at once; the defaults suit all programs.

    Raises:
        SessionError: no store was given, a time is not a number of seconds, the token key is invalid, or the grace time
            is too short to be safe.
    """

    def __init__(
        self,
        store: Store,
        *,
        registry: str = REGISTRY_TABLE,
        lease: float = LEASE,
        grace: float = GRACE / 1000,
        clock_bound: float = CLOCK_BOUND / 1000,
        longest_call: float = LONGEST_CALL / 1000,
        token_key: bytes | str | None = None,
        on_call: OnCall | None = None,
        atomic_rows: bool = True,
        cache: BindingCache | None = None,
        sizes: SessionSizes = SESSION_SIZES,
    ) -> None:
        if isinstance(store, str):
            raise SessionError("A session takes a store: Session(hb.connect(url)).")
        check_store(store)
        if on_call is not None:
            store = ObservedStore(store, on_call)
        check_seconds(lease=lease, grace=grace, clock_bound=clock_bound, longest_call=longest_call)
        self.store = store
        self._registry = Registry(store, registry)
        token_key = getattr(store, "token_key", None) if token_key is None else token_key
        self._seal: Seal | None = None if token_key is None else FernetSeal(token_key)
        if cache is None:
            cache = BindingCache.of(self, store, lease, registry, grace, clock_bound, longest_call)
        else:
            cache.opened(self)
        self._cache, self._sizes = cache, sizes
        lease = min(cache.lease, trusted_for(store))
        self._names = SessionNames(store, registry=registry, cache=cache.names)
        known = Bindings(store, self._registry, self._cache, self._names, sizes.pages, longest_call)
        self._bind, self._bind_to_write, self._view, self._writing = (
            known.bind,
            known.bind_to_write,
            known.view,
            known.writing,
        )
        self._clock = ServerClock.of_seconds(
            self._registry.server_time,
            known.lease_valid,
            grace=grace,
            bound=clock_bound,
            longest_call=longest_call,
            shared=self._cache.offset,
        )
        batches = BatchRunner(store, self._view, self._bind_to_write, self._clock, self._writing, sizes)
        self._work = UnitOfWork(batches, atomic_rows=atomic_rows)
        self._guard = Guard(self._names)
        self._runner = QueryRunner(
            self._view, self._planning_binding, self._seal, self._guard, lease, self._work, sizes
        )
        self._named = DictionaryQueries(self._runner, self._names)
        self._moves = MigrationRouting(self._planning_binding, self._view)
        self._merging = TwoTableQueries(self._runner, self._moves)

    def __reduce__(self) -> NoReturn:
        raise SessionError("A session cannot be pickled: open one in each process, on a store of its own.")

    # --- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    if not TYPE_CHECKING:  # type checkers report these by themselves

        def __getattr__(self, name: str) -> NoReturn:
            advice = NAMED_ELSEWHERE.get(name)
            raise AttributeError(
                f"A session has no attribute {name!r}" + (f": write {advice}." if advice else "."), name=name, obj=self
            )

        def __aenter__(self) -> NoReturn:
            raise SessionError(
                "A session is not asynchronous: use `with` in a function that you run with asyncio.to_thread()."
            )

        def __aexit__(self, *_: object) -> NoReturn:
            raise AssertionError("never entered")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._guard.closed:
            return
        if kind is None:
            self.commit()  # a PartialWrite leaves the session open, so that the caller can commit again
        else:
            self.discard()
        self.close()

    def __del__(self) -> None:
        if "_runner" in vars(self) and not self._guard.closed:  # otherwise `__init__` failed, or the session has ended
            self._mention_lost()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self._work.waiting} pending"
        return f"Session({self.store!r}, {state})"

    def close(self) -> None:
        """Ends the session. Pending writes are discarded, with a warning in the log. The store stays open. Closing
        twice is allowed.
        """
        if not self._guard.closed:
            with self._guard:
                self._mention_lost()
                self._work.discard()
                self._guard.closed = True
            self._cache.closed(self, self.store)

    def _mention_lost(self) -> None:
        """Logs a warning, because nothing else would show that a commit was forgotten."""
        if waiting := self._work.waiting:
            log.warning(
                "a session ended with %d %s not committed, for %s; discard() drops them without a warning",
                waiting,
                "call that was" if waiting == 1 else "calls that were",
                ", ".join(self._work.tables),
            )

    @property
    def closed(self) -> bool:
        """Whether the session has ended."""
        return self._guard.closed

    def _planning_binding(self, schema: TableSchema) -> Binding:
        """Returns the binding of a model for queries. Queries read their items outside of the session's methods, so
        this method checks that the session is open and that no other thread is using it.
        """
        guard = self._guard
        guard.enter()
        try:
            return self._bind(schema)
        finally:
            guard.leave()

    # --- reading ------------------------------------------------------------------------------------------------------

    @guarded
    def get(self, model: type[T], /, *misplaced: Never, **key: Any) -> T | None:
        """Returns the object with this key, or None.

        Args:
            model: the model class.
            **key: every key field by name; and, unless a key field has this name, `as_of`: the time as of which to
                read, see `Query.as_of`.

        Raises:
            IncompleteKey: key fields are missing; the error names them.
            IncompleteRow: the row lacks a required column.
        """
        schema = schema_of(model)
        if misplaced:
            raise IncompleteKey(
                "Give the key by name: session.get(Model, field=value).",
                table=schema.table,
                missing=[name for name in schema.layout.names if name not in key],
            )
        if "as_of" in key and asks_as_of(schema):
            obj: T | None = get_as_of(self._source(schema), schema, key)
            return obj
        try:
            rows = [] if schema.replaces is not None else KeyMapper.rows_code(schema)(key)
        except UnknownName:  # no row has this name
            return None
        if len(rows) != 1:  # several buckets of a random salt, or two tables
            return self.get_many(model, (key,))[0]
        reader = self._bind(schema).reader
        (row,) = self._view(schema).get(schema.table, rows, reader.columns_of_gets)
        return None if row is None or not reader.exists(row) else reader.make(reader.values(row))

    @guarded
    def get_one(self, model: type[T], /, *misplaced: Never, **key: Any) -> T:
        """Returns the object with this key.

        Args:
            model: the model class.
            **key: as for `get`.

        Raises:
            RowNotFound: there is no such object.
            IncompleteKey: key fields are missing; the error names them.
            IncompleteRow: the row lacks a required column.
        """
        obj = unguarded(Session.get)(self, model, *misplaced, **key)
        if obj is not None:
            return obj
        schema = schema_of(model)
        rows = known_rows(schema, {name: key[name] for name in schema.layout.names})
        raise RowNotFound(
            "There is no object with this key. To get None in this case, call get().",
            table=schema.table,
            key=rows[0] if len(rows) == 1 else None,  # not with a random salt, nor for a name without an id
        )

    @guarded
    def get_many(self, model: type[T], keys: Iterable[Mapping[str, Any] | Sequence[Any]]) -> list[T | None]:
        """Returns the objects with these keys, in the order of the keys, with None for each absent object. They are
        read by one call to the store.

        Args:
            model: the model class.
            keys: the keys; a key is a mapping of key fields, or their values in key order.
        """
        schema = schema_of(model)
        if schema.dictionaries:
            look_up_keys(self._names, schema, keys := list(keys))
        return self._moves.get_many(schema, keys)

    def query(self, model: type[T]) -> Query[T]:
        """Returns a query on a model; refine it with `where` and read it by iterating, `all`, `page`, ..."""
        if isinstance(model, FieldExpression):
            raise DeclarationError(
                "A query is for a model, and select() chooses its fields: query(Model).select(Model.field).",
                field=model.of.name,
            )
        schema = schema_of(model)
        return Query(QueryTerms(schema), self._source(schema) if schema.replaces is None else self._merging)

    def _source(self, schema: TableSchema) -> Source:
        """Runs queries only on the table of a model, even if the model replaces another one."""
        return self._named if schema.dictionaries else self._runner

    def read_partition(self, partition: QueryPartition[T]) -> Query[T]:
        """Returns the query for a partition that `partitions` has returned, in this or another process. Each use of the
        query reads the store again.

        Raises:
            SchemaMismatch: the model's declaration differs from the one in the process that divided the query.
        """
        with self._names.bound():
            terms = self._runner.terms_of(partition)
        return Query(terms, self._source(terms.schema))

    @overload
    def entries(self, map_column: MapExpression[K, V], /, **key: Any) -> MapSlice[K, V]: ...
    @overload
    def entries(self, map_column: Mapping[K, V], /, **key: Any) -> MapSlice[K, V]: ...
    @guarded
    def entries(self, map_column: Any, /, **key: Any) -> MapSlice[Any, Any]:
        """Returns the entries of one object's map column; refine them with `between` and others, and read them by
        iterating, `page`, ...

        Args:
            map_column: the map column, as an attribute of the model class.
            **key: every key field of the object by name.

        Raises:
            IncompleteKey: key fields are missing; the error names them.
        """
        return slice_of(map_column, key, self.store, self._view, self._planning_binding, self._seal, self._sizes.pages)

    @guarded
    def versions(self, model: type[Any], field: FieldExpression[V], /, **key: Any) -> list[CellVersion[V]]:
        """Returns the versions of one column of one object, newest first, each with the time when it was written.

        There are as many versions as the column keeps, see `hb.column(versions=n)`, and none if there is no such
        object. Versions of an earlier, deleted object with the same key are not included.

        Args:
            model: the model class.
            field: the column, as an attribute of the class.
            **key: every key field of the object by name; and `limit` (unless a key field has this name), the maximum
                number of versions.

        Raises:
            IncompleteKey: key fields are missing; the error names them.
            QueryError: the column keeps no versions.
            CapabilityError: the store can read only the newest version.
        """
        schema = schema_of(model)
        limit = None if "limit" in schema.layout.names else key.pop("limit", None)
        return versions_of(self._view(schema), self._bind, schema, field, key, limit)

    # --- writing ------------------------------------------------------------------------------------------------------

    @guarded
    def add(self, obj: Any, *, ttl: timedelta | None = None) -> None:
        """Puts the whole object at the next commit, as a new row or over an existing one.

        Args:
            obj: the object.
            ttl: the lifetime of the row, in whole milliseconds. Older data does not reappear when the row has expired.
                With None the row does not expire.

        Raises:
            EncodingError: a value cannot be stored exactly (the error names the field), or the TTL is invalid.
            KeyTooLong: the row key or an index entry would be too long.
            CapabilityError: a TTL was given, and the model has counters or a random salt.
        """
        self._add(obj, ttl)

    @guarded
    def add_all(self, objs: Iterable[Any], *, ttl: timedelta | None = None) -> None:
        """Calls `add` for each object."""
        if not isinstance(objs, Iterable):
            raise DeclarationError(
                "add_all() takes several objects, in a list or another iterable; add() takes one.",
                found=type(objs).__qualname__,
            )
        for obj in objects_with_names(self._names, objs):
            self._add(obj, ttl)

    def _add(self, obj: Any, ttl: timedelta | None) -> None:
        schema = schema_of_object(obj)
        self._work.add(
            Pending(
                schema, obj, [put_object(schema, obj, None if ttl is None else milliseconds(schema, ttl))], copy=obj
            )
        )

    @guarded
    def update(self, obj: T, /, *, condition: Predicate | None = None, **changes: Any) -> T:
        """Writes only these fields at the next commit and returns a changed copy. Of `obj`, only the key and the
        version are used for the write.

        The copy has the values that a read would return, so times are in UTC, and are rounded if their codec rounds.

        The other fields keep the values that the row has, so a stale object does not undo other programs' writes. If
        the row is absent at the commit, the call fails with `RowNotFound`. If the row has a TTL, all of its cells are
        written again with the values that were read, and its time of expiry does not change.

        Args:
            obj: the object whose key identifies the row. If the model is versioned and the object was read, the row
                must still have the version that was read.
            condition: for versioned models, a condition that the row must satisfy at the write; otherwise the call
                fails with `ConditionFailed`.
            **changes: new values by field name, without key fields and counters. `ttl` (unless a field has this name)
                gives the row a new lifetime, from now on, even without any other change.
        """
        call = update_call(obj, changes, condition)
        self._work.add(call)
        changed: T = call.copy
        return changed

    @guarded
    def update_key(self, model: type[Any], /, *, condition: Predicate | None = None, **fields: Any) -> None:
        """Like `update`, but for a row given by its key: writes some fields at the next commit, whatever version the
        row has.

        Args:
            model: the model class.
            condition: as for `update`.
            **fields: every key field by name, to identify the row, and the new values of other fields, as for `update`.

        Raises:
            IncompleteKey: key fields are missing; the error names them.
        """
        self._work.add(update_key_call(schema_of(model), fields, condition))

    @guarded
    def delete(self, obj: Any, *, condition: Predicate | None = None) -> None:
        """Deletes the object's row and its index entries at the next commit. Only the key and the version of `obj` are
        used.

        An absent row is not an error. If a name of a dictionary in the key has no id, it is looked up again at the
        commit. If it still has none, the outcome is `absent`, with an empty row key.

        Args:
            obj: the object whose key identifies the row. If it has a version that was read, the row must still have
                this version.
            condition: as for `update`.
        """
        if isinstance(obj, Query):
            raise SessionError("delete() takes an object: query.delete() deletes what a query finds.")
        schema = schema_of_object(obj)
        check_condition(schema, condition)
        self._delete(schema, obj, key_of(schema, obj), version_of(schema, obj), condition)

    @guarded
    def delete_key(self, model: type[Any], /, **key: Any) -> None:
        """Like `delete`, but for a row given by its key. Under a random salt, the row is deleted in every bucket."""
        schema = schema_of(model)
        self._delete(schema, dict(key), KeyMapper(schema).complete(key))

    def _delete(
        self,
        schema: TableSchema,
        subject: Any,
        key: tuple[Any, ...],
        version: int = UNKNOWN,
        condition: Predicate | None = None,
    ) -> None:
        self._moves.check_changes(schema, "delete()")
        rows = known_rows(schema, key)
        if rows:
            call = Pending(schema, subject, [DeleteRow(subject, row, version, condition) for row in rows])
        else:  # a name in the key has no id
            call = UnresolvedDelete(schema, subject, (), key=key, version=version, condition=condition)
        self._work.add(call)

    @guarded
    def insert(self, obj: T, *, ttl: timedelta | None = None) -> T:
        """Puts an object if no other object has its key, and returns it. This is atomic and runs immediately.

        A versioned object gets the row's version. If a codec rounds a value, a copy with the stored values is returned,
        and the given object is unchanged.

        Args:
            obj: the object.
            ttl: as for `add`.

        Raises:
            RowExists: another object has the key.
            CapabilityError: the model has no column that is never empty. Or the store has no check-and-mutate, and one
                of these is true: a TTL is given; the model has indexes or a version; it has several columns but no
                existence flag; it has an existence flag, and a family whose TTL is shorter than the grace time.
        """
        return self._insert(obj, milliseconds(schema_of_object(obj), ttl))

    def _insert(self, obj: T, ttl: int | None, call: str = "insert") -> T:
        schema = schema_of_object(obj)
        if self._moves.inserts(schema):
            return insert_between(self._work.apart(inserting=True), self._work.pending_rows, obj)
        with self._writing(schema) as calls:
            return self._inserter(schema, call, calls).insert(obj, ttl)

    @guarded
    def put(self, model: type[Any], /, **fields: Any) -> bool | None:
        """Writes some fields of the row with a key, and creates the row if it does not exist. Runs immediately.

        An existing row keeps its other fields, as with `update_key`. In a new row they have their defaults. Each row is
        changed atomically, even if other programs create, update or delete it at the same time.

        In an external table without `exists=`, any cell makes a row an object. In such a table, the cells are put
        without a read, as by happybase's `table.put`. This does not apply to objects that share rows.

        Args:
            model: the model class.
            **fields: every key field by name, to identify the row; every column that has no default; and other fields.
                `ttl` (unless a field has this name) gives the row a new lifetime.

        Returns:
            Whether the row was created; None if no row was read.

        Raises:
            IncompleteKey: key fields are missing; the error names them.
            SessionError: a column without a default is missing, only the key is given in such an external table, or
                the model is immutable.
            CapabilityError: as for `insert`, even if the row exists; but not raised if the cells are put without a
                read.
            UnknownOutcome: the store became unreachable; the fields may or may not have been written.
        """
        return self._put(schema_of(model), fields)

    @guarded
    def put_all(self, model: type[Any], rows: Iterable[Mapping[str, Any]], /) -> None:
        """Calls `put` for each of many rows; runs immediately.

        In an external table without `exists=`, the rows are put in batches, as happybase does. If several rows have the
        same key, each field gets the last value that is given for it. In other tables, and if objects share rows, each
        object is read and written separately.

        Args:
            model: the model class.
            rows: for each row the fields of `put`, by name.

        Raises:
            PartialWrite: the store failed; `position` is the number of rows, counted from the start, that are certainly
                written. All rows can be put again, unless other programs have written them since.
        """
        schema, listed = schema_of(model), list(rows)
        if schema.dictionaries:
            look_up_rows(self._names, schema, listed)
        put_rows(schema, listed, self._put, self._put_blindly)

    def _put(self, schema: TableSchema, fields: Mapping[str, Any]) -> bool | None:
        def check(obj: Any, ttl: int | None) -> None:
            if not self._moves.inserts(schema):
                self._inserter(schema, "put").check(obj, ttl)

        if PutFields.of(schema).put_blindly(fields):
            self._put_blindly(schema, [fields])
            return None
        return put(
            schema,
            fields,
            self._work.pending_rows,
            lambda: self._work.apart(atomic_rows=False),
            lambda obj, ttl: self._insert(obj, ttl, "put"),
            check,
        )

    def _put_blindly(self, schema: TableSchema, rows: Sequence[Mapping[str, Any]]) -> None:
        writes = checked_puts(schema, rows, self._work.pending_rows)
        with self._writing(schema) as calls:
            put_cells(self._inserter(schema, "put", calls), schema, writes)

    @guarded
    def prepend(self, model: type[T], /, **fields: Any) -> T:
        """Puts an object before the first row of its key prefix and returns it. Runs immediately.

        The last key field must hold integers. The new object gets the value directly before that of the first live row,
        or the greatest value if there is no row with the prefix. The key is claimed as in `insert`, so no two programs
        get the same key. Without deletes, the keys of a prefix are consecutive, except for one gap for each program
        that died while it held a claim. If the first row is deleted, its key is used again.

        Args:
            model: the model class.
            **fields: every field except the last of the key.

        Raises:
            CapabilityError: as for `insert`; or the last key field does not hold integers, or its codec does not keep
                their order.
            IncompleteKey: key fields are missing; the error names them.
            UnknownField: the constructor does not accept a field.
            SessionError: a column without a default is missing.
            EncodingError: no value comes before the value of the first row.
        """
        schema = schema_of(model)
        with self._writing(schema) as calls:
            return prepend(self._inserter(schema, calls=calls), model, fields)

    @guarded
    def rekey(self, obj: T, /, **key: Any) -> T:
        """Moves an object to another key and returns it with that key. Runs immediately. Of `obj`, only the key and the
        version are used.

        Everything that is stored for the object moves: columns, counters, the entries of map columns, and its time of
        expiry. A reader who reads the old key and then the new one always finds the object. During the move, the object
        may be found under both keys. If the program dies during the move, repeating the call completes the move.

        Args:
            obj: the object whose key identifies the row. If the model is versioned and the object was read, the row
                must still have the version that was read.
            **key: new values of key fields by name; the others are unchanged.

        Raises:
            RowNotFound: there is no such object.
            RowExists: another object has the new key.
            ConflictError: the object is being moved to a different key, or has another version.
            CapabilityError: the store has no check-and-mutate, or the model has no column that is never empty; or the
                objects of the model are moving to another table.
        """
        schema = schema_of_object(obj)
        self._moves.check_insert(schema)
        with self._writing(schema) as calls:
            pending = self._work.pending_rows
            return rekey(self._view(schema), self._bind_to_write, self._clock, pending, obj, key, Sending(calls))

    def _inserter(self, schema: TableSchema, call: str = "insert", calls: object = None) -> Inserter:
        self._moves.check_insert(schema)
        pending = self._work.pending_rows
        return Inserter(self._view(schema), self._bind_to_write, self._clock, pending, call, Sending(calls))

    @guarded
    def increment(self, obj: Any, counter: FieldExpression[int], amount: int = 1) -> int:
        """Adds to a counter atomically on the server, immediately, and returns its new value.

        If the model has live indexes or required columns, the row must exist, which is checked first. Otherwise an
        increment may create the row. The increment is never retried automatically: after `UnknownOutcome` it may or may
        not have been applied.

        Raises:
            RowNotFound: there is no such row.
            EncodingError: the amount is not a whole number of 64 bits.
            CounterOverflow: the sum is not a number of 64 bits; the counter is unchanged, unless `unchanged` is False.
        """
        schema = schema_of_object(obj)
        return self._increment(schema, key_of(schema, obj), counter, amount)

    @guarded
    def increment_key(self, model: type[Any], counter: FieldExpression[int], amount: int = 1, /, **key: Any) -> int:
        """Like `increment`, but for a row given by its key.

        Args:
            model: the model class.
            counter: the counter, as an attribute of the model class.
            amount: what is added; a negative number is subtracted.
            **key: every key field by name.

        Raises:
            IncompleteKey: key fields are missing; the error names them. The other errors are those of `increment`.
        """
        schema = schema_of(model)
        return self._increment(schema, KeyMapper(schema).complete(key), counter, amount)

    def _increment(self, schema: TableSchema, key: tuple[Any, ...], counter: FieldExpression[int], amount: int) -> int:
        with self._writing(schema, counts=True) as calls:
            pending, sending = self._work.pending_rows, Sending(calls)
            return increment(self._view(schema), self._bind_to_write, pending, schema, key, counter, amount, sending)

    @guarded
    def bulk_add(
        self,
        objs: Iterable[Any],
        *,
        batch_size: int = DEFAULT_BATCH,
        shuffle: int = 0,
        progress: Progress | None = None,
        ttl: timedelta | None = None,
        on_refused: OnRefused | None = None,
    ) -> int:
        """Writes many objects immediately, in bounded memory, independently of the pending writes. Returns the number
        of objects that were written.

        Args:
            objs: objects of one or several models. If several objects have the same key, the last one wins.
            batch_size: the maximum number of objects per batch. The size of batches in bytes is also limited.
            shuffle: the size of the windows within which the objects are shuffled, so that sorted input does not load
                one region after another; 0 for no shuffling.
            progress: called after each batch with the number of objects, counted from the start, that are written or
                refused.
            ttl: as for `add`.
            on_refused: a function that receives each refused object and its error. An object is refused if it cannot be
                stored, if a computed field raises an error, or if its row cannot be written, for example because
                another row has the same unique value. All other objects are written. Without a function, the first such
                error ends the load. An exception from the function ends the load as well.

        Raises:
            PartialWrite: the store failed; `position` is the number of objects, counted from the start, that are
                certainly written or refused.
            EncodingError: an object cannot be stored. `position` is its place in the input, counted from 0, and
                `written` is the number of objects, counted from the start, that are certainly written.
        """
        load = BulkAdd(self._work.apart(atomic_rows=False), batch_size, shuffle, progress, ttl, on_refused)
        return load.run(objects_with_names(self._names, objs, batch_size))

    @guarded
    def put_entries(self, obj: Any, map_column: MapExpression[K, V] | Mapping[K, V], entries: Mapping[K, V], /) -> None:
        """Puts entries of a map column at the next commit. Only the key and the version of `obj` are used.

        Existing entries with the same keys are overwritten. After the commit, a versioned object has the new version of
        the row. All changes that one commit makes to such an object must be in one call.

        Args:
            obj: the object whose key identifies the row. If the row is absent at the commit, the call fails with
                `RowNotFound`.
            map_column: the map column, as an attribute of the model class.
            entries: keys and values.

        Raises:
            EncodingError: a key or a value cannot be stored; the error names the field.
        """
        self._add_entries(obj, put_changes(obj, map_column, entries))

    @guarded
    def remove_entries(self, obj: Any, map_column: MapExpression[K, V] | Mapping[K, V], keys: Iterable[K], /) -> None:
        """Removes entries of a map column at the next commit. Keys without an entry are ignored. Otherwise this works
        like `put_entries`.
        """
        self._add_entries(obj, remove_changes(obj, map_column, keys))

    def _add_entries(self, obj: Any, changes: dict[str, Any]) -> None:
        call = update_call(obj, changes, None)
        call.copy, call.following = obj, None  # `obj` itself gets the version of its row
        self._work.add(call)

    @guarded
    def commit(self, *, resend: bool = False) -> list[Outcome]:
        """Writes everything that is pending and returns the outcome of each call, in order.

        A commit is atomic for the objects of one row (see `atomic_rows`), but not across rows. After `PartialWrite` the
        session stays open, and another `commit()` continues with the rest.

        Args:
            resend: whether to send calls again that may have been carried out already. If they were, sending them again
                overwrites what other programs have written to the rows since.

        Raises:
            PartialWrite: some calls were carried out. The error contains the applied and the pending calls, and those
                that were refused.
            RowNotFound: every pending call updates a row that does not exist. Any other error that refuses a write is
                raised in the same way, if all calls were refused with errors of its class and it is certain that
                nothing was written. If there are several calls, `failures` contains their outcomes.
            SessionError: several calls for one object of a wide row cannot be combined into one write; nothing is
                written.
            CapabilityError: the store cannot make all changes of one row in one mutation; nothing is written to the
                row.
        """
        return self._work.commit(resend=resend)

    @guarded
    def retry(self, function: Callable[[Self], T], *, attempts: int = RETRIES) -> T:
        """Runs a function and commits its pending writes. If this raises `ConflictError`, both are repeated.

        Pending writes are discarded in three cases: before another attempt, when the function fails, and when the
        commit fails without having written anything. Between attempts there are random waits, which tend to grow. The
        function must read the objects that it changes, through the session that it is given.

        Args:
            function: called with the session; its result is returned.
            attempts: the maximum number of runs.

        Raises:
            ConflictError: the error of the last attempt.
            PartialWrite: some objects were written, and others are in conflict or pending. The pending calls can be
                completed by `commit()`. They also stay pending after `UnknownOutcome`.
            SessionError: calls are pending already.
        """
        waits = waits_between(attempts)
        if self._work.waiting:
            raise SessionError("Commit or discard pending calls before retry(): a conflict would discard them.")
        return again_upon_conflict(self, function, waits)

    @guarded
    def group(self, model: type[Any], /, **key: Any) -> RowGroup:
        """Returns a local transaction over the objects of one row. They are read first, and then changed only if no
        other program has changed the row since the read.

        The transaction is independent of the pending writes of the session. See `RowGroup`.

        Args:
            model: a versioned model whose objects share rows; objects of other kinds in the same row can be read and
                changed as well.
            **key: the fields of its row key.

        Raises:
            SessionError: the model's objects do not share rows, or it has no version.
            IncompleteKey: key fields are missing; the error names them.
            CapabilityError: the store has no check-and-mutate.
        """
        return RowGroup(
            self, self.store, lambda version: self._work.apart(atomic_rows=True, pinned=version), model, key
        )

    @guarded
    def discard(self) -> None:
        """Drops all pending writes."""
        self._work.discard()
