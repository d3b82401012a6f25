"""Refusals around tables, parts, groups and files, each with its message; see `test_refusals`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

import hbmodel as hb
from hbmodel.mapping.schema import schema_of
from hbmodel.store import Put
from hbmodel.store.embedded.sqlite_file import translated
from hbmodel.store.key_text import shell_bytes
from hbmodel.store.thrift1.store import Thrift1Store
from hbmodel.tables.registry.registry_rows import LAYOUT, registry_row
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry
from hbmodel.tables.registry.table_from_registry import TableFromRegistry
from hbmodel.tools.cli import main
from tests.support.beds import fresh
from tests.support.faulty import FaultyStore


@hb.model(table="refusing_days", family="d")
class Day:
    place: hb.Key[str] = hb.key()
    day: hb.Key[date] = hb.key()
    rain: hb.Column[int] = hb.column("r", default=0)
    tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]), factory=list)
    version: hb.Column[int] = hb.version()

    by_rain = hb.index("rain")


@hb.model(table="refusing_owned", family="p", kind=b"p")
class Pet:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    species: hb.Column[str] = hb.column("s")
    version: hb.Column[int] = hb.version()


@hb.model(table="refusing_owned", family="p", kind=b"s", salt=hb.HashSalt(4, by=("owner",)))
class Salted:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    size: hb.Column[int] = hb.column("s")
    version: hb.Column[int] = hb.version()


TODAY = date(2026, 3, 1)


@pytest.fixture
def days() -> Any:
    with fresh(Day) as store:
        with hb.Session(store) as session:
            session.add_all(Day(place="x", day=TODAY + timedelta(n)) for n in range(3))
        yield store


def test_conditions_of_other_models_and_spans_of_half_days(days: Any) -> None:
    session = hb.Session(days)
    with pytest.raises(hb.errors.UnknownField, match="The field belongs to another model"):
        session.update(Day(place="x", day=TODAY), condition=Pet.species == "cat", rain=1)
    with pytest.raises(hb.QueryError, match="A span of dates must be a whole number of"):
        hb.timeseries.downsample(session.query(Day).where(Day.place == "x"), Day.day, timedelta(hours=36), Day.rain)


def test_first_of_each_needs_fields_that_keys_hold(days: Any) -> None:
    query = hb.Session(days).query(Day)
    for fields in ((), (Day.place, Day.place)):
        with pytest.raises(hb.QueryError, match="Give one field, or several different ones"):
            query.first_of_each(fields, [("x",)])
    with pytest.raises(hb.QueryError, match="This field cannot be in a key"):
        query.first_of_each(Day.tags, [["x"]])


def test_a_session_that_ends_ends_its_queries(days: Any) -> None:
    for indexed in (False, True):
        session = hb.Session(days)
        query = session.query(Day)
        found = iter(query.where(Day.rain == 0) if indexed else query.allow_full_scan())
        next(found)
        session.close()
        with pytest.raises(hb.errors.SessionClosed, match="The session was closed while a query was being read"):
            next(found)


def test_parts_belong_to_the_query_that_was_split(days: Any) -> None:
    session = hb.Session(days)
    (part, *_) = session.query(Day).allow_full_scan().partitions(2)
    with pytest.raises(hb.SchemaMismatch, match="does not have the layout that it had in the process"):
        session.read_partition(attrs.evolve(part, layout="another"))
    with pytest.raises(hb.QueryError, match="The partition does not belong to the table that the"):
        list(session.read_partition(attrs.evolve(part, table="another")))


def test_a_load_that_stops_says_how_far_it_came() -> None:
    with FaultyStore(fresh(Pet), at=None) as store:
        session = hb.Session(store)
        session.bulk_add([Pet(owner="o", name="a", species="cat")])
        store.at, store.times = len(store.calls) + 6, 100
        with pytest.raises(hb.PartialWrite, match=r"bulk_add\(\) stopped") as error:
            session.bulk_add((Pet(owner=f"o{n}", name=str(n), species="cat") for n in range(20)), batch_size=2)
    assert error.value.position >= 2


def test_a_group_holds_objects_of_its_row() -> None:
    with fresh(Pet, Salted) as store:
        group = hb.Session(store).group(Pet, owner="ann")
        with pytest.raises(hb.SessionError, match="This model does not store these values in the row"):
            group.get(Salted, name="x")


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (sqlite3.SQLITE_BUSY, hb.StoreUnavailable, "locked by another process: try again, or end that process"),
        (sqlite3.SQLITE_CORRUPT, hb.StoreError, "file is damaged: restore it from a copy, or remove it"),
        (sqlite3.SQLITE_FULL, hb.StoreError, "file is full: free some space"),
        (sqlite3.SQLITE_READONLY, hb.StoreError, "cannot be written: check its permissions"),
        (sqlite3.SQLITE_IOERR, hb.StoreError, "cannot be read or written: check the disk"),
        (sqlite3.SQLITE_NOTADB, hb.StoreError, "is not an embedded store: name another path"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(code: int, kind: type[hb.HbmodelError], message: str) -> None:
    error = sqlite3.OperationalError("it")
    error.sqlite_errorcode = code
    found = translated(error, "dev.db")
    assert type(found) is kind
    assert message in found.message


def test_key_text_says_how_a_backslash_is_written() -> None:
    with pytest.raises(hb.errors.InvalidRequest, match="A backslash must begin"):
        shell_bytes("a\\b")


def test_a_table_of_several_models_asks_which(tmp_path: Any) -> None:
    with fresh(Pet, Salted) as store, pytest.raises(hb.QueryError, match="The table has several models"):
        TableFromRegistry.find(Registry(store), "refusing_owned")
    url = f"embedded:{tmp_path / 'a.db'}"
    with hb.connect(url) as store:
        hb.create_tables(store, Day)
    done = CliRunner().invoke(main, ["key", "encode", "refusing_days", "place=x", "place=y", "--store", url])
    assert done.exit_code
    assert "Give key fields as field=value, each once" in done.output


def test_several_gateways_that_are_not_there_are_one_error() -> None:
    with (
        pytest.raises(hb.StoreUnavailable, match="HBase cannot be reached"),
        hb.connect("hbase+thrift2://127.0.0.1:1,127.0.0.1:2?attempts=1&connect_timeout=1") as store,
    ):
        store.tables()


def test_a_gateway_that_does_not_read_the_table_of_namespaces_says_who_lists_them() -> None:
    def unreadable() -> Iterator[Any]:
        raise hb.errors.TableNotFound("There is no such table.")
        yield

    class Unreadable(Thrift1Store):
        def _scan(self, *_: Any) -> Any:
            return [unreadable()]

    with (
        Unreadable("127.0.0.1", 1) as store,
        pytest.raises(hb.CapabilityError, match="Thrift1 gateway cannot list the namespaces"),
    ):
        store.namespaces()


def test_a_registry_that_does_not_describe_a_model_says_to_use_the_program_s(days: Any) -> None:
    (row,) = days.get(REGISTRY_TABLE, [registry_row(schema_of(Day))])
    broken = row.columns[LAYOUT].value.replace(b'"null":"marker"', b'"null":"sometimes"')
    days.put(REGISTRY_TABLE, [Put(row.row, {LAYOUT: broken})])
    with pytest.raises(hb.SchemaMismatch, match="The registry's description is not enough to read the table"):
        TableFromRegistry.find(Registry(days), "refusing_days")


def test_altering_another_key_is_refused_with_the_reasons(days: Any) -> None:
    @hb.model(table="refusing_days", family="d")
    class Turned:
        day: hb.Key[date] = hb.key()
        place: hb.Key[str] = hb.key()
        rain: hb.Column[int] = hb.column("r", default=0)

    with pytest.raises(hb.SchemaMismatch, match="The live tables cannot be altered to match the models") as error:
        hb.alter(days, Turned)
    assert any(line.startswith("! refusing_days: key:") for line in error.value.differences)


@pytest.mark.lengthy
def test_the_ids_of_a_dictionary_end_with_their_codec() -> None:
    few = hb.ids.dictionary("refusing_few", hb.codecs.UInt8)
    with hb.connect("memory:") as store:
        hb.create_tables(store, few)
        names = hb.ids.Names(store)
        for n in range(256):
            try:
                names.claim(few, f"n{n}")
            except hb.errors.IdsExhausted:
                break
        with pytest.raises(hb.errors.IdsExhausted, match="All ids that the dictionary's codec can"):
            names.claim(few, "one more")
