"""Names and ids of dictionaries that a program remembers, in bounded memory."""

from __future__ import annotations

import threading
from typing import cast

from hbmodel.encoding.codecs import Dictionary

CACHED_BYTES = 16 * 2**20
"""Memory of the names that are remembered, about."""

OVERHEAD = 150
"""Bytes that the id of a name, or the name of an id, takes in addition to the letters."""


class NameCache:
    """Names and ids, which never change; the oldest are forgotten first. Thread-safe.

    Args:
        size: in bytes, about.
    """

    def __init__(self, size: int = CACHED_BYTES) -> None:
        self._left = size
        # By name the id, and by id the name: a program that died may have left an id whose name has another one.
        self._known: dict[tuple[Dictionary, str | int], int | str] = {}
        self._lock = threading.Lock()
        self.checked: set[Dictionary] = set()
        """Dictionaries whose tables are as declared."""

    def __len__(self) -> int:
        return len(self._known)

    def id_of(self, dictionary: Dictionary, name: str) -> int | None:
        """The id of a name, or None where it is not remembered."""
        return cast("int | None", self._known.get((dictionary, name)))

    def name_of(self, dictionary: Dictionary, number: int) -> str | None:
        """The name of an id, or None where it is not remembered."""
        return cast("str | None", self._known.get((dictionary, number)))

    def keep(self, dictionary: Dictionary, name: str, number: int) -> None:
        """Remembers the id of a name; then the id's name is known too."""
        with self._lock:
            self._keep((dictionary, name), number, name)
            self._keep((dictionary, number), name, name)

    def keep_name(self, dictionary: Dictionary, number: int, name: str) -> None:
        """Remembers the name of an id, which need not be the id of the name."""
        with self._lock:
            self._keep((dictionary, number), name, name)

    def _keep(self, place: tuple[Dictionary, str | int], found: int | str, name: str) -> None:
        if place in self._known:
            return
        self._known[place] = found
        self._left -= OVERHEAD + len(name)
        while self._left < 0 and len(self._known) > 1:
            oldest = next(iter(self._known))
            forgotten = self._known.pop(oldest)
            self._left += OVERHEAD + len(oldest[1] if isinstance(oldest[1], str) else cast("str", forgotten))
