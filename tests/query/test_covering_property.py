"""Whatever verified entries answer, their rows answer the same: random models, writes, crashes and queries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import EncodingError, HbmodelError, KeyTooLong, OrderNotAvailable, QueryError, RowKeyError
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.store import Delete, Put, Store
from tests.support.beds import cells_of, fresh, rows_of
from tests.support.examples import examples
from tests.support.faulty import Crash, FaultyStore
from tests.support.random_queries import RandomModel, conditions, models
from tests.support.strategies import plain

LATER = 2**42
"""A time above all that is written, of what others leave."""


@st.composite
def objects(draw: st.DrawFn, of: RandomModel) -> Any:
    """An object that can be stored."""
    built = {f.name for f in of.schema.fields if f.kind in {"key", "column"}}
    return of.model(**{name: draw(st.sampled_from(pool)) for name, pool in of.pools.items() if name in built})


def write(draw: st.DrawFn, of: RandomModel, store: Store) -> None:
    """Some commits; in some of them the program crashes at any call."""
    written: dict[bytes, Any] = {}
    for _ in range(draw(st.integers(1, 4))):
        crash = draw(st.none() | st.integers(0, 8))
        session = hb.Session(
            FaultyStore(store, crash, draw(st.sampled_from(["before", "after", "first half"])), crash=True)
        )
        for _ in range(draw(st.integers(1, 4))):
            made = draw(objects(of))
            with suppress(KeyTooLong, RowKeyError, EncodingError):
                row = hb.row_key(of.model, **{name: getattr(made, name) for name in of.schema.layout.names})
                if draw(st.integers(0, 3)) == 0:
                    session.delete(made)
                    written.pop(row, None)
                elif not of.schema.immutable or plain_of(written.setdefault(row, made)) == plain_of(made):
                    session.add(made)  # an immutable row is never another one
        with suppress(Crash, HbmodelError):
            session.commit()


def plain_of(obj: Any) -> dict[str, Any]:
    """The values of an object, as they compare."""
    return {name: plain(value) for name, value in vars(obj).items()}


def leave(draw: st.DrawFn, of: RandomModel, store: Store) -> None:
    """Entries that losers, crashed programs and programs from before covering reads have left."""
    schema, keys = of.schema, KeyMapper(of.schema)
    nonce, loser = b"loser...", b"\x02" + bytes(8) + b"loser..." if schema.versioned else b"\x01loser..."
    for index in schema.indexes.values():
        for entry in rows_of(store, index.table):
            match draw(st.sampled_from(["kept", "kept", "marked", "from before"])):
                case "marked":
                    store.put(index.table, [Put(entry, {schema.status_column: b"\x00" + nonce}, LATER)])
                case "from before":
                    store.delete(index.table, [Delete(entry, columns=(schema.status_column,), timestamp=LATER)])
        for made in draw(st.lists(objects(of), max_size=2)):
            values = {f.name: getattr(made, f.name) for f in schema.fields}
            with suppress(KeyTooLong, RowKeyError, EncodingError):
                for entry in keys.entries(
                    index, values, keys.new_row(tuple(values[name] for name in schema.layout.names))
                ):
                    status = {schema.status_column: b"\x00" + nonce}
                    covered = {(f := schema.by_name[name]).column: f.encode_cell(values[name]) for name in index.covers}
                    if draw(st.booleans()):  # bare: a mark of what was deleted
                        if not cells_of(store, index.table).get(entry):
                            store.put(index.table, [Put(entry, status, LATER)])
                    else:
                        store.put(index.table, [Put(entry, {**covered, **status, schema.version_column: loser}, LATER)])


@pytest.mark.lengthy
@settings(suppress_health_check=list(HealthCheck), max_examples=examples(90))
@given(st.data())
def test_verified_entries_answer_what_their_rows_do(data: st.DataObject) -> None:
    of = data.draw(models(covering=True))
    store = fresh(of.model)
    write(data.draw, of, store)
    if data.draw(st.booleans()):
        leave(data.draw, of, store)
    session = hb.Session(store)
    for _ in range(3):
        asked, _ = data.draw(conditions(of))
        index = data.draw(st.sampled_from(sorted(of.schema.indexes)))
        try:
            query = session.query(of.model).where(*asked).allow_full_scan()
            through = query.use_index(index)
            names = data.draw(
                st.lists(
                    st.sampled_from([f.name for f in (*of.schema.fields, *of.schema.computed)]), unique=True, max_size=3
                )
            )
            if names:
                query = query.select(*(of.expression(name) for name in names), *_key(of))
                through = through.select(*(of.expression(name) for name in names), *_key(of))
            found = through.all()
        except (QueryError, EncodingError, OrderNotAvailable):
            continue
        told = through.explain()
        event(f"covering {told.covering}")
        expected = query.use_index("primary").all()
        assert _sorted(of, found) == _sorted(of, expected)
        assert through.count() == len(expected)
        assert through.exists() == bool(expected)
        token, paged = None, []
        while True:
            page = through.page(2, after=token)
            paged += page.items
            token = page.next_token
            if token is None:
                break
        assert _sorted(of, paged) == _sorted(of, expected)


def _key(of: RandomModel) -> list[Any]:
    return [of.expression(name) for name in of.schema.layout.names]


def _sorted(of: RandomModel, items: Sequence[Any]) -> list[Any]:
    """Items by their keys."""
    width = len(of.schema.layout.names)

    def key(item: Any) -> list[bytes]:
        values = item[-width:] if isinstance(item, tuple) else [getattr(item, name) for name in of.schema.layout.names]
        return KeyMapper(of.schema).parts(values)

    ordered = sorted(items, key=key)
    return [tuple(map(plain, item)) if isinstance(item, tuple) else plain_of(item) for item in ordered]
