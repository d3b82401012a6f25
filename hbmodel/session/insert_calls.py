"""Methods of a session that put objects only under free keys, immediately: `insert`, `prepend` and `rekey`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
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
    """The methods of a session that insert or move objects."""

    _view: Callable[[TableSchema], Store]
    _bind: Callable[[TableSchema], Binding]
    _clock: ServerClock
    _bind_to_write: Callable[[TableSchema], Binding]
    _writing: Callable[..., AbstractContextManager[object]]
    _guard: Guard
    _moves: Moves
    _work: UnitOfWork

    @guarded
    def insert(self, obj: T, *, ttl: timedelta | None = None) -> T:
        """Puts an object if its key is free and returns it; atomic, runs immediately.

        A versioned object then has the row's version; for a frozen class a copy with this version is returned. If a codec rounds a
        value, a copy with the stored values is returned, and the object keeps its own.

        Args:
            obj: the object.
            ttl: as for `add`.

        Raises:
            RowExists: the key is not free.
            CapabilityError: the model has no column that is never empty; or the store has no check-and-mutate, and the model has
                indexes, a version, or several columns and no existence flag, or a TTL is given.
        """
        schema = schema_of(type(obj))
        life = milliseconds(schema, ttl)
        if self._moves.inserts(schema):
            return insert_between(self._work.apart(inserting=True), obj)
        with self._writing(schema):
            return self._inserter(schema).insert(obj, life)

    @guarded
    def prepend(self, model: type[T], /, **fields: Any) -> T:
        """Puts an object before the first row of its key prefix and returns it; runs immediately.

        The last key field must hold whole numbers. It gets the value before that of the first live row, or the greatest value if
        the prefix is empty, and the key is claimed as in `insert`. No two programs get the same key. Without deletes the keys of a
        prefix are consecutive, except for one gap for each program that died while it held a claim. The key of a deleted first row
        is reused.

        Args:
            model: the model class.
            **fields: every field except the last of the key.

        Raises:
            CapabilityError: as for `insert`; or the last key field has no whole number before another.
            IncompleteKey: names the missing fields.
            EncodingError: there is no value before the first row's.
        """
        schema = schema_of(model)
        with self._writing(schema):
            return prepend(self._inserter(schema), model, fields)

    @guarded
    def rekey(self, obj: T, /, **key: Any) -> T:
        """Moves an object to another key and returns it with that key; runs immediately, and uses only the key and version of `obj`.

        Everything stored for the object moves: columns, counters, the entries of map columns, and its time of expiry. A reader who
        looks under the old key and then under the new one always finds it; for a while it is under both. If the program dies during
        the move, the same call completes it.

        Args:
            obj: the object whose key identifies the row. If it is of a versioned model and was read, the row must still have the
                version that was read.
            **key: new values of key fields by name; the others are unchanged.

        Raises:
            RowNotFound: there is no such object.
            RowExists: there is another object under the new key.
            ConflictError: the object is being moved to a different key, or has another version.
            CapabilityError: the store has no check-and-mutate, or the model has no column that is never empty; or the objects of
                the model are moving to another table.
        """
        schema = schema_of(type(obj))
        self._moves.check_insert(schema)
        with self._writing(schema):
            return rekey(self._view(schema), self._bind_to_write, self._clock, obj, key)

    def _inserter(self, schema: TableSchema) -> Inserter:
        self._moves.check_insert(schema)
        return Inserter(self._view(schema), self._bind_to_write, self._clock)
