"""Configurations for the model checker with an immutable model, whose full writes read nothing; and the order of
phases broken there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import hbmodel as hb
from hbmodel.protocol.writes import put_object
from tests.checker.behaviour import once
from tests.checker.protocol_adapter import Store
from tests.checker.protocol_invariants import ProtocolModel, watch_of
from tests.checker.protocol_mutants import Mutant, in_order
from tests.checker.protocol_processes import SHIPPED, Action, Rules, gone, prepared, reader, repairer, writer
from tests.checker.protocol_sweeps import Configuration, Process


@hb.model(table="facts", family="d", immutable=True)
class Fact:
    """One index over one column, with a covered column and one outside."""

    name: hb.Key[str] = hb.key()
    tag: hb.Column[str] = hb.column("t")
    extra: hb.Column[str | None] = hb.column("e", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)

    by_tag = hb.index("tag", covers=("extra",))


FACT, KEY = hb.schema.schema_of(Fact), hb.row_key(Fact, name="k")
INDEX = FACT.indexes["by_tag"]
SAME = put_object(FACT, Fact(name="k", tag="a", extra="e"))

ACTIONS: Mapping[str, tuple[Action, ...]] = {
    "put": (SAME,),
    "put, put": (SAME, SAME),
    "put, delete": (SAME, gone(Fact, "k")),
    "delete": (gone(Fact, "k"),),
}
REPEATED = (("put",), ("put", "put"), ("put, put", "put"))
"""Programs that load the same, at one time: the checker takes what another load of the same leaves for something
older.
"""

DELETED = (("delete",), ("delete", "delete"), ("put, delete",), ("put", "delete"))
"""Programs of which one deletes. At different times a put may come after the delete: such keys are not to be put
again.
"""

STORES: Mapping[str, Store] = {"absent": {}, "live": prepared(FACT, (10, SAME))}


@once
def repairers(rules: Rules) -> list[Process]:
    """A repairer of the index that also purges the row's dead marker."""
    return [("G", repairer(FACT, INDEX, rules, purge=KEY), 0)]


@once
def readers(rules: Rules) -> list[Process]:
    """A query for the tag."""
    return [("R", reader(FACT, INDEX, b"a", b"a\xff", lambda values: values["tag"] == "a", rules=rules), 0)]


def facts(programs: Sequence[Sequence[str]], clocks: Sequence[int], rules: Rules = SHIPPED) -> Iterator[Configuration]:
    """Writers of one row that never changes, with a query, a repair, or no other process; deletes are one
    call or two.
    """
    watch = watch_of(FACT)
    beside = [None, *readers(rules), *repairers(rules)]
    for kind, names, other, atomic in itertools.product(STORES, programs, beside, (True, False)):
        for readings in itertools.product(clocks, repeat=len(names)):
            running: list[Process] = [
                (f"W{n}", writer(FACT, n, ACTIONS[name], reading, rules, atomic=atomic), reading)
                for n, (name, reading) in enumerate(zip(names, readings, strict=True), 1)
            ]
            running += [] if other is None else [other]
            label = (
                f"{kind} fact, {list(zip(names, readings, strict=True))}, {None if other is None else other[0]}, "
                f"atomic={atomic}"
            )
            yield label, ProtocolModel(watch, STORES[kind], running, crashes=1)


MUTANTS: Mapping[str, Mutant] = {
    f"{name}, where nothing is read": Mutant(
        Rules(around=in_order(*phases)), lambda rules: facts((*REPEATED, *DELETED), (12,), rules), violation
    )
    for name, phases, violation in (
        ("row before entries", ("row", "row delete", "entries", "acknowledge", "stale"), "MISSING"),
        ("acknowledged before the row", ("entries", "acknowledge", "row", "row delete", "stale"), "STALE"),
    )
}
