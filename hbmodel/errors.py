"""The errors of hbmodel: everything that it raises on purpose is an `HbmodelError`.

    HbmodelError
    ├── DeclarationError (TypeError)
    ├── EncodingError (ValueError)
    │   ├── CounterOverflow
    │   └── UnknownName
    ├── IdsExhausted
    ├── ComputedFieldError (ValueError)
    ├── DecodingError (ValueError)
    ├── RowKeyError
    │   ├── IncompleteKey (TypeError)
    │   └── KeyTooLong (ValueError)
    ├── IncompleteRow
    ├── QueryError
    │   ├── UnknownField (AttributeError)
    │   ├── UnknownIndex
    │   ├── FullScanRefused
    │   ├── OrderNotAvailable
    │   ├── NoResultFound (LookupError)
    │   ├── MultipleResultsFound
    │   └── TokenError (ValueError)
    ├── FrozenObject (AttributeError)
    ├── SessionError
    │   ├── SessionClosed
    │   └── SessionThreadError
    ├── RowExists
    ├── RowNotFound (LookupError)
    ├── ConflictError
    ├── ConditionFailed
    ├── UniqueViolation
    ├── PartialWrite
    ├── ClockError
    ├── SchemaMismatch
    │   └── RowMoved
    ├── MigrationError
    ├── IndexUnavailable
    ├── CapabilityError
    ├── StoreError
    │   ├── StoreURLError (ValueError)
    │   ├── StoreClosed
    │   ├── StoreUnavailable (ConnectionError)
    │   │   └── CertificateRefused
    │   ├── UnknownOutcome (ConnectionError)
    │   ├── InvalidRequest (ValueError)
    │   ├── TableNotFound (LookupError)
    │   ├── TableExists
    │   ├── FamilyNotFound (LookupError)
    │   ├── FamilyExists
    │   ├── NamespaceNotFound (LookupError)
    │   └── NamespaceExists
    └── LocalHBaseError

The name in brackets is the built-in exception that a class also derives from. Every class has a `code`, which stays the
same if the class is renamed or its message is improved. Programs compare the code, and people search for it in logs and
on the page of errors. Messages are fixed sentences. The details (table, key, field, ...) are attributes, and are
appended when the error is printed. Row values never appear in an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

DETAILS = frozenset(
    """
    algorithm amount annotation answered applied argument attempts attribute batch_size bound buckets by cause cells
    codec column columns content_type deleted delimiter dictionary differences directory expected failures families
    family family_ms field fields file finished form format found gateway gateways grace hbase_home high highest id
    index jar java key kind known last_error leading length limit line lock log low lowest member missing model most
    namespace namespaces newest now nullable of offset operator option other owner partition path pending phase pid
    pids pool port position prefix primary process program protocol ranges reason refused regions registry renames
    replaces request row rows salt samples scans scheme server setting shell shuffle size table tables timed_out
    timeout timestamp to took transport tried ttl type unchanged unit unknown value variable version width
    """.split()  # noqa: SIM905
)
"""The names of all details."""


class HbmodelError(Exception):
    """Base class of all errors of this library.

    Args:
        message: a fixed sentence that says what is wrong and, where possible, what to do.
        **details: the details of this error, by name (`table`, `key`, `field`, `index`, `found`, ...). Details that are
            None are left out.

    Attributes:
        code: the short name of the class, such as `row-not-found`, to log, compare and search for. Unlike the message,
            it does not change from version to version.
        message: the fixed sentence. A later version may change it.
        details: the named details; each is also an attribute of the error. A detail that this error does not have, but
            other errors have, is None. Any other name raises `AttributeError`, so that a misspelled name is noticed.
        failures: the outcomes of all calls, if all calls of a commit were refused with errors of this class, and
            certainly none of them was carried out. The other details are then taken from the first error.
    """

    code: ClassVar[str] = "hbmodel-error"

    def __init__(self, message: str, /, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] = {name: value for name, value in details.items() if value is not None}

    def __getattr__(self, name: str) -> Any:
        # Only reached when normal lookup fails. `details` may be missing while an error is copied or unpickled.
        details = self.__dict__.get("details", {})
        if name in details:
            return details[name]
        if name in DETAILS:
            return None
        raise AttributeError(
            f"{type(self).__name__} has no detail {name!r}: error.details lists those that it has.",
            name=name,
            obj=self,
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__dict__.get("details", ())})

    def __str__(self) -> str:
        if not self.details:
            return self.message
        shown = dict(self._shown())
        lines = [line for name in _IN_LINES if (value := shown.pop(name, None)) for line in _lines(value)]
        details = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return "\n".join([f"{self.message} [{details}]" if details else self.message, *lines])

    def __repr__(self) -> str:
        shown = [repr(self.message), *(f"{name}={value!r}" for name, value in self._named().items())]
        # the `repr` of a value may have several lines
        return " ".join(f"{type(self).__name__}({', '.join(shown)})".splitlines())

    def _named(self) -> Mapping[str, Any]:
        """Returns the details, each as `repr` shows it."""
        return self._shown()

    def _shown(self) -> Mapping[str, Any]:
        """Returns the details for the text of the error, with the number of outcomes instead of the outcomes."""
        return {name: len(value) if name == "failures" else value for name, value in self.details.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.message, dict(self.details))


_IN_LINES = ("differences", "renames", "shell")
"""Details that people read, or copy into a shell, so each item is printed on a separate line."""


def _lines(value: Any) -> list[str]:
    return value.splitlines() if isinstance(value, str) else [str(line) for line in value]


def _restore(kind: type[HbmodelError], message: str, details: dict[str, Any]) -> HbmodelError:
    return kind(message, **details)


# --- declaring and encoding -------------------------------------------------------------------------------------------


class DeclarationError(HbmodelError, TypeError):
    """A model, field, salt or index is declared in a way that cannot work."""

    code = "declaration-error"


class EncodingError(HbmodelError, ValueError):
    """A value cannot be stored exactly: wrong type, out of range, or it would lose precision."""

    code = "encoding-error"


class CounterOverflow(EncodingError):
    """An increment would take a counter beyond 64 bits.

    Attributes:
        unchanged: True if the counter is unchanged; False if it may have wrapped, which the message explains.
    """

    code = "counter-overflow"


class UnknownName(EncodingError):
    """A dictionary has no id for a name, so no row contains the name."""

    code = "unknown-name"


class IdsExhausted(HbmodelError):
    """A sequence or a dictionary has used the last id that its counter or its codec allows."""

    code = "ids-exhausted"


class ComputedFieldError(HbmodelError, ValueError):
    """The function of a computed field raised an exception for the values of a row. The error says where this happened,
    and contains none of the values.
    """

    code = "computed-field-error"


class DecodingError(HbmodelError, ValueError):
    """Bytes read from a table are not in the format of the declared codec.

    Attributes:
        table: the table, or the index table, of the row.
        key: the key of the row.
        field: the field whose bytes cannot be read, if it is known.
        column: the column of the field, unless it is a key field. The bytes themselves are not in the error:
            `store.get(error.table, [error.key])` returns the row.
    """

    code = "decoding-error"

    def __str__(self) -> str:
        return f"{super().__str__()}\n{_UNREADABLE}\n{_BEHIND}" if self.table else super().__str__()


_UNREADABLE = (
    "Another program, or another model, wrote these bytes: hb.diff(store, Model) compares the layouts if the table is "
    "not external, `hbmodel scan` shows rows as the registry describes them, and store.get(table, [key]) returns them."
)
_BEHIND = 'A query continues after such rows with on_unreadable("skip"), or with a function in place of "skip".'


class RowKeyError(HbmodelError):
    """A row key cannot be built or does not belong to this model (see the subclasses)."""

    code = "row-key-error"


class IncompleteKey(RowKeyError, TypeError):
    """Some key fields were not given; `missing` names them."""

    code = "incomplete-key"


class KeyTooLong(RowKeyError, ValueError):
    """A row key or index entry is empty or longer than HBase's 32,767 bytes."""

    code = "key-too-long"


