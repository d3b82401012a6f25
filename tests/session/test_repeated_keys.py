"""Keys that are written more than once where rows are immutable, and models that share a table: nothing torn,
nothing lost.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import hbmodel as hb
from tests.support.beds import cells_of


@hb.model(table="drawn", salt=hb.RandomSalt(8), immutable=True)
class Drawn:
    key: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("a")
    number: hb.Column[int | None] = hb.column("n", default=None)

    by_text = hb.index("text")


@hb.model(table="drawn_plain", salt=hb.RandomSalt(8), immutable=True)
class DrawnPlain:
    key: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("a")


@hb.model(table="fixed", immutable=True)
class Fixed:
    key: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("a")
    number: hb.Column[int | None] = hb.column("n", default=None)


@pytest.fixture
def store() -> Iterator[hb.Store]:
    with hb.connect("memory:") as opened:
        yield opened


@pytest.mark.parametrize("model", [Drawn, DrawnPlain])
def test_a_predicate_sees_the_newest_row_of_a_key_only(store: hb.Store, model: type[Drawn]) -> None:
    hb.create_tables(store, model)
    session = hb.Session(store)
    for text in ("old", "new"):
        session.bulk_add(model(key=n, text=text) for n in range(40))
    everything = session.query(model).use_index("primary").allow_full_scan()
    assert everything.where(model.text == "old").count() == 0
    assert everything.where(model.text == "new").count() == 40
    assert {found.text for found in everything} == {"new"}


@pytest.mark.parametrize("model", [Drawn, DrawnPlain])
def test_the_last_of_a_key_wins_over_batches_of_one(store: hb.Store, model: type[Drawn]) -> None:
    hb.create_tables(store, model)
    session = hb.Session(store)
    session.bulk_add([model(key=n, text=text) for n in range(40) for text in ("first", "last")], batch_size=1)
    assert {found.text for found in session.query(model).allow_full_scan()} == {"last"}


@pytest.mark.parametrize("model", [Drawn, Fixed])
def test_a_repeated_key_is_never_a_mixture(store: hb.Store, model: type[Fixed]) -> None:
    hb.create_tables(store, model)
    session = hb.Session(store)
    session.bulk_add(
        [model(key=n, text=text, number=number) for n in range(40) for text, number in (("a", 1), ("b", None))],
        batch_size=1,
    )
    assert {(found.text, found.number) for found in session.query(model).allow_full_scan()} == {("b", None)}


def test_an_index_covers_columns_of_another_family(store: hb.Store) -> None:
    @hb.model(table="covered")
    class Covered:
        key: hb.Key[int] = hb.key()
        text: hb.Column[str] = hb.column("a")
        note: hb.Column[str] = hb.column("b", family="x")

        by_text = hb.index("text", covers=("note",))

    hb.create_tables(store, Covered)
    with hb.Session(store) as session:
        session.add(Covered(key=1, text="t", note="n"))
    found = hb.Session(store).query(Covered).where(Covered.text == "t").all()
    assert [f.note for f in found] == ["n"]


def test_models_of_one_table_may_not_share_a_family(store: hb.Store) -> None:
    @hb.model(table="shared", family="d")
    class First:
        key: hb.Key[int] = hb.key()
        a: hb.Column[str] = hb.column("a", family="e")

    @hb.model(table="shared", family="e")
    class Second:
        key: hb.Key[int] = hb.key()
        b: hb.Column[str] = hb.column("b")

    with pytest.raises(hb.SchemaMismatch, match="column family") as caught:
        hb.create_tables(store, First, Second)
    assert caught.value.family == "e"


def test_models_of_one_table_may_not_share_an_index_table(store: hb.Store) -> None:
    @hb.model(table="twice", family="d")
    class First:
        key: hb.Key[int] = hb.key()
        a: hb.Column[str] = hb.column("a")
        by = hb.index("a")

    @hb.model(table="twice", family="e")
    class Second:
        key: hb.Key[int] = hb.key()
        a: hb.Column[str] = hb.column("a")
        by = hb.index("a")

    with pytest.raises(hb.SchemaMismatch, match="index of this name") as caught:
        hb.create_tables(store, First, Second)
    assert caught.value.index == "by"


def test_an_object_without_any_other_cell_is_a_row_with_a_flag(store: hb.Store) -> None:
    @hb.model(table="counted")
    class Counted:
        key: hb.Key[int] = hb.key()
        hits: hb.Column[int] = hb.counter("h")

    hb.create_tables(store, Counted)
    session = hb.Session(store)
    assert session.get(Counted, key=1) is None
    session.add(Counted(key=1))
    session.commit()
    assert cells_of(store, "counted") == {hb.row_key(Counted, key=1): {b"d:_": b"\x01"}}
    assert session.get(Counted, key=1) == Counted(key=1)
    assert session.increment(Counted(key=1), Counted.hits, 3) == 3
    found = session.get(Counted, key=1)
    assert found is not None
    assert found.hits == 3


def test_a_blanked_cell_of_a_field_that_is_never_empty_reads_as_missing(store: hb.Store) -> None:
    @hb.model(table="blanked")
    class Blanked:
        key: hb.Key[int] = hb.key()
        name: hb.Column[str] = hb.column("a")
        text: hb.Column[str] = hb.column("t", default="none")
        number: hb.Column[int] = hb.column("n", default=7)
        hits: hb.Column[int] = hb.counter("h")

    hb.create_tables(store, Blanked)
    row, blank = hb.row_key(Blanked, key=1), {b"d:t": b"", b"d:n": b"", b"d:h": b""}
    store.put("blanked", [hb.store.Put(row, {b"d:a": b"\0", **blank})])
    session = hb.Session(store)
    found = session.get(Blanked, key=1)
    assert found is not None
    assert (found.name, found.text, found.number, found.hits) == ("", "none", 7, 0)
    assert session.query(Blanked).allow_full_scan().where(Blanked.text == "none").all() == [found]
    assert session.query(Blanked).allow_full_scan().where(Blanked.text == "").all() == []
    store.put("blanked", [hb.store.Put(row, {b"d:a": b"", **blank})])
    with pytest.raises(hb.IncompleteRow):
        session.get(Blanked, key=1)


def test_a_tie_goes_to_the_path_that_can_be_bounded(store: hb.Store) -> None:
    @hb.model(table="tied")
    class Tied:
        user: hb.Key[int] = hb.key(hb.UInt32)
        number: hb.Key[int] = hb.key(hb.codecs.Reversed(hb.UInt32))
        text: hb.Column[str] = hb.column("a")

        by_text = hb.index("user", "text")

    hb.create_tables(store, Tied)
    session = hb.Session(store)
    session.bulk_add(Tied(user=1, number=n, text="t") for n in range(5))
    query = session.query(Tied).where(Tied.user == 1, Tied.number > 2)
    assert query.explain().path == "by_text"
    assert query.count() == 2


def test_a_query_ends_with_its_session(store: hb.Store) -> None:
    hb.create_tables(store, Fixed)
    session = hb.Session(store)
    session.bulk_add(Fixed(key=n, text="t") for n in range(5))
    items = iter(session.query(Fixed).allow_full_scan())
    next(items)
    session.close()
    with pytest.raises(hb.errors.SessionClosed):
        next(items)


def test_an_updated_copy_computes_its_properties_anew(store: hb.Store) -> None:
    from functools import cached_property

    @hb.model(table="computed")
    class Computed:
        key: hb.Key[int] = hb.key()
        text: hb.Column[str] = hb.column("a")

        @cached_property
        def loud(self) -> str:
            return self.text.upper()

    hb.create_tables(store, Computed)
    session = hb.Session(store)
    session.bulk_add([Computed(key=1, text="x")])
    before = session.get(Computed, key=1)
    assert before is not None
    assert before.loud == "X"
    assert session.update(before, text="y").loud == "Y"


def test_a_live_index_without_its_table_is_no_silence(store: hb.Store) -> None:
    hb.create_tables(store, Drawn)
    store.delete_table("drawn.by_text")
    with pytest.raises(hb.SchemaMismatch, match="table is gone") as caught:
        hb.create_tables(store, Drawn)
    assert caught.value.missing == "drawn.by_text"
