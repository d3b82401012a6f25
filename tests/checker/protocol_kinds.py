"""Configurations for the model checker with a row that has several entries in one index and sometimes one in another,
and mutants of the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import hbmodel as hb
from hbmodel.mapping.rows.mapper import Values
from hbmodel.protocol.indexed.entry_verifier import EntryVerifier
from hbmodel.protocol.indexed.indexed_plan import IndexedRowPlanner
from tests.checker.behaviour import once
from tests.checker.clocks import Clocks, over_stores
from tests.checker.protocol_adapter import Store
from tests.checker.protocol_invariants import ProtocolModel, watch_of
from tests.checker.protocol_mutants import Mutant, NoSecondPut, StaleAtTime, writing
from tests.checker.protocol_processes import (
    SHIPPED,
    Action,
    Insert,
    Rules,
    change,
    gone,
    prepared,
    put,
    reader,
    repairer,
    writer,
)
from tests.checker.protocol_sweeps import Configuration, Process


@hb.model(table="posts", family="d")
class Post:
    """An index of each tag and one of some rows only, by a level; the condition's column is in no index, nor is the
    note.
    """

    name: hb.Key[str] = hb.key()
    tags: hb.Column[tuple[str, ...]] = hb.column("t", hb.Json(tuple[str, ...]))
    level: hb.Column[str] = hb.column("l", default="x")
    state: hb.Column[str] = hb.column("s", default="open")
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_tag = hb.index(hb.each("tags"))
    by_level = hb.index("level", where=lambda post: post.state == "open")


POST, KEY = hb.schema.schema_of(Post), hb.row_key(Post, name="k")
BY_TAG, BY_LEVEL = POST.indexes["by_tag"], POST.indexes["by_level"]


def post(tags: str, state: str = "open", **more: Any) -> Any:
    """A full write."""
    return put(Post(name="k", tags=tuple(tags), state=state, **more))


ACTIONS: Mapping[str, tuple[Action, ...]] = {
    "put ab": (post("ab"),),
    "put bc": (post("bcb", "shut", note="new"),),
    "put nothing": (post("", "shut"),),
    "tags b": (change(Post, "k", tags=("b",)),),
    "tags ba": (change(Post, "k", tags=("b", "a")),),
    "no tags, tags ab": (change(Post, "k", tags=()), change(Post, "k", tags=("a", "b"))),
    "shut": (change(Post, "k", state="shut"),),
    "shut, open": (change(Post, "k", state="shut"), change(Post, "k", state="open")),
    "level": (change(Post, "k", level="y"),),
    "note": (change(Post, "k", note="n"),),
    "delete": (gone(Post, "k"),),
    "insert": (Insert(post("bc")),),
}

STORES: Mapping[str, Store] = {
    "live": prepared(POST, (10, post("ab", note="old"))),
    "shut": prepared(POST, (10, post("cb", "shut"))),
    "dead": prepared(POST, (9, post("ab", note="old")), (10, gone(Post, "k"))),
    "absent": {},
}


@once
def repairers(rules: Rules) -> list[Process]:
    """A repair of each index; the first one also purges the row's dead marker."""
    return [("G", repairer(POST, BY_TAG, rules, purge=KEY), 0), ("H", repairer(POST, BY_LEVEL, rules), 0)]


def _has(*tags: str) -> Callable[[Values], bool]:
    return lambda values: any(tag in values["tags"] for tag in tags)


@once
def readers(rules: Rules) -> list[Process]:
    """Queries for one tag, and for open rows of one level."""
    tags = [
        (f"R{tag}", reader(POST, BY_TAG, tag.encode(), tag.encode() + b"\xff", _has(tag), rules=rules), 0)
        for tag in "ab"
    ]
    open_rows = reader(
        POST, BY_LEVEL, b"x", b"x\xff", lambda values: (values["level"], values["state"]) == ("x", "open"), rules=rules
    )
    return [*tags, ("Rx", open_rows, 0)]


