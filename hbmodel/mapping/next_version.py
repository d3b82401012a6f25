"""The version of the copy that an update returns: the next version of the row, which is valid only if the update is
carried out.
"""

from __future__ import annotations

from typing import Any, Self


class NextVersion(int):
    """The version that a row has after an update, if the update is carried out.

    If the returned copy is copied again, the new copies share this instance, so all of them learn whether the update
    was carried out. If it was not carried out, another program may write the row and give it the same version, and none
    of the copies may seem to have been read after that write.

    Attributes:
        before: the version of the object that was updated.
        waiting: whether the outcome is not known yet.
    """

    before: int
    waiting: bool

    def __new__(cls, before: int) -> Self:
        """Returns the version that follows `before`. The argument may itself be the version of an update whose outcome
        is not known yet.
        """
        version = super().__new__(cls, before + 1)
        version.before, version.waiting = before, True
        return version

    def settle(self, *, written: bool) -> None:
        """Records whether the update was carried out."""
        self.before, self.waiting = int(self) if written else self.stored, False

    @property
    def required(self) -> int:
        """The version that a call must require if the call is made together with the update, or after the update."""
        return int(self) if self.waiting else self.before

    @property
    def stored(self) -> int:
        """The last version of the row that is known: while the outcome is not known, the version before the update."""
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
    """Returns the given version if it is that of an update whose outcome is not known yet, otherwise None."""
    return version if isinstance(version, NextVersion) and version.waiting else None
