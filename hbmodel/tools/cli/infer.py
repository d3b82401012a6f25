"""The command `hbmodel infer`: proposes a model for a table of other programs."""

from __future__ import annotations

import json
from typing import Any

import click

from hbmodel.mapping.value_text import json_of_value
from hbmodel.tables.adoption.infer import ROWS, InferredModel
from hbmodel.tables.adoption.infer import infer as infer_model
from hbmodel.tools.cli.arguments.existing_store import connect_existing
from hbmodel.tools.cli.arguments.store_options import store_option


@click.command()
@click.argument("table")
@store_option
@click.option("--sample", type=click.IntRange(1), default=ROWS, show_default=True, help="Number of rows to read.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def infer(table: str, url: str, sample: int, as_json: bool) -> None:
    """Propose a model for a table of other programs, from a sample of its rows.

    The model is printed as Python source. The comment before each field says how certain the guess is, and why. Correct
    the model, and check it with `hbmodel adopt`. Nothing is registered or written.
    """
    with connect_existing(url) as store:
        model = infer_model(store, table, sample=sample)
    click.echo(json.dumps(_as_json(model)) if as_json else model.source, nl=as_json)


def _as_json(model: InferredModel) -> dict[str, Any]:
    return {
        "table": model.table,
        "rows": model.rows,
        "salt": model.salt,
        "exists": json_of_value(model.exists),
        "guesses": [
            {
                "name": each.name,
                "column": json_of_value(each.column),
                "annotation": each.annotation,
                "codec": each.codec,
                "in_qualifier": each.in_qualifier,
                "confidence": each.confidence,
                "reason": each.reason,
                "example": json_of_value(each.example),
            }
            for each in model.guesses
        ],
        "others": [_as_json(other) for other in model.others],
        "source": model.source,
    }
