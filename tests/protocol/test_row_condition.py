"""Two programs that change a row from before the first index, while the states of its table change: neither covers
the other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.store import Put
from hbmodel.store.clock_tick import let_tick_pass
from hbmodel.tables.registry.layout_differences import canonical_json
from hbmodel.tables.registry.registry_rows import ROWS, registry_row
from tests.support.faulty import Call, RecordingStore


@hb.model(table="bare", family="d")
class Plain:
    """A required column; no index yet."""

    k: hb.Key[str] = hb.key()
    m: hb.Column[int] = hb.column("m")
    o: hb.Column[str | None] = hb.column("o", default=None)


@hb.model(table="bare_flag", family="d", exists=hb.flag("e"))
class Flagged:
    """A flag, which no update changes."""

    k: hb.Key[str] = hb.key()
    m: hb.Column[int | None] = hb.column("m", default=None)
    o: hb.Column[str | None] = hb.column("o", default=None)


@hb.model(table="bare_fading", family=hb.family("d", ttl=timedelta(days=1)), exists=hb.flag("e"))
class Fading:
    """The same in a family with a TTL."""

    k: hb.Key[str] = hb.key()
    m: hb.Column[int | None] = hb.column("m", default=None)
    o: hb.Column[str | None] = hb.column("o", default=None)


class Beside(RecordingStore):
    """A store in which something happens before a change of a table: a program has read the row then, and chosen the
    time of its write.

    Attributes:
        before: how many changes are made before that, and what happens.
    """

    before: tuple[int, Callable[[], object]] | None = None

    def _do(self, call: Call, apply: Any) -> Any:
        if self.before is not None and call.writes and call.table.startswith("bare"):
            left, happens = self.before
            self.before = (left - 1, happens) if left else None
            if not left:
                happens()
        return super()._do(call, apply)


def begun(model: Any, rows: str, *, limited: bool = False, ttl: timedelta | None = None) -> Beside:
    """A store with a row from before the first index, and the table in a state."""
    store = Beside(hb.connect("memory:"), limited=limited, gated=False)
    hb.create_tables(store, model)
    with hb.Session(store) as session:
        session.add(model(k="a", m=1, o="x"), **({} if ttl is None else {"ttl": ttl}))
    store.put("hbmodel", [Put(registry_row(hb.schema.schema_of(model)), {ROWS: canonical_json({"state": rows})})])
    return store


def both(
    store: Beside, first: int, call: Callable[[hb.Session], object], beside: Callable[[hb.Session], object]
) -> None:
    """One program has made its first changes when another one makes its call; then the first one continues, unless it
    has already ended.
    """

    def meanwhile() -> None:
        let_tick_pass()  # so that the time of its call is a later one
        with suppress(hb.RowNotFound), hb.Session(store) as other:
            beside(other)

    with hb.Session(store) as session:
        call(session)
        store.before = first, meanwhile
    if store.before is not None:
        store.before = None
        meanwhile()


def left(store: Beside, model: Any) -> list[tuple[Any, ...]]:
    """The contents of the table."""
    return [(obj.m, obj.o) for obj in hb.Session(store).query(model).allow_full_scan()]


CASES = [
    (model, "mixed", limited, None) for model in (Plain, Flagged) for limited in (False, True)
] + [
    (Fading, rows, False, None) for rows in ("mixed", "adopting")
] + [
    (model, rows, False, timedelta(hours=1)) for model in (Plain, Flagged, Fading) for rows in ("mixed", "adopting")
]  # fmt: skip
"""Models, the state of the table, whether no row is changed under a condition, and the TTL of the row."""


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("model", "rows", "limited", "ttl"), CASES)
def test_an_update_does_not_cover_another_one(
    model: Any, rows: str, limited: bool, ttl: timedelta | None, first: int
) -> None:
    store = begun(model, rows, limited=limited, ttl=ttl)
    obj = model(k="a", m=1, o="x")
    both(store, first, lambda one: one.update(obj, o="y"), lambda other: other.update(obj, m=2))
    assert left(store, model) == [(2, "y")]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("model", "rows", "limited", "ttl"), CASES)
def test_a_delete_hides_an_update_that_came_before_it(
    model: Any, rows: str, limited: bool, ttl: timedelta | None, first: int
) -> None:
    store = begun(model, rows, limited=limited, ttl=ttl)
    obj = model(k="a", m=1, o="x")
    both(store, first, lambda one: one.delete(obj), lambda other: other.update(obj, o="y"))
    assert left(store, model) == []


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("model", "rows", "limited", "ttl"), CASES)
def test_an_update_brings_no_deleted_row_back(
    model: Any, rows: str, limited: bool, ttl: timedelta | None, first: int
) -> None:
    store = begun(model, rows, limited=limited, ttl=ttl)
    obj = model(k="a", m=1, o="x")
    with suppress(hb.RowNotFound):  # raised where the update is tried again
        both(store, first, lambda one: one.update(obj, o="y"), lambda other: other.delete(obj))
    assert left(store, model) == []
