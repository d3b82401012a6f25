"""Models of one external table that share a family: fixed columns, and columns whose qualifiers have a prefix."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.store import Put, Scan
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.registry.table_from_registry import TableFromRegistry
from tests.support.beds import Bed, fresh
from tests.support.examples import examples

EXTERNAL: dict[str, Any] = {"table": "shared_docs", "family": "d", "external": True}


@hb.model(**EXTERNAL, exists="name")
class Doc:
    url: hb.Key[str] = hb.key()
    name: hb.Column[str] = hb.column("name", hb.codecs.NonEmpty(hb.Text))
    size: hb.Column[int | None] = hb.column("size", hb.codecs.as_text.Int, default=None)
    views: hb.Column[int] = hb.counter("views")


@hb.model(**EXTERNAL, kind=b"tag:")
class Tag:
    url: hb.Key[str] = hb.key()
    tag: hb.Key[str] = hb.key(in_qualifier=True)
    value: hb.Column[str] = hb.column("")


@hb.model(**EXTERNAL, kind=b"at:")
class Visit:
    url: hb.Key[str] = hb.key()
    at: hb.Key[int] = hb.key(hb.codecs.DecimalText(4), in_qualifier=True)
    visitor: hb.Column[str] = hb.column("")


MODELS = (Doc, Tag, Visit)
CELLS = {
    b"a": {b"d:name": b"A", b"d:size": b"7", b"d:tag:color": b"red", b"d:tag:size": b"", b"d:at:0010": b"ann"},
    b"b": {b"d:tag:color": b"blue", b"d:ta": b"other", b"d:tb": b"other", b"d:at:0011": b"bob", b"d:at:0012": b"eve"},
    b"c": {b"d:name": b"C", b"d:other": b"x"},
}


def cells(store: hb.Store) -> dict[bytes, dict[bytes, bytes]]:
    (batches,) = store.scan("shared_docs", [Scan()])
    return {row.row: {c: cell.value for c, cell in row.columns.items()} for batch in batches for row in batch}


def use(bed: Bed) -> hb.Session:
    session = bed.use(*MODELS)
    bed.store.put("shared_docs", [Put(row, columns) for row, columns in CELLS.items()])
    return session


@pytest.mark.every_store
def test_each_model_reads_its_own_cells(bed: Bed) -> None:
    session = use(bed)
    assert [(doc.url, doc.size) for doc in session.query(Doc).allow_full_scan()] == [("a", 7), ("c", None)]
    tags = session.query(Tag)
    assert [(tag.url, tag.tag, tag.value) for tag in tags.allow_full_scan()] == [
        ("a", "color", "red"),
        ("a", "size", ""),
        ("b", "color", "blue"),
    ]
    assert tags.where(Tag.url == "a", Tag.tag.startswith("s")).all() == [Tag(url="a", tag="size", value="")]
    assert tags.where(Tag.url == "a").reversed().page(1).items == [Tag(url="a", tag="size", value="")]
    assert session.get(Tag, url="b", tag="color") == Tag(url="b", tag="color", value="blue")
    visits = session.query(Visit).where(Visit.url == "b")
    assert [visit.at for visit in visits.where(Visit.at >= 12)] == [12]
    assert [visit.at for visit in visits.reversed()] == [12, 11]
    assert session.query(Visit).allow_full_scan().count() == 3


@pytest.mark.every_store
def test_each_model_writes_its_own_cells(bed: Bed) -> None:
    session = use(bed)
    expected = {row: dict(columns) for row, columns in CELLS.items()}
    session.add_all([Tag(url="b", tag="new", value="v"), Visit(url="d", at=1, visitor="dan")])
    session.commit()
    session.add(Doc(url="b", name="B"))
    session.commit()
    expected[b"b"] |= {b"d:name": b"B", b"d:tag:new": b"v"}
    expected[b"d"] = {b"d:at:0001": b"dan"}
    assert cells(bed.store) == expected
    session.delete_key(Doc, url="a")
    session.commit()
    session.delete_key(Tag, url="b", tag="color")
    session.commit()
    del expected[b"a"][b"d:name"], expected[b"a"][b"d:size"], expected[b"b"][b"d:tag:color"]
    assert cells(bed.store) == expected
    session.query(Tag).where(Tag.url == "a").delete()
    session.increment_key(Doc, Doc.views, 3, url="b")
    del expected[b"a"][b"d:tag:color"], expected[b"a"][b"d:tag:size"]
    expected[b"b"][b"d:views"] = (3).to_bytes(8, "big")
    assert cells(bed.store) == expected


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add doc", "put doc", "delete doc", "add tag", "delete tag", "add visit", "delete visit"]),
        st.sampled_from("ab"),
        st.integers(0, 2),
        st.booleans(),
    ),
    max_size=12,
)


@pytest.mark.lengthy
@settings(max_examples=examples(60), deadline=None)
@given(STEPS)
def test_what_one_model_does_leaves_the_cells_of_the_others(steps: list[tuple[str, str, int, bool]]) -> None:
    with fresh(*MODELS) as store:
        others = {b"d:ta": b"x", b"d:tag": b"x", b"d:at": b"x"}
        store.put("shared_docs", [Put(b"a", others)])
        expected: dict[bytes, dict[bytes, bytes]] = {b"a": dict(others), b"b": {}}
        session = hb.Session(store)
        for step, url, number, commits in steps:
            own = expected[url.encode()]
            match step:
                case "add doc" | "put doc":
                    size = number or None
                    session.commit()  # an add does not follow a delete in one commit if the model has a counter
                    if step == "add doc":
                        session.add(Doc(url=url, name="n", size=size))
                    else:
                        session.put(Doc, url=url, name="n", size=size)
                        own.setdefault(b"d:views", bytes(8)) if b"d:name" not in own else None
                    own[b"d:name"] = b"n"
                    own.pop(b"d:size", None)
                    own |= {b"d:size": b"%d" % size} if size else {}
                case "delete doc":
                    session.delete_key(Doc, url=url)
                    for column in (b"d:name", b"d:size", b"d:views"):
                        own.pop(column, None)
                case "add tag":
                    session.add(Tag(url=url, tag=f"t{number}", value=f"{number}"))
                    own[b"d:tag:t%d" % number] = b"%d" % number
                case "delete tag":
                    session.delete_key(Tag, url=url, tag=f"t{number}")
                    own.pop(b"d:tag:t%d" % number, None)
                case "add visit":
                    session.add(Visit(url=url, at=number, visitor="v"))
                    own[b"d:at:%04d" % number] = b"v"
                case _:
                    session.delete_key(Visit, url=url, at=number)
                    own.pop(b"d:at:%04d" % number, None)
            if commits:
                session.commit()
        session.commit()
        assert cells(store) == {row: columns for row, columns in expected.items() if columns}
        found = [(tag.url, tag.tag) for tag in session.query(Tag).allow_full_scan()]
        assert found == [
            (row.decode(), column[6:].decode())
            for row, columns in expected.items()
            for column in sorted(columns)
            if column.startswith(b"d:tag:")
        ]


def test_a_key_that_leaves_the_kind_alone_is_refused_in_a_constant_row() -> None:
    @hb.model(**EXTERNAL, row=b"all", kind=b"set:")
    class Setting:
        name: hb.Key[str] = hb.key(in_qualifier=True)
        value: hb.Column[str] = hb.column("")

    with stored({b"all": {b"d:set:": b"1", b"d:set:a": b"2"}}) as store:
        hb.create_tables(store, Setting)
        session = hb.Session(store)
        assert [each.name for each in session.query(Setting).allow_full_scan()] == ["", "a"]
        with pytest.raises(hb.errors.KeyTooLong, match="would be the kind alone"):
            session.get(Setting, name="")


def test_rows_with_a_ttl_can_be_adopted_again() -> None:
    doc = plain_doc(external=True, exists="name")
    with fresh(doc, Part) as store:
        session = hb.Session(store)
        session.add(doc(url="a", name=7), ttl=timedelta(hours=1))
        session.add(Part(url="a", name="wheel", price="7"), ttl=timedelta(hours=1))
        session.commit()
        assert sorted(cells(store)[b"a"]) == [b"d:_t", b"d:name", b"d:part:wheel|_t", b"d:part:wheel|price"]
        for model in (Part, doc):
            assert open_findings(store, model) == []
        hb.tables.forget(store, "shared_docs", existing=True)
        hb.create_tables(store, Part, doc)


def test_a_counter_whose_qualifier_is_data_is_read_as_a_column() -> None:
    with pytest.raises(hb.DeclarationError, match=r'can also read counters: hb\.column\("", hb\.codecs\.java\.Long\)'):

        @hb.model(**EXTERNAL, kind=b"hits:")
        class Counted:
            url: hb.Key[str] = hb.key()
            day: hb.Key[str] = hb.key(in_qualifier=True)
            hits: hb.Column[int] = hb.counter("")

    @hb.model(**EXTERNAL, kind=b"hits:")
    class Hits:
        url: hb.Key[str] = hb.key()
        day: hb.Key[str] = hb.key(in_qualifier=True)
        hits: hb.Column[int] = hb.column("", hb.codecs.java.Long)

    with fresh(Doc, Hits) as store:
        assert store.increment("shared_docs", b"a", b"d:hits:monday", 3) == 3
        assert hb.Session(store).query(Hits).allow_full_scan().all() == [Hits(url="a", day="monday", hits=3)]


def test_adoption_names_unread_qualifiers_by_the_kind() -> None:
    @hb.model(**EXTERNAL, kind=b"part:", exists="price")
    class Priced:
        url: hb.Key[str] = hb.key()
        name: hb.Key[str] = hb.key(hb.codecs.Delimited("|"), in_qualifier=True)
        price: hb.Column[str] = hb.column("price")

    with stored({b"a": {b"d:part:wheel|price": b"7", b"d:part:total": b"7", b"d:other": b"x"}}) as store:
        assert open_findings(store, Priced) == ["undeclared:d:part:*"]


def declared(**options: Any) -> type[Any]:
    """A wide model of the table."""

    class Wide:
        url: hb.Key[str] = hb.key()
        part: hb.Key[str] = hb.key(in_qualifier=True)
        value: hb.Column[str] = hb.column("")

    return hb.model(**{"table": "shared_docs", "family": "d", "external": True, **options})(Wide)


@hb.model(table="shared_docs", family="d")
class Owned:
    url: hb.Key[str] = hb.key()
    name: hb.Column[str] = hb.column("name")


@pytest.mark.parametrize(
    "models",
    [
        (Doc, declared()),
        (Doc, declared(kind=b"na")),
        (Doc, declared(kind=b"name")),
        (Doc, declared(kind=b"_")),
        (Doc, declared(kind=b"_t")),
        (Doc, declared(kind=b"_p")),
        (Doc, declared(kind=b"_px")),
        (Tag, declared(kind=b"t")),
        (Tag, declared(kind=b"tag:x")),
        (Tag, declared()),
        (Owned, Tag),
        (Owned, Doc),
    ],
)
def test_cells_that_could_belong_to_two_models_are_refused(models: tuple[type[Any], type[Any]]) -> None:
    for first, second in (models, models[::-1]):
        with pytest.raises(hb.SchemaMismatch, match="Another model of the table has this column family"):
            fresh(first, second)
        with fresh(first) as store, pytest.raises(hb.SchemaMismatch):  # or another layout of the same entry
            hb.create_tables(store, second)


def test_models_can_be_registered_one_after_the_other() -> None:
    for models in (MODELS, MODELS[::-1]):
        with fresh(models[0]) as store:
            for model in models[1:]:
                hb.create_tables(store, model)
            assert not hb.diff(store, *MODELS).differences
            session = hb.Session(store)
            session.add_all([Doc(url="a", name="A"), Tag(url="a", tag="color", value="red")])
            session.commit()
            assert cells(store) == {b"a": {b"d:name": b"A", b"d:tag:color": b"red"}}


def test_an_entry_of_an_earlier_program_is_not_known_to_be_external() -> None:
    with fresh(Doc) as store:
        row = b"shared_docs\0d"
        store.delete("hbmodel", [hb.store.Delete(row, columns=(b"m:external",))])
        with pytest.raises(hb.SchemaMismatch, match=r"hb\.create_tables\(\) has registered both"):
            hb.create_tables(store, Tag)
        hb.create_tables(store, Doc)
        hb.create_tables(store, Tag)


def plain_doc(**options: Any) -> type[Any]:
    """A model whose layout is the same with and without `external=True`."""

    class Plain:
        url: hb.Key[str] = hb.key()
        name: hb.Column[int] = hb.column("name", hb.UInt32)

    return hb.model(**{"table": "shared_docs", "family": "d", **options})(Plain)


def test_a_model_of_the_same_layout_must_be_external_too() -> None:
    external, owned = plain_doc(external=True, exists="name"), plain_doc()
    refused = "The registry says that other programs write the table"
    with fresh(external, Tag) as store:
        hb.Session(store).put_all(external, [{"url": "a", "name": 7}])
        with hb.Session(store) as session:
            session.add(Tag(url="a", tag="color", value="red"))
        with pytest.raises(hb.SchemaMismatch, match=refused):
            hb.create_tables(store, owned)
        session = hb.Session(store)
        session.delete_key(owned, url="a")
        with pytest.raises(hb.SchemaMismatch, match=refused):
            session.commit()
        session.discard()
        assert "external" in [each.what for each in hb.diff(store, owned).differences if each.effect == "refused"]
        assert cells(store)[b"a"] == {b"d:name": bytes([0, 0, 0, 7]), b"d:tag:color": b"red"}
        hb.tables.forget(store, "shared_docs", existing=True)
        hb.create_tables(store, owned)


def test_an_external_model_shares_no_family_whose_entry_others_may_use() -> None:
    with fresh(plain_doc()) as store:
        hb.create_tables(store, plain_doc(external=True, exists="name"))
        with pytest.raises(hb.SchemaMismatch, match="Another model of the table has this column family"):
            hb.create_tables(store, Tag)


def test_adoption_and_diff_judge_each_model_by_its_own_cells() -> None:
    with fresh() as store:
        store.create_table("shared_docs", [hb.store.Family(b"d")])
        store.put("shared_docs", [Put(b"a", CELLS[b"a"])])
        for model in (Tag, Visit, Doc):
            adopted = hb.tables.adopt(store, model)
            assert [finding for finding in adopted.findings if not finding.note] == [], adopted
        assert list(hb.diff(store, *MODELS).differences) == []


@hb.model(**EXTERNAL, kind=b"part:")
class Part:
    url: hb.Key[str] = hb.key()
    name: hb.Key[str] = hb.key(hb.codecs.Delimited("|"), in_qualifier=True)
    price: hb.Column[str] = hb.column("price")


def stored(rows: dict[bytes, dict[bytes, bytes]]) -> hb.Store:
    store = fresh()
    store.create_table("shared_docs", [hb.store.Family(b"d")])
    store.put("shared_docs", [Put(row, columns) for row, columns in rows.items()])
    return store


def open_findings(store: hb.Store, model: type[Any]) -> list[str]:
    return [
        finding.name for finding in hb.tables.adopt(store, model, accept=["undeclared"]).findings if not finding.note
    ]


def test_adoption_takes_no_column_of_an_object_for_a_column_of_another_model() -> None:
    with stored({b"a": {b"d:name": b"A", b"d:part:wheel|price": b"7", b"d:part:wheel|name": b"x"}}) as store:
        hb.tables.adopt(store, Doc, accept=["undeclared"])
        assert open_findings(store, Part) == ["undeclared:d:name"]


def test_adoption_counts_no_row_that_has_only_cells_of_other_models() -> None:
    with stored({b"a": {b"d:name": b"A"}, b"b": {b"d:tag:color": b"red", b"d:at:0001": b"ann"}}) as store:
        assert hb.tables.adopt(store, Tag).adopted
        assert open_findings(store, Doc) == ["no-object"]
        assert hb.tables.adopt(store, Visit).adopted
        assert open_findings(store, Doc) == []


class Shouted(hb.Codec[str]):
    """Text in capital letters, by a program's own codec."""

    python_type = str

    def encode(self, value: str) -> bytes:
        return value.upper().encode()

    def decode(self, data: bytes) -> str:
        return data.decode().lower()

    @property
    def spec(self) -> dict[str, Any]:
        return {"codec": "shouted"}


