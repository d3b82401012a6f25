"""The structure of the package, read from its source: which module may import which, and what every module looks like."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "hbmodel"

# Imports go to rows above or to earlier modules of the same row.
LAYERS: dict[str, list[str]] = {
    "values": [
        "tools",
        "session",
        "tables",
        "query",
        "protocol",
        "mapping",
        "encoding",
        "store.checks",
        "store.gateway",
        "store.thrift1",
        "store.thrift2",
        "_version",
        "errors",
        "store.ranges",
        "encoding.codecs.base",
        "encoding.codecs.integers",
        "encoding.codecs.floats",
        "encoding.codecs.decimals",
        "encoding.codecs.uuids",
        "encoding.codecs.text",
        "encoding.codecs.times",
        "encoding.codecs.defaults",
        "encoding.codecs.enums",
        "encoding.codecs.number_text",
        "encoding.codecs.java",
        "encoding.codecs.unordered",
        "encoding.codecs.structured",
        "encoding.codecs.infer",
        "encoding.codecs",
    ],
    "bytes": [
        "encoding.bounds",
        "encoding.codegen",
        "encoding.key_field",
        "encoding.key_layout",
        "encoding.salts",
        "store.filters",
        "store.values",
        "store",
    ],
    # Expressions stand here and not with the planning because the descriptors that the decorator installs hand them out.
    "definition": [
        "mapping.schema",
        "mapping.predicates",
        "mapping.expressions",
        "mapping.annotations",
        "mapping.families",
        "mapping.declaration",
        "mapping.model",
    ],
    "planning": [
        "mapping.row_codegen",
        "mapping.mapper",
        "protocol.expiry",
        "query.paging",
        "query.part",
        "query.explanation",
        "query.query",
        "protocol.operations",
        "protocol.indexed_plan",
        "protocol.indexed_batch",
        "protocol.indexed_write",
        "protocol.row_time",
        "protocol.unindexed_batch",
        "protocol.unindexed_plan",
        "protocol.guarded_update",
        "protocol.unindexed_write",
        "protocol.unindexed_insert",
        "query.key_conditions",
        "query.pushdown",
        "query.planner",
        "query.partition",
    ],
    "execution": [
        "protocol.clock",
        "protocol.driver",
        "tables.layout_text",
        "tables.registry",
        "session.metadata_cache",
        "session.unit_of_work",
        "session.bulk_load",
        "session.insert",
        "query.executor",
        "session.thread_guard",
        "session.query_runner",
        "store.observed",
        "session.options",
        "session.session",
        "session.factory",
        "tables.split_keys",
        "tables.region_check",
        "tables.declared",
        "mapping.key_cost",
        "tables.diff",
        "tables.create",
        "tables.alter",
        "tables.drop",
        "mapping.raw_access",
    ],
    "stores": [
        "store.gateway.batches",
        "store.checks.rows",
        "store.shell",
        "store.url",
        "store.gateway.options",
        "store.gateway.filter_language",
        "store.gateway.scan_bounds",
        "store.checks.reads",
        "store.checks.tables",
        "store.embedded.cells",
        "store.embedded.filter_nodes",
        "store.embedded.row_filter",
        "store.embedded.database",
        "store.embedded.descriptor",
        "store.embedded.namespaces",
        "store.embedded.read",
        "store.embedded.write",
        "store.embedded.compaction",
        "store.embedded.store",
        "store.embedded",
        "store.gateway.failures",
        "store.gateway.addresses",
        "store.gateway.tls",
        "store.gateway.http",
        "store.gateway.connection",
        "store.gateway.pool",
        "store.gateway.attributes",
        "store.gateway.retry",
        "store.gateway.scan_cursor",
        "store.gateway.scan_multiplexer",
        "store.gateway.client",
        "store.gateway.store",
        "store.thrift1.service",
        "store.thrift1.families",
        "store.thrift1.writes",
        "store.thrift1.scans",
        "store.thrift1.store",
        "store.thrift2.service",
        "store.thrift2.families",
        "store.thrift2.writes",
        "store.thrift2.scans",
        "store.thrift2.store",
    ],
    "edges": [
        "session.connect",
        "localhbase.extras",
        "localhbase.locks",
        "localhbase.java",
        "localhbase.ports",
        "localhbase.processes",
        "localhbase.progress",
        "localhbase.pins",
        "localhbase.jars",
        "localhbase.configuration",
        "localhbase.directory",
        "localhbase.readiness",
        "localhbase.launching",
        "localhbase.lifecycle",
        "localhbase.watchdog",
        "localhbase.running",
        "localhbase",
        "tools.cli",
        "__main__",
        "tools.pytest_plugin",
        "",
    ],
}

OUTSIDE_STORES = {"errors", "store.ranges", "store.filters", "store.values"}
"""All that an adapter may know of the rest."""

ORDER = [name for row in LAYERS.values() for name in row]
ROW_OF = {name: row for row, names in LAYERS.items() for name in names}

LONGEST_FILE = 400

FORBIDDEN_WORDS = {"manager", "helper", "helpers", "util", "utils", "entity", "entities", "document", "documents"}


def name_of(path: Path) -> str:
    """`a.b` of `hbmodel/a/b.py`, `a` of `hbmodel/a/__init__.py`, nothing of the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(), str(path)) for name, path in MODULES.items()}


