"""The differences of live tables that `diff` reports, and the changes of `alter` and `create_tables`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.store import Capabilities, Delete, Family, Put
from hbmodel.store.shell_commands import alter_line
from hbmodel.tables.indexes.index_states import IndexStates
from hbmodel.tables.registry.registration import READABLE
from hbmodel.tables.registry.registry_rows import registry_row
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.other_programs import Drain
from tests.support.beds import HBASE, Bed, set_state
from tests.support.examples import examples
from tests.support.faulty import Crash, FaultyStore, RecordingStore

HOUR = timedelta(hours=1)
TABLE = "noted"
ABLE = ("memory", "embedded", HBASE[1])
"""The stores that can alter a table."""


def declare(table: str = TABLE, salt: Any = None, key: Any = hb.Text, extra: bool = False, **options: Any) -> Any:
    """A model whose declaration can be changed in one place; `indexes` are given by name."""
    indexes = options.pop("indexes", {})
    body: dict[str, Any] = {"name": hb.key(key), "tag": hb.column("g", default=""), **indexes}
    body["text"] = hb.column("x", family="t", default="")
    body["__annotations__"] = {"name": hb.Key[str], "tag": hb.Column[str], "text": hb.Column[str]}
    if extra:
        body["more"] = hb.column("m", default=0, family=options.pop("more", "d"))
        body["__annotations__"]["more"] = hb.Column[int]
    return hb.model(table=table, salt=salt, **options)(type("Note", (), body))


BY_TAG = {"by_tag": hb.index("tag")}


@pytest.fixture
def empty(bed: Bed) -> Iterator[Bed]:
    """A store without the tables of these models."""
    forget(bed.store)
    bed.store.calls.clear()
    yield bed
    forget(bed.store)


def forget(store: hb.Store) -> None:
    tables = store.tables()
    for table in tables:
        if table.startswith(TABLE):
            store.delete_table(table)
    if "hbmodel" in tables:
        store.delete(
            "hbmodel", [Delete(registry_row(hb.schema.schema_of(declare(family=family)))) for family in ("d", "u")]
        )


def told(diff: hb.tables.Diff) -> list[tuple[str, str, str]]:
    """Table, thing and effect of each difference."""
    return [(difference.table, difference.what, difference.effect) for difference in diff]


# --- nothing ----------------------------------------------------------------------------------------------------------

FULL = hb.family("d", ttl=HOUR, max_versions=2, compression="GZ", bloom_filter="ROWCOL", in_memory=True)


@pytest.mark.every_store
@pytest.mark.parametrize("options", [{}, {"family": FULL, "families": [hb.family("t", ttl=HOUR)]}])
def test_created_tables_do_not_differ(empty: Bed, options: Any) -> None:
    model = declare(indexes=BY_TAG, **options)
    hb.create_tables(empty.store, model)
    empty.store.calls.clear()
    found = hb.diff(empty.store, model)
    assert not found
    assert (str(found), list(found), len(found)) == ("", [], 0)
    assert not any(call.writes for call in empty.store.calls)
    altered = hb.alter(empty.store, model)
    assert (str(altered), len(altered.applied), len(altered.left)) == ("", 0, 0)
    assert not any(call.writes for call in empty.store.calls)


# --- what is missing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bed", ["memory", *HBASE], indirect=True)
def test_missing_tables_are_told_and_made(empty: Bed) -> None:
    model = declare(indexes=BY_TAG)
    found = hb.diff(empty.store, model)
    expected = [(f"{TABLE}.by_tag", "index table", "safe"), (TABLE, "table", "safe")]
    assert [part for part in told(found) if part[0] != "hbmodel"] == expected
    assert f"+ {TABLE}: table: missing" in str(found).splitlines()
    assert TABLE not in empty.store.tables()
    altered = hb.alter(empty.store, model)
    assert altered.applied == found
    assert not hb.diff(empty.store, model)
    with hb.Session(empty.store) as session:
        session.add(model(name="a", tag="x"))
    assert hb.Session(empty.store).query(model).where(model.tag == "x").count() == 1, "its index is readable at once"


def test_a_missing_registry_is_told() -> None:
    with hb.connect("memory:") as store:
        found = hb.diff(store, declare())
        assert told(found) == [("hbmodel", "registry table", "safe"), (TABLE, "table", "safe")]


@pytest.mark.parametrize("bed", ABLE, indirect=True)
def test_a_missing_family_is_told_and_added(empty: Bed) -> None:
    hb.create_tables(empty.store, declare())
    with hb.Session(empty.store) as session:
        session.add(declare()(name="a", tag="x"))
    wider = declare(extra=True, more="u", families=[hb.family("u", ttl=HOUR, compression="GZ")])
    with pytest.raises(hb.errors.FamilyNotFound, match=r"hb\.alter"):
        hb.create_tables(empty.store, wider)
    found = hb.diff(empty.store, wider)
    assert told(found) == [(TABLE, "family u", "safe"), (TABLE, "column u:m", "safe")]
    assert found.differences[0].declared == hb.store.Family(b"u", ttl=3600, compression="GZ")
    assert hb.alter(empty.store, wider).applied == found
    assert not hb.diff(empty.store, wider)
    assert [(family.name, family.ttl) for family in empty.store.families(TABLE)] == [
        (b"d", None),
        (b"t", None),
        (b"u", 3600),
    ]
    with hb.Session(empty.store) as session:
        assert session.get(wider, name="a") == wider(name="a", tag="x")
        session.add(wider(name="b", tag="y", more=5))
    assert not hb.diff(empty.store, declare()), "an older program that comes back finds nothing amiss"


def test_a_family_that_nobody_registered_is_reported_with_those_of_the_registry() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, declare())
        found = hb.diff(store, declare(family="dd"))
        assert (TABLE, "registry entry of family dd", "safe") in told(found)
        assert "the registry has models of this table with other families: d, t" in str(found)


def test_a_table_that_was_made_by_hand_is_registered() -> None:
    model = declare(indexes=BY_TAG)
    with hb.connect("memory:") as store:
        hb.create_tables(store, declare())
        hb.drop_tables(store, declare())
        store.create_table(TABLE, [hb.store.Family(b"d"), hb.store.Family(b"t")])
        found = hb.diff(store, model)
        assert told(found) == [(TABLE, "index by_tag", "safe"), (TABLE, "registry entry of family d", "safe")]
        assert "until it is built" in str(found)
        hb.alter(store, model)
        assert told(hb.diff(store, model)) == [(TABLE, "index by_tag", "left")]


@pytest.mark.parametrize("bed", ["memory", *HBASE], indirect=True)
def test_a_new_index_is_registered_as_absent(empty: Bed) -> None:
    hb.create_tables(empty.store, declare())
    model = declare(indexes=BY_TAG)
    found = hb.diff(empty.store, model)
    assert told(found) == [(TABLE, "index by_tag", "safe")]
    assert "queries cannot use it until it is built" in str(hb.alter(empty.store, model))
    assert f"{TABLE}.by_tag" not in empty.store.tables()
    with pytest.raises(hb.errors.IndexUnavailable):
        hb.Session(empty.store).query(model).where(model.tag == "x").all()
    other = declare(indexes={"by_tag": hb.index("tag", covers=("text",))})
    found = hb.diff(empty.store, other)
    assert told(found) == [(TABLE, "index by_tag", "safe")], "no entry is stored yet, so its declaration may change"
    hb.alter(empty.store, other)
    found = hb.diff(empty.store, other)
    assert told(found) == [(TABLE, "index by_tag", "left")]
    assert str(found).startswith(f"= {TABLE}: index by_tag: absent -> readable (queries cannot use it")


@pytest.mark.parametrize("state", ["write-only", "building", "verifying"])
def test_a_build_that_was_killed_is_a_difference(state: str) -> None:
    model = declare(indexes=BY_TAG)
    with hb.connect("memory:") as store:
        hb.create_tables(store, model)
        assert not hb.diff(store, model)
        set_state(store, model, "by_tag", state)
        found = hb.diff(store, model)
        assert told(found) == [(TABLE, "index by_tag", "left")]
        assert f"index by_tag: {state} -> readable" in str(found)
        assert "`hbmodel index build`, continues it" in str(found)
        assert hb.indexes.build_index(store, model, "by_tag").readable
        assert not hb.diff(store, model)


def test_a_drop_that_was_killed_is_a_difference() -> None:
    model = declare(indexes=BY_TAG)
    with hb.connect("memory:") as store:
        hb.create_tables(store, model)
        states = IndexStates(
            store, Registry(store), hb.schema.schema_of(model), "by_tag", Drain(0, 0, 0), lambda *_: None
        )
        for step, state in ((states.hide, "write-only"), (states.leave, "absent")):
            step()
            found = hb.diff(store, model)
            assert told(found) == [(TABLE, "index by_tag", "left")]
            assert f"index by_tag: {state} -> readable" in str(found)
            assert "let hb.indexes.drop_index(), or `hbmodel index drop`, finish" in str(found)


# --- options of families ----------------------------------------------------------------------------------------------

OPTIONS: dict[str, tuple[Any, Any, list[tuple[str, Any, Any, str]]]] = {
    "longer life": (hb.family("d", ttl=HOUR), hb.family("d", ttl=2 * HOUR), [("ttl", 7200, 3600, "safe")]),
    "no end": (hb.family("d", ttl=HOUR), "d", [("ttl", None, 3600, "safe")]),
    "shorter life": (hb.family("d", ttl=HOUR), hb.family("d", ttl=HOUR / 2), [("ttl", 1800, 3600, "lossy")]),
    "an end": ("d", hb.family("d", ttl=HOUR), [("ttl", 3600, None, "lossy")]),
    "more versions": ("d", hb.family("d", max_versions=3), [("max_versions", 3, 1, "safe")]),
    "fewer versions": (
        hb.family("d", max_versions=3),
        hb.family("d", max_versions=2),
        [("max_versions", 2, 3, "lossy")],
    ),
    "no longer declared": (hb.family("d", max_versions=3, compression="GZ", in_memory=True), "d", []),
    "several": (
        "d",
        hb.family("d", compression="GZ", bloom_filter="NONE", in_memory=True),
        [
            ("compression", "GZ", "NONE", "safe"),
            ("bloom_filter", "NONE", "ROW", "safe"),
            ("in_memory", True, False, "safe"),
        ],
    ),
}


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ABLE, indirect=True)
@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_families_are_compared_and_changed(empty: Bed, name: str) -> None:
    before, after, expected = OPTIONS[name]
    hb.create_tables(empty.store, declare(family=before))
    kept = empty.store.families(TABLE)
    model = declare(family=after)
    found = hb.diff(empty.store, model)
    assert [(d.option, d.declared, d.live, d.effect) for d in found] == expected
    assert all((d.table, d.family, d.what) == (TABLE, "d", f"family d {d.option}") for d in found)
    assert all((d.why is None) == d.safe for d in found)
    lossy = any(d.effect == "lossy" for d in found)
    if lossy:
        with pytest.raises(hb.SchemaMismatch, match="lossy=True") as caught:
            hb.alter(empty.store, model)
        assert caught.value.differences == [str(d) for d in found]
        assert empty.store.families(TABLE) == kept
    assert hb.alter(empty.store, model, lossy=lossy).applied == found
    assert not hb.diff(empty.store, model)
    assert empty.store.families(TABLE)[1] == kept[1]


@pytest.mark.parametrize("bed", ABLE, indirect=True)
def test_block_sizes_and_settings_are_compared_where_they_are_shown(empty: Bed) -> None:
    hb.create_tables(
        empty.store, declare(family=hb.family("d", configuration={"hbase.hstore.blockingStoreFiles": "20", "b": "1"}))
    )
    model = declare(
        family=hb.family("d", block_size=8192, configuration={"hbase.hstore.blockingStoreFiles": "30", "c": "2"})
    )
    found = hb.diff(empty.store, model)
    assert [(d.option, d.declared, d.live) for d in found] == [
        ("block_size", 8192, 65_536),
        ("configuration.c", "2", None),
        ("configuration.hbase.hstore.blockingStoreFiles", "30", "20"),
    ]
    hb.alter(empty.store, model)
    assert not hb.diff(empty.store, model)
    (family, _) = empty.store.families(TABLE)
    assert {"b": "1", "c": "2", "hbase.hstore.blockingStoreFiles": "30"}.items() <= family.configuration.items()


@pytest.mark.parametrize("bed", ABLE, indirect=True)
@pytest.mark.parametrize(("before", "after"), [(HOUR, 2 * HOUR), (2 * HOUR, HOUR), (None, HOUR), (HOUR, None)])
def test_the_life_of_index_entries_changes_with_that_of_rows(empty: Bed, before: Any, after: Any) -> None:
    def of(life: Any) -> Any:
        return declare(indexes=BY_TAG, family=hb.family("d", ttl=life), families=[hb.family("t", ttl=life)])

    hb.create_tables(empty.store, of(before))
    found = hb.diff(empty.store, of(after))
    assert {(d.table, d.what) for d in found} == {
        (TABLE, "family d ttl"),
        (TABLE, "family t ttl"),
        (f"{TABLE}.by_tag", "family d ttl"),
    }
    empty.store.calls.clear()
    hb.alter(empty.store, of(after), lossy=True)
    assert not hb.diff(empty.store, of(after))
    order = [call.table for call in empty.store.calls if call.name == "modify_family"]
    longer = after is None or (before is not None and after > before)
    assert order == ([f"{TABLE}.by_tag", TABLE, TABLE] if longer else [TABLE, TABLE, f"{TABLE}.by_tag"]), (
        "entries outlive rows"
    )


def test_a_external_table_keeps_a_life_that_the_model_does_not_name() -> None:
    with hb.connect("memory:") as store:
        store.create_table(TABLE, [hb.store.Family(b"d", ttl=60), hb.store.Family(b"t")])
        external = declare(external=True)
        assert told(hb.diff(store, external)) == [
            ("hbmodel", "registry table", "safe"),
            (TABLE, "registry entry of family d", "safe"),
        ]
        hb.create_tables(store, external)
        assert not hb.diff(store, external)
        assert told(hb.diff(store, declare(external=True, family=hb.family("d", ttl=HOUR)))) == [
            (TABLE, "family d ttl", "safe")
        ]
        owned = told(hb.diff(store, declare()))
        assert sorted(owned) == [(TABLE, "external", "refused"), (TABLE, "family d ttl", "safe")]


@pytest.mark.parametrize("bed", [HBASE[0]], indirect=True)
def test_the_first_gateway_gives_the_lines_for_the_shell(empty: Bed) -> None:
    hb.create_tables(empty.store, declare(indexes=BY_TAG))
    family = hb.family("d", ttl=HOUR, compression="GZ", block_size=8192, configuration={"x": "y"})
    model = declare(
        indexes=BY_TAG, extra=True, more="u", family=family, families=[hb.family(name, ttl=HOUR) for name in "tu"]
    )
    found = hb.diff(empty.store, model)
    assert not any(d.option == "block_size" or (d.option or "").startswith("configuration") for d in found), (
        "it does not show them"
    )
    empty.store.calls.clear()
    with pytest.raises(hb.CapabilityError, match="hbase shell") as caught:
        hb.alter(empty.store, model, lossy=True)
    assert not any(call.writes and call.name not in {"add_family", "modify_family"} for call in empty.store.calls)
    assert hb.diff(empty.store, model) == found
    lines = [line.partition("_")[2] for line in caught.value.shell.splitlines()]
    assert lines == [
        f"{TABLE}', {{NAME => 'd', TTL => 3600, COMPRESSION => 'GZ'}}",
        f"{TABLE}', {{NAME => 't', TTL => 3600}}",
        f"{TABLE}.by_tag', {{NAME => 'd', TTL => 3600, COMPRESSION => 'GZ'}}",
        f"{TABLE}', {{NAME => 'u', TTL => 3600}}",
    ]
    assert all(line.startswith("alter 't") for line in caught.value.shell.splitlines())


class Unalterable(RecordingStore):
    """A store that cannot alter tables, and names one that can."""

    @property
    def capabilities(self) -> Capabilities:
        return evolve(super().capabilities, alter=False)

    def add_family(self, table: str, family: Family) -> None:
        raise hb.CapabilityError("This store does not alter tables.", shell=alter_line(table, family))

    modify_family = add_family


def test_a_store_that_cannot_alter_tables_gives_all_lines_at_once() -> None:
    with Unalterable(hb.connect("memory:")) as store:
        hb.create_tables(store, declare())
        model = declare(extra=True, more="u", family=hb.family("d", ttl=HOUR))
        with pytest.raises(
            hb.CapabilityError, match="This store cannot alter tables: run the lines in `hbase shell`, then"
        ) as caught:
            hb.alter(store, model, lossy=True)
        assert caught.value.tables == [TABLE]
        assert caught.value.shell.splitlines() == [
            f"alter '{TABLE}', {{NAME => 'd', TTL => 3600}}",
            f"alter '{TABLE}', {{NAME => 'u'}}",
        ]
        store.inner.modify_family(TABLE, Family(b"d", ttl=3600))
        store.inner.add_family(TABLE, Family(b"u"))
        hb.alter(store, model)
        assert not hb.diff(store, model)


@pytest.mark.parametrize("bed", HBASE, indirect=True)
def test_new_columns_are_registered_on_both_gateways(empty: Bed) -> None:
    hb.create_tables(empty.store, declare())
    found = hb.diff(empty.store, declare(extra=True))
    assert told(found) == [(TABLE, "column d:m", "safe")]
    hb.alter(empty.store, declare(extra=True))
    assert not hb.diff(empty.store, declare(extra=True))


# --- what cannot be changed -------------------------------------------------------------------------------------------

CONFLICTS: dict[str, tuple[Any, str]] = {
    "salt": ({"salt": hb.HashSalt(8)}, "salt"),
    "codec of a key field": ({"key": hb.Text(8)}, "key"),
    "a live index": ({"indexes": {"by_tag": hb.index("tag", covers=("text",))}}, "index by_tag"),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_what_rows_are_stored_by_is_refused_before_anything_changes(name: str) -> None:
    changed, what = CONFLICTS[name]
    with RecordingStore(hb.connect("memory:")) as store:
        hb.create_tables(store, declare(indexes=BY_TAG))
        model = declare(**{"indexes": BY_TAG, "extra": True, "family": hb.family("d", max_versions=5), **changed})
        found = hb.diff(store, model)
        conflicts = [d for d in found if d.effect == "refused"]
        assert what in {d.what for d in conflicts}
        assert all(d.table == TABLE and d.why and not d.safe and d.declared != d.live for d in conflicts)
        store.calls.clear()
        with pytest.raises(hb.SchemaMismatch) as caught:
            hb.alter(store, model, lossy=True)
        assert caught.value.differences == [str(d) for d in conflicts]
        assert not any(call.writes for call in store.calls)
        assert hb.diff(store, model) == found


def test_a_lost_index_table_and_an_undeclared_index_are_told() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, declare(indexes=BY_TAG))
        found = hb.diff(store, declare())
        assert told(found) == [(TABLE, "index by_tag", "left")]
        assert "the model does not declare this live index" in str(found)
        altered = hb.alter(store, declare())
        assert (altered.left, len(altered.applied)) == (found, 0)
        store.delete_table(f"{TABLE}.by_tag")
        lost = hb.diff(store, declare(indexes=BY_TAG))
        assert told(lost) == [(f"{TABLE}.by_tag", "table of index by_tag", "refused")]
        with pytest.raises(hb.SchemaMismatch):
            hb.alter(store, declare(indexes=BY_TAG))


def test_the_table_of_a_live_index_is_the_registered_one() -> None:
    model = declare(indexes=BY_TAG)
    with hb.connect("memory:") as store:
        hb.create_tables(store, model)
        store.create_table(f"{TABLE}.by_tag.2", [hb.store.Family(b"d", ttl=60)])
        set_state(store, model, "by_tag", READABLE, f"{TABLE}.by_tag.2")
        assert told(hb.diff(store, model)) == [(f"{TABLE}.by_tag.2", "family d ttl", "safe")]
        hb.alter(store, model)
        assert store.families(f"{TABLE}.by_tag.2")[0].ttl is None
        store.delete_table(TABLE)
        store.delete_table(f"{TABLE}.by_tag.2")
        hb.create_tables(store, model)
        assert f"{TABLE}.by_tag.2" in store.tables(), "made anew under the name that the registry knows"
        with hb.Session(store) as session:
            session.add(model(name="a", tag="x"))
        assert hb.Session(store).query(model).where(model.tag == "x").count() == 1


def test_models_of_one_table_that_share_a_family_are_refused() -> None:
    one, other = declare(), declare(family="u")
    with hb.connect("memory:") as store:
        for call in (hb.diff, hb.alter, hb.create_tables):
            with pytest.raises(hb.SchemaMismatch) as caught:
                call(store, one, other)  # type: ignore[operator]
            assert (caught.value.table, caught.value.family) == (TABLE, "t")
        assert store.tables() == []
        hb.create_tables(store, one)
        found = hb.diff(store, other)
        assert (TABLE, "family t", "refused") in told(found)


# --- crashes and random declarations ----------------------------------------------------------------------------------


def lives(store: hb.Store) -> tuple[float, float]:
    """The shortest life of cells in the index table, and the longest in the primary table, in seconds."""

    def of(table: str) -> list[float]:
        return [float("inf") if family.ttl is None else family.ttl for family in store.families(table)]

    return min(of(f"{TABLE}.by_tag")), max(of(TABLE))


def calls_of_altering(before: Any, *after: Any) -> int:
    with FaultyStore(hb.connect("memory:")) as store:
        hb.create_tables(store, before)
        store.calls.clear()
        hb.alter(store, *after, lossy=True)
        return len(store.calls)


@pytest.mark.lengthy
@pytest.mark.parametrize(("start", "end"), [(HOUR, 2 * HOUR), (2 * HOUR, HOUR), (None, HOUR), (HOUR, None)])
def test_an_alteration_that_a_crash_interrupts_is_finished_by_another_and_no_entry_ends_before_its_row(
    start: Any, end: Any
) -> None:
    def of(life: Any, families: str, **more: Any) -> Any:
        others = [hb.family(name, ttl=life) for name in families]
        return declare(indexes=BY_TAG, family=hb.family("d", ttl=life), families=others, **more)

    before, after = of(start, "t"), of(end, "tu", extra=True, more="u")
    beside = declare(f"{TABLE}_beside")
    for at, mode in product(range(calls_of_altering(before, after, beside)), ("before", "after")):
        with hb.connect("memory:") as store:
            hb.create_tables(store, before)
            with pytest.raises(Crash):
                hb.alter(FaultyStore(store, at, mode, crash=True), after, beside, lossy=True)
            entries, rows = lives(store)
            assert entries >= rows
            hb.alter(store, after, beside, lossy=True)
            assert not hb.diff(store, after, beside)


some_families = st.builds(
    hb.family,
    st.just("d"),
    ttl=st.sampled_from([None, HOUR, 2 * HOUR]),
    max_versions=st.sampled_from([None, 1, 2, 3]),
    compression=st.sampled_from([None, "NONE", "GZ"]),
    bloom_filter=st.sampled_from([None, "NONE", "ROW", "ROWCOL"]),
    block_size=st.sampled_from([None, 8192, 65_536]),
    in_memory=st.sampled_from([None, False, True]),
    configuration=st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2),
)


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None)
@given(some_families, some_families)
def test_after_altering_nothing_differs_and_what_was_not_declared_stays(
    before: hb.store.Family, after: hb.store.Family
) -> None:
    with RecordingStore(hb.connect("memory:")) as store:
        hb.create_tables(store, declare(family=before))
        kept = store.families(TABLE)[0]
        model = declare(family=after)
        found = hb.diff(store, model)
        altered = hb.alter(store, model, lossy=True)
        assert altered.applied == found
        assert not hb.diff(store, model)
        (now, _) = store.families(TABLE)
        for name in ("max_versions", "compression", "bloom_filter", "block_size", "in_memory"):
            declared = getattr(after, name)
            assert getattr(now, name) == (getattr(kept, name) if declared is None else declared)
        assert (now.ttl, now.configuration) == (after.ttl, {**kept.configuration, **after.configuration})
        store.calls.clear()
        hb.alter(store, model)
        assert not any(call.writes for call in store.calls)


# --- splits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bed", ABLE, indirect=True)
def test_splits_are_compared_where_asked_and_left(empty: Bed) -> None:
    model = declare()
    hb.create_tables(empty.store, model, splits=hb.tables.AtKeys([b"k"]))
    assert not hb.diff(empty.store, model)
    assert not hb.diff(empty.store, model, splits=hb.tables.AtKeys([b"k"]))
    found = hb.diff(empty.store, model, splits=hb.tables.AtKeys([b"c", b"k"]))
    assert told(found) == [(TABLE, "split keys", "left")]
    assert (found.differences[0].declared, found.differences[0].live) == ([b"c", b"k"], [b"k"])
    assert "2 regions -> 3 regions" in str(found)
    assert hb.alter(empty.store, model, splits=hb.tables.AtKeys([b"c", b"k"])).left == found
    assert len(empty.store.regions(TABLE)) == 2


# --- creating over what is there --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bed", ["memory", *HBASE], indirect=True)
def test_creating_says_what_was_there_and_how_it_differs(empty: Bed, caplog: pytest.LogCaptureFixture) -> None:
    made = hb.create_tables(empty.store, declare(indexes=BY_TAG))
    assert [name for name in made.created if name != "hbmodel"] == [f"{TABLE}.by_tag", TABLE]
    assert f"+ {TABLE}: created" in str(made).splitlines()
    assert made.differences == []
    model = declare(
        indexes=BY_TAG, family=hb.family("d", max_versions=2, ttl=HOUR), families=[hb.family("t", ttl=HOUR)]
    )
    with caplog.at_level(logging.WARNING, "hbmodel"):
        again = hb.create_tables(empty.store, model, splits=hb.tables.AtKeys([b"k"]))
    assert again.created == []
    assert again.existing == ["hbmodel", f"{TABLE}.by_tag", TABLE]
    by_table = {outcome.table: [d.what for d in outcome.differences] for outcome in again}
    assert by_table == {
        "hbmodel": [],
        f"{TABLE}.by_tag": ["family d ttl"],
        TABLE: ["family d ttl", "family d max_versions", "family t ttl"],
    }
    assert [record.getMessage() for record in caplog.records] == [
        f"A live table differs from its model: {difference}" for difference in again.differences
    ]
    assert all(family.ttl is None for family in empty.store.families(TABLE))


def test_an_undeclared_live_index_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, declare(indexes=BY_TAG))
        with caplog.at_level(logging.WARNING, "hbmodel"):
            made = hb.create_tables(store, declare())
        assert [(d.what, d.effect) for d in made.differences] == [("index by_tag", "left")]
        assert "index by_tag" in caplog.text


def test_no_value_of_a_row_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, declare())
        store.put(TABLE, [Put(b"secret", {b"d:g": b"secret"})])
        model = declare(family=hb.family("d", ttl=HOUR, max_versions=9))
        shown = [
            str(hb.diff(store, model)),
            str(hb.create_tables(store, model)),
            str(hb.alter(store, model, lossy=True)),
            caplog.text,
        ]
        assert "max_versions" in shown[0]
        assert not any("secret" in text for text in shown)


# --- less usual states ------------------------------------------------------------------------------------------------


def test_a_family_that_somebody_else_adds_meanwhile_gets_the_options_all_the_same() -> None:
    class Raced(RecordingStore):
        def add_family(self, table: str, family: hb.store.Family) -> None:
            self.inner.add_family(table, hb.store.Family(family.name))
            super().add_family(table, family)

    with Raced(hb.connect("memory:")) as store:
        hb.create_tables(store, declare())
        model = declare(extra=True, more="u", families=[hb.family("u", max_versions=4)])
        hb.alter(store, model)
        assert store.families(TABLE)[2].max_versions == 4
        assert not hb.diff(store, model)


def test_an_index_that_is_not_live_has_no_table_to_compare() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, declare())
        hb.create_tables(store, declare(indexes=BY_TAG))
        assert not hb.diff(store, declare()), "what is absent is missed by nobody"
        store.create_table(f"{TABLE}.by_tag", [hb.store.Family(b"x", ttl=5)])
        assert told(hb.diff(store, declare(indexes=BY_TAG))) == [(TABLE, "index by_tag", "left")]
        assert told(hb.tables.Diff(hb.create_tables(store, declare(indexes=BY_TAG)).differences)) == [
            (TABLE, "index by_tag", "left")
        ]


def test_a_registry_entry_outlives_its_table_and_still_counts() -> None:
    with hb.connect("memory:") as store:
        hb.create_tables(store, declare())
        store.delete_table(TABLE)
        other = declare(salt=hb.HashSalt(4))
        assert (TABLE, "salt", "refused") in told(hb.diff(store, other))
        with pytest.raises(hb.SchemaMismatch):
            hb.alter(store, other)
        assert TABLE not in store.tables()
        hb.alter(store, declare())
        assert not hb.diff(store, declare())


def test_a_model_named_twice_is_told_once_and_two_models_of_one_family_are_refused() -> None:
    model, view = declare(), declare(extra=True)
    with hb.connect("memory:") as store:
        assert len(hb.diff(store, model, model)) == len(hb.diff(store, model))
        made = hb.create_tables(store, model, model)
        assert made.created == ["hbmodel", TABLE]
        assert not hb.diff(store, model)
        for call in (hb.create_tables, hb.diff):
            with pytest.raises(hb.SchemaMismatch):
                call(store, model, view)
        assert hb.drop_tables(store, model, model, view) == [TABLE]


def test_namespaces_are_asked_for_only_where_one_may_be_missing() -> None:
    with RecordingStore(hb.connect("memory:")) as store:
        hb.create_tables(store, declare("area:noted"))
        store.calls.clear()
        hb.create_tables(store, declare("area:noted"), declare("area:more"), declare())
        assert "namespaces" not in [call.name for call in store.calls]


def test_families_that_no_model_maps_are_left_and_said() -> None:
    """A delete leaves their cells; families of another registered model belong to that model."""
    with hb.connect("memory:") as store:
        model = declare()
        store.create_table(TABLE, [Family(name) for name in (b"d", b"t", b"x", b"y")])
        hb.create_tables(store, model)

        @hb.model(table=TABLE, family="x")
        class Beside:
            name: hb.Key[str] = hb.key()
            more: hb.Column[str] = hb.column("m")

        (first, second) = hb.diff(store, model)
        assert [(d.kind, d.family, d.effect, d.live) for d in (first, second)] == [
            ("family", "x", "left", "x"),
            ("family", "y", "left", "y"),
        ]
        assert "a delete of an object leaves" in str(first)
        hb.create_tables(store, Beside)
        assert [d.family for d in hb.diff(store, model)] == ["y"]
        assert [d.family for d in hb.alter(store, model).left] == ["y"]
        assert [family.name for family in store.families(TABLE)] == [b"d", b"t", b"x", b"y"]


@pytest.mark.parametrize("longer", [2 * HOUR, None])
@pytest.mark.parametrize("indexed", [True, False])
def test_a_shared_family_gets_a_longer_life_only_with_all_models_that_have_indexes(longer: Any, indexed: bool) -> None:
    """The index tables of a model that is not given keep their TTL, so their entries would expire before the rows."""

    def kinds(life: timedelta | None) -> tuple[Any, Any]:
        def of(kind: bytes, **indexes: Any) -> Any:
            body: dict[str, Any] = {
                "owner": hb.key(), "name": hb.key(in_qualifier=True), "tag": hb.column("g"), **indexes,
                "__annotations__": {"owner": hb.Key[str], "name": hb.Key[str], "tag": hb.Column[str]},
            }  # fmt: skip
            return hb.model(table=TABLE, family=hb.family("d", ttl=life), kind=kind)(type("Kind", (), body))

        return of(b"p", by_tag=hb.index("tag")), of(b"q", **({"by_other": hb.index("tag")} if indexed else {}))

    first, second = kinds(HOUR)
    with hb.connect("memory:") as store:
        hb.create_tables(store, first, second)
        one, other = kinds(longer)
        before = {table: store.families(table) for table in store.tables()}
        if indexed:
            with pytest.raises(hb.SchemaMismatch, match="all models of the table") as caught:
                hb.alter(store, one)
            assert (caught.value.table, caught.value.family) == (TABLE, "d")
            assert [(each.table, each.effect) for each in hb.diff(store, one)] == [
                (f"{TABLE}.by_tag", "safe"),
                (TABLE, "refused"),
            ]
            assert {table: store.families(table) for table in store.tables()} == before
        hb.alter(store, *((one, other) if indexed else (one,)))
        assert not hb.diff(store, one, other)
        hb.alter(store, first, lossy=True)  # entries may outlive their rows
        assert {diff.table for diff in hb.diff(store, first, second)} <= {f"{TABLE}.by_other"}
