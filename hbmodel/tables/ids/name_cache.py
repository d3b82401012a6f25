"""A cache of the names and ids of dictionaries, in bounded memory."""

from __future__ import annotations

import threading
from typing import cast

from hbmodel.encoding.codecs import Dictionary

CACHED_BYTES = 16 * 2**20
"""The approximate maximum number of bytes of memory that the cached names use."""

OVERHEAD = 150
"""The number of bytes that one cached pair uses in addition to the characters of the name."""


class NameCache:
    """A cache of names and ids, which never change. If the cache is full, the oldest entries are dropped. It is
    thread-safe.
    """

    def __init__(self, size: int = CACHED_BYTES) -> None:
        self._left = size
        # The ids by name, and the names by id. There are two mappings because a program that crashed may have left an
        # id whose name now has another id.
        self._known: dict[tuple[Dictionary, str | int], int | str] = {}
        self._lock = threading.Lock()
        self.checked: set[Dictionary] = set()
        """The dictionaries whose tables were found to match the declaration."""

    def __len__(self) -> int:
        return len(self._known)

    def id_of(self, dictionary: Dictionary, name: str) -> int | None:
        """Returns the id of a name, or None if it is not cached."""
        return cast("int | None", self._known.get((dictionary, name)))

    def name_of(self, dictionary: Dictionary, number: int) -> str | None:
        """Returns the name of an id, or None if it is not cached."""
        return cast("str | None", self._known.get((dictionary, number)))

    def keep(self, dictionary: Dictionary, name: str, number: int) -> None:
        """Caches the id of a name, and the name of the id."""
        with self._lock:
            self._keep((dictionary, name), number, name)
            self._keep((dictionary, number), name, name)

    def keep_name(self, dictionary: Dictionary, number: int, name: str) -> None:
        """Caches the name of an id. The name may have another id, too."""
        with self._lock:
            self._keep((dictionary, number), name, name)

    def _keep(self, place: tuple[Dictionary, str | int], answer: int | str, name: str) -> None:
        if place in self._known:
            return
        self._known[place] = answer
        self._left -= OVERHEAD + len(name)
        while self._left < 0 and len(self._known) > 1:
            oldest = next(iter(self._known))
            forgotten = self._known.pop(oldest)
            self._left += OVERHEAD + len(oldest[1] if isinstance(oldest[1], str) else cast("str", forgotten))
