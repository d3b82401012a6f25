"""The command `hbmodel`; each group of its commands has a separate module."""

from __future__ import annotations

import click

from hbmodel._version import __version__
from hbmodel.tools.cli.adopt import adopt
from hbmodel.tools.cli.describe import describe
from hbmodel.tools.cli.diff import diff
from hbmodel.tools.cli.hbase import hbase as hbase_commands
from hbmodel.tools.cli.index import index as index_commands
from hbmodel.tools.cli.infer import infer
from hbmodel.tools.cli.key import key as key_commands
from hbmodel.tools.cli.migrate import migrate as migrate_commands
from hbmodel.tools.cli.output.exit_status import OneLineErrors
from hbmodel.tools.cli.registry import registry as registry_commands
from hbmodel.tools.cli.rows import regions, row, scan
from hbmodel.tools.cli.tables import alter, create, drop
from hbmodel.tools.cli.writers import writers as writers_command


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
