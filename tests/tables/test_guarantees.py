"""The table of guarantees in docs/indexes.md, cell by cell: each kind of model on stores with and without atomic
changes of rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

import hbmodel as hb
from hbmodel.store import Family
from hbmodel.store.embedded import EmbeddedStore
from tests.support.beds import cells_of
from tests.support.faulty import Call, RecordingStore

TIMES = hb.indexes.IndexTimes(lease=0.3, longest_call=0.3, clock_bound=0.3, grace=2)

KINDS: dict[str, dict[str, Any]] = {
    "last write wins": {},
    "immutable": {"immutable": True},
    "versioned": {},
    "external": {"external": True, "immutable": True},
}


class Killed(BaseException):
    """Stands for a signal that ends a program at once."""


class Dying(RecordingStore):
    """Ends the program after a call that changes the primary table."""

    dies_after = ""

    def _do(self, call: Call, apply: Callable[[Any], Any]) -> Any:
        result = super()._do(call, apply)
        if call.writes and call.table == self.dies_after:
            raise Killed
        return result


def declare(kind: str) -> type[Any]:
    version: dict[str, Any] = {"version": hb.version()} if kind == "versioned" else {}
    body = {
        "name": hb.key(),
        "topic": hb.column("t"),
        "note": hb.column("n"),
        "by_topic": hb.index("topic", covers=("note",)),
        **version,
    }
    hints = {"name": hb.Key[str], "topic": hb.Column[str], "note": hb.Column[int]} | dict.fromkeys(
        version, hb.Column[int]
    )
    made = type("Item", (), {**body, "__annotations__": hints, "__module__": __name__})
    return hb.model(table=f"given-{uuid4().hex[:8]}", family="d", **KINDS[kind])(made)


def open_session(store: hb.Store) -> hb.Session:
    return hb.Session(
        store, lease=TIMES.lease, longest_call=TIMES.longest_call, clock_bound=TIMES.clock_bound, grace=TIMES.grace
    )


@pytest.mark.lengthy
@pytest.mark.parametrize("limited", [True, False], ids=["as Thrift1", "as Thrift2"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_model_gives_what_the_table_says(kind: str, limited: bool) -> None:
    model = declare(kind)
    table = hb.schema.schema_of(model).table
    with EmbeddedStore(None) as inner:
        if kind == "external":
            inner.create_table(table, [Family(b"d")])
        hb.create_tables(inner, model)
        if kind == "external":
            hb.indexes.build_index(inner, model, "by_topic", times=TIMES)
        with open_session(inner) as session:
            session.add_all(model(name=name, topic="t", note=1) for name in "abcd")
            session.add(model(name="w" * 9, topic="t", note=1))
        store = Dying(inner, limited=limited)

        query = open_session(store).query(model).where(model.topic == "t").select(model.name, model.note)
        assert (query.explain().covering == "verified") is (kind in {"immutable", "versioned"})
        store.told()
        assert len(query.all()) == 5
        assert (f"get {table}" in store.told()) is (kind in {"last write wins", "external"})

        session = open_session(store)
        if limited:
            with pytest.raises(hb.CapabilityError):
                session.insert(model(name="new", topic="t", note=1))
        else:
            session.insert(model(name="new", topic="t", note=1))
            with pytest.raises(hb.RowExists):
                session.insert(model(name="new", topic="t", note=1))

        if kind == "versioned" and limited:
            with pytest.raises(hb.CapabilityError):
                session.delete_key(model, name="a")
            session = open_session(inner)
        session.delete_key(model, name="a")
        store.dies_after = table
        if kind == "versioned" and limited:
            session.commit()
        else:
            with pytest.raises(Killed):
                session.commit()
        store.dies_after = ""
        assert open_session(store).get(model, name="a") is None
        remaining = len(open_session(store).query(model).where(model.topic == "t").all())
        assert remaining == 4 + (not limited)
        assert hb.indexes.verify_index(store, model, "by_topic", times=TIMES).sound

        time.sleep(TIMES.grace + 0.1)
        if kind == "versioned" and limited:
            with pytest.raises(hb.CapabilityError):
                hb.indexes.purge_rows(store, model, times=TIMES)
        else:
            assert hb.indexes.purge_rows(store, model, times=TIMES) == (0 if kind == "external" else 1)
            assert hb.row_key(model, name="a") not in cells_of(inner, table)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"versioned"}))
def test_only_versioned_models_have_unique_indexes(kind: str) -> None:
    made = type(
        "Item",
        (),
        {
            "name": hb.key(), "note": hb.column("n"), "by_note": hb.index("note", unique=True),
            "__annotations__": {"name": hb.Key[str], "note": hb.Column[int]}, "__module__": __name__,
        },
    )  # fmt: skip
    with pytest.raises(hb.DeclarationError, match="versioned model"):
        hb.model(table="given-unique", family="d", **KINDS[kind])(made)
