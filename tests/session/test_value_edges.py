"""Values at the edges of what Python compares and codecs store, written and asked for in every store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import hbmodel as hb
from hbmodel.store import Put
from tests.support.beds import Bed, cells_of

PARIS = ZoneInfo("Europe/Paris")


@hb.model(table="clocked")
class Clocked:
    at: hb.Key[datetime] = hb.key()
    back: hb.Column[datetime] = hb.column("b", hb.codecs.ReverseStamp)
    seen: hb.Column[datetime] = hb.column("s", hb.Datetime("s"))

    by_seen = hb.index("seen")


@pytest.mark.parametrize("wall", [datetime(2026, 10, 25, 2, 30), datetime(2026, 3, 29, 2, 30)], ids=["fold", "gap"])
def test_bounds_within_a_change_of_the_clock(bed: Bed, wall: datetime) -> None:
    session = bed.use(Clocked)
    walls = [wall.replace(tzinfo=PARIS, fold=fold) for fold in (0, 1)]
    around = [walls[0].astimezone(UTC) + timedelta(minutes=30 * number) for number in range(-4, 5)]
    session.add_all(Clocked(at=at, back=at, seen=at) for at in around)
    session.commit()
    asked = session.query(Clocked).allow_full_scan()

    def found(*predicates: hb.types.Predicate) -> list[datetime]:
        return sorted(obj.at for obj in asked.where(*predicates))

    low, high = sorted(walls, key=lambda at: at.astimezone(UTC))
    for of in (Clocked.at, Clocked.back, Clocked.seen):
        assert len(found(of.between(low, high))) == 3
        for bound in walls:
            instant = bound.astimezone(UTC)
            assert found(of == bound) == found(of.in_([bound])) == found(of.between(bound, bound)) == [instant]
            assert found(of >= bound) == [at for at in around if at >= instant]
            assert found(of > bound) == [at for at in around if at > instant]
            assert found(of < bound) == [at for at in around if at < instant]
            assert found(of <= bound) == [at for at in around if at <= instant]


@hb.model(table="numbered", exists=hb.flag("e"))
class Numbered:
    key: hb.Key[int] = hb.key(hb.codecs.UInt8)
    group: hb.Key[int | None] = hb.key(hb.codecs.UInt8)
    number: hb.Column[int] = hb.column("n", hb.codecs.UInt8)
    other: hb.Column[int | None] = hb.column("o", hb.codecs.UInt8, default=None)


@pytest.mark.parametrize("name", ["key", "group", "number", "other"])
def test_bounds_that_no_value_reaches(bed: Bed, name: str) -> None:
    session = bed.use(Numbered)
    rows = [Numbered(key=n, group=n or None, number=n, other=n or None) for n in (0, 1, 255)]
    session.add_all(rows)
    session.commit()
    of: Any = getattr(Numbered, name)
    asked = session.query(Numbered).allow_full_scan()

    def found(predicate: hb.types.Predicate) -> list[int]:
        return [obj.key for obj in asked.where(predicate)]

    def having(test: Callable[[Any], bool]) -> list[int]:
        return [obj.key for obj in rows if test(getattr(obj, name))]

    every, some, none = (
        having(lambda value: True),
        having(lambda value: value is not None),
        having(lambda value: value is None),
    )
    for all_values, no_value in (
        (of >= -5, of < -5),
        (of > -5, of <= -5),
        (of <= 256, of > 256),
        (of < 256, of >= 256),
    ):
        assert found(all_values) == found(~~all_values) == found(~no_value & all_values) == some
        assert found(~all_values) == found(~all_values | no_value) == found(~~~all_values) == none
        assert found(no_value) == found(~~no_value) == found(no_value & all_values) == []
        assert found(~no_value) == found(all_values | ~all_values) == every
        assert found(all_values & (of == 1)) == found((of == 1) | no_value) == [1]
        assert found(~all_values | (of == 1)) == having(lambda value: value is None or value == 1)
        assert found(~all_values & (of == 1)) == []


class Stage(Enum):
    """Members that Python cannot compare."""

    FIRST = 0
    SECOND = 1
    LAST = 2**63 - 1


@hb.model(table="staged")
class Staged:
    back: hb.Key[Stage] = hb.key(hb.EnumOf(Stage, hb.codecs.ReverseStampInt))
    java: hb.Column[Stage] = hb.column("j", hb.EnumOf(Stage, hb.codecs.JavaLong))
    same: hb.Column[Stage | None] = hb.column("s", hb.EnumOf(Stage, hb.codecs.ReverseStampInt), default=None)


def test_members_compare_by_their_values(bed: Bed) -> None:
    session = bed.use(Staged)
    session.add_all(Staged(back=stage, java=stage, same=stage) for stage in Stage)
    session.commit()
    asked = session.query(Staged).allow_full_scan()
    fields: list[Any] = [Staged.back, Staged.java, Staged.same]
    for of in fields:
        assert [obj.back for obj in asked.where(of < Stage.LAST)] == [Stage.SECOND, Stage.FIRST]
        assert [obj.back for obj in asked.where(of.between(Stage.SECOND, Stage.LAST))] == [Stage.LAST, Stage.SECOND]
        assert [obj.back for obj in asked.where(of > Stage.FIRST, of >= Stage.SECOND, of <= Stage.SECOND)] == [
            Stage.SECOND
        ]


@hb.model(table="perhaps")
class Perhaps:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    at: hb.Column[datetime | None] = hb.column("a", default=None)
    stamp: hb.Column[datetime | None] = hb.column("s", hb.codecs.ReverseStamp, nullable=True, default=None)
    stage: hb.Column[Stage | None] = hb.column(
        "t", hb.EnumOf(Stage, hb.codecs.ReverseStampInt), nullable=True, default=None
    )

    by_at = hb.index("at")
    newest = hb.index(hb.desc("at"))
    by_stamp = hb.index("stamp")
    oldest_stamp = hb.index(hb.desc("stamp"))
    by_stage = hb.index("stage")


@pytest.mark.parametrize(
    ("path", "name"),
    [("by_at", "at"), ("newest", "at"), ("by_stamp", "stamp"), ("oldest_stamp", "stamp"), ("by_stage", "stage")],
)
def test_none_comes_before_every_value(bed: Bed, path: str, name: str) -> None:
    """One rule for every codec: if the bytes put None on the wrong side, an order needs None excluded."""
    session = bed.use(Perhaps)
    times = [None, *(datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3))]
    stages = [None, *Stage]
    session.add_all(Perhaps(number=n, at=times[n], stamp=times[n], stage=stages[n]) for n in range(4))
    session.commit()
    of: Any = getattr(Perhaps, name)
    query = session.query(Perhaps).use_index(path).allow_full_scan()
    for asked in (query.order_by(of), query.order_by(of.desc()).reversed()):
        some = asked.where(~of.is_(None))
        assert (
            [obj.number for obj in some]
            == [obj.number for obj in asked.where(of >= getattr(some.first(), name))]
            == [1, 2, 3]
        )
        assert [obj.number for obj in some.reversed()] == [3, 2, 1]
        if name == "at":
            assert [obj.number for obj in asked] == [0, 1, 2, 3]
            assert [obj.number for obj in asked.reversed()] == [3, 2, 1, 0]
            continue
        for refused in (asked, asked.reversed()):
            with pytest.raises(hb.errors.OrderNotAvailable, match="An order takes None as smaller") as caught:
                refused.all()
            assert caught.value.details["nullable"] == [name]


@hb.model(table="tagged")
class Tagged:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")
    tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]))

    by_name = hb.index("name", covers=("tags",))


@hb.model(table="tagged_alone")
class TaggedAlone:
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    name: hb.Column[str] = hb.column("n")
    tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]))


@pytest.mark.parametrize("model", [Tagged, TaggedAlone])
@pytest.mark.parametrize("ttl", [None, timedelta(minutes=10)])
def test_what_is_written_is_what_was_given_at_the_call(bed: Bed, model: Any, ttl: timedelta | None) -> None:
    session = bed.use(model)

    def cells() -> set[bytes]:
        tables = ["tagged", "tagged.by_name"] if model is Tagged else ["tagged_alone"]
        return {row[b"d:t"] for table in tables for row in cells_of(bed.store, table).values()}

    tags = ["a"]
    session.add(model(number=1, name="x", tags=tags), ttl=ttl)
    tags.append("b")
    session.commit()
    assert cells() == {b'["a"]'}
    obj = session.get(model, number=1)
    assert obj is not None
    if ttl is not None and model is Tagged and not bed.store.capabilities.check_and_mutate:
        return  # such a row cannot be updated through this store
    tags = ["c"]
    returned = session.update(obj, tags=tags)
    tags.append("d")
    session.commit()
    assert cells() == {b'["c"]'}
    assert returned.tags is tags
    tags = ["e"]
    session.update(obj, tags=tags, name="y")
    tags.append("f")
    session.commit()
    assert cells() == {b'["e"]'}
    found = session.query(model).where(model.name == "y").allow_full_scan().all()
    assert [(each.number, each.name, each.tags) for each in found] == [(1, "y", ["e"])]


def remarks(default: str | None) -> Any:
    """A model of one table, with this default."""

    @hb.model(table="remarked")
    class Remarked:
        number: hb.Key[int] = hb.key(hb.codecs.UInt8)
        name: hb.Column[int] = hb.column("n", hb.codecs.UInt8)
        note: hb.Column[str | None] = hb.column("o", default=default)

    return Remarked


def test_a_changed_default_is_read_where_none_was_stored_as_no_cell(atomic_bed: Bed) -> None:
    """The default is the reading model's; only an empty cell is None whatever it says."""
    before, after = remarks(None), remarks("x")
    session = atomic_bed.use(before)
    session.insert(before(number=1, name=0, note=None))
    session.add(before(number=2, name=0, note=None))
    session.commit()
    schema = hb.schema.schema_of(before)
    name = schema.by_name["name"]
    atomic_bed.store.put(schema.table, [Put(hb.row_key(before, number=3), {name.column: name.encode_cell(0)})])
    assert not hb.diff(atomic_bed.store, after).differences
    assert [obj.note for obj in session.query(after).allow_full_scan()] == [None, None, "x"]
    assert [obj.note for obj in session.query(before).allow_full_scan()] == [None, None, None]