class IncompleteRow(HbmodelError):
    """A stored row lacks a required column that has no default.

    Attributes:
        table: the table, or the index table, of the row.
        key: the key of the row.
        field: the field whose column is missing.
        column: that column.
    """

    code = "incomplete-row"

    def __str__(self) -> str:
        return f"{super().__str__()}\n{_BEHIND}" if self.table else super().__str__()


# --- queries ----------------------------------------------------------------------------------------------------------


class QueryError(HbmodelError):
    """A query cannot be built or planned as written."""

    code = "query-error"


class UnknownField(QueryError, AttributeError):
    """The model has no field of that name."""

    code = "unknown-field"


class UnknownIndex(QueryError):
    """The model has no index of that name."""

    code = "unknown-index"


class FullScanRefused(QueryError):
    """The plan would read a whole table and the query does not have `.allow_full_scan()`."""

    code = "full-scan-refused"


class OrderNotAvailable(QueryError):
    """Neither the table nor an index of the model provides the order that `order_by` or `reversed` requires."""

    code = "order-not-available"


class NoResultFound(QueryError, LookupError):
    """`one()` found no item."""

    code = "no-result-found"


class MultipleResultsFound(QueryError):
    """`one()` found more than one item."""

    code = "multiple-results-found"


class TokenError(QueryError, ValueError):
    """A continuation token is damaged, from another version, or belongs to another query."""

    code = "token-error"


# --- sessions ---------------------------------------------------------------------------------------------------------


class FrozenObject(HbmodelError, AttributeError):
    """A program assigned a value to a field of an object. The assignment is refused, because it would write nothing to
    the store; `hb.model(frozen=False)` allows it.
    """

    code = "frozen-object"


class SessionError(HbmodelError):
    """A session was used in a way that it does not allow."""

    code = "session-error"


class SessionClosed(SessionError):
    """The session was closed; open another one."""

    code = "session-closed"


class SessionThreadError(SessionError):
    """Two threads used a session at the same time; stores are thread-safe, sessions are not."""

    code = "session-thread-error"


