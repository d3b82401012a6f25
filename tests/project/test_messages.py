"""Every message of an error is read by some test, so that none is wrong, or misses what to do next, without anybody noticing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hbmodel as hb
from hbmodel import errors

ROOT = Path(__file__).parents[2]
ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, hb.HbmodelError)}
RAISING = ERRORS | {"mistake", "_mistake"}
"""What messages are given to."""

WORDS = 3
"""So many words of a message, one behind the other, must stand in a test."""

UNREAD = {
    # What only a failing network, server or machine brings about; tests look at the kind of error there.
    "No free port was found; stop other servers or name the ports.",
    "The indexes of the table keep changing: read the key to find out whether the object was put.",
    "This HBase was started already: enter its `with` block once.",
    "Another process stopped this HBase; start it again.",
    "No temporary directory can be made; name a directory.",
    "The certificates of all HBase gateways were refused, or they refused the client's: see `tried`.",
    "None of the HBase gateways accepts a connection: see `tried`.",
    "The connection to the HBase gateway is broken.",
    "Cannot connect to the HBase gateway.",
    "The connection to the HBase gateway broke before the request was sent.",
    "HBase refused the request.",
    "The HBase gateway's HTTP server rejected the request.",
    "The HBase gateway's HTTP server failed.",
    "The write may or may not have been applied, fully or in part: read the rows to find out.",
    "HBase cannot continue a scan.",
    "The registry's description is not enough to read the table: use the program's model.",
    "The Thrift1 gateway cannot list the namespaces of this HBase; an hbase+thrift2: store can.",
    "A scan was interrupted: start it again.",
    "The TLS handshake with the HBase gateway failed.",
    "The put was abandoned because another one failed.",
    # What only another program that does something else at the same time brings about.
    "The row has been written since the group was begun: begin again.",
    "Other writes keep claiming the same unique value: try again.",
    "The path of the continuation token is not available to this query: start from the first page.",
    "The live index has another layout: see hb.diff().",
    "Another program dropped the index in the meantime.",
    "The migration is being rolled back: finish that first with roll_back().",
    "Other programs keep moving the object: try again.",
    "The object may or may not have been put: read its key to find out.",
    "The objects have moved on to another table during a query; ask again.",
    "The objects have moved on to another table during a commit; commit again.",
}
"""Messages that no test reads."""


def text_of(node: ast.expr) -> str:
    """A message, with a line break for each part that varies."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "\n" for part in node.values)
    return ""


def messages() -> Iterator[tuple[str, str]]:
    """The messages of the package, each with its place."""
    for path in sorted((ROOT / "hbmodel").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                found = next((text for argument in node.args if (text := text_of(argument))), "") if name in RAISING else ""
                if " " in found:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", found


def pieces(message: str) -> Iterator[str]:
    """Some words that stand together in a message."""
    for part in message.split("\n"):
        words = part.split()
        for at in range(max(1, len(words) - WORDS + 1)):
            piece = " ".join(words[at : at + WORDS]).rstrip(".,:;")
            if len(piece) >= 8:
                yield piece


def read_by_tests() -> str:
    """The text of all tests but this one, without what regular expressions and line breaks put between words."""
    text = "".join(path.read_text() for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__))
    return re.sub(r'"\s*\n\s*[rf]*"', "", re.sub(r"\\(.)", r"\1", text))


@pytest.mark.lengthy
def test_every_message_is_read_by_a_test() -> None:
    tests = read_by_tests()
    found = list(messages())
    assert len(found) > 600
    assert {
        place: message for place, message in found if message not in UNREAD and not any(piece in tests for piece in pieces(message))
    } == {}
    assert {message for _, message in found} >= UNREAD, "what is said no longer"
