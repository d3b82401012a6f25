"""The command `hbmodel`; each group of its commands has a separate module."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from hbmodel._version import __version__
from hbmodel.errors import HbmodelError, RowNotFound
from hbmodel.tools.cli.adopt import adopt
from hbmodel.tools.cli.describe import describe
from hbmodel.tools.cli.diff import diff
from hbmodel.tools.cli.hbase import hbase as hbase_commands
from hbmodel.tools.cli.index import index as index_commands
from hbmodel.tools.cli.infer import infer
from hbmodel.tools.cli.key import key as key_commands
from hbmodel.tools.cli.migrate import migrate as migrate_commands
from hbmodel.tools.cli.output.one_line import one_line
from hbmodel.tools.cli.registry import registry as registry_commands
from hbmodel.tools.cli.rows import regions, row, scan
from hbmodel.tools.cli.tables import alter, create, drop
from hbmodel.tools.cli.writers import writers as writers_command


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


@click.group(cls=OneLineErrors)
@click.version_option(__version__, prog_name="hbmodel")
def main() -> None:
    """A data mapper for HBase."""


main.add_command(hbase_commands)
main.add_command(index_commands)
main.add_command(migrate_commands)
main.add_command(registry_commands)
main.add_command(adopt)
main.add_command(alter)
main.add_command(create)
main.add_command(describe)
main.add_command(diff)
main.add_command(drop)
main.add_command(infer)
main.add_command(key_commands)
main.add_command(row)
main.add_command(scan)
main.add_command(regions)
main.add_command(writers_command)
