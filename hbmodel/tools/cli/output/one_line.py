"""An error as the command prints it: one line, with its code at the end."""

from __future__ import annotations

from hbmodel.errors import HbmodelError


def one_line(error: HbmodelError) -> str:
    """The text of an error without line breaks, followed by its code, which can be searched for in docs/errors.md."""
    return f"{' '.join(str(error).split())} ({error.code})"
