"""What type checkers must say of queries: their predicates, and the type of what they give."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, assert_type

import hbmodel as hb
from tests.project.typing.models import Action, Kind, User

session = hb.Session(hb.connect("memory:"))
query = session.query(Action)
now = datetime.now().astimezone()

assert_type(query, hb.Query[Action])
assert_type(query.where(Action.user_id == 1, Action.at >= now), hb.Query[Action])
assert_type(query.all(), list[Action])
assert_type(query.first(), Action | None)
assert_type(query.last(), Action | None)
assert_type(query.count(), int)
assert_type(query.exists(), bool)
assert_type(iter(query), Iterator[Action])
assert_type(
    query.limit(3).offset(2).reversed().order_by(Action.at, Action.at.desc()).allow_full_scan(), hb.Query[Action]
)
assert_type(query.use_index("by_name"), hb.Query[Action])
assert_type(query.before({"user_id": 1, "at": now}).after((1, now, 2)), hb.Query[Action])
assert_type(query.explain(), hb.types.Explanation)
page = query.page(20)
assert_type(page, hb.Page[Action])
assert_type(list(page.items), list[Action])
assert_type(page.next_token, str | None)
assert_type(query.page(20, after=page.next_token), hb.Page[Action])
assert_type(query.page(20, before=page.previous_token), hb.Page[Action])
assert_type(list(page), list[Action])
assert_type(len(page), int)
assert_type(query.one(), Action)
assert_type(query.delete(batch_size=10, progress=print), int)
for action in query:
    assert_type(action, Action)

assert_type(query.select(Action.name), hb.Query[tuple[str]])
assert_type(query.select(Action.name, Action.at).all(), list[tuple[str, datetime]])
assert_type(query.select(Action.name, Action.amount, Action.kind).first(), tuple[str, Decimal | None, Kind] | None)
assert_type(
    query.select(Action.name, Action.at, Action.user_id, Action.kind), hb.Query[tuple[str, datetime, int, Kind]]
)
five = query.select(Action.name, Action.at, Action.user_id, Action.kind, Action.views)
assert_type(five, hb.Query[tuple[str, datetime, int, Kind, int]])
assert_type(query.select(Action.name).page(3), hb.Page[tuple[str]])
six = query.select(Action.name, Action.at, Action.user_id, Action.kind, Action.views, Action.amount, Action.note)
assert_type(six, hb.Query[tuple[Any, ...]])

parts = query.partitions(4)
assert_type(parts, list[hb.types.QueryPartition[Action]])
assert_type(session.read_partition(parts[0]), hb.Query[Action])
assert_type(session.read_partition(query.select(Action.name).partitions(2)[0]).all(), list[tuple[str]])

assert_type(Action.user_id == 1, hb.types.Predicate)
assert_type((Action.user_id == 1) & (Action.name != "x") | ~(Action.at < now), hb.types.Predicate)
assert_type(Action.amount == None, hb.types.Predicate)  # noqa: E711
assert_type(Action.amount.is_(None), hb.types.Predicate)
assert_type(Action.user_id.between(1, 2), hb.types.Predicate)
assert_type(Action.user_id.in_([1, 2]), hb.types.Predicate)
assert_type(Action.amount.in_([Decimal(1), None]), hb.types.Predicate)
assert_type(Action.kind.in_(set(Kind)), hb.types.Predicate)
assert_type(Action.name.startswith("x"), hb.types.Predicate)
assert_type(User.nick.startswith("x"), hb.types.Predicate)
assert_type(Action.raw.startswith(b"x"), hb.types.Predicate)

assert_type(Action.tags.contains("x"), hb.types.Predicate)
assert_type(Action.initial, hb.types.FieldExpression[str | None])
assert_type(Action.initial == "x", hb.types.Predicate)
assert_type(Action.initial.startswith("x"), hb.types.Predicate)
assert_type(Action.words.contains("x"), hb.types.Predicate)
assert_type(query.select(Action.initial).all(), list[tuple[str | None]])
for action in query:
    assert_type(action.initial, str | None)
    assert_type(action.words, list[str])

assert_type(
    hb.timeseries.downsample(query, Action.at, timedelta(hours=1), Action.user_id),
    Iterator[hb.timeseries.TimeSpan[int]],
)
assert_type(
    hb.timeseries.downsample(query, Action.at, timedelta(hours=1), Action.amount),
    Iterator[hb.timeseries.TimeSpan[Decimal]],
)

query.where(Action.user_id == "1")  # E: arg-type reportArgumentType
query.where(Action.user_id != "1")  # E: arg-type reportArgumentType
query.where(Action.user_id == None)  # E: arg-type reportArgumentType  # noqa: E711
query.where(Action.user_id < "1")  # E: operator reportOperatorIssue
query.where(Action.at >= 3)  # E: operator reportOperatorIssue
query.where(Action.user_id.between(1, "2"))  # E: arg-type reportArgumentType
query.where(Action.user_id.in_(["1"]))  # E: list-item reportArgumentType
query.where(Action.user_id.in_(3))  # E: arg-type reportArgumentType
query.where(Action.user_id.startswith("1"))  # E: misc reportAttributeAccessIssue
query.where(Action.name.startswith(b"1"))  # E: arg-type reportArgumentType
query.where(Action.raw.startswith("1"))  # E: arg-type reportArgumentType
query.where(Action.tags.contains(1))  # E: arg-type reportArgumentType
query.where(Action.name.contains("x"))  # E: call-overload,misc reportAttributeAccessIssue
query.where(Action.initial == 1)  # E: arg-type reportArgumentType
query.where(True)  # E: arg-type reportArgumentType
query.where(Action.name)  # E: arg-type reportArgumentType
query.limit("3")  # E: arg-type reportArgumentType
query.partitions("3")  # E: arg-type reportArgumentType
session.read_partition(query)  # E: arg-type reportArgumentType
query.order_by("at")  # E: arg-type reportArgumentType
query.select("name")  # E: call-overload reportArgumentType
query.page()  # E: call-arg reportCallIssue
str(query.all().user_id)  # E: attr-defined reportAttributeAccessIssue
str(query.first().user_id)  # E: union-attr reportOptionalMemberAccess
