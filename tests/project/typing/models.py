"""Models that the other files of this directory use, and what type checkers must say of declarations.

A line whose end says `# E: code rule` must be reported by mypy with that code and by pyright with that rule; no other
line may be reported by either.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum

import hbmodel as hb


class Kind(Enum):
    CARD = "card"
    CASH = "cash"


def initial_of(name: str) -> str | None:
    return name[:1] or None


@hb.model(table="actions", family="d", salt=hb.HashSalt(16, by=("user_id",)))
class Action:
    user_id: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    action_id: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("n")
    amount: hb.Column[Decimal | None] = hb.column("a", default=None)
    kind: hb.Column[Kind] = hb.column("k", default=Kind.CARD)
    tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]), factory=list)
    note: hb.Column[str | None] = hb.column("o", hb.Text(8), nullable=True, default=None)
    level: hb.Column[int | None] = hb.column("l", hb.codecs.Int8, nullable=True, default=3)
    raw: hb.Column[bytes | None] = hb.column("r", hb.Bytes, default=None)
    views: hb.Column[int] = hb.counter("v", renamed_from="reads")

    initial = hb.computed(initial_of, of=("name",))
    words = hb.computed(lambda name: [str(name)], of="name", codec=hb.Json(list[str]))

    by_name = hb.index("name", hb.desc("at"), covers=("amount",))
    by_tag = hb.index(hb.each("tags"), "initial", skip_none=True, where=lambda action: action.kind == Kind.CARD)


@hb.model(table="pets")
class Pet:
    owner: hb.Key[str] = hb.key()
    kind: hb.Column[str] = hb.column("k")
    notes: hb.Map[str, int] = hb.map_column("n", factory=dict)
    visits: hb.Map[datetime, str] = hb.map_column("v", hb.Datetime("s"), hb.Text, renamed_from="calls", factory=dict)
    plain: dict[str, str] = hb.map_column("p", factory=dict)
    needed: hb.Map[int, int] = hb.map_column("w", hb.codecs.Int8, hb.codecs.Int8)


@hb.model(table="readings", kind=b"r")
class Reading:
    sensor: hb.Key[int] = hb.key(hb.codecs.UInt16)
    at: hb.Key[datetime] = hb.key(hb.Datetime("s"), row_span=timedelta(hours=1))
    probe: hb.Key[str] = hb.key(in_qualifier=True)
    value: hb.Column[int] = hb.column("")


@hb.model(table="users", frozen=True)
class User:
    name: hb.Key[str] = hb.key()
    nick: hb.Key[str | None] = hb.key(hb.Text, nullable=True)
    age: hb.Column[int] = hb.column()


@hb.model(table="gauges")
class Gauge:
    place: hb.Key[int | None] = hb.key(hb.UInt32)  # E: - reportAssignmentType
    number: hb.Key[int | None] = hb.key(hb.UInt32, nullable=True)
    value: hb.Column[float] = hb.column(codec=hb.Float64(nan=True))
    least: hb.Column[float | None] = hb.column("l", hb.Float64(nan=True))  # E: - reportAssignmentType
    greatest: hb.Column[float | None] = hb.column("g", hb.Float64(nan=True), nullable=True)
    grade: hb.Column[int | None] = hb.column("r", hb.codecs.Int8, default=3)  # E: - reportAssignmentType
    unit: hb.Column[str | None] = hb.column(codec=hb.Text, default=None)
    level: hb.Column[int] = hb.column(codec=hb.codecs.Int8, default=0)


@hb.mixin()
class Dated:
    made: hb.Column[datetime] = hb.column("m")


@hb.mixin(frozen=True)
class FrozenDated:
    made: hb.Column[datetime] = hb.column("m")


@hb.model(table="visits")
class Visit(Dated):
    id: hb.Key[int] = hb.key()


@hb.model(table="measures", key_order=("sensor", "at"))
class Measure(Dated):
    at: hb.Key[datetime] = hb.key(hb.Datetime("ms", round=True))
    sensor: hb.Key[int] = hb.key()
    seen: hb.Column[datetime] = hb.column("s", hb.codecs.ReverseStamp("s", round=True))
    value: hb.Column[float] = hb.column("v", hb.Float64(nan=True))


@hb.model(table="frozen_visits", frozen=True)
class FrozenVisit(FrozenDated):
    id: hb.Key[int] = hb.key()


@hb.model(table="wrong")
class Wrong:
    codec: hb.Key[int] = hb.key(hb.Text)  # E: arg-type reportAssignmentType
    direction: hb.Key[int] = hb.key(desc=1)  # E: call-overload reportArgumentType
    key: hb.Key[int] = hb.column("k", hb.Int64)  # E: assignment reportAssignmentType
    nothing: hb.Key[int] = hb.key(hb.Int64, nullable=True)  # E: assignment reportAssignmentType
    of_text: hb.Key[int | None] = hb.key(hb.Text)  # E: arg-type reportAssignmentType
    column: hb.Column[int] = hb.key(hb.Int64)  # E: assignment reportAssignmentType
    optional: hb.Column[str] = hb.column("a", hb.Text, default=None)  # E: assignment reportAssignmentType
    text: hb.Column[int | None] = hb.column("t", hb.Text)  # E: arg-type reportAssignmentType
    named: hb.Column[int] = hb.column(codec=hb.Text)  # E: arg-type reportAssignmentType
    floats: hb.Column[float] = hb.column("f", hb.codecs.Int8)  # E: arg-type reportAssignmentType
    maybe: hb.Column[int] = hb.column("m", hb.codecs.Int8, nullable=True)  # E: assignment reportAssignmentType
    h: hb.Column[int | None] = hb.column("h", hb.Int64, default="x")  # E: arg-type reportArgumentType,reportCallIssue
    default: hb.Column[int] = hb.column("d", hb.Int64, default="x")  # E: arg-type reportArgumentType,reportCallIssue
    null: hb.Column[int] = hb.column("n", hb.Int64, null="drop")  # E: call-overload reportArgumentType,reportCallIssue
    version: hb.Column[str] = hb.version()  # E: assignment reportAssignmentType
    counter: hb.Column[str] = hb.counter("c")  # E: assignment reportAssignmentType


@hb.model(table="jobs")
class Job:
    name: hb.Key[str] = hb.key()
    state: hb.Column[str] = hb.column("s")
    version: hb.Column[int] = hb.version()


hb.model(family="d")  # E: call-arg reportCallIssue
hb.model(table="t", salt=16)  # E: arg-type reportArgumentType
hb.index(1)  # E: arg-type reportArgumentType
hb.index("a", where="a")  # E: arg-type reportArgumentType
hb.index("a", skip_none="no")  # E: arg-type reportArgumentType
hb.each(1)  # E: arg-type reportArgumentType
hb.computed(initial_of, of=3)  # E: arg-type reportArgumentType
hb.computed("name", of="name")  # E: arg-type reportArgumentType


day = timedelta(days=1)
kept: hb.store.Family = hb.family("d", ttl=day, max_versions=2, compression="GZ")
hb.family("d", ttl=60)  # E: arg-type reportArgumentType


@hb.model(table="kept", family=kept, families=(hb.family("t", in_memory=True),))
class Kept:
    name: hb.Key[str] = hb.key()
    text: hb.Column[str] = hb.column("x", hb.Text, family="t")


Kept(name="a", text="b")
