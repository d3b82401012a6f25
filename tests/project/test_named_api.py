"""The text of pages, of the change log and of docstrings names only what there is: names, keyword arguments, options
of commands.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterator
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
import pytest

import hbmodel as hb
from hbmodel.store import VersionsStore
from hbmodel.tools.cli import main
from tests.project.test_public_names import PUBLIC

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOR_USERS = [page for page in PAGES if page.parent.name != "internals"]
TEXTS = [*PAGES, ROOT / "CHANGELOG.md", *sorted((ROOT / "hbmodel").rglob("*.py"))]


class EveryStore(hb.Store, VersionsStore):
    """What each store of `hb.connect` can do."""


OWNERS = {
    "hb": hb,
    "session": hb.Session,
    "query": hb.Query,
    "store": EveryStore,
    "page": hb.Page,
    "group": hb.types.RowGroup,
}
"""What these names refer to in text: `hb` is the module, and the others are objects."""

CLASSES = {
    name: value for module, names in PUBLIC.items() for name in names if inspect.isclass(value := getattr(module, name))
}
"""The public classes: text names their methods as `Session.get`."""

NAME = re.compile(r"(?<![\w./])([A-Za-z]\w*)((?:\.[A-Za-z_]\w*)+)")
NO_RUN = re.compile(r"^ *```python no-run\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
SHELL = re.compile(r"^ *```(?:console|shell|sh)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

OTHERS = {"docs/coming-from-sqlalchemy.md": {"Session.merge"}}
"""Names of other libraries, by page."""


def docstrings(code: str) -> str:
    """The docstrings of a module, and the strings below its names."""
    strings = (node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Expr))
    return "\n\n".join(node.value for node in strings if isinstance(node, ast.Constant) and isinstance(node.value, str))


@cache
def pieces(path: Path) -> tuple[str, ...]:
    """The code that a text contains and no other test runs: its code spans, and the blocks that are marked so."""
    text = path.read_text(encoding="utf-8")
    text = docstrings(text) if path.suffix == ".py" else text
    return *SPAN.findall(FENCED.sub("", text)), *map(textwrap.dedent, NO_RUN.findall(text))


def missing(owner: Any, path: str) -> bool:
    """Whether an attribute cannot be found; fields of attrs classes are attributes of their instances alone."""
    first, _, rest = path.partition(".")
    if any(field.name == first for field in getattr(owner, "__attrs_attrs__", ())) and not rest:
        return False
    try:
        attrgetter(path)(owner)
    except AttributeError:
        return True
    return False


def names_in(code: str) -> Iterator[tuple[str, Any, str]]:
    """The attributes of known owners that a piece of code names: the name of the owner, the owner, the attribute."""
    for name, path in sorted(set(NAME.findall(code))):
        if name in OWNERS or name in CLASSES:
            yield name, OWNERS.get(name, CLASSES.get(name)), path[1:]


def listed(owner: Any, path: str) -> bool:
    """Whether an attribute is a detail of an error that its docstring lists."""
    return (
        inspect.isclass(owner)
        and issubclass(owner, hb.HbmodelError)
        and f"\n    {path}: " in (inspect.getdoc(owner) or "")
    )


def wrong_names(code: str) -> list[str]:
    """The attributes that their owners do not have."""
    return [
        f"{name}.{path}" for name, owner, path in names_in(code) if missing(owner, path) and not listed(owner, path)
    ]


def meant(node: ast.expr) -> Any:
    """The function or class that an expression names; None if its names do not determine one."""
    if isinstance(node, ast.Name):
        return OWNERS.get(node.id, CLASSES.get(node.id))
    if isinstance(node, ast.Attribute):
        return getattr(meant(node.value), node.attr, None)
    if isinstance(node, ast.Call):
        called = meant(node.func)
        if inspect.isclass(called):
            return called
        returned = str(getattr(called, "__annotations__", {}).get("return", ""))
        return CLASSES.get(returned.partition("[")[0])
    return None


def parsed(code: str) -> ast.AST:
    """The syntax tree of a piece of code, which may be only a decorator; an empty tree if it is not code."""
    try:
        return ast.parse(f"{code}\nclass Model: ..." if code.startswith("@") and "\n" not in code else code)
    except SyntaxError:
        return ast.Module([], [])


def wrong_keywords(code: str) -> list[str]:
    """The keyword arguments that a function or class does not take."""
    found = []
    for node in ast.walk(parsed(code)):
        # An owner is an object in text: `page(...)` is a method that is named without its owner.
        if not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id in OWNERS):
            continue
        if not callable(called := meant(node.func)):
            continue
        parameters = inspect.signature(called).parameters.values()
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            continue
        known = {parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY}
        found += [
            f"{ast.unparse(node.func)}({given.arg}=)"
            for given in node.keywords
            if given.arg is not None and given.arg not in known
        ]
    return found


def command_lines(path: Path) -> Iterator[list[str]]:
    """The words of each command line after `hbmodel`."""
    text = path.read_text(encoding="utf-8")
    text = docstrings(text) if path.suffix == ".py" else text
    blocks = "\n".join(SHELL.findall(text)).replace("\\\n", " ")
    for line in (*SPAN.findall(FENCED.sub("", text)), *blocks.splitlines()):
        for command in re.findall(r"(?<!import )(?<![\w./:-])hbmodel (.*)", line):
            try:
                yield shlex.split(command, comments=True)
            except ValueError:
                yield command.split()


def options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


def wrong_words(words: list[str]) -> list[str]:
    """The words that are no commands of their group, and the options that neither the command nor its groups accept."""
    command: click.Command = main
    known, wrong = {"--help", *options(main)}, []
    for word in words:
        if word in {"|", "&&", ";", ">"}:
            break
        if word.startswith("-") and len(word) > 1:
            wrong += [] if word.partition("=")[0] in known else [word]
        elif isinstance(command, click.Group):
            if word not in command.commands:
                return [*wrong, *([word] if re.fullmatch("[a-z][a-z-]*", word) else [])]
            command = command.commands[word]
            known |= options(command)
    return wrong


def test_a_text_names_only_what_there_is() -> None:
    found: dict[str, list[Any]] = {}
    for path in TEXTS:
        name = path.relative_to(ROOT).as_posix()
        names = [
            wrong for piece in pieces(path) for wrong in wrong_names(piece) if wrong not in OTHERS.get(name, set())
        ]
        keywords = [wrong for piece in pieces(path) for wrong in wrong_keywords(piece)]
        words = [(words, wrong) for words in command_lines(path) if (wrong := wrong_words(words))]
        if names or keywords or words:
            found[name] = [*names, *keywords, *words]
    assert found == {}


def commands(command: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    """The words after `hbmodel` of a command, or of each command of a group."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from commands(inner, *names, name)
    else:
        yield names


