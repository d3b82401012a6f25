"""The question that a command asks before a step that cannot be undone, and the options that answer or avoid it."""

from __future__ import annotations

import click

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only report what would be done.")


def confirm(question: str) -> None:
    """Asks a question on standard error. Ends the command with exit status 1 if the answer is no, or if nobody can
    answer.
    """
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort:
        click.echo("\nNothing was changed. With --yes the command does not ask.", err=True)
        raise
