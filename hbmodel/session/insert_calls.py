"""What a session puts only under keys that are free, at once: new objects, before the first of a prefix, and objects that move."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.protocol.clock import ServerClock
from hbmodel.protocol.expiry import milliseconds
from hbmodel.session.insert import Inserter, insert_between
from hbmodel.session.moves import Moves
from hbmodel.session.prepend import prepend
from hbmodel.session.rekey import rekey
from hbmodel.session.thread_guard import Guard, guarded
from hbmodel.session.unit_of_work import UnitOfWork
from hbmodel.store.port import Store
from hbmodel.tables.registration import Binding

T = TypeVar("T")


class InsertCalls:
    """The calls of a session that insert, or move."""

    _view: Callable[[TableSchema], Store]
    _bind: Callable[[TableSchema], Binding]
    _clock: ServerClock
    _guard: Guard
    _moves: Moves
    _work: UnitOfWork

    @guarded
    def insert(self, obj: T, *, ttl: timedelta | None = None) -> T:
        """Puts an object if its key is free and returns it; atomic, runs at once.

        A versioned object has the row's version then; of one that is frozen a copy is returned.

        Args:
            obj: the object.
            ttl: as for `add`.

        Raises:
            RowExists: it is not.
            CapabilityError: the model has no column that is never empty; or the store has no check-and-mutate, and the model has indexes,
                a version, or several columns and no existence flag, or a TTL is given.
        """
        schema = schema_of(type(obj))
        life = milliseconds(schema, ttl)
        if self._moves.inserts(schema):
            return insert_between(self._work.apart(inserting=True), obj)
        return self._inserter(schema).insert(obj, life)

    @guarded
    def prepend(self, model: type[T], /, **fields: Any) -> T:
        """Puts an object before the first row of its key prefix and returns it; runs at once.

        The last key field, of whole numbers, gets the value before that of the first live row, or the last of all where the prefix is
        empty, and the key is claimed as by `insert`. No two programs get one key. Without deletes the keys of a prefix follow each
        other, but for one gap for each program that died while it held a claim. The key of a first row that was deleted is used again.

        Args:
            model: its class.
            **fields: every field but the last of the key.

        Raises:
            CapabilityError: as `insert`; or the last key field has no whole number before another.
            IncompleteKey: names the missing fields.
            EncodingError: there is no value before the first row's.
        """
        return prepend(self._inserter(schema_of(model)), model, fields)

    @guarded
    def rekey(self, obj: T, /, **key: Any) -> T:
        """Moves an object to another key and returns it as it is there; runs at once, and takes only key and version from `obj`.

        All that is stored of it moves: columns, counters, the entries of map columns, and when it expires. Whoever looks under the
        old key and then under the new one finds it; for a while it is under both. If the program dies meanwhile, the same call ends
        the move.

        Args:
            obj: whose key says which row. An object of a versioned model that was read demands the version that it was read with.
            **key: new values of key fields by name; the others stay.

        Raises:
            RowNotFound: there is no such object.
            RowExists: there is another one under the new key.
            ConflictError: the object is on its way to another key, or of another version.
            CapabilityError: the store has no check-and-mutate, or the model has no column that is never empty; or the objects of
                the model move to another table.
        """
        schema = schema_of(type(obj))
        self._moves.check_insert(schema)
        return rekey(self._view(schema), self._bind, self._clock, obj, key)

    def _inserter(self, schema: TableSchema) -> Inserter:
        self._moves.check_insert(schema)
        return Inserter(self._view(schema), self._bind, self._clock, self._work.apart)
