"""Names and ids of dictionaries that a program remembers, in bounded memory."""

from __future__ import annotations

import threading

from hbmodel.encoding.codecs import Dictionary

CACHED_BYTES = 16 * 2**20
"""Memory of the names that are remembered, about."""

OVERHEAD = 300
"""Bytes that a name and its id take in addition to the letters."""


class NameCache:
    """Names and ids, which never change; the oldest are forgotten first. Thread-safe.

    Args:
        size: in bytes, about.
    """

    def __init__(self, size: int = CACHED_BYTES) -> None:
        self._left = size
        self._ids: dict[tuple[Dictionary, str], int] = {}
        self._names: dict[tuple[Dictionary, int], str] = {}
        self._lock = threading.Lock()
        self.checked: set[Dictionary] = set()
        """Dictionaries whose tables are as declared."""

    def __len__(self) -> int:
        return len(self._ids)

    def id_of(self, dictionary: Dictionary, name: str) -> int | None:
        """The id of a name, or None where it is not remembered."""
        return self._ids.get((dictionary, name))

    def name_of(self, dictionary: Dictionary, number: int) -> str | None:
        """The name of an id, or None where it is not remembered."""
        return self._names.get((dictionary, number))

    def keep(self, dictionary: Dictionary, name: str, number: int) -> None:
        """Remembers that a name has an id."""
        with self._lock:
            if (dictionary, name) in self._ids:
                return
            self._ids[dictionary, name] = number
            self._names[dictionary, number] = name
            self._left -= OVERHEAD + len(name)
            while self._left < 0 and len(self._ids) > 1:
                oldest = next(iter(self._ids))
                self._names.pop((oldest[0], self._ids.pop(oldest)), None)
                self._left += OVERHEAD + len(oldest[1])
