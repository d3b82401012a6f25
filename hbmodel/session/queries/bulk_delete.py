"""Deletes the results of a query, page by page, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from attrs import evolve, frozen

from hbmodel.errors import ConditionFailed, ConflictError, DecodingError, HbmodelError, IncompleteRow, PartialWrite
from hbmodel.mapping.rows.mapper import key_of
from hbmodel.mapping.version_cell import UNKNOWN
from hbmodel.protocol.writes import DeleteRow
from hbmodel.query.ask.continuation_tokens import Page
from hbmodel.query.ask.terms import QueryTerms
from hbmodel.session.commit.batches import Pending
from hbmodel.session.commit.conflict_retries import reason_of
from hbmodel.session.commit.unit_of_work import UnitOfWork
from hbmodel.session.get_many import known_rows

Progress = Callable[[int], object]


@frozen(eq=False)
class BulkDelete:
    """Deletes the items of a query; see `Query.delete`.

    Attributes:
        work: the unit of work for the deletes; it contains no other calls.
        read: reads a page, given the terms of a query, the page size and a token.
        progress: called with the number of objects deleted so far.
    """

    work: UnitOfWork
    read: Callable[[QueryTerms, int, str | None], Page[Any]]
    progress: Progress | None = None

    def run(self, terms: QueryTerms, batch_size: int) -> int:
        """Deletes all items and returns their number.

        Raises:
            PartialWrite: an error occurred after something was deleted; `deleted` is the number of objects known to be
                deleted.
        """
        schema = terms.schema
        names = schema.layout.names
        # If the query leaves out rows that cannot be read, only objects that the query returns are deleted, so whole
        # objects are read.
        selection = tuple(map(schema.field, names)) if terms.on_unreadable is None else None
        keys = evolve(terms, selection=selection, loading=())
        deleted, token = 0, None
        while True:
            calls: list[Pending] = []
            try:
                page = self.read(keys, batch_size, token)
                found = page.items if selection is not None else [key_of(schema, item) for item in page]
                calls += _calls(terms, [dict(zip(names, key, strict=True)) for key in found])
                self._delete(terms, calls)
            except HbmodelError as error:
                self.work.discard()
                deleted += _deleted(calls)
                if not deleted and not isinstance(error, PartialWrite):
                    raise
                raise PartialWrite(
                    "The delete stopped: `deleted` is the number of objects known to be deleted. Call the same "
                    "delete() again for the rest.",
                    **{
                        "table": schema.table,
                        "reason": reason_of(error),
                        **getattr(error, "details", {}),
                        "deleted": deleted,
                    },
                ) from error
            deleted += _deleted(calls)
            if page and self.progress is not None:
                self.progress(deleted)
            token = page.next_token
            if token is None:
                return deleted

    def _delete(self, terms: QueryTerms, calls: Sequence[Pending]) -> None:
        """Deletes some objects in one commit. Objects of a versioned model are kept if they no longer satisfy the
        query, or if an index had all their fields but their rows cannot be read.
        """
        for call in calls:
            self.work.add(call)
        try:
            self.work.commit()
        except (ConditionFailed, ConflictError, DecodingError, IncompleteRow, PartialWrite):
            unfinished = any(call.remaining for call in calls)
            errors = [
                call.outcome.error for call in calls if call.outcome is not None and call.outcome.error is not None
            ]
            unreadable = [error for error in errors if isinstance(error, DecodingError | IncompleteRow)]
            changed = [error for error in errors if isinstance(error, ConditionFailed)]
            if unfinished or len(changed) + len(unreadable) < max(1, len(errors)):
                raise
            if terms.on_unreadable is None:
                if unreadable:
                    raise
                return
            for error in unreadable:
                terms.on_unreadable(error)


def _calls(terms: QueryTerms, keys: Iterable[dict[str, Any]]) -> Iterator[Pending]:
    schema = terms.schema
    condition = terms.predicate if schema.versioned else None
    for key in keys:
        if rows := known_rows(schema, key):
            yield Pending(schema, key, [DeleteRow(key, row, UNKNOWN, condition) for row in rows])


def _deleted(calls: Iterable[Pending]) -> int:
    return sum(call.outcome is not None and call.outcome.action == "deleted" for call in calls)
