"""Ends a command upon an error, with one line of text and an exit status."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from hbmodel.errors import HbmodelError, RowNotFound
from hbmodel.tools.cli.output.one_line import one_line


class Failed(click.ClickException):
    """An error because of which a command could not do its work.

    Its exit status is not 1, because commands use 1 to report a finding, as `diff` and `grep` do.
    """

    exit_code = 2


class OneLineErrors(click.Group):
    """A group whose commands report an error, of hbmodel or of the system, as one line, and end with exit status 2."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        """Parses the arguments. Some options, such as --help, already print their text here and end the command."""
        with _one_line_errors():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command."""
        with _one_line_errors():
            return super().invoke(ctx)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except RowNotFound as error:  # the table was read, and this is the result
        raise click.ClickException(one_line(error)) from error
    except HbmodelError as error:
        raise Failed(one_line(error)) from error
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # the reader has closed the pipe, and click ends the program silently
        raise Failed(f"The system refused to read or write: {error}") from error
