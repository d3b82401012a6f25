"""Makes the text of an error that a command prints: one line, with the error's code at the end."""

from __future__ import annotations

from hbmodel.errors import HbmodelError


def one_line(error: HbmodelError) -> str:
    """Returns the text of an error without line breaks, followed by its code, which docs/errors.md explains."""
    return f"{' '.join(str(error).split())} ({error.code})"


def bare_line(error: HbmodelError) -> str:
    """Returns the message and the details of an error in one line, without the advice for programs that some errors
    add.
    """
    return " ".join(HbmodelError.__str__(error).split())