class RowExists(HbmodelError):
    """A live row already exists under the key of an `insert`."""

    code = "row-exists"


class RowNotFound(HbmodelError, LookupError):
    """There is no live row under the key of an `update`, `increment`, `rekey` or write of map entries."""

    code = "row-not-found"


class ConflictError(HbmodelError):
    """The row of a versioned model was written after the object was read, or a `rekey` of the object is unfinished.

    Attributes:
        expected: the object's version.
        found: the row's version, 0 if there is no row.
        other: the other key of an unfinished move.
    """

    code = "conflict-error"


class ConditionFailed(HbmodelError):
    """The row does not satisfy the `condition` of an update or delete."""

    code = "condition-failed"


class UniqueViolation(HbmodelError):
    """Another row already has these values in a unique index.

    Attributes:
        index: the name of the index.
        fields: the names of its fields.
        value: the value that is taken, a tuple if there are several fields; not printed.
        owner: the row key of the other row.
    """

    code = "unique-violation"

    def _shown(self) -> Mapping[str, Any]:
        return {name: value for name, value in super()._shown().items() if name != "value"}


class PartialWrite(HbmodelError):
    """A commit stopped partway.

    Attributes:
        applied: the outcomes of the objects that were written and acknowledged.
        pending: the objects (or keys) that were not written, in order; the session still holds them, and `commit()`
            finishes them.
        failures: the outcomes of calls that were refused (such as `RowNotFound`); they are not pending.
        deleted: for `query.delete()`, how many objects were certainly deleted.
        position: for `session.bulk_add()`, how many objects, counted from the start, were certainly written.
        key: the row key of the first object that failed, or else of the first pending one.
        reason: why it failed, or why the commit stopped.
    """

    code = "partial-write"

    def __str__(self) -> str:
        """Puts the reason on a separate line, because it is the text of another error, in which keys are already
        quoted.
        """
        return super().__str__() if self.reason is None else f"{super().__str__()}\nreason: {self.reason}"

    def _shown(self) -> Mapping[str, Any]:
        return {name: value for name, value in self._named().items() if name != "reason"}

    def _named(self) -> Mapping[str, Any]:
        counted = {"applied", "pending", "failures"}
        return {name: len(value) if name in counted else value for name, value in self.details.items()}


class ClockError(HbmodelError):
    """This machine's clock and the server's differ by more than the allowed bound, so timestamps would be unsafe."""

    code = "clock-error"


class SchemaMismatch(HbmodelError):
    """The live layout of a table differs from the model's; `differences` lists each difference."""

    code = "schema-mismatch"


class RowMoved(SchemaMismatch):
    """A row is sealed: the object of a versioned model is moving to another table, or has moved there."""

    code = "row-moved"


class MigrationError(HbmodelError):
    """The phase of a migration does not allow this step, or a row cannot be copied; `phase` and `refused` are
    attributes.
    """

    code = "migration-error"


class IndexUnavailable(HbmodelError):
    """An index that a query or a write needs is absent, not built yet, or unknown to the model."""

    code = "index-unavailable"


class CapabilityError(HbmodelError):
    """The store or the model does not support this operation; the message says why, and names another store or an
    alternative, if there is one.
    """

    code = "capability-error"


# --- stores -----------------------------------------------------------------------------------------------------------


class StoreError(HbmodelError):
    """A store could not complete a request; the subclasses say why."""

    code = "store-error"


class StoreURLError(StoreError, ValueError):
    """A store URL cannot be parsed."""

    code = "store-url-error"


class StoreClosed(StoreError):
    """The store was closed."""

    code = "store-closed"


class StoreUnavailable(StoreError, ConnectionError):
    """The store cannot be reached, and the operation was certainly not executed."""

    code = "store-unavailable"


class CertificateRefused(StoreUnavailable):
    """The gateway's TLS certificate does not verify, or the gateway does not accept the client's; retrying does not
    help.
    """

    code = "certificate-refused"


class UnknownOutcome(StoreError, ConnectionError):
    """A write was sent and its result is unknown: it may have been applied, fully or in part, or not at all."""

    code = "unknown-outcome"


class InvalidRequest(StoreError, ValueError):
    """The request can never succeed: an empty row key, a row key over 32,767 bytes, a cell that is too large, ..."""

    code = "invalid-request"


class TableNotFound(StoreError, LookupError):
    """The store has no table of that name."""

    code = "table-not-found"


class TableExists(StoreError):
    """The store already has a table of that name."""

    code = "table-exists"


class FamilyNotFound(StoreError, LookupError):
    """The table has no column family of that name."""

    code = "family-not-found"


class FamilyExists(StoreError):
    """The table already has a column family of that name."""

    code = "family-exists"


class NamespaceNotFound(StoreError, LookupError):
    """The store has no namespace of that name."""

    code = "namespace-not-found"


class NamespaceExists(StoreError):
    """The store already has a namespace of that name."""

    code = "namespace-exists"


class LocalHBaseError(HbmodelError):
    """A local HBase could not be started, stopped or found, or has ended; the message says what to do."""

    code = "local-hbase-error"