def not_named(command: click.Command, lines: list[list[str]]) -> list[str]:
    """The commands that no command line has."""
    return [
        " ".join(names) for names in commands(command) if not any((*line[: len(names)],) == names for line in lines)
    ]


def test_every_command_stands_on_a_page() -> None:
    assert not_named(main, [words for page in FOR_USERS for words in command_lines(page)]) == []


def test_a_command_without_a_page_is_found() -> None:
    group = click.Group(commands=[click.Command("one"), click.Group("many", commands=[click.Command("two")])])
    assert not_named(group, [["many", "two", "--store", "x"]]) == ["one"]
    assert not_named(group, [["one"], ["many"], ["two"]]) == ["many two"]


def test_what_does_not_exist_is_found() -> None:
    assert wrong_names("Session.wheer(), hb.Query.wheer and PartialWrite.position, PartialWrite.place") == [
        "PartialWrite.place",
        "Session.wheer",
        "hb.Query.wheer",
    ]
    assert missing(hb, "Sesion")
    assert not missing(hb.Page, "next_token")
    assert [
        name
        for name, _, _ in names_in(
            "hb.create_tables(store, Model), session.get, but not docs/query.md nor my.session.x"
        )
    ] == [
        "hb",
        "session",
    ]
    assert wrong_keywords("name: hb.Key[str] = hb.key(hb.Text, descending=True)") == ["hb.key(descending=)"]
    assert wrong_keywords("session.query(Order).where(Order.number > 1).delete(size=3, batch_size=4)") == [
        "session.query(Order).where(Order.number > 1).delete(size=)"
    ]
    assert wrong_keywords("hb.column(alias='x', versions=n)") == ["hb.column(alias=)"], "given by position only"
    assert wrong_keywords(
        "hb.HashSalt(4, by=('user',)), hb.HashSalt(4, on=('user',)), session.get(Order, number=1)"
    ) == ["hb.HashSalt(on=)"]
    assert wrong_words(["index", "status", "orders", "--store", "hbase://a", "--all-of-them", "--model=app:Order"]) == [
        "--all-of-them"
    ]
    assert wrong_words(["index", "forget", "--store", "hbase://a"]) == ["forget"]


@pytest.mark.lengthy
def test_there_is_much_to_check() -> None:
    every = [piece for path in TEXTS for piece in pieces(path)]
    assert sum(len(list(names_in(piece))) for piece in every) > 500
    calls = [
        node for piece in every for node in ast.walk(parsed(piece)) if isinstance(node, ast.Call) and node.keywords
    ]
    assert sum(callable(meant(node.func)) for node in calls) > 80
    lines = [words for path in TEXTS for words in command_lines(path)]
    assert sum(word.startswith("-") for words in lines for word in words) > 15
    assert {Path("CHANGELOG.md"), Path("docs/queries.md"), Path("hbmodel/query/ask/query.py")} <= {
        path.relative_to(ROOT) for path in TEXTS
    }
