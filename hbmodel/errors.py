"""The error tree: everything that hbmodel raises on purpose is an `HbmodelError`.

Messages are static sentences; what varies (table, key, field, ...) is in attributes and is appended when the error is shown.
Row values never appear in an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class HbmodelError(Exception):
    """Base of every error of this library.

    Args:
        message: a static sentence that says what is wrong and, where possible, what to do.
        **details: what the sentence is about, by name (`table`, `key`, `field`, `index`, `found`, ...). `None` is left out.

    Attributes:
        message: the static sentence.
        details: the named details; each also reads as an attribute of the error.
    """

    def __init__(self, message: str, /, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] = {name: value for name, value in details.items() if value is not None}

    def __getattr__(self, name: str) -> Any:
        # Only reached when normal lookup fails. An error without this detail answers None, never AttributeError,
        # but private and special names must fail normally so that copying and pickling work.
        if name.startswith("_") or "details" not in self.__dict__:
            raise AttributeError(name)
        return self.details.get(name)

    def __str__(self) -> str:
        if not self.details:
            return self.message
        shown = dict(self._shown())
        lines = [line for name in _IN_LINES if (value := shown.pop(name, None)) for line in _lines(value)]
        details = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return "\n".join([f"{self.message} [{details}]" if details else self.message, *lines])

    def _shown(self) -> Mapping[str, Any]:
        """The details as text shows them."""
        return self.details

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.message, dict(self.details))


_IN_LINES = ("differences", "renames", "shell")
"""Details for people to read, or to copy into a shell, so that each has lines of its own."""


def _lines(value: Any) -> list[str]:
    return value.splitlines() if isinstance(value, str) else [str(line) for line in value]


def _restore(kind: type[HbmodelError], message: str, details: dict[str, Any]) -> HbmodelError:
    return kind(message, **details)


# --- declaring and encoding -------------------------------------------------------------------------------------------


class DeclarationError(HbmodelError, TypeError):
    """A model, field, salt or index is declared in a way that cannot work."""


class EncodingError(HbmodelError, ValueError):
    """A value cannot be stored exactly: wrong type, out of range, or it would lose precision."""


class UnknownName(EncodingError):
    """A dictionary has no id for a name, so that no row has it."""


class IdsExhausted(HbmodelError):
    """A sequence or a dictionary has given the last id that its counter or its codec allows."""


class ComputedFieldError(HbmodelError, ValueError):
    """The function of a computed field raised for the values of a row; the error says where, and holds none of them."""


class DecodingError(HbmodelError, ValueError):
    """Bytes read from a table are not what the declared codec writes."""


class RowKeyError(HbmodelError):
    """A row key cannot be built or is not one of this model (see the subclasses)."""


class IncompleteKey(RowKeyError, TypeError):
    """Not every key field was given; `missing` names them."""


class KeyTooLong(RowKeyError, ValueError):
    """A row key or index entry is empty or longer than HBase's 32,767 bytes."""


class IncompleteRow(HbmodelError):
    """A stored row lacks a required column that has no default."""


# --- queries ----------------------------------------------------------------------------------------------------------


class QueryError(HbmodelError):
    """A query cannot be built or planned as written."""


class UnknownField(QueryError, AttributeError):
    """The model has no field of that name."""


class UnknownIndex(QueryError):
    """The model has no index of that name."""


class FullScanRefused(QueryError):
    """The plan would read a whole table and the query does not say `.allow_full_scan()`."""


class OrderNotAvailable(QueryError):
    """No path of the model gives the order that `order_by` or `reversed` asks for."""


class TokenError(QueryError, ValueError):
    """A continuation token is damaged, of another version, or belongs to another query."""


# --- sessions ---------------------------------------------------------------------------------------------------------


class SessionError(HbmodelError):
    """A session was used in a way that it does not allow."""


class SessionClosed(SessionError):
    """The session was closed; open another one."""


