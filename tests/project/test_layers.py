"""The structure of the package, read from its source: which room may import which, and what every module looks like."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "hbmodel"

KNOWS: dict[str, set[str]] = {
    "errors": set(),
    "_version": set(),
    "_lazy": set(),
    "store": {"errors"},
    "encoding": {"store", "errors"},
    "mapping": {"encoding", "store", "errors"},
    "protocol": {"mapping", "encoding", "store", "errors"},
    "query": {"protocol", "mapping", "encoding", "store", "errors"},
    "tables": {"_lazy", "protocol", "mapping", "encoding", "store", "errors"},
    "session": {"_lazy", "query", "tables", "protocol", "mapping", "encoding", "store", "errors"},
    "localhbase": {"errors"},
    "tools": {
        "_lazy",
        "session",
        "query",
        "tables",
        "protocol",
        "mapping",
        "encoding",
        "store",
        "localhbase",
        "errors",
        "_version",
    },
}
"""The rooms, and two modules at the top: what each may know of the others."""

FOLDERS: dict[str, dict[str, set[str]]] = {
    "mapping": {"index_kinds": set(), "declare": {"index_kinds"}, "rows": {"declare"}},
    "protocol": {
        "indexed": set(),
        "versioned": {"indexed"},
        "server_timed": set(),
        "relocation": {"indexed", "versioned", "server_timed"},
    },
    "query": {"ask": set(), "match": {"ask"}, "run": {"ask", "match"}, "explain": {"ask", "match", "run"}},
    "session": {"commit": set(), "calls": {"commit"}, "queries": {"commit"}},
    "store": {
        "checks": set(),
        "filtering": set(),
        "wide": {"checks", "filtering"},
        "embedded": {"checks", "filtering"},
        "gateway": {"checks"},
        "thrift1": {"checks", "gateway"},
        "thrift2": {"checks", "gateway"},
    },
    "store.gateway": {"wire": set(), "scanning": {"wire"}},
    "tables": {
        "registry": set(),
        "ids": {"registry"},
        "roll": {"registry", "ids"},
        "adoption": set(),
        "creation": {"registry", "ids", "adoption"},
        "indexes": {"registry", "ids", "roll", "creation"},
        "migration": {"registry", "roll", "creation", "indexes"},
        "advice": set(),
    },
    "tools.cli": {"output": set(), "arguments": set()},
}
"""The folders of a room that has several: what each may know of the others."""

ABOVE = {"", "__main__", "codecs", "ids", "indexes", "migration", "salts", "schema", "timeseries", "types"}
"""The package itself, its public modules and its command may know every room; no room knows them."""

EXECUTES = {"encoding.codegen"}
"""The only module that compiles code."""


def name_of(path: Path) -> str:
    """`a.b` of `hbmodel/a/b.py`, `a` of `hbmodel/a/__init__.py`, nothing of the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
PACKAGES = sorted(name for name, path in MODULES.items() if path.name == "__init__.py")


@cache
def trees() -> Mapping[str, ast.Module]:
    """The code of every module; read by a test, since every worker of pytest-xdist imports this file."""
    return {name: ast.parse(path.read_text(), str(path)) for name, path in MODULES.items()}


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


def room_of(name: str) -> str:
    """The first part of a module's name."""
    return name.partition(".")[0]


@cache
def imports() -> Mapping[str, set[str]]:
    """The imports of every module from the package."""
    return {name: set(imports_of(tree)) for name, tree in trees().items()}


def test_every_module_stands_in_a_room() -> None:
    assert {room_of(name) for name in MODULES} == {*KNOWS, *ABOVE}
    assert {name for name in KNOWS if MODULES[name].name != "__init__.py"} == {"errors", "_version", "_lazy"}


def test_rooms_have_an_order() -> None:
    list(TopologicalSorter(KNOWS).static_order())
    for room, known in KNOWS.items():
        assert all(KNOWS[other] <= known for other in known), f"{room} may know a room without what that one knows"


def test_arrows_between_rooms_go_one_way() -> None:
    wrong = [
        f"{name} imports {other}; {room_of(name)} may know {sorted(allowed)}"
        for name in sorted(name for name in MODULES if room_of(name) not in ABOVE)
        for allowed in [KNOWS.get(room_of(name), set()) | {room_of(name)}]
        for other in sorted(imports()[name])
        if room_of(other) not in allowed
    ]
    assert not wrong


