"""Streams objects into a store in batches with a limited number of rows and bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import chain, islice
from typing import Any

from hbmodel.errors import (
    ComputedFieldError,
    EncodingError,
    HbmodelError,
    KeyTooLong,
    PartialWrite,
    SessionError,
    UnknownOutcome,
)
from hbmodel.mapping.schema import TableSchema, schema_of_object
from hbmodel.protocol.expiry import milliseconds
from hbmodel.protocol.writes import PutObject, put_object
from hbmodel.session.commit.batches import Pending
from hbmodel.session.commit.conflict_retries import reason_of
from hbmodel.session.commit.unit_of_work import UnitOfWork
from hbmodel.store.checks.numbers import whole_number
from hbmodel.store.jitter import jitter

DEFAULT_BATCH = 1000
BATCH_BYTES = 8 * 1024 * 1024
"""The maximum number of bytes of cells and keys in one batch. A larger object is put in a separate batch."""

Progress = Callable[[int], object]
OnRefused = Callable[[Any, HbmodelError], object]
"""A function that receives an object that was not written, and the error that says why."""


class BulkAdd:
    """Writes many objects; see `Session.bulk_add`."""

    def __init__(
        self,
        work: UnitOfWork,
        batch_size: int,
        shuffle: int,
        progress: Progress | None,
        ttl: timedelta | None = None,
        on_refused: OnRefused | None = None,
    ) -> None:
        if on_refused is not None and not callable(on_refused):
            raise SessionError(
                "on_refused takes a function that receives each refused object and its error.",
                found=type(on_refused).__name__,
            )
        rows, window = whole_number(batch_size), whole_number(shuffle)
        if rows is None or window is None or rows < 1 or window < 0:
            raise SessionError(
                "batch_size must be a number of at least 1, and shuffle of at least 0.",
                batch_size=batch_size,
                shuffle=shuffle,
            )
        self._work = work
        self._batch_size, self._shuffle, self._progress, self._ttl = rows, window, progress, ttl
        self._on_refused, self._refused = on_refused, 0
        self._read = self._certain = 0
        self._begun = False  # whether any batch was written; `_certain` does not show this if objects are shuffled

    def run(self, objs: Iterable[Any]) -> int:
        """Writes all objects and returns the number of objects that were written."""
        for batch, position in self._batches(self._windows(objs)):
            for call in batch:
                self._work.add(call)
            try:
                self._work.commit()
            except HbmodelError as error:
                if self._only_refusals(batch):
                    for call in batch:
                        if call.outcome is not None and call.outcome.error is not None:
                            self._refuse(call.subject, call.outcome.error)
                    self._wrote(position)
                    continue
                if not self._begun and not isinstance(error, PartialWrite):
                    raise  # nothing was sent, so the original error is raised
                if isinstance(error, PartialWrite):
                    partial = error.details
                elif error.failures:  # the whole batch was refused
                    partial = {"pending": [], "failures": error.failures}
                else:
                    partial = {"pending": [call.subject for call in batch]}
                raise PartialWrite(
                    "bulk_add() stopped: at least the first `position` objects are written. Add all objects again, "
                    "or those that follow.",
                    **{"applied": [], "failures": [], "reason": reason_of(error), **partial, "position": self._certain},
                ) from error
            self._wrote(position)
        if self._certain < self._read:  # the last objects were refused
            self._wrote(self._read)
        return self._read - self._refused

    def _wrote(self, position: int) -> None:
        self._begun, self._certain = True, position
        if self._progress is not None:
            self._progress(position)

    def _only_refusals(self, batch: list[Pending]) -> bool:
        """Whether a commit that raised an error has carried out all calls that were not refused, and the refusals are
        reported.
        """
        errors = [call.outcome.error for call in batch if call.outcome is not None and call.outcome.error is not None]
        certain = bool(errors) and not any(isinstance(error, UnknownOutcome) for error in errors)
        return self._on_refused is not None and certain and not self._work.stopped

    def _refuse(self, obj: Any, error: HbmodelError) -> None:
        assert self._on_refused is not None, "refusals are reported"
        self._refused += 1
        self._on_refused(obj, error)

    def _encoded(self, objs: Iterable[Any]) -> Iterator[Pending]:
        schema: TableSchema | None = None
        lifetime: int | None = None
        for obj in objs:
            own: TableSchema | None = None
            try:
                own = schema_of_object(obj)
                if own is not schema:
                    lifetime, schema = milliseconds(own, self._ttl), own
                write = put_object(own, obj, lifetime)
            except HbmodelError as error:
                position = {"position": self._read, "written": self._certain}
                refused = type(error)(error.message, **{**error.details, **position})
                cannot_be_stored = own is schema and isinstance(error, EncodingError | KeyTooLong | ComputedFieldError)
                if self._on_refused is None or not cannot_be_stored:  # a wrong `ttl` is wrong for all objects
                    raise refused from None
                self._read += 1
                self._refuse(obj, refused)
                continue
            self._read += 1
            yield Pending(own, obj, [write], copy=obj)

    def _windows(self, objs: Iterable[Any]) -> Iterator[tuple[Pending, bool]]:
        """Yields the calls in the order in which they are written, each with a flag that is True for the last call of a
        window.
        """
        encoded = self._encoded(objs)
        if not self._shuffle:
            for call in encoded:
                yield call, True
            return
        while True:
            # Of several objects with the same key in a window, only the last is kept, so that shuffling cannot write an
            # older one after it. All are kept, in their order, if objects may be refused, because the last may be
            # refused, and in models with map columns, because the last does not replace the entries of the others.
            of_keys: dict[tuple[int, Any], list[Pending]] = {}
            for call in islice(encoded, min(self._shuffle, sys.maxsize)):
                same = of_keys.setdefault((id(call.schema), _identity(call)), [])
                if self._on_refused is None and not call.schema.maps:
                    same.clear()
                same.append(call)
            if not of_keys:
                return
            groups = list(of_keys.values())
            jitter.shuffle(groups)
            mixed = list(chain.from_iterable(groups))
            for call in mixed[:-1]:
                yield call, False
            yield mixed[-1], True

    def _batches(self, windows: Iterator[tuple[Pending, bool]]) -> Iterator[tuple[list[Pending], int]]:
        """Yields batches. The number with each batch is the number of objects, counted from the start, that are
        certainly written once this batch is written.
        """
        batch: list[Pending] = []
        size = certain = 0
        for call, ends in windows:
            size += _bytes(call)
            batch.append(call)
            if ends:
                certain = self._read
            if len(batch) >= self._batch_size or size >= BATCH_BYTES:
                yield batch, certain
                batch, size = [], 0
        if batch:
            yield batch, certain


def _identity(call: Pending) -> Any:
    """Returns the key of a call's row, without the salt, because under a random salt calls with the same key draw
    different buckets.
    """
    (write,) = call.writes
    return write.row[call.schema.salt.width :]


def _bytes(call: Pending) -> int:
    (write,) = call.writes
    assert isinstance(write, PutObject)
    cells = write.cells
    return len(write.row) * len(cells) + sum(map(len, cells)) + sum(map(len, cells.values()))
