"""An error as the command prints it: one line, with its code at the end."""

from __future__ import annotations

from hbmodel.errors import HbmodelError


def one_line(error: HbmodelError) -> str:
    """The text of an error without line breaks, and its code to search for."""
    return f"{' '.join(str(error).split())} ({error.code})"