def imports_of(tree: ast.Module) -> Iterator[str]:
    """The package's own modules that a module imports anywhere in its text: lazily and for type checkers too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "hbmodel":
                    yield alias.name.partition(".")[2]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: relative imports are not used here"
            if node.module is not None and node.module.split(".")[0] == "hbmodel":
                base = node.module.partition(".")[2]
                for alias in node.names:
                    inner = f"{base}.{alias.name}" if base else alias.name
                    yield inner if inner in MODULES else base


def test_every_module_has_its_place() -> None:
    assert len(set(ORDER)) == len(ORDER)
    missing = sorted(set(MODULES) - set(ORDER))
    assert not missing, f"put these modules into LAYERS: {missing}"
    gone = sorted(set(ORDER) - set(MODULES))
    assert not gone, f"these modules are in LAYERS and do not exist: {gone}"


@pytest.mark.parametrize("name", [name for name in ORDER if name in MODULES], ids=lambda name: name or "hbmodel")
def test_imports_go_up(name: str) -> None:
    rank = ORDER.index(name)
    wrong = {imported for imported in imports_of(TREES[name]) if ORDER.index(imported) >= rank}
    assert not wrong, f"{name} imports {sorted(wrong)}, which stand below it or beside it"


@pytest.mark.parametrize("name", [name for name in LAYERS["stores"] if name in MODULES])
def test_stores_know_only_the_port(name: str) -> None:
    wrong = {imported for imported in imports_of(TREES[name]) if ROW_OF[imported] != "stores"} - OUTSIDE_STORES
    assert not wrong, f"{name} imports {sorted(wrong)}; an adapter knows {sorted(OUTSIDE_STORES)} and other adapters"


def test_only_the_edges_and_the_stores_know_an_adapter() -> None:
    knowing = {name for name, tree in TREES.items() for imported in imports_of(tree) if ROW_OF[imported] == "stores"}
    assert {ROW_OF[name] for name in knowing} == {"stores", "edges"}


def test_lazy_imports_are_seen() -> None:
    tree = ast.parse(
        "def f():\n    from hbmodel.localhbase import pins\nif TYPE_CHECKING:\n    import hbmodel._version\n"
        "from hbmodel import errors, connect\n"
    )
    assert sorted(imports_of(tree)) == ["", "_version", "errors", "localhbase.pins"]


def test_every_module_opens_with_one_sentence() -> None:
    for name, tree in TREES.items():
        docstring = ast.get_docstring(tree)
        assert docstring, f"{name} has no docstring"
        first, _, rest = docstring.partition("\n")
        assert first.endswith("."), f"the first line of {name} is not a sentence: {first}"
        assert not re.search(r"\. [A-Z]", first), f"the first line of {name} is more than one sentence: {first}"
        assert not rest or rest.startswith("\n"), f"the first sentence of {name} does not stand alone"


def test_annotations_are_not_evaluated() -> None:
    for name, tree in TREES.items():
        if any(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in tree.body):
            futures = {a.name for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__" for a in n.names}
            assert "annotations" in futures or name == "_version", f"{name} lacks `from __future__ import annotations`"


def test_no_file_is_long() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    long = {name: length for name, length in lengths.items() if length > LONGEST_FILE}
    assert not long, f"more than {LONGEST_FILE} lines; look for the second idea in them: {long}"


def identifiers_of(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that a module defines, binds or takes as an argument."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.alias(asname=str(name)):
                yield name, node.lineno


def words_of(identifier: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", identifier)}


def test_names_say_what_things_are() -> None:
    found = [
        f"{name}:{line}: {identifier}"
        for name, tree in TREES.items()
        for identifier, line in identifiers_of(tree)
        if words_of(identifier) & FORBIDDEN_WORDS
    ]
    found += [name for name in MODULES if words_of(name) & FORBIDDEN_WORDS]
    assert not found, f"{sorted(FORBIDDEN_WORDS)} say nothing: {found}"


def test_identifiers_are_taken_apart() -> None:
    assert words_of("HTTPSessionManager_of2x") == {"http", "session", "manager", "of", "2", "x"}
    tree = ast.parse("class Helper:\n    x = 1\n    def f(self, utils): self.entity = 1\nimport a as document")
    assert {"Helper", "utils", "entity", "document"} <= {name for name, _ in identifiers_of(tree)}


def calls_of(tree: ast.Module, *names: str) -> list[int]:
    """Lines on which one of these builtins is called."""
    return [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in names]


def test_nothing_is_printed() -> None:
    found = {name: lines for name, tree in TREES.items() if (lines := calls_of(tree, "print", "breakpoint"))}
    assert not found, f"a library logs and a command line echoes: {found}"


def test_nothing_foreign_is_executed() -> None:
    evaluated = {name: lines for name, tree in TREES.items() if (lines := calls_of(tree, "eval"))}
    assert not evaluated, evaluated
    compiled = {name for name, tree in TREES.items() if calls_of(tree, "exec", "compile")}
    assert compiled == {"encoding.codegen"}, "code is made in one place, from text that holds no data"
    unsafe = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    for name, tree in TREES.items():
        imported = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        imported |= {n.module.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
        assert not imported & unsafe, f"{name} imports {imported & unsafe}"
