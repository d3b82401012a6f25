"""Prints objects and tables as aligned text or as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from hbmodel.mapping.value_text import json_of_value, text_of_value


def print_objects(names: Sequence[str], objects: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Prints objects as lines of JSON, or as a table with a column for each name."""
    if as_json:
        for each in objects:
            click.echo(json.dumps({name: json_of_value(value) for name, value in each.items()}))
        return
    print_table(names, [[text_of_value(each[name]) if name in each else "" for name in names] for each in objects])


def print_table(names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Prints rows of texts under column headings."""
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    for line in (names, *cells):
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
