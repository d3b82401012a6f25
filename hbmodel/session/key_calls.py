"""Methods of a session that write rows by key, without an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hbmodel.mapping.mapper import KeyMapper
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.session.thread_guard import Guard, guarded
from hbmodel.session.unit_of_work import UnitOfWork
from hbmodel.session.update import update_key_call


class KeyCalls:
    """The methods of a session that take a key."""

    _guard: Guard
    _work: UnitOfWork
    _delete: Callable[[TableSchema, Any, tuple[Any, ...]], None]

    @guarded
    def update_key(self, model: type[Any], /, *, condition: Predicate | None = None, **fields: Any) -> None:
        """`update` by key: writes some fields of the row under a key at the next commit, whatever its version.

        Args:
            model: the model class.
            condition: as for `update`.
            **fields: every key field by name, to identify the row, and the new values of other fields, as for `update`.

        Raises:
            IncompleteKey: names the missing key fields.
        """
        self._work.add(update_key_call(schema_of(model), fields, condition))

    @guarded
    def delete_key(self, model: type[Any], /, **key: Any) -> None:
        """`delete` by key; under a random salt, in every bucket."""
        schema = schema_of(model)
        self._delete(schema, dict(key), KeyMapper(schema).complete(key))
