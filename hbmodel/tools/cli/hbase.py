"""The commands `hbmodel hbase`: a real HBase on this machine."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from hbmodel.errors import LocalHBaseError
from hbmodel.tools.cli.arguments.finite import FiniteRange

if TYPE_CHECKING:
    from hbmodel.localhbase import Status

ROLES = ("server", "thrift1", "thrift2")

_FOLLOW_INTERVAL = 0.3  # seconds between two checks of a log
_BLOCK = 1 << 16  # bytes of a log that are read at a time


@click.group()
def hbase() -> None:
    """Run a real HBase on this machine, for development and tests."""


_directory = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of this HBase; each HBase needs its own. [default: a directory of this user]",
)


def _pairs(_ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Returns options of the form NAME=VALUE as a dictionary."""
    pairs = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter("must be NAME=VALUE", param=parameter)
        pairs[name] = value
    return pairs


@hbase.command()
@_directory
@click.option(
    "--gateway",
    "gateways",
    multiple=True,
    type=click.Choice(ROLES[1:]),
    help="Start only this gateway; may be repeated. [default: both]",
)
@click.option(
    "--thrift1-port",
    type=click.IntRange(1, 65_535),
    help="Port of the Thrift1 gateway. [default: the last one used, or a free one]",
)
@click.option("--thrift2-port", type=click.IntRange(1, 65_535), help="Port of the Thrift2 gateway.")
@click.option("--zookeeper-port", type=click.IntRange(1, 65_535), help="Port of ZooKeeper.")
@click.option(
    "--version",
    metavar="VERSION",
    help="Version of HBase, such as 2.4.17. [default: the one last used, or the newest]",
)
@click.option("--server-heap", metavar="SIZE", help="Largest heap of the server. [default: 1g]")
@click.option("--gateway-heap", metavar="SIZE", help="Largest heap of each gateway. [default: 512m]")
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_pairs,
    help="HBase property of every process; may be repeated.",
)
@click.option(
    "--timeout",
    type=FiniteRange(min=1),
    default=180.0,
    show_default=True,
    help="Seconds that the start may take, without the download.",
)
def start(
    directory: Path | None,
    gateways: tuple[str, ...],
    thrift1_port: int | None,
    thrift2_port: int | None,
    zookeeper_port: int | None,
    version: str | None,
    server_heap: str | None,
    gateway_heap: str | None,
    properties: Mapping[str, str],
    timeout: float,
) -> None:
    """Start HBase in the background and wait until it answers.

    The first start downloads HBase (113 MB). An HBase that is already running is left unchanged.
    """
    from hbmodel import localhbase
    from hbmodel.localhbase.start_and_stop import version_to_start

    console = Console(stderr=True)
    chosen: dict[str, Any] = {
        "gateways": gateways or None,
        "version": version,
        "server_heap": server_heap,
        "gateway_heap": gateway_heap,
        "properties": properties or None,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    ports = {"thrift1": thrift1_port, "thrift2": thrift2_port, "zookeeper": zookeeper_port}
    settings = localhbase.Settings(**given) if given else None
    localhbase.prepare(version_to_start(directory, version))
    with console.status("Starting HBase ..."):
        running = localhbase.start(
            directory,
            settings=settings,
            ports={name: port for name, port in ports.items() if port is not None},
            timeout=timeout,
        )
    _show(running)


@hbase.command()
@_directory
def stop(directory: Path | None) -> None:
    """Stop HBase; its data is kept."""
    from hbmodel import localhbase

    click.echo("stopped" if localhbase.stop(directory) else "nothing ran")


@hbase.command()
@_directory
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def status(ctx: click.Context, directory: Path | None, as_json: bool) -> None:
    """Show store URLs, ports, processes and directory; exit status 1 unless all processes run."""
    from hbmodel import localhbase

    running = localhbase.status(directory)
    if as_json:
        stopped = {"state": "stopped", "directory": str(localhbase.resolved(directory))}
        click.echo(json.dumps(running.as_json() if running else stopped))
    elif running:
        _show(running)
    else:
        click.echo(f"stopped    {localhbase.resolved(directory)}")
    if running is None or not running.running:
        ctx.exit(1)


def _show(status: Status) -> None:
    """Prints a status as text."""
    click.echo(f"state      {status.state}")
    click.echo(f"version    {status.version or 'of the distribution that HBASE_HOME named'}")
    for name, value in (("thrift1", status.url), ("thrift2", status.thrift2_url)):
        if value:
            click.echo(f"{name:<10} {value}")
    click.echo(f"zookeeper  127.0.0.1:{status.zookeeper_port}")
    click.echo("pids       " + ", ".join(f"{role} {pid}" for role, pid in status.pids.items()))
    if status.missing:
        click.echo(f"missing    {', '.join(status.missing)} (`start` starts them again, `logs` shows why they ended)")
    click.echo(f"directory  {status.directory}")


@hbase.command()
@_directory
@click.argument("role", type=click.Choice(ROLES), default="server")
@click.option(
    "-n",
    "--lines",
    "count",
    type=click.IntRange(0),
    default=40,
    show_default=True,
    help="Number of lines from the end of the log to begin with.",
)
@click.option("--follow", is_flag=True, help="Continue printing new lines until interrupted.")
def logs(directory: Path | None, role: str, count: int, follow: bool) -> None:
    """Print the log of the server or of a gateway."""
    from hbmodel import localhbase

    path = localhbase.log_file(localhbase.resolved(directory), role)
    try:
        lines = last_lines(path, count)
    except OSError as error:
        raise LocalHBaseError(
            "There is no such log: this process was never started in the directory.", log=str(path)
        ) from error
    for line in lines:
        click.echo(line)
    if follow:
        for text in appended(path):
            click.echo(text, nl=False)


def last_lines(path: Path, count: int) -> list[str]:
    """Returns the last lines of a text file."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return [line.rstrip("\n") for line in deque(file, maxlen=count)]


def appended(path: Path) -> Iterator[str]:
    """Yields the text that is appended to a log from now on, without end. If the log is replaced, continues with the
    new log.
    """
    file = path.open(encoding="utf-8", errors="replace")
    try:
        file.seek(0, 2)
        while True:
            if text := file.read(_BLOCK):
                yield text
                continue
            time.sleep(_FOLLOW_INTERVAL)
            try:
                replaced = path.stat()
            except FileNotFoundError:
                continue  # the old log was removed, and the new one does not exist yet
            if (replaced.st_ino, replaced.st_dev) != _identity(file.fileno()):
                rest = file.read()
                file.close()
                file = path.open(encoding="utf-8", errors="replace")
                if rest:
                    yield rest
    finally:
        file.close()


def _identity(descriptor: int) -> tuple[int, int]:
    """Returns the inode and the device of an open file."""
    import os

    stat = os.fstat(descriptor)
    return stat.st_ino, stat.st_dev
