"""Every message of an error is read by some test, so that none is wrong, or misses what to do next, without anybody noticing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import hbmodel as hb
from hbmodel import errors

ROOT = Path(__file__).parents[2]
ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, hb.HbmodelError)}
RAISING = ERRORS | {"mistake", "_mistake", "warn", "BadParameter", "UsageError", "ClickException"}
"""What messages are given to."""

WORDS = 3
LETTERS = 12
"""A piece of a message that a test reads has at least so many words, and so many characters."""

UNREAD: dict[str, str] = {
    "The objects have moved on to another table during a commit; commit again.": (
        "The commit catches it and writes the objects again, by the phase that the migration is in then, so no program sees it."
    ),
    "The indexes of the table changed during an insert.": (
        "The insert catches it and goes on by the indexes that there are then, so no program sees it."
    ),
}
"""Messages that no test reads, each with the reason."""


class Texts:
    """The texts that an expression of a module can have."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        self._exported: dict[str, list[ast.expr]] = {}
        self._given: dict[str, list[ast.expr]] = {}
        for tree in trees:
            for name, value in _assigned(tree.body):
                self._exported.setdefault(name, []).append(value)
            for name, value in _given(tree):
                self._given.setdefault(name, []).append(value)

    def of(self, node: ast.expr, tree: ast.Module) -> list[str]:
        """Each with a line break for every part that varies."""
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr():
                return ["".join(part.value if isinstance(part, ast.Constant) else "\n" for part in node.values)]
            case ast.BinOp(op=ast.Add()):
                return [a + b for a in self.of(node.left, tree) or ["\n"] for b in self.of(node.right, tree) or ["\n"]]
            case ast.IfExp():
                return self.of(node.body, tree) + self.of(node.orelse, tree)
            case ast.BoolOp():
                return [text for value in node.values for text in self.of(value, tree)]
            case ast.Dict():
                return [text for value in node.values for text in self.of(value, tree)]
            case ast.Subscript():
                return self.of(node.value, tree)
            case ast.Name(id=name):
                here = [value for given, value in _assigned(ast.walk(tree)) if given == name]
                found = here or self._exported.get(name) or self._given.get(name, [])
                return [text for value in found if value is not node and not isinstance(value, ast.Name) for text in self.of(value, tree)]
        return []


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _given(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The arguments of the calls in a module, by the names of the parameters."""
    parameters: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            parameters[node.name] = [argument.arg for argument in node.args.args if argument.arg != "self"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name not in RAISING:
                yield from zip(parameters.get(name, ()), node.args, strict=False)


def messages() -> Iterator[tuple[str, str]]:
    """The messages of the package, each with its place."""
    trees = {path: ast.parse(path.read_text()) for path in sorted((ROOT / "hbmodel").rglob("*.py"))}
    texts = Texts(trees.values())
    for path, tree in trees.items():
        for node in ast.walk(tree):
            for argument in _arguments(node):
                if found := [text for text in texts.of(argument, tree) if " " in text]:
                    yield from ((f"{path.relative_to(ROOT)}:{argument.lineno}", text) for text in found)
                    break


def _arguments(node: ast.AST) -> list[ast.expr]:
    """What can be a message: arguments of errors, and what stands behind a kind of error in a table."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in RAISING:
            return node.args
        case ast.Tuple(elts=[*_, ast.Name(id=name), message]) if name in ERRORS:
            return [message]
    return []


def unique_pieces(message: str, others: str) -> Iterator[str]:
    """The shortest pieces of a message, from each of its words on, that no other message has."""
    yield message.strip()
    for part in message.split("\n"):
        words = part.split()
        for at in range(len(words)):
            for end in range(at + WORDS, len(words) + 1):
                piece = " ".join(words[at:end])
                bare = piece.rstrip(".,:;")
                if len(bare) >= LETTERS and piece not in others:
                    yield bare if bare not in others else piece
                    break


def constants(tree: ast.Module) -> Iterator[str]:
    """The texts of a test's code, without docstrings, without what regular expressions put before a character."""
    described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield " ".join(re.sub(r"\\(.)", r"\1", node.value).split())


def read_by_tests() -> str:
    """The texts in all tests but this one."""
    paths = (path for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__))
    return "\0".join(text for path in paths for text in constants(ast.parse(path.read_text())) if len(text) >= LETTERS)


def unread() -> dict[str, str]:
    """The messages that no test reads, with their places."""
    tests, found = read_by_tests(), {message: place for place, message in messages()}
    assert len(found) > 600
    missing = {}
    for message, place in found.items():
        others = "\0".join(other for other in found if other != message)
        if not any(piece in tests for piece in unique_pieces(message, others)):
            missing[message] = place
    return missing


@pytest.mark.lengthy
def test_every_message_is_read_by_a_test() -> None:
    missing = unread()
    assert {message: place for message, place in missing.items() if message not in UNREAD} == {}
    assert missing.keys() >= UNREAD.keys(), "what is said no longer, or read by a test"
