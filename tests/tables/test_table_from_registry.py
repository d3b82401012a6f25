"""Tables as the registry has them: models made again, and keys taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import (
    CapabilityError,
    DecodingError,
    IncompleteKey,
    QueryError,
    RowKeyError,
    SchemaMismatch,
    TableNotFound,
)
from hbmodel.mapping.rows.mapper import KeyMapper, key_of
from hbmodel.store import Scan
from hbmodel.tables.registry.layout_differences import same_spec
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.registry.table_from_registry import TableFromRegistry
from tests.support import models
from tests.support.models import DAY, day
from tests.support.own_codec import OneByte


@hb.model(table="pets_r", family="p", kind=b"p")
class Pet:
    owner: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(in_qualifier=True)
    species: hb.Column[str] = hb.column("s")
    notes: hb.Map[int, str] = hb.map_column("t")


@hb.model(table="pets_r", family="p", kind=b"v")
class Visit:
    owner: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(hb.codecs.UInt16, in_qualifier=True)
    cost: hb.Column[int] = hb.column("c", hb.UInt32)


@hb.model(table="series_r", family="d", salt=hb.HashSalt(3))
class Series:
    sensor: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=timedelta(hours=1))
    value: hb.Column[float] = hb.column("")


@hb.model(table="one_row_r", family="d", row=b"all")
class Word:
    word: hb.Key[str] = hb.key(in_qualifier=True)
    count: hb.Column[int] = hb.counter("c")
    language: hb.Column[str] = hb.column("l")


@hb.model(table="accounts_r", family="a")
class Account:
    number: hb.Key[int] = hb.key(hb.UInt32)
    mail: hb.Column[str] = hb.column("m")
    version: hb.Column[int] = hb.version()

    by_mail = hb.index("mail", unique=True)
    of_domain = hb.index("mail", where=lambda account: account.mail.startswith("a"))


@hb.model(table="own_key_r", family="d")
class OwnKey:
    number: hb.Key[int] = hb.key(OneByte())
    text: hb.Column[str] = hb.column("t")


class _Half(hb.salts.Salt):
    """A salt of a program's own: the two halves of the first byte's values."""

    buckets, width = 2, 1

    def prefix(self, bucket: int) -> bytes:
        return b"ab"[bucket : bucket + 1]

    def bucket(self, data: bytes) -> int:
        return data[0] >> 7

    @property
    def spec(self) -> dict[str, Any]:
        return {"salt": "half"}


@hb.model(table="own_salt_r", family="d", salt=_Half())
class OwnSalt:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    text: hb.Column[str] = hb.column("t")


@hb.model(table="own_bucket_r", family="d", salt=hb.salts.TextSalt(["a-", "b-"], choose=lambda data: data[0] >> 7))
class OwnBucket:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    text: hb.Column[str] = hb.column("t")


@hb.model(table="own_column_r", family="d")
class OwnColumn:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    mine: hb.Column[int] = hb.column("m", OneByte())


MODELS: tuple[Any, ...] = (
    models.Order,
    models.Sample,
    models.Flagged,
    models.Hit,
    models.Logged,
    models.Fact,
    models.Person,
    models.Legacy,
    models.Visit,
    Pet,
    Visit,
    Series,
    Word,
    Account,
    OwnColumn,
)


@pytest.fixture(scope="module")
def store() -> Iterator[hb.Store]:
    with hb.connect("memory:") as opened:
        hb.create_tables(opened, *MODELS, OwnKey, OwnSalt, OwnBucket, create_external=True)
        yield opened


def registered(store: hb.Store, model: Any, index: str | None = None) -> TableFromRegistry:
    schema = hb.schema.schema_of(model)
    table = schema.table if index is None else schema.indexes[index].table
    return TableFromRegistry.find(Registry(store), table, kind=schema.kind.decode() or None)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_the_model_is_made_again(store: hb.Store, model: Any) -> None:
    schema, found = hb.schema.schema_of(model), registered(store, model)
    assert found.schema.layout_spec == schema.layout_spec
    assert found.schema.wide == schema.wide
    plain = {name for name, index in schema.indexes.items() if index.is_plain}
    assert set(found.schema.indexes) == plain
    assert all(same_spec(found.schema.indexes[name].spec, schema.indexes[name].spec) for name in plain)
    assert hb.Session(store).query(found.model).allow_full_scan().all() == []


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_the_models_of_index_tables_have_the_layout_of_entries(store: hb.Store, model: Any) -> None:
    for name, index in hb.schema.schema_of(model).indexes.items():
        found = registered(store, model, name)
        assert found.index == name
        assert found.schema.layout.spec == index.layout.spec
        assert found.schema.salt.spec == index.salt.spec


def test_tables_that_the_registry_does_not_hold(store: hb.Store) -> None:
    for name in ("nothing", "orders.nothing", ""):
        with pytest.raises(TableNotFound):
            TableFromRegistry.find(Registry(store), name)
    with pytest.raises(QueryError) as caught:
        TableFromRegistry.find(Registry(store), "pets_r")
    assert caught.value.known == ["p p", "p v"]
    with pytest.raises(SchemaMismatch, match="codec of a key field"):
        TableFromRegistry.find(Registry(store), "own_key_r")


def test_salts_of_programs(store: hb.Store) -> None:
    with pytest.raises(
        SchemaMismatch, match="The salt is code of a program, and the registry does not contain it: use"
    ) as caught:
        registered(store, OwnSalt)
    assert (caught.value.table, caught.value.salt) == ("own_salt_r", "half")
    found = registered(store, OwnBucket)
    assert found.decode(hb.row_key(OwnBucket, number=200)).fields == {"number": 200}
    with pytest.raises(
        RowKeyError, match="A function of a program chooses the bucket, and the registry does not contain"
    ):
        found.encode({"number": 200})


KEYS = st.fixed_dictionaries(
    {"customer": st.integers(0, 65_535), "at": st.integers(-9, 9).map(day), "number": st.integers(0, 2**32 - 1)}
)


@pytest.mark.lengthy
@given(KEYS)
def test_a_key_is_taken_apart_and_made_again(store: hb.Store, key: dict[str, Any]) -> None:
    found = registered(store, models.Order)
    ((row, qualifier),) = found.encode(key)
    assert (row, qualifier) == (hb.row_key(models.Order, **key), None)
    stored = found.decode(row)
    assert (stored.fields, stored.bucket) == (key, row[0])
    other = bytes(((row[0] + 1) % 4,)) + row[1:]
    with pytest.raises(DecodingError, match="The key does not begin with the bucket that its fields give"):
        found.decode(other)
    for end in range(len(row) + 1):  # any part of it may be the bound of a region
        bound = found.decode_bound(row[:end])
        assert (
            list(bound.fields.items()) == [(name, key[name]) for name in found.schema.layout.names][: len(bound.fields)]
        )
        assert row[:end].endswith(bound.rest)


def test_the_keys_of_wide_rows(store: hb.Store) -> None:
    pets, series, words = registered(store, Pet), registered(store, Series), registered(store, Word)
    assert pets.encode({"owner": "ann"}) == [(b"ann", None)]
    assert pets.encode({"owner": "ann", "name": "rex"}) == [(b"ann", b"prex\0\1")]
    stored = pets.decode(b"ann", b"prex\0\1s")
    assert (stored.fields, stored.rest) == ({"owner": "ann", "name": "rex"}, b"s")
    at = DAY + timedelta(minutes=65)
    ((row, qualifier),) = series.encode({"sensor": "x", "at": at})
    assert series.decode(row).fields == {"sensor": "x", "at": DAY + timedelta(hours=1)}
    assert series.decode(row, qualifier).fields == {"sensor": "x", "at": at}
    assert words.decode(b"all").fields == {}
    with pytest.raises(DecodingError, match="not the constant row of its model"):
        words.decode(b"other")
    with pytest.raises(DecodingError, match="A qualifier does not belong"):
        pets.decode(b"ann", b"vrex")
    for table, key in ((pets, {"name": "rex"}), (series, {"sensor": "x"})):
        with pytest.raises(IncompleteKey, match="Give every key field, or only those of the row key"):
            table.encode(key)
    with pytest.raises(CapabilityError):
        registered(store, models.Order).decode(b"x", b"y")


def test_random_buckets() -> None:
    with hb.connect("memory:") as store, hb.Session(store) as session:
        hb.create_tables(store, models.Hit)
        session.add(models.Hit(at=DAY, serial=3, page="p"))
        session.commit()
        hits, entries = registered(store, models.Hit), registered(store, models.Hit, "by_page")
        assert {row for row, _ in hits.encode({"at": DAY, "serial": 3})} == set(
            KeyMapper(hits.schema).rows(key_of(hb.schema.schema_of(models.Hit), models.Hit(at=DAY, serial=3, page="p")))
        )
        rows = {table: next(iter(next(store.scan(table, [Scan()])[0]))).row for table in ("hits", "hits.by_page")}
        stored, entry = hits.decode(rows["hits"]), entries.decode(rows["hits.by_page"])
        assert stored.bucket == rows["hits"][0] == entry.primary_bucket
        assert entry.fields == {"page": "p", "at": DAY, "serial": 3}
        with pytest.raises(CapabilityError, match="The entries end with a random bucket, so their keys cannot"):
            entries.encode(entry.fields)
