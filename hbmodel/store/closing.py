"""The base class of stores that are closed by `close` or at the end of a `with` block, and the error of a closed
store.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from types import TracebackType
from typing import ClassVar, NoReturn, Protocol, Self

from hbmodel.errors import StoreClosed, StoreError
from hbmodel.store.shared_caches import SharedCaches


def store_closed() -> StoreClosed:
    """Returns the error for a call on a store that was closed."""
    return StoreClosed("The store was closed: open another one with hb.connect().")


class Ending(Protocol):
    """A user of a store that has work to do before the store is closed."""

    def end(self) -> None:
        """Does the work, because the store is about to be closed."""
        ...


class ClosingStore(ABC):
    """A store that holds connections or files of its process, until it is closed."""

    TRUSTED: ClassVar[float] = math.inf
    """See `SharedCaches`."""

    @abstractmethod
    def close(self) -> None:
        """See `Store.close`."""

    @property
    def shared_caches(self) -> SharedCaches | None:
        """The caches that the sessions of this store share, or None if each session has its own. A store that wraps an
        embedded store must return the caches of the embedded store. A change of its tables waits for readers only for
        the time `trusted` of these caches.
        """
        shared: SharedCaches = vars(self).setdefault("_shared_caches", SharedCaches(self.TRUSTED))
        return shared

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise StoreError("A store cannot be pickled: open one in each process with hb.connect().")
