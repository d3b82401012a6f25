"""Models whose tables are in namespaces: made, written, queried and dropped like any other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from attrs import evolve

import hbmodel as hb
from hbmodel.store import Capabilities
from tests.support.beds import HBASE, Bed
from tests.support.faulty import RecordingStore


def declare(namespace: str) -> Any:
    @hb.model(table=f"{namespace}:notes", salt=hb.HashSalt(2))
    class Note:
        name: hb.Key[str] = hb.key()
        tag: hb.Column[str] = hb.column("t")
        views: hb.Column[int] = hb.counter("v")

        by_tag = hb.index("tag")

    return Note


@pytest.fixture
def namespace(bed: Bed, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of one that is not there yet."""
    name = f"ns{uuid4().hex[:12]}"
    yield name
    maker: hb.Store = bed.store
    if bed.kind == "thrift1":
        maker = request.getfixturevalue("real_beds")("thrift2").store
    for table in bed.store.tables():
        if table.startswith(f"{name}:"):
            bed.store.delete_table(table)
    if name in maker.namespaces():
        maker.delete_namespace(name)


def use(store: hb.Store, namespace: str, registry: str = "hbmodel") -> None:
    """Writes, reads, queries and changes a model's objects."""
    model = declare(namespace)
    hb.create_tables(store, model, registry=registry)
    tables = [table for table in store.tables() if table.startswith(f"{namespace}:") and table != registry]
    assert tables == [f"{namespace}:notes", f"{namespace}:notes.by_tag"]
    assert not hb.diff(store, model, registry=registry)
    with hb.Session(store, registry=registry) as session:
        session.add_all(model(name=f"n{number}", tag="odd" if number % 2 else "even") for number in range(7))
    session = hb.Session(store, registry=registry)
    odd = session.query(model).where(model.tag == "odd")
    assert [note.name for note in odd] == ["n1", "n3", "n5"]
    page = odd.page(2)
    assert [note.name for note in odd.page(2, after=page.next_token).items] == ["n5"]
    assert [note.name for note in session.query(model).allow_full_scan().limit(2)] == ["n0", "n1"]
    note = session.get(model, name="n1")
    session.update(note, tag="even")
    assert session.increment(note, model.views, 3) == 3
    session.delete_key(model, name="n3")
    session.commit()
    assert [note.name for note in odd] == ["n5"]
    assert session.get_many(model, [{"name": "n3"}, {"name": "n5"}])[0] is None


@pytest.mark.every_store
@pytest.mark.parametrize("bed", ["memory", "embedded", HBASE[1]], indirect=True)
def test_a_namespace_is_made_with_the_first_table_in_it(bed: Bed, namespace: str) -> None:
    model = declare(namespace)
    found = hb.diff(bed.store, model)
    assert f"namespace {namespace}" in [difference.what for difference in found]
    use(bed.store, namespace)
    assert namespace in bed.store.namespaces()
    hb.drop_tables(bed.store, model)
    assert not [table for table in bed.store.tables() if table.startswith(f"{namespace}:")]
    hb.create_tables(bed.store, model)
    assert hb.Session(bed.store).query(model).where(model.tag == "odd").count() == 0


@pytest.mark.parametrize("bed", [HBASE[0]], indirect=True)
def test_the_first_gateway_gives_the_line_for_the_shell(bed: Bed, namespace: str, real_beds: Any) -> None:
    before = bed.store.tables()
    with pytest.raises(hb.CapabilityError, match="This store cannot create everything as declared") as caught:
        hb.create_tables(bed.store, declare(namespace))
    assert caught.value.shell == f"create_namespace '{namespace}'"
    assert bed.store.tables() == before
    with pytest.raises(hb.CapabilityError) as caught:
        hb.create_tables(bed.store, declare(namespace), splits=hb.ByBucket())
    first, second = caught.value.shell.splitlines()
    assert first == f"create_namespace '{namespace}'"
    assert second.startswith(f"create '{namespace}:t")
    real_beds("thrift2").store.create_namespace(namespace)
    use(bed.store, namespace)


@pytest.mark.parametrize("bed", ["memory", HBASE[1]], indirect=True)
def test_the_registry_may_live_in_a_namespace_too(bed: Bed, namespace: str) -> None:
    registry = f"{namespace}:registry"
    use(bed.store, namespace, registry)
    assert registry in bed.store.tables()


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_a_namespace_that_is_there_is_used(bed: Bed, namespace: str) -> None:
    bed.store.create_namespace(namespace)
    use(bed.store, namespace)


def test_split_keys_and_families_are_those_of_any_table() -> None:
    @hb.model(table="area:split", family=hb.family("d", max_versions=2))
    class Split:
        name: hb.Key[str] = hb.key()
        value: hb.Column[int] = hb.column("v")

        by_value = hb.index("value")

    with hb.connect("memory:") as store:
        hb.create_tables(
            store,
            Split,
            splits={Split: hb.tables.AtKeys([b"k"]), "area:split.by_value": hb.tables.AtKeys([b"c", b"m"])},
        )
        assert [len(store.regions(table)) for table in ("area:split", "area:split.by_value")] == [2, 3]
        assert store.families("area:split")[0].max_versions == 2


def test_the_default_namespace_is_not_named() -> None:
    with pytest.raises(hb.DeclarationError, match="A table of the default namespace must be written without") as caught:

        @hb.model(table="default:t")
        class Made:
            name: hb.Key[str] = hb.key()
            value: hb.Column[int] = hb.column("v")

    assert caught.value.table == "default:t"


class Untold(RecordingStore):
    """A store that can neither tell its namespaces nor make one, as HBase 3 behind the first gateway."""

    @property
    def capabilities(self) -> Capabilities:
        return evolve(self.inner.capabilities, namespaces=False)

    def namespaces(self) -> list[str]:
        raise hb.CapabilityError("They are not told.")

    def create_namespace(self, namespace: str) -> None:
        raise hb.CapabilityError("They cannot be made.", shell=f"create_namespace '{namespace}'")


def test_a_namespace_that_cannot_be_seen_is_noticed_with_the_first_table() -> None:
    model = declare("unseen")
    with Untold(hb.connect("memory:")) as store:
        with pytest.raises(hb.CapabilityError, match="This store cannot create everything as declared") as caught:
            hb.create_tables(store, model)
        assert caught.value.shell == "create_namespace 'unseen'"
        assert store.tables() == ["hbmodel"]
        store.inner.create_namespace("unseen")
        hb.create_tables(store, model)
        assert not hb.diff(store, model)