def cycle_in(graph: Mapping[str, set[str]]) -> list[str]:
    """The names of a cycle, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_files_import_each_other() -> None:
    assert not cycle_in(imports())


@cache
def siblings() -> Mapping[str, Mapping[str, set[str]]]:
    """By package: its modules and packages, each with its imports from the same package. A package includes everything
    in it.
    """
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, imported in imports().items():
        for other in imported:
            mine, theirs = name.split("."), other.split(".")
            shared = next(
                (at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs))
            )
            if shared < min(len(mine), len(theirs)):
                found[".".join(mine[:shared])][mine[shared]].add(theirs[shared])
    return found


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package or "hbmodel")
def test_no_packages_import_each_other(package: str) -> None:
    assert not cycle_in(siblings().get(package, {}))


@pytest.mark.parametrize("room", FOLDERS)
def test_arrows_between_the_folders_of_a_room_go_one_way(room: str) -> None:
    allowed = FOLDERS[room]
    list(TopologicalSorter(allowed).static_order())
    assert {name for name in PACKAGES if name.rpartition(".")[0] == room} == {f"{room}.{name}" for name in allowed}
    known = siblings()[room]
    wrong = {name: known[name] & allowed.keys() - others for name, others in allowed.items()}
    assert not any(wrong.values()), wrong


def test_the_folders_of_every_room_are_ordered() -> None:
    parents = [parent for name in PACKAGES if name and (parent := name.rpartition(".")[0])]
    assert {parent for parent in parents if parents.count(parent) > 1} == FOLDERS.keys()


def test_the_library_imports_from_where_a_thing_is_defined() -> None:
    wrong = sorted(name for name, imported in imports().items() if name and imported & {"", "store", *ABOVE})
    assert not wrong, f"these import what the package or the room hands out: {wrong}"


@pytest.mark.parametrize("adapter", ["store.embedded", "store.thrift1", "store.thrift2"])
def test_only_open_knows_an_adapter(adapter: str) -> None:
    inside = {name for name in MODULES if f"{name}.".startswith(f"{adapter}.")}
    assert {name for name, imported in imports().items() if imported & inside} - inside <= {"store.open"}


def test_a_cycle_is_found() -> None:
    assert set(cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}
    assert not cycle_in({"a": {"b", "c"}, "b": {"c"}})


def test_lazy_imports_are_seen() -> None:
    tree = ast.parse(
        "def f():\n    from hbmodel.localhbase import pinned_jars\nif TYPE_CHECKING:\n    import hbmodel._version\n"
        "from hbmodel import errors, connect\n"
    )
    assert sorted(imports_of(tree)) == ["", "_version", "errors", "localhbase.pinned_jars"]


def test_every_module_opens_with_one_sentence() -> None:
    for name, tree in trees().items():
        docstring = ast.get_docstring(tree)
        assert docstring, f"{name} has no docstring"
        first = docstring.partition("\n\n")[0].replace("\n", " ")
        assert first.endswith("."), f"{name} does not open with a sentence: {first}"
        assert not re.search(r"\. [A-Z]", first), f"{name} opens with more than one sentence: {first}"


def test_annotations_are_not_evaluated() -> None:
    for name, tree in trees().items():
        if any(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in tree.body):
            futures = {
                a.name for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__" for a in n.names
            }
            assert "annotations" in futures or name == "_version", f"{name} lacks `from __future__ import annotations`"


def calls_of(tree: ast.Module, *names: str) -> list[int]:
    """Lines on which one of these builtins is called."""
    return [
        n.lineno
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in names
    ]


def test_nothing_is_printed() -> None:
    found = {name: lines for name, tree in trees().items() if (lines := calls_of(tree, "print", "breakpoint"))}
    assert not found, f"a library logs and a command line echoes: {found}"


@pytest.mark.lengthy
def test_nothing_foreign_is_executed() -> None:
    evaluated = {name: lines for name, tree in trees().items() if (lines := calls_of(tree, "eval"))}
    assert not evaluated, evaluated
    compiled = {name for name, tree in trees().items() if calls_of(tree, "exec", "compile")}
    assert compiled == EXECUTES, "code is made in one place, from text that holds no data"
    unsafe = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    for name, tree in trees().items():
        imported = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        imported |= {n.module.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
        assert not imported & unsafe, f"{name} imports {imported & unsafe}"
