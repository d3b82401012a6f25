"""The session: reads objects, gathers writes and carries them out together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from hbmodel.errors import SessionError, UnknownName
from hbmodel.mapping.expressions import FieldExpression
from hbmodel.mapping.mapper import KeyMapper, key_of, version_of
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.mapping.version_cell import UNKNOWN
from hbmodel.protocol.clock import CLOCK_BOUND, GRACE, LONGEST_CALL, ServerClock
from hbmodel.protocol.expiry import milliseconds
from hbmodel.protocol.writes import DeleteRow, Outcome, put_object
from hbmodel.query.paging import FernetSeal, Seal
from hbmodel.query.part import QueryPart
from hbmodel.query.query import Query
from hbmodel.session.batches import Pending
from hbmodel.session.bulk_load import DEFAULT_BATCH, Loader, Progress
from hbmodel.session.cell_versions import CellVersionCalls, asks_as_of
from hbmodel.session.columns import MapColumnCalls
from hbmodel.session.conflicts import RETRIES, again_upon_conflict, check_condition, waits_between
from hbmodel.session.get_many import known_rows
from hbmodel.session.increment import increment
from hbmodel.session.insert_calls import InsertCalls
from hbmodel.session.key_calls import KeyCalls
from hbmodel.session.known_models import KnownModels
from hbmodel.session.merging import MergingQueries
from hbmodel.session.metadata_cache import MetadataCache
from hbmodel.session.moves import Moves
from hbmodel.session.named_queries import NamedQueryRunner
from hbmodel.session.options import check_seconds
from hbmodel.session.row_group import RowGroup
from hbmodel.session.thread_guard import Guard, guarded
from hbmodel.session.unit_of_work import UnitOfWork
from hbmodel.session.update import update_call
from hbmodel.store.observed import ObservedStore, OnCall
from hbmodel.store.port import Store, check_store
from hbmodel.tables.names import Names
from hbmodel.tables.registration import LEASE, Binding
from hbmodel.tables.registry import REGISTRY_TABLE, Registry

T = TypeVar("T")

log = logging.getLogger("hbmodel")


class Session(InsertCalls, KeyCalls, MapColumnCalls, CellVersionCalls):
    """Reads and writes objects of a store.

    Writes are pending until `commit()`; reads never see what is pending. As a context manager it commits on a clean exit and
    discards on an exception. Not thread-safe: open one per thread, on one store.

    Args:
        store: a store, from `hb.connect` for example.
        registry: name of the registry table.
        lease: seconds for which what was read from the registry is trusted.
        grace: how old an index entry must be before a repairer may take it for an orphan, in seconds; the same for every
            program that writes a table.
        clock_bound: how far this machine's clock may be off the server's, in seconds.
        longest_call: how long a call to HBase may live, in seconds (the gateway's `hbase.client.operation.timeout`); the same for
            every program that writes a table.
        token_key: seals continuation tokens; 32 bytes in URL-safe base64. By default the store's, see `hb.connect`.
        on_call: told of every call to the store that reads or writes rows, with an `hb.Call`: how much, how long, how many
            retries, and how it failed. What it raises is logged, and the session goes on.
        atomic_rows: whether what one commit writes into a row that objects share is written at once, or refused where the store cannot;
            else only each object is.
        knowledge: what other sessions have learnt, see `Sessions`; its lease is the one that counts.

    Raises:
        SessionError: no store was given, a time is no number of seconds, or the grace time is too short to be safe.
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
        knowledge: MetadataCache | None = None,
    ) -> None:
        if isinstance(store, str):
            raise SessionError("A session takes a store: Session(hb.connect(url)).")
        check_store(store)
        if on_call is not None:
            store = ObservedStore(store, on_call)
        check_seconds(lease=lease, grace=grace, clock_bound=clock_bound, longest_call=longest_call)
        self.store = store
        self._registry = Registry(store, registry)
        self._knowledge = MetadataCache(lease) if knowledge is None else knowledge
        known = KnownModels(store, self._registry, self._knowledge)
        self._bind, self._view = known.bind, known.view
        sealing = token_key if token_key is not None else getattr(store, "token_key", None)
        self._seal: Seal | None = None if sealing is None else FernetSeal(sealing)
        self._clock = ServerClock(
            self._registry.server_time,
            known.lease_valid,
            grace=round(grace * 1000),
            bound=round(clock_bound * 1000),
            longest_call=round(longest_call * 1000),
            shared=self._knowledge.offset,
        )
        self._work = UnitOfWork(store, self._view, self._bind, self._clock, atomic_rows=atomic_rows)
        names = Names(store, registry=registry, cache=self._knowledge.names)
        self._guard = Guard(names)
        self._runner = NamedQueryRunner(
            self._view, self._planning_binding, self._seal, self._guard, self._knowledge.lease, names, self._work
        )
        self._moves = Moves(self._planning_binding, self._view)
        self._merging = MergingQueries(self._runner, self._moves)

    def __reduce__(self) -> NoReturn:
        raise SessionError("A session cannot be pickled: open one in each process, on a store of its own.")

    # --- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._guard.closed:
            return
        if kind is None:
            self.commit()  # a PartialWrite leaves the session open, so that the caller can commit again
        else:
            self.discard()
        self.close()

    def __del__(self) -> None:
        if "_runner" in vars(self) and not self._guard.closed:  # else it was never made, or has ended
            self._mention_lost()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self._work.waiting} pending"
        return f"Session({self.store!r}, {state})"

    def close(self) -> None:
        """Discards what is pending, with a warning in the log, and ends the session; the store stays open. Closing twice is allowed."""
        if not self._guard.closed:
            with self._guard:
                self._mention_lost()
                self._work.discard()
                self._guard.closed = True

    def _mention_lost(self) -> None:
        """A forgotten commit shows nowhere else."""
        if self._work.waiting:
            log.warning(
                "a session ended with %d calls that were not committed, for %s; discard() drops them without a warning",
                self._work.waiting, ", ".join(self._work.tables),
            )  # fmt: skip

    @property
    def closed(self) -> bool:
        """Whether the session has ended."""
        return self._guard.closed

    def _planning_binding(self, schema: TableSchema) -> Binding:
        with self._guard:
            return self._bind(schema)

    # --- reading ------------------------------------------------------------------------------------------------------

    @guarded
    def get(self, model: type[T], /, **key: Any) -> T | None:
        """The object under a key, or None.

        Args:
            model: its class.
            **key: every key field by name; and `as_of` (unless a key field is called so), a time: see `Query.as_of`.

        Raises:
            IncompleteKey: names the missing fields.
            IncompleteRow: the row lacks a required column.
        """
        schema = schema_of(model)
        if "as_of" in key and asks_as_of(schema):
            found: T | None = self._get_as_of(schema, key)
            return found
        try:
            rows = KeyMapper.rows_code(schema)(key)
        except UnknownName:  # no row has it
            return None
        if len(rows) != 1 or schema.replaces is not None:  # buckets of a random salt, or two tables
            return self.get_many(model, (key,))[0]
        reader = self._bind(schema).reader
        (row,) = self._view(schema).get(schema.table, rows, reader.columns_of_gets)
        return None if row is None or not reader.exists(row) else reader.make(reader.values(row))

    @guarded
    def get_many(self, model: type[T], keys: Iterable[Mapping[str, Any] | Sequence[Any]]) -> list[T | None]:
        """The objects under many keys, in their order, None for each that is absent; one call to the store.

        Args:
            model: their class.
            keys: each a mapping of key fields, or their values in key order.
        """
        return self._moves.get_many(schema_of(model), keys)

    def query(self, model: type[T]) -> Query[T]:
        """A query over a model; refine it with `where` and read it by iterating, `all`, `page`, ..."""
        schema = schema_of(model)
        return Query(schema, self._runner if schema.replaces is None else self._merging)

    def read(self, part: QueryPart[T]) -> Query[T]:
        """The query of a part that `split` gave, here or in another process; every use of it reads anew.

        Raises:
            SchemaMismatch: the model is declared otherwise here than where the query was split.
        """
        return self._runner.of_part(part)

    # --- writing ------------------------------------------------------------------------------------------------------

    @guarded
    def add(self, obj: Any, *, ttl: timedelta | None = None) -> None:
        """Puts the whole object, new or over what is there, at the next commit.

        Args:
            obj: the object.
            ttl: how long the row lives, in whole milliseconds; nothing older returns after it. None: until it is deleted.

        Raises:
            EncodingError: a value cannot be stored exactly (names the field), or the TTL.
            KeyTooLong: the row key or an index entry would be too long.
            CapabilityError: a TTL, and the model has counters or a random salt.
        """
        self._add(obj, ttl)

    @guarded
    def add_all(self, objs: Iterable[Any], *, ttl: timedelta | None = None) -> None:
        """`add` for each of them."""
        for obj in objs:
            self._add(obj, ttl)

    def _add(self, obj: Any, ttl: timedelta | None) -> None:
        schema = schema_of(type(obj))
        self._work.add(Pending(schema, obj, [put_object(schema, obj, None if ttl is None else milliseconds(schema, ttl))], copy=obj))

    @guarded
    def update(self, obj: T, /, *, if_: Predicate | None = None, **changes: Any) -> T:
        """Writes just these fields at the next commit and returns a changed copy; takes only the key and the version from `obj`.

        The other fields are read from the row, so a stale object undoes nothing that others wrote. If the row is absent when
        the commit runs, that is `RowNotFound`. A row that expires is written whole, with the values read, and ends when it
        would have ended.

        Args:
            obj: whose key says which row. An object of a versioned model that was read demands the version that it was read with.
            if_: on versioned models, what the row must satisfy when it is written, else `ConditionFailed`.
            **changes: new values by field name; no key fields, no counters. `ttl` (unless a field is called so) gives the row a
                new life, counted from now, also without any other change.
        """
        call = update_call(obj, changes, if_)
        self._work.add(call)
        changed: T = call.copy
        return changed

    @guarded
    def delete(self, obj: Any, *, if_: Predicate | None = None) -> None:
        """Deletes the object's row and its index entries at the next commit; takes only the key and the version from `obj`.

        An absent row is no error.

        Args:
            obj: whose key says which row; with a version that was read, the row must still have it.
            if_: as for `update`.
        """
        schema = schema_of(type(obj))
        check_condition(schema, if_)
        self._delete(schema, obj, key_of(schema, obj), version_of(schema, obj), if_)

    def _delete(
        self, schema: TableSchema, subject: Any, key: tuple[Any, ...], version: int = UNKNOWN, condition: Predicate | None = None
    ) -> None:
        self._moves.check_changes(schema, "delete()")
        rows = known_rows(schema, key)
        if rows:  # else no row has a name that is in the key
            self._work.add(Pending(schema, subject, [DeleteRow(subject, row, version, condition) for row in rows]))

    @guarded
    def increment(self, obj: Any, counter: FieldExpression[int], amount: int = 1) -> int:
        """Adds to a counter atomically on the server, at once, and returns its new value.

        A row that must exist for the model to read it (one with live indexes, or with required columns) is looked for first;
        without those an increment may begin a row. Never repeated by itself: after `UnknownOutcome` it may or may not have
        been counted.

        Raises:
            RowNotFound: there is no such row.
            EncodingError: the amount is not a whole number of 64 bits.
        """
        return increment(self._view(schema_of(type(obj))), self._bind, obj, counter, amount)

    @guarded
    def load(
        self,
        objs: Iterable[Any],
        *,
        batch_size: int = DEFAULT_BATCH,
        shuffle: int = 0,
        progress: Progress | None = None,
        ttl: timedelta | None = None,
    ) -> int:
        """Writes many objects at once, in bounded memory, apart from what is pending, and returns how many it read.

        The last of a repeated key wins. Repeating a load that failed is safe.

        Args:
            objs: objects, of one or several models.
            batch_size: objects per batch, at most; batches are bounded in bytes too.
            shuffle: mixes the objects within windows of so many, so that sorted input does not run down one region.
            progress: called with the number of objects written so far, after each batch.
            ttl: as for `add`.

        Raises:
            PartialWrite: the store failed; `position` is how many leading objects are certainly written.
            EncodingError: an object cannot be stored; `position` is its place in the input, counted from 0, and `written` how
                many leading objects are certainly written.
        """
        return Loader(self._work.apart(atomic_rows=False), batch_size, shuffle, progress, ttl).load(objs)

    @guarded
    def commit(self) -> list[Outcome]:
        """Carries out what is pending and returns the outcome of each call, in order.

        Batched per table and phase. Atomic over the objects of one row, see `atomic_rows`, and not over rows: after `PartialWrite`
        the session stays open and `commit()` goes on with the rest.

        Raises:
            PartialWrite: says what is applied and what is pending.
            RowNotFound: the only pending call updates a row that is not there.
            SessionError: calls for one object of a wide row cannot be made one write; nothing is written.
            CapabilityError: the store cannot write at once what is to be written into one row; nothing is written there.
        """
        return self._work.commit()

    @guarded
    def retry(self, function: Callable[[Self], T], *, attempts: int = RETRIES) -> T:
        """Runs a function, commits what it leaves pending, and does so again, from the start, as long as that ends in `ConflictError`.

        Between attempts what is pending is discarded, and a random, growing time passes. The function reads what it changes
        itself, through the session that it is given.

        Args:
            function: takes the session; what it returns is returned.
            attempts: how often it is run, at most.

        Raises:
            ConflictError: that of the last attempt.
            PartialWrite: some objects are written and others in conflict, so that running it again would not be the same.
            SessionError: calls are pending already.
        """
        waits = waits_between(attempts)
        if self._work.waiting:
            raise SessionError("Commit or discard what is pending before retry(): it would be discarded upon a conflict.")
        return again_upon_conflict(self, function, waits)

    @guarded
    def group(self, model: type[Any], /, **key: Any) -> RowGroup:
        """A local transaction over the objects of one row: read, then changed only if nobody has changed the row meanwhile.

        Apart from what is pending in the session. See `RowGroup`.

        Args:
            model: a versioned model whose objects share rows; those of other kinds in the same row can be read and changed as well.
            **key: the fields of its row key.

        Raises:
            SessionError: the model's objects do not share rows, or it has no version.
            IncompleteKey: names the missing fields.
            CapabilityError: the store has no check-and-mutate.
        """
        return RowGroup(self, self.store, lambda version: self._work.apart(atomic_rows=True, pinned=version), model, key)

    @guarded
    def discard(self) -> None:
        """Drops what is pending."""
        self._work.discard()
