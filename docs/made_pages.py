"""Makes pages when the site is built: the reference, from the docstrings of all public names, and the example
programs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]

SECTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "models": ("Models, fields, salts", ("mapping", "encoding.salts")),
    "codecs": ("Codecs", ("encoding.codecs", "encoding.codec_check")),
    "sessions": ("Sessions", ("session", "protocol")),
    "queries": ("Queries", ("query",)),
    "tables": ("Tables and indexes", ("tables",)),
    "stores": ("Stores", ("store", "localhbase")),
    "errors": ("Errors", ("errors",)),
}
"""The title and the rooms of each page of the reference."""

DIRECTIVE = "::: {}\n    options:\n      heading: {}\n"
WITHOUT_MEMBERS = DIRECTIVE + "      members: false\n      inherited_members: false\n"
EXAMPLES = ROOT / "examples"
TO_EXAMPLES = re.compile(r"\]\(\.\./examples/([\w./-]*)\)")


MODULES = (
    "codecs",
    "codecs.java",
    "codecs.ordered_bytes",
    "codecs.as_text",
    "codecs.phoenix",
    "errors",
    "ids",
    "indexes",
    "localhbase",
    "migration",
    "salts",
    "schema",
    "store",
    "tables",
    "timeseries",
    "types",
)
"""The public modules except `hbmodel` itself."""

SUBMODULES = {f"hbmodel.{name}" for name in MODULES if "." in name}
"""The public modules that another public module has as a name."""


def exported(module: str) -> dict[str, str]:
    """Returns the public names of a module, each with the module of the package that defines it."""
    path = ROOT.joinpath("hbmodel", *module.split("."))
    source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    listed = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    if not listed:
        return {node.name: module for node in tree.body if isinstance(node, ast.ClassDef)}
    public = set(ast.literal_eval(listed[0]))
    return {
        alias.asname or alias.name: node.module.removeprefix("hbmodel.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
        if (alias.asname or alias.name) in public and f"{node.module}.{alias.name}" not in SUBMODULES
    }


def references() -> dict[str, str]:
    """Returns the pages of the reference, by file name. Each name is listed once, under the first package from which it
    can be imported.
    """
    top = exported("")
    top.pop("__version__", None)
    paths = {f"hbmodel.{name}": module for name, module in top.items()}
    for public in MODULES:
        known = {(path.rpartition(".")[2], module) for path, module in paths.items()}
        paths |= {
            f"hbmodel.{public}.{name}": module
            for name, module in exported(public).items()
            if (name, module) not in known
        }
    pages = {}
    for page, (title, rooms) in SECTIONS.items():
        names = [path for path, module in paths.items() if any(f"{module}.".startswith(f"{room}.") for room in rooms)]
        for name in names:
            del paths[name]
        text = f"# {title}\n"
        for path in sorted(names, key=str.lower):
            # the base class describes the members that all of them have
            directive = WITHOUT_MEMBERS if page == "codecs" and path != "hbmodel.Codec" else DIRECTIVE
            text += "\n" + directive.format(
                path, path.replace("hbmodel.", "hb.") if path.split(".")[1] != "localhbase" else path
            )
        pages[f"reference/{page}.md"] = text
    assert not paths, f"of no page: {paths}"
    return pages


def page_of(example: str) -> str:
    """Returns the page of an example program. For a folder, or any file that is no program, returns the page with the
    list of all.
    """
    return f"programs/{example.removesuffix('.py')}.md" if example.endswith(".py") else "programs/index.md"


def programs() -> Iterator[tuple[str, str]]:
    """Yields the pages of the example programs, the page that lists them, and the changelog."""
    listed = []
    for path in sorted(EXAMPLES.rglob("*.py")):
        name, source = path.relative_to(EXAMPLES).as_posix(), path.read_text(encoding="utf-8")
        said = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0].replace("\n", " ")
        yield page_of(name), f"# {name}\n\n{said}\n\n````python\n{source}````\n"
        listed.append(f"- [`{name}`]({page_of(name).removeprefix('programs/')}): {said}")
    text = "# Example programs\n\nEach runs on a local file, and on a real HBase with `--store hbase`.\n\n"
    yield "programs/index.md", text + "\n".join(listed) + "\n"
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    yield "programs/changes.md", changes.replace("](docs/", "](../")


def on_files(files: Files, *, config: Any) -> Files:
    """Adds the pages that are made here."""
    for name, text in (*references().items(), *programs()):
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Changes links to programs into links to their pages. Marks blocks that are not run in the tests as Python, like
    the others.
    """
    return TO_EXAMPLES.sub(lambda found: f"]({page_of(found[1])})", markdown).replace(
        "```python no-run\n", "```python\n"
    )
