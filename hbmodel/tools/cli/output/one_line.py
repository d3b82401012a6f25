"""An error as the command prints it: one line, with its code at the end."""

from __future__ import annotations

from hbmodel.errors import HbmodelError


def one_line(error: HbmodelError) -> str:
    """The text of an error without line breaks, followed by its code, which can be searched for in docs/errors.md."""
    return f"{' '.join(str(error).split())} ({error.code})"


def bare_line(error: HbmodelError) -> str:
    """The message and the details of an error in one line, without the advice for programs that some errors add."""
    return " ".join(HbmodelError.__str__(error).split())
