"""The command that proposes a model for a table of other programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hbmodel as hb
from hbmodel.store import Family, Put
from hbmodel.tools.cli import main

SOURCE = """\
# A proposal from 2 rows: correct it, then check it with hb.tables.adopt.
import hbmodel as hb
from hbmodel.codecs import java


@hb.model(table="cli_inferred", family="d", external=True)
class CliInferred:
    # unsure: text (UTF-8) of 1 to 2 bytes; such as b'a'
    key: hb.Key[str] = hb.key(hb.Text)
    # unsure: 8 bytes that are plausible as big-endian numbers (if programs increment them, hb.counter()); in all 2 rows; such as b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01'
    s: hb.Column[int] = hb.column("s", java.Long)
    # unsure: 2 bytes of no known form; in 1 of 2 rows; such as b'\\xfe\\xff'
    x: hb.Column[bytes | None] = hb.column("x", hb.Bytes, default=None)
"""  # noqa: E501


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A file with a table of another program."""
    found = f"embedded:{tmp_path / 'store.db'}"
    one = (1).to_bytes(8, "big")
    with hb.connect(found) as store:
        store.create_table("cli_inferred", [Family(b"d")])
        store.create_table("cli_empty", [Family(b"d")])
        store.put("cli_inferred", [Put(b"a", {b"d:s": one}), Put(b"bc", {b"d:s": bytes(8), b"d:x": b"\xfe\xff"})])
    return found


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["infer", *arguments, "--store", url])


def test_the_source_is_printed(url: str) -> None:
    result = run(url, "cli_inferred")
    assert (result.exit_code, result.output) == (0, SOURCE)
    with hb.connect(url) as store:
        assert store.tables() == ["cli_empty", "cli_inferred"]


def test_the_result_as_json(url: str) -> None:
    result = run(url, "cli_inferred", "--json", "--sample", "10")
    assert result.exit_code == 0
    told = json.loads(result.output)
    key, size, other = told.pop("guesses")
    assert told == {
        "table": "cli_inferred", "rows": 2, "salt": None, "exists": None, "others": [], "source": SOURCE,
    }  # fmt: skip
    assert key["column"] is None
    assert size == {
        "name": "s",
        "column": "d:s",
        "annotation": "int",
        "codec": "java.Long",
        "in_qualifier": False,
        "confidence": "unsure",
        "reason": "8 bytes that are plausible as big-endian numbers (if programs increment them, hb.counter()); "
        "in all 2 rows",
        "example": "\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01",
    }
    assert (other["annotation"], other["example"]) == ("bytes | None", "\\xFE\\xFF")


@pytest.mark.parametrize(
    ("table", "message"), [("other", "There is no such table"), ("cli_empty", "this table has none")]
)
def test_what_cannot_be_read_is_one_line(url: str, table: str, message: str) -> None:
    result = run(url, table)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.splitlines()) == 1