@once
def ranges(rules: Rules) -> list[Process]:
    """Queries for one of several tags, by pages of one entry; they may miss rows whose tags change."""
    return [
        (f"R{low}{high}", reader(POST, BY_TAG, low.encode(), high.encode() + b"\xff", _has(low, high), 1, rules), 0)
        for low, high in ("ab", "bc")
    ]


def kinds(
    names: Sequence[str] = tuple(ACTIONS),
    clocks: Clocks = (5, 12),
    rules: Rules = SHIPPED,
    *,
    stores: Sequence[str] = ("live",),
    others: Callable[[Rules], Sequence[Process]] | None = None,
    unmoved: str | None = None,
    crashes: int = 1,
    count: int = 2,
    **options: Any,
) -> Iterator[Configuration]:
    """Two writers of one row, in any order, and at most one other process."""
    watch = watch_of(POST)
    for kind, (done, readings) in over_stores(stores, names, clocks, count):
        chosen = list(zip(done, readings, strict=True))
        for other in others(rules) if others is not None else (None,):
            running: list[Process] = [
                (f"W{n}", writer(POST, n, ACTIONS[name], reading, rules, **options), reading)
                for n, (name, reading) in enumerate(chosen, 1)
            ]
            running += [] if other is None else [other]
            label = f"{kind} post, {chosen}, {None if other is None else other[0]}, {options}"
            yield label, ProtocolModel(watch, STORES[kind], running, crashes, unmoved=unmoved)


# --- rules broken on purpose ------------------------------------------------------------------------------------------


class AtEvery(EntryVerifier):
    """A row is returned at every current entry."""

    def _stands_for(self, entry: bytes, current: Sequence[bytes]) -> bool:
        return entry in current


class AtFirstOfAll(EntryVerifier):
    """A row is returned at the first of its current entries, whether or not the query asks for it."""

    def _stands_for(self, entry: bytes, current: Sequence[bytes]) -> bool:
        return bool(current) and min(current) == entry


class AtFirstInScope(EntryVerifier):
    """A row is returned at the first entry that the query asks for, current or not, if it matches."""

    def _stands_for(self, entry: bytes, current: Sequence[bytes]) -> bool:
        return bool(current) and entry <= (self.scope.first(current) or b"")


class NarrowGroup(IndexedRowPlanner):
    """The columns of a condition are not in the group: a put of one of them writes no entries."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        names = self.group - {
            of.name for index in self.indexes for condition in index.where for of in condition.fields()
        }
        object.__setattr__(self, "group", names)


class OneEntry(IndexedRowPlanner):
    """Only the first entry of a row in an index is written."""

    def _entries(self, values: Any, row: bytes) -> Any:
        return [(index, entry) for index in self.indexes for entry in self.keys.entries(index, values, row)[:1]]


MUTANTS: Mapping[str, Mutant] = {
    "returned at every current entry": Mutant(
        Rules(verifier=AtEvery), lambda rules: kinds(("note",), rules=rules, others=ranges, unmoved="tags"), "TWICE"
    ),
    "returned at the first entry of all": Mutant(
        Rules(verifier=AtFirstOfAll), lambda rules: kinds(("note",), rules=rules, others=readers), "MISS"
    ),
    "returned at entries that are not current": Mutant(
        Rules(verifier=AtFirstInScope),
        lambda rules: kinds(("tags b", "note"), rules=rules, others=ranges, unmoved="tags"),
        "TWICE",
    ),
    "a condition outside the group": Mutant(
        writing(NarrowGroup), lambda rules: kinds(("shut, open",), rules=rules, stores=("shut",)), "MISSING"
    ),
    "one of several entries": Mutant(writing(OneEntry), lambda rules: kinds(("tags ba",), rules=rules), "MISSING"),
    "one of several: old entries at t": Mutant(
        writing(StaleAtTime), lambda rules: kinds(("tags ba", "put bc"), rules=rules), "MISSING"
    ),
    "one of several: unchanged entries not put": Mutant(
        writing(NoSecondPut), lambda rules: kinds(("tags ba", "tags b"), rules=rules), "MISSING"
    ),
}
