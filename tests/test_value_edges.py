"""Values at the edges of what Python compares and codecs store, written and asked for in every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from beds import Bed

import hbmodel as hb

PARIS = ZoneInfo("Europe/Paris")


@hb.model(table="clocked")
class Clocked:
    at: hb.Key[datetime] = hb.key()
    back: hb.Column[datetime] = hb.column("b", hb.ReverseStamp)
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

    def found(*predicates: hb.Predicate) -> list[datetime]:
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