def test_adoption_knows_the_cells_of_models_that_only_a_program_can_read() -> None:
    @hb.model(**EXTERNAL, kind=b"loud:")
    class Loud:
        url: hb.Key[str] = hb.key()
        name: hb.Key[str] = hb.key(Shouted(), in_qualifier=True)
        value: hb.Column[str] = hb.column("")

    with stored({b"a": {b"d:name": b"A", b"d:loud:COLOR": b"red", b"d:tag:color": b"red"}}) as store:
        for model in (Loud, Tag, Doc):
            adopted = hb.tables.adopt(store, model)
            assert adopted.adopted, adopted


@hb.model(**EXTERNAL, immutable=True, exists="name")
class IndexedDoc:
    url: hb.Key[str] = hb.key()
    name: hb.Column[str] = hb.column("name")
    by_name = hb.index("name")


def test_dropping_one_model_leaves_the_work_on_the_others() -> None:
    with fresh(IndexedDoc, Tag) as store:
        work = [
            b"\x01shared_docs\0d\0shared_docs.by_name\0build",
            b"\x01shared_docs\0d\0tag:\0shared_docs.by_tag\0build",
        ]
        store.put("hbmodel", [Put(row, {b"m:0": b"x"}) for row in work])
        hb.drop_tables(store, IndexedDoc)
        left = [row is not None for row in store.get("hbmodel", [*work, b"shared_docs\0d", b"shared_docs\0d\0tag:"])]
        assert left == [False, True, False, True]


def test_the_registry_tells_models_of_one_family_apart() -> None:
    with fresh(*MODELS, declared(kind=b"\x00\xff"), declared(kind="é".encode())) as store:
        catalog = Registry(store)

        def kind_of(**named: str) -> bytes:
            return TableFromRegistry.find(catalog, "shared_docs", **named).schema.kind

        assert kind_of(family="d") == kind_of(kind="") == b""
        assert [kind_of(kind=kind) for kind in ("tag:", r"\x00\xFF", r"\x00\xff", "é", r"\xC3\xA9")] == [
            b"tag:",
            b"\x00\xff",
            b"\x00\xff",
            "é".encode(),
            "é".encode(),
        ]
        with pytest.raises(hb.QueryError) as raised:
            kind_of()
        assert raised.value.details["known"] == ["d", r"d \x00\xFF", "d at:", "d tag:", r"d \xC3\xA9"]