class SessionThreadError(SessionError):
    """A session was used by two threads at once; stores are thread-safe, sessions are not."""


class RowExists(HbmodelError):
    """`insert` found a live row under the key."""


class RowNotFound(HbmodelError, LookupError):
    """`update`, `increment` or a write of map entries found no live row under the key."""


class ConflictError(HbmodelError):
    """The row of a versioned model is not of the version that the object was read with: somebody has written it since.

    Attributes:
        expected: the object's version.
        found: the row's, 0 where there is no row.
        failures: the outcomes, where several objects were committed, all of them in conflict, and none was written.
    """

    def _shown(self) -> Mapping[str, Any]:
        return {name: len(value) if name == "failures" else value for name, value in self.details.items()}


class ConditionFailed(HbmodelError):
    """The row does not satisfy the condition that an update or delete was given with `if_`."""


class UniqueViolation(HbmodelError):
    """Another row holds a value of a unique index already.

    Attributes:
        index: its name.
        fields: names of its fields.
        value: that the object was to have there, a tuple of several fields; not shown as text.
        owner: row key of the other row.
    """

    def _shown(self) -> Mapping[str, Any]:
        return {name: value for name, value in self.details.items() if name != "value"}


class PartialWrite(HbmodelError):
    """A commit stopped part of the way.

    Attributes:
        applied: the outcomes of the objects that are written and acknowledged.
        pending: the objects (or keys) that are not, in order; the session still holds them and `commit()` finishes them.
        failures: the outcomes of objects that can never be written as asked (`RowNotFound`); they are not pending.
        key: the row key of the first object that failed, or else that is pending.
        reason: why it failed, or why the commit stopped.
    """

    def _shown(self) -> Mapping[str, Any]:
        """How many there are of each kind: objects hold row values, and there may be thousands."""
        counted = {"applied", "pending", "failures"}
        return {name: len(value) if name in counted else value for name, value in self.details.items()}


class ClockError(HbmodelError):
    """This machine's clock and the server's differ by more than the allowed bound, so timestamps would be unsafe."""


class SchemaMismatch(HbmodelError):
    """The live layout of a table is not the one that the model declares; `differences` names each difference."""


class IndexUnavailable(HbmodelError):
    """An index that a query or a write needs is absent, not built yet, or not known to the model."""


class CapabilityError(HbmodelError):
    """The store cannot do this; the message says which store or setting can."""


# --- stores -----------------------------------------------------------------------------------------------------------


class StoreError(HbmodelError):
    """A store could not do what it was asked; the subclasses say why."""


class StoreURLError(StoreError, ValueError):
    """A store URL cannot be understood."""


class StoreClosed(StoreError):
    """The store was closed."""


class StoreUnavailable(StoreError, ConnectionError):
    """The store cannot be reached, and the operation was certainly not carried out."""


class CertificateRefused(StoreUnavailable):
    """The gateway's TLS certificate does not verify, or the gateway does not accept the client's; trying again does not help."""


class UnknownOutcome(StoreError, ConnectionError):
    """The connection was lost or timed out after a write was sent: it may or may not have been applied, wholly or in part."""


class InvalidRequest(StoreError, ValueError):
    """The request can never succeed: an empty row key, a row key over 32,767 bytes, a cell that is too large, ..."""


class TableNotFound(StoreError, LookupError):
    """The store has no table of that name."""


class TableExists(StoreError):
    """The store already has a table of that name."""


class FamilyNotFound(StoreError, LookupError):
    """The table has no column family of that name."""


class FamilyExists(StoreError):
    """The table already has a column family of that name."""


class NamespaceNotFound(StoreError, LookupError):
    """The store has no namespace of that name."""


class NamespaceExists(StoreError):
    """The store already has a namespace of that name."""


class LocalHBaseError(HbmodelError):
    """A local HBase could not be started, stopped or found; the message says what to do."""
