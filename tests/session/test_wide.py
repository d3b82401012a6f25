"""Wide models: whatever a session does with them, it answers as for the same fields with a row for each object."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from attrs import evolve

import hbmodel as hb
from hbmodel.session.commit.session_sizes import SessionSizes
from hbmodel.store import Delete, Scan
from hbmodel.store.wide.page_sizes import PageSizes
from tests.support.beds import HBASE, Bed, paired

START = datetime(2026, 1, 1, tzinfo=UTC)
OWNERS = ("a", "b\x00", "b", "\x00")
NAMES = ("x", "x\x00y", "y", "")
TIMES = [START + timedelta(minutes=25 * step) for step in range(7)]
"""Some of an hour, some of the next ones."""


SIZES = SessionSizes(pages=PageSizes(cells=(5, 7), keys=(6,), bytes=400))
"""Rows of few objects have many seams."""


def declare(table: str, wide: bool, **options: Any) -> Any:
    """A model whose objects share rows, or its twin."""
    raw, indexed, split, desc, constant, counted, tagged, long, lives = (
        options.pop(name, False)
        for name in ("raw", "indexed", "split", "desc", "constant", "counted", "tagged", "long", "lives")
    )
    column = {"in_qualifier": True} if wide else {}
    place: dict[str, Any] = {"row_span": timedelta(hours=1)} if wide and split else column
    fields: dict[str, Any] = {
        "owner": hb.key(hb.Text, **(column if constant else {})),
        "at": hb.key(hb.Datetime("s"), desc=desc, **place),
        "name": hb.key(hb.Text, **column),
        "value": hb.column("" if raw and wide else "v", hb.codecs.Int8),
    }
    types: dict[str, Any] = {"owner": hb.Key[str], "at": hb.Key[datetime], "name": hb.Key[str], "value": hb.Column[int]}
    if not raw:
        fields["size"] = hb.column("s", hb.codecs.Int16, default=None)
        types["size"] = hb.Column[int | None]
    if counted:
        fields["views"] = hb.counter("n")
        types["views"] = hb.Column[int]
    if long:
        fields["text"] = hb.column("x", default="")
        types["text"] = hb.Column[str]
    if tagged:
        fields["tags"] = hb.column("t", hb.Json(list[str]), default=attrs.Factory(list))
        types["tags"] = hb.Column[list[str]]
        fields["by_tag"] = hb.index(hb.each("tags"), "at")
        fields["by_large"] = hb.index("size", where=lambda obj: obj.value >= 2)
        fields["by_some"] = hb.index("size", skip_none=True)
    if indexed:
        fields["by_value"] = hb.index("value")
        fields["by_size"] = hb.index(hb.desc("size"), salt=hb.HashSalt(2), covers=("value",))
    if not wide:
        options.pop("kind", None)
    elif constant:
        options["row"] = b"all"
    family = hb.family("d", ttl=timedelta(days=3)) if lives else "d"
    made = type("Object", (), {**fields, "__annotations__": types, "__module__": __name__})
    return hb.model(table=table, family=family, **options)(made)


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "salted": {"salt": hb.HashSalt(3, by=("owner",)), "kind": b"p"},
    "split": {"split": True},
    "split, descending": {"split": True, "desc": True, "kind": b"p"},
    "bare": {"raw": True},
    "indexed": {"indexed": True},
    "flag": {"exists": hb.flag("e")},
    "counted": {"counted": True, "indexed": True},
    "one row": {"constant": True, "kind": b"p"},
    "one row, bare": {"constant": True, "raw": True},
    "one row, indexed": {"constant": True, "indexed": True},
    "family with a life": {"lives": True},
    "long values": {"long": True, "salt": hb.HashSalt(2, by=("owner",))},
    "partial and of each": {"tagged": True, "split": True},
    "indexed, salted": {"indexed": True, "salt": hb.HashSalt(2, by=("owner",)), "split": True},
}

REALLY = (
    *("salted", "split, descending", "bare", "indexed, salted"),
    *("counted", "one row, indexed", "partial and of each", "long values"),
)
"""The shapes that HBase is tried with too."""


def others(number: int) -> list[Any]:
    """The other stores on which a shape is tried. By default this is `limited` for one shape and `cut` for the next."""
    turn = ("limited", "cut")[number % 2]
    return [
        pytest.param(kind, marks=pytest.mark.lengthy if kind == turn else pytest.mark.slow)
        for kind in ("limited", "embedded", "cut")
    ]


LENGTHS = [pytest.param(False, id="short"), pytest.param(True, id="long", marks=pytest.mark.slow)]


class Twins:
    """A wide model and its twin, written alike.

    Args:
        bed: where.
        shape: of the models.
        seed: of the calls.
        sizes: of the pages to ask for.
    """

    def __init__(self, bed: Bed, shape: str, seed: int, sizes: Sequence[int]) -> None:
        name = f"wide_{list(SHAPES).index(shape)}"
        self.wide, self.tall = declare(name, True, **SHAPES[shape]), declare(f"{name}_t", False, **SHAPES[shape])
        # each store has calls of its own
        self.bed, self.random, self.sizes = bed, random.Random(f"{bed.kind} {seed}"), sizes
        self.raw = bool(SHAPES[shape].get("raw"))
        self.indexed, self.tagged = (bool(SHAPES[shape].get(name)) for name in ("indexed", "tagged"))
        self.fields = set(hb.schema.schema_of(self.wide).by_name)
        bed.use(self.wide, self.tall)
        self.session = hb.Session(bed.store, atomic_rows=bed.atomic, sizes=SIZES)
        self.refused = 0

    def key(self) -> dict[str, Any]:
        pick = self.random.choice
        return {"owner": pick(OWNERS), "at": pick(TIMES), "name": pick(NAMES)}

    def cells(self) -> dict[str, Any]:
        found: dict[str, Any] = {"value": self.random.choice([1, 2, 3])}
        if self.raw:
            return found
        found["size"] = self.random.choice([None, -1, 0, 5])
        if "text" in self.fields:
            found["text"] = self.random.choice(["", "short", "longer than a page " * 30])
        if "tags" in self.fields:
            found["tags"] = self.random.choices(["x", "y", "z", ""], k=self.random.randrange(4))
        return found

    def write(self, count: int) -> None:
        """One commit of random calls."""
        for _ in range(count):
            key, cells = self.key(), self.cells()
            counted = ["increment"] * 2 if "views" in self.fields else []
            call, amount = (
                self.random.choice(["add"] * 4 + ["add, expiring", "update", "delete"] + counted),
                self.random.randrange(-2, 3),
            )
            refused = self.refused
            for model in (self.wide, self.tall):
                obj = model(**key, **cells)
                if call == "delete":
                    self.session.delete_key(model, **key)
                    if "views" in self.fields:  # a put behind it would not be one write with it
                        self.session.commit()
                elif call == "update" and self.session.get(model, **key) is not None:
                    self.session.commit()
                    self.session.update(obj, **cells)
                    self.commit_update()
                elif call == "add, expiring" and not self.raw and "views" not in self.fields:
                    self.session.add(obj, ttl=timedelta(hours=1))
                elif call == "increment":
                    if self.session.get(model, **key) is not None:
                        self.session.commit()
                        self.session.increment(obj, model.views, amount)
                else:
                    self.session.add(obj)
            assert self.refused - refused in (0, 2), "one of the twins takes an update that the other refuses"
        self.session.commit()

    def commit_update(self) -> None:
        """Commits an update, which needs check-and-mutate if a model with indexes has an object that expires."""
        try:
            self.session.commit()
        except hb.CapabilityError:
            assert self.indexed or self.tagged
            assert not self.bed.store.capabilities.check_and_mutate
            self.session.discard()
            self.refused += 1

    def insert(self) -> None:
        key, cells = self.key(), self.cells()
        outcomes = set()
        for model in (self.wide, self.tall):
            try:
                self.session.insert(model(**key, **cells))
            except hb.RowExists:
                outcomes.add("exists")
            else:
                outcomes.add("inserted")
        assert len(outcomes) == 1

    def conditions(self) -> Iterator[Any]:
        """Functions from a model to its query."""
        key = self.key()
        low, high = sorted((self.random.choice(TIMES), self.random.choice(TIMES)))
        yield lambda m, q: q.allow_full_scan()
        yield lambda m, q: q.where(m.owner == key["owner"])
        yield lambda m, q: q.where(m.owner == key["owner"], m.at.between(low, high))
        yield lambda m, q: q.where(m.owner == key["owner"], m.at > low)
        yield lambda m, q: q.where(m.owner == key["owner"], m.at <= high)
        yield lambda m, q: q.where(m.owner == key["owner"], m.at == low, m.name >= key["name"])
        yield lambda m, q: q.where(m.owner == key["owner"], m.at == low, m.name.startswith("x"))
        yield lambda m, q: q.where(m.owner.in_(OWNERS[:2]), m.at.in_([low, high]))
        yield lambda m, q: q.where(m.owner > "a", m.owner <= "b\x00", m.value == 1)
        yield lambda m, q: q.where(m.at == low, m.value != 1).allow_full_scan()
        yield lambda m, q: q.where(m.owner >= "a", m.at.between(low, high))
        yield lambda m, q: q.where(m.owner >= "a", m.at.in_([low, high]), m.name > "x")
        yield lambda m, q: q.where(m.at == high, m.name.startswith("x")).allow_full_scan()
        yield lambda m, q: q.where(m.at.between(TIMES[0], TIMES[2]), m.value > 1).limit(4).allow_full_scan()
        yield lambda m, q: q.where(m.owner.in_(OWNERS[1:]), m.at.in_([low, high]), m.name.in_(["x", ""]), m.at < high)
        yield lambda m, q: q.where(m.owner == key["owner"], m.value.in_([2, 3])).limit(3)
        yield lambda m, q: q.where(m.owner == key["owner"]).order_by(m.owner.desc())
        yield lambda m, q: q.where(m.owner == key["owner"], m.at == low).order_by(m.at.desc(), m.owner.desc()).limit(4)
        if self.indexed:
            yield lambda m, q: q.where(m.value == 1).use_index("by_value")
            yield lambda m, q: q.where(m.value == 2, m.owner == key["owner"]).use_index("by_value")
            yield lambda m, q: q.where(m.size.in_([5, 0])).use_index("by_size")
        if self.tagged:
            yield lambda m, q: q.where(m.tags.contains("x")).use_index("by_tag")
            yield lambda m, q: q.where(m.tags.contains("x") | m.tags.contains(""), m.owner == key["owner"]).use_index(
                "by_tag"
            )
            yield lambda m, q: q.where(m.value >= 2, m.size.in_([0, None])).use_index("by_large")
            yield lambda m, q: q.where(m.size > 0, m.value != 2).use_index("by_some")

    def check(self) -> None:
        """Everything that can be asked is answered alike."""
        for condition in self.conditions():
            wide, tall = (condition(model, self.session.query(model)) for model in (self.wide, self.tall))
            expected = plain(tall.all())
            assert plain(wide.all()) == expected
            assert wide.count() == len(expected)
            assert [plain([item]) for item in (wide.first(),) if item is not None] == [[item] for item in expected[:1]]
            for size in self.sizes:
                assert plain(pages(wide, size)) == expected
            assert plain(wide.reversed().all()) == plain(tall.reversed().all())
            if wide.terms.limit is None and not wide.terms.ordering:
                assert sorted(
                    item for part in wide.partitions(3) for item in plain(self.session.read_partition(part).all())
                ) == sorted(expected)
        self.check_firsts()
        keys = [self.key() for _ in range(8)]
        assert plain(self.session.get_many(self.wide, keys)) == plain(self.session.get_many(self.tall, keys))
        for key in keys[:3]:
            assert plain([self.session.get(self.wide, **key)]) == plain([self.session.get(self.tall, **key)])

    def check_firsts(self) -> None:
        """The first and the last item of each owner, of each of their times, and of each value of an index."""
        asked: list[tuple[tuple[str, ...], list[tuple[Any, ...]]]] = [
            (("owner",), [(owner,) for owner in (*OWNERS, "none")])
        ]
        asked += [(("owner", "at"), [(owner, at) for owner in OWNERS[:2] for at in TIMES[::2]])]
        asked += [(("value",), [(1,), (3,), (9,)])] if self.indexed else []
        for names, keys in asked:
            for backwards in (False, True):
                wide, tall = (
                    query.first_of_each([getattr(query.terms.schema.model, name) for name in names], keys)
                    for model in (self.wide, self.tall)
                    for query in (self.session.query(model).reversed() if backwards else self.session.query(model),)
                )
                assert plain(wide) == plain(tall)
                query = self.session.query(self.tall)
                query = query.reversed() if backwards else query
                alone = [
                    query.where(
                        *(getattr(self.tall, name) == value for name, value in zip(names, key, strict=True))
                    ).first()
                    for key in keys
                ]
                assert plain(tall) == plain(alone)


def plain(items: Any) -> list[Any]:
    """The values of objects, whatever their model."""
    names = ("owner", "at", "name", "value", "size", "views", "text", "tags")
    return [None if item is None else tuple(repr(getattr(item, name, "")) for name in names) for item in items]


def pages(query: Any, size: int) -> Iterator[Any]:
    """All items, page by page."""
    page = query.page(size)
    yield from page.items
    while page.next_token is not None:
        page = query.page(size, after=page.next_token)
        yield from page.items


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("bed", "shape"),
    paired(
        *((("memory", *others(number)), shape) for number, shape in enumerate(SHAPES)),
        *((HBASE, shape) for shape in REALLY),
    ),
    indirect=["bed"],
)
@pytest.mark.parametrize("long", LENGTHS)
def test_wide_and_tall_answer_alike(bed: Bed, shape: str, long: bool) -> None:
    for seed in range(3 if long else 1):
        twins = Twins(bed, shape, seed, (1, 3, 100) if long else (1, 5) if bed.kind == "memory" else (3,))
        for count in (25, 25, 25) if long else (25,):
            twins.write(count)
            if bed.atomic:
                twins.insert()
            twins.check()
        if twins.indexed or twins.tagged:
            for index in hb.schema.schema_of(twins.wide).indexes:
                report = hb.indexes.verify_index(bed.store, twins.wide, index)
                assert (report.missing, report.refused, report.rows) == (
                    0,
                    0,
                    len(twins.session.query(twins.wide).allow_full_scan().all()),
                )


def test_objects_of_one_owner_are_in_one_row(bed: Bed) -> None:
    model = declare("wide_one", True)
    session = bed.use(model, sizes=SIZES)
    session.add_all(model(owner="ann", at=TIMES[0], name=name, value=2) for name in NAMES)
    session.commit()
    (batches,) = bed.store.scan("wide_one", [Scan()])
    (row,) = [row for batch in batches for row in batch]
    assert row.row == b"ann"
    assert len(row.columns) == 2 * len(NAMES)


@pytest.mark.parametrize("bed", ["memory", *HBASE], indirect=True)
def test_a_delete_leaves_the_cells_of_the_neighbours_as_they_were(bed: Bed) -> None:
    for indexed in (False, True):
        model = declare(f"wide_gone{indexed}", True, indexed=indexed)
        session = bed.use(model, sizes=SIZES)
        session.add_all(model(owner="ann", at=TIMES[0], name=name, value=2) for name in NAMES)
        session.commit()
        before = cells(bed, model)
        session.delete_key(model, owner="ann", at=TIMES[0], name="x")
        session.commit()
        prefix = hb.schema.schema_of(model).wide.form.cut(place(model, "x"))[1]
        longer = hb.schema.schema_of(model).wide.form.cut(place(model, "x\x00y"))[1]
        assert not longer.startswith(prefix)
        left = {column: cell for column, cell in before.items() if not column.startswith(b"d:" + prefix)}
        assert len(left) < len(before)
        after = cells(bed, model)
        assert {column: cell for column, cell in after.items() if not column.startswith(b"d:" + prefix)} == left
        assert session.get(model, owner="ann", at=TIMES[0], name="x") is None


def place(model: Any, name: str) -> bytes:
    """The object key of an object."""
    schema = hb.schema.schema_of(model)
    return schema.layout.pack(("ann", TIMES[0], name))


def cells(bed: Bed, model: Any) -> dict[bytes, Any]:
    """Every cell of the only row."""
    (row,) = bed.store.get(hb.schema.schema_of(model).table, [b"ann"])
    assert row is not None
    return {column: (cell.value, cell.timestamp) for column, cell in row.columns.items()}


@pytest.mark.parametrize("bed", ["memory"], indirect=True)
def test_an_object_whose_column_has_an_empty_alias_takes_no_ttl(bed: Bed) -> None:
    model = declare("wide_bare", True, raw=True)
    session = bed.use(model, sizes=SIZES)
    obj = model(owner="a", at=TIMES[0], name="x", value=2)
    with pytest.raises(hb.CapabilityError, match="Give the column an alias"):
        session.add(obj, ttl=timedelta(hours=1))
    assert evolve(obj, value=3).value == 3


@pytest.mark.parametrize("bed", ["memory", "embedded"], indirect=True)
def test_an_index_is_built_and_repaired(bed: Bed) -> None:
    bare, indexed = declare("wide_built", True), declare("wide_built", True, indexed=True)
    session = bed.use(bare, sizes=SIZES)
    session.add_all(bare(owner=owner, at=at, name=name, value=2) for owner in OWNERS for at in TIMES for name in NAMES)
    session.commit()
    hb.create_tables(bed.store, indexed)
    times = hb.indexes.IndexTimes(lease=0.05, longest_call=0.02, clock_bound=0.02, grace=0.2)
    assert hb.indexes.build_index(bed.store, indexed, "by_value", times=times).readable
    found = hb.Session(bed.store, sizes=SIZES).query(indexed).where(indexed.value == 2).use_index("by_value").all()
    assert len(found) == len(OWNERS) * len(TIMES) * len(NAMES)
    (batches,) = bed.store.scan(indexed.by_value.table, [Scan(limit=1)])
    bed.store.delete(indexed.by_value.table, [Delete(row.row) for batch in batches for row in batch])
    assert hb.indexes.repair_index(bed.store, indexed, "by_value", times=times).put == 1


def test_split_keys_are_those_of_rows() -> None:
    model = declare("wide_splits", True, salt=hb.HashSalt(3, by=("owner",)), kind=b"p")
    assert hb.tables.split_keys(model, hb.ByBucket()) == [b"\x01", b"\x02"]
    objects = [model(owner=f"o{n}\x00", at=TIMES[0], name="x", value=2) for n in range(9)]
    keys = sorted({hb.row_key(model, owner=obj.owner, at=obj.at, name=obj.name) for obj in objects})
    assert set(hb.tables.split_keys(model, hb.tables.FromSample(objects, 3))) <= set(keys)


def test_a_constant_row_cannot_be_split() -> None:
    @hb.model(table="wide_constant", row=b"all")
    class Word:
        text: hb.Key[str] = hb.key(in_qualifier=True)
        count: hb.Column[int] = hb.column("c")

    with hb.connect("memory:") as store:
        hb.create_tables(store, Word)
        for call in (lambda: hb.tables.split_keys(Word, hb.ByBucket()), lambda: hb.tables.check_regions(store, Word)):
            with pytest.raises(hb.DeclarationError, match="All objects are in one row, which is in one region"):
                call()
