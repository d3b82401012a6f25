"""Asks for confirmation before a step that cannot be undone."""

from __future__ import annotations

import click


def confirm(question: str) -> None:
    """Asks on standard error; ends the command with exit status 1 if the answer is no, or if nobody can answer."""
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort:
        click.echo("\nNothing was changed. With --yes the command does not ask.", err=True)
        raise
