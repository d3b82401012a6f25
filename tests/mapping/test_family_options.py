"""Column families with options: what may be declared, and that tables are created so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb
from tests.support.beds import HBASE, Bed
from tests.support.faulty import RecordingStore

HOUR = timedelta(hours=1)


def declare(indexed: bool = False, table: str = "options", **options: Any) -> Any:
    """A model with the families `d` and `t`."""
    body: dict[str, Any] = {
        "name": hb.key(),
        "tag": hb.column("g", default=""),
        "text": hb.column("x", family="t", default=""),
    }
    if indexed:
        body |= {"by_tag": hb.index("tag"), "by_text": hb.index("text", covers=("tag",))}
    body["__annotations__"] = {"name": hb.Key[str], "tag": hb.Column[str], "text": hb.Column[str]}
    return hb.model(table=table, **options)(type("Note", (), body))


FULL = hb.family(
    "d",
    ttl=timedelta(days=30),
    max_versions=2,
    compression="gz",
    bloom_filter="ROWCOL",
    block_size=32_768,
    in_memory=True,
    configuration={"hbase.hstore.blockingStoreFiles": "20"},
)


def test_options_are_the_schemas() -> None:
    schema = hb.schema.schema_of(declare(family=FULL, families=(hb.family("t", ttl=HOUR),)))
    assert schema.family == b"d"
    assert schema.families == (
        hb.store.Family(b"d", 2, 30 * 86_400, "GZ", "ROWCOL", 32_768, True, {"hbase.hstore.blockingStoreFiles": "20"}),
        hb.store.Family(b"t", ttl=3600),
    )
    assert hb.schema.schema_of(declare()).families == (hb.store.Family(b"d"), hb.store.Family(b"t"))
    assert hb.schema.schema_of(declare(family="d", families=[hb.family("t", ttl=HOUR)])).families == (
        hb.store.Family(b"d"),
        hb.store.Family(b"t", ttl=3600),
    )


BAD_OPTIONS: list[tuple[str, Any]] = [
    *(
        ("ttl", value)
        for value in (60, timedelta(0), timedelta(seconds=-1), timedelta(milliseconds=1500), timedelta(days=30_000))
    ),
    *(("max_versions", value) for value in (0, -1, 1.5, True, 2**31)),
    *(("compression", value) for value in ("ZIP", "", 5)),
    *(("bloom_filter", value) for value in ("COL", True)),
    *(("block_size", value) for value in (0, 1023, 2**24 + 1, "64k")),
    *(("in_memory", value) for value in (1, "true")),
    *(("configuration", value) for value in ({"a": 1}, {1: "a"}, {"": "a"}, {"a": ""}, ["a"])),
]


@pytest.mark.parametrize(("option", "value"), BAD_OPTIONS)
def test_options_that_hbase_would_not_take_are_named(option: str, value: Any) -> None:
    with pytest.raises(hb.DeclarationError) as caught:
        hb.family("d", **{option: value})
    assert (caught.value.family, caught.value.option) == ("d", option)


def test_a_store_value_is_checked_like_any_other() -> None:
    named_by_text: Any = hb.store.Family("d")  # type: ignore[arg-type]
    for family in (
        named_by_text,
        hb.store.Family(b"d", ttl=0),
        hb.store.Family(b"d", compression="gz"),
        hb.store.Family(b"d", max_versions=0),
    ):
        with pytest.raises(hb.DeclarationError) as caught:
            declare(family=family)
        assert (caught.value.model, caught.value.family) == ("Note", "d")


@pytest.mark.parametrize("name", ["", "a:b", "with blank", ".dot", "ä" * 64, "\ud800", b"d", 5])
def test_names_that_hbase_would_not_take(name: Any) -> None:
    with pytest.raises(
        hb.DeclarationError,
        match=r"A column family's name must be|A name with a lone surrogate "
        r"cannot be encoded",
    ):
        hb.family(name)


MISUSES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "unused family": (lambda: declare(families=[hb.family("u")]), {"option": "families", "family": "u"}),
    "family twice": (lambda: declare(families=[hb.family("t"), hb.family("t")]), {"option": "families"}),
    "default family again": (lambda: declare(families=[hb.family("d")]), {"option": "families"}),
    "names without options": (lambda: declare(families=["t"]), {"option": "families"}),
    "text": (lambda: declare(families="t"), {"option": "families"}),
    "different lives with indexes": (
        lambda: declare(True, family=hb.family("d", ttl=HOUR)),
        {"option": "ttl", "found": {"d": 3600, "t": None}},
    ),
}


@pytest.mark.parametrize("name", MISUSES)
def test_families_that_do_not_fit_the_model(name: str) -> None:
    make, details = MISUSES[name]
    with pytest.raises(hb.DeclarationError) as caught:
        make()
    assert caught.value.details["model"] == "Note"
    assert details.items() <= caught.value.details.items()


def test_families_of_one_life_may_have_indexes() -> None:
    declare(True, family=hb.family("d", ttl=HOUR, compression="GZ"), families=[hb.family("t", ttl=HOUR)])
    declare(False, family=hb.family("d", ttl=HOUR))


# --- creating ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bed", ["memory", "embedded", HBASE[1]], indirect=True)
def test_tables_are_created_with_the_options(bed: Bed) -> None:
    model = declare(table="options_full", family=FULL)
    hb.create_tables(bed.store, model)
    found = bed.store.families("options_full")
    assert found == [
        hb.schema.schema_of(model).families[0],
        hb.store.Family(b"t", 1, None, "NONE", "ROW", 65_536, False),
    ]


@pytest.mark.parametrize("bed", ["memory", *HBASE], indirect=True)
def test_index_tables_have_the_life_and_the_compression_of_the_model(bed: Bed) -> None:
    life = 30 * 86_400
    families = [hb.family("t", ttl=timedelta(seconds=life), compression="NONE")]
    model = declare(
        True,
        "options_index",
        family=hb.family("d", ttl=timedelta(days=30), compression="GZ", max_versions=2),
        families=families,
    )
    hb.create_tables(bed.store, model)

    def told(table: str) -> list[tuple[Any, ...]]:
        return [
            (family.name, family.ttl, family.compression, family.max_versions) for family in bed.store.families(table)
        ]

    assert told("options_index") == [(b"d", life, "GZ", 2), (b"t", life, "NONE", 1)]
    assert told("options_index.by_tag") == [(b"d", life, "GZ", 1)]
    assert told("options_index.by_text") == [(b"d", life, "GZ", 1)]


@pytest.mark.parametrize("bed", [HBASE[0]], indirect=True)
def test_options_beyond_the_first_gateway_come_with_lines_for_the_shell(bed: Bed) -> None:
    before = bed.store.tables()
    with pytest.raises(hb.CapabilityError) as caught:
        hb.create_tables(bed.store, declare(table="options_beyond", family=FULL))
    assert bed.store.tables() == before
    (line,) = caught.value.shell.splitlines()
    assert line.endswith(
        "_options_beyond', {NAME => 'd', VERSIONS => 2, TTL => 2592000, COMPRESSION => 'GZ', BLOOMFILTER => 'ROWCOL', "
        "BLOCKSIZE => 32768, IN_MEMORY => true, CONFIGURATION => {'hbase.hstore.blockingStoreFiles' => '20'}}, {NAME "
        "=> 't'}"
    )


def test_a_family_of_the_table_has_one_declaration() -> None:
    with RecordingStore(hb.connect("memory:")) as recording:
        hb.create_tables(recording, declare(family=FULL))
    (call,) = [call for call in recording.calls if str(call) == "create_table options"]
    assert [family.name for family in call.items[0]] == [b"d", b"t"]
