"""The command `hbmodel adopt`: checks a model against a table of other programs, and registers it if it fits."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from hbmodel.mapping.value_text import json_of_value
from hbmodel.tables.creation.adopt import SAMPLE, Adoption
from hbmodel.tables.creation.adopt import adopt as adopt_table
from hbmodel.tools.cli.arguments.existing_store import connect_existing
from hbmodel.tools.cli.arguments.named_model import load_model
from hbmodel.tools.cli.arguments.store_options import registry_option, store_option


@click.command()
@click.argument("table")
@click.option("--model", "named", required=True, metavar="MODULE:CLASS", help="The model, with external=True.")
@store_option
@click.option("--sample", type=click.IntRange(1), default=SAMPLE, show_default=True, help="Number of rows to read.")
@click.option(
    "--accept", multiple=True, metavar="NAME", help="A finding that does not prevent the registration; repeatable."
)
@registry_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def adopt(table: str, named: str, url: str, sample: int, accept: tuple[str, ...], registry: str, as_json: bool) -> None:
    """Check a sample of a table against a model, and register the model if nothing contradicts it.

    Each line with a ! prevents the registration, unless the name after the ! is accepted. The exit status is 1 if the
    model is not registered.
    """
    model = load_model(named, table)
    with connect_existing(url) as store:
        adoption = adopt_table(store, model, sample=sample, accept=accept, registry=registry)
    click.echo(json.dumps(_as_json(adoption)) if as_json else str(adoption))
    if not adoption.adopted:
        sys.exit(1)


def _as_json(adoption: Adoption) -> dict[str, Any]:
    return {
        "table": adoption.table,
        "rows": adoption.rows,
        "objects": adoption.objects,
        "unreadable": adoption.unreadable,
        "absent": adoption.absent,
        "adopted": adoption.adopted,
        "findings": [
            {
                "name": finding.name,
                "kind": finding.kind,
                "subject": finding.subject,
                "count": finding.count,
                "note": finding.note,
                "accepted": not finding.note and finding not in adoption.open,
                "key": json_of_value(finding.key),
                "found": json_of_value(finding.found),
                "detail": finding.detail,
                "what": finding.what,
                "do": finding.do,
            }
            for finding in adoption.findings
        ],
    }
