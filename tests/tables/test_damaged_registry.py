"""Entries of the registry that are damaged, or of another version: every call ends well, or with an error that says
so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.store import Delete, Put, Scan
from hbmodel.tables.registry.layout_differences import canonical_json
from tests.support.everything import CALLS, TIMES, Item, fill, unexpected, unexpected_commands
from tests.support.examples import examples

OTHERS: tuple[Any, ...] = (None, True, -1, 7, 1.5, "", "x", "\u20ac", [], ["x"], [None], {}, {"x": 1}, [[]], "0" * 400)
"""What may stand in place of any value of JSON."""

NOT_JSON = (b"\x00", b"{", b"\xff\xfe", b"nothing", b"[" * 100_000, b"NaN", b"1e999", b'{"a":')


def cells(store: hb.Store) -> dict[tuple[bytes, bytes], bytes]:
    (batches,) = store.scan("hbmodel", [Scan()])
    return {(row.row, column): cell.value for batch in batches for row in batch for column, cell in row.columns.items()}


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values in JSON."""
    yield at
    if isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(each, (*at, name))


def changed(value: Any, at: tuple[Any, ...], other: Any) -> Any:
    """With another value in one place; without that place for `...`."""
    if not at:
        return None if other is ... else other
    copied = dict(value) if isinstance(value, dict) else list(value)
    if len(at) == 1 and other is ...:
        del copied[at[0]]
    else:
        copied[at[0]] = changed(copied[at[0]], at[1:], other)
    return copied


@st.composite
def damages(draw: st.DrawFn, held: dict[tuple[bytes, bytes], bytes]) -> tuple[tuple[bytes, bytes], bytes | None]:
    """A cell, and what it holds after it was damaged; None if it is gone."""
    place = draw(st.sampled_from(sorted(held)))
    how = draw(st.sampled_from(["json", "json", "json", "text", "bytes", "gone"]))
    try:
        found = json.loads(held[place])
    except ValueError:
        how = "bytes" if how == "json" else how
    match how:
        case "json":
            at = draw(st.sampled_from(list(paths(found))))
            return place, canonical_json(changed(found, at, draw(st.sampled_from([..., *OTHERS]))))
        case "text":
            return place, draw(st.sampled_from(NOT_JSON))
        case "bytes":
            return place, draw(st.binary(max_size=20))
    return place, None


def damage(store: hb.Store, place: tuple[bytes, bytes], value: bytes | None) -> None:
    row, column = place
    if value is None:
        store.delete("hbmodel", [Delete(row, columns=(column,))])
    else:
        store.put("hbmodel", [Put(row, {column: value})])


@pytest.mark.lengthy
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_any_damage_of_a_cell_is_told(data: st.DataObject) -> None:
    with hb.connect("memory:") as store:
        fill(store)
        place, value = data.draw(damages(cells(store)))
        damage(store, place, value)
        assert unexpected(store) == {}


@pytest.mark.parametrize("value", NOT_JSON)
@pytest.mark.parametrize("column", [b"m:layout", b"m:i.by_text", b"m:rows"])
def test_a_damaged_entry_is_named(column: bytes, value: bytes) -> None:
    with hb.connect("memory:") as store:
        fill(store)
        damage(store, (b"damaged\x00d", column), value)
        with pytest.raises(hb.StoreError, match="registry entry of the table cannot be read") as caught:
            hb.Session(store).get(Item, number=1)
        assert (caught.value.table, caught.value.registry) == ("damaged", "hbmodel")
        assert unexpected(store) == {}


@pytest.mark.parametrize("column", [b"m:ranges", b"m:r0"])
def test_damage_of_what_a_build_has_done_is_mended_as_the_error_says(column: bytes) -> None:
    with hb.connect("memory:") as store:
        fill(store)
        (row,) = {row for row, _ in cells(store) if row.startswith(b"\x01damaged\x00d\x00damaged.by_other")}
        damage(store, (row, column), b"[]")
        with pytest.raises(hb.StoreError, match="cannot say how far the work on a table has come") as caught:
            hb.indexes.build_index(store, Item, "by_other", times=TIMES)
        assert caught.value.key == row
        store.delete(caught.value.registry, [Delete(caught.value.key)])
        assert hb.indexes.build_index(store, Item, "by_other", times=TIMES).readable


@pytest.mark.lengthy
@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(data=st.data())
def test_commands_tell_it_too(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path: Path = tmp_path_factory.mktemp("damaged") / "x.db"
    with hb.connect(f"embedded:{path}") as store:
        fill(store)
        place, value = data.draw(damages(cells(store)))
        damage(store, place, value)
    assert unexpected_commands(f"embedded:{path}") == {}


@pytest.mark.lengthy
def test_the_calls_go_through_if_nothing_is_damaged() -> None:
    with hb.connect("memory:") as store:
        fill(store)
        for call in CALLS.values():
            call(store)
