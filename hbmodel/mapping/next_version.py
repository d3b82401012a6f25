"""The version of the copy that an update returns: the next one of the row, which counts only if the update is
carried out.
"""

from __future__ import annotations

from typing import Any, Self


class NextVersion(int):
    """The number of a version that a row has once an update is carried out.

    Copies of the copy hold the same object. So all of them learn whether the update was carried out. If it was not, the
    row may get this number by the write of another program, and none of the copies must count as having been read after
    that.

    Attributes:
        before: the version of the object that was updated.
        waiting: whether the outcome is not known yet.
    """

    before: int
    waiting: bool

    def __new__(cls, before: int) -> Self:
        """The version after one, which may be that of an update that waits too."""
        made = super().__new__(cls, before + 1)
        made.before, made.waiting = before, True
        return made

    def settle(self, *, written: bool) -> None:
        """Notes whether the update was carried out."""
        self.before, self.waiting = int(self) if written else self.stored, False

    @property
    def required(self) -> int:
        """The version that a call requires that is made together with the update, or after it."""
        return int(self) if self.waiting else self.before

    @property
    def stored(self) -> int:
        """The version of the row as far as it is known: that before the update while this waits."""
        version: int = self
        while isinstance(version, NextVersion):
            version = version.before
        return version

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (self.stored,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self


def waiting(version: object) -> NextVersion | None:
    """The version of an object, if it is that of an update whose outcome is not known yet."""
    return version if isinstance(version, NextVersion) and version.waiting else None
