"""What type checkers must say of objects: their constructor, their attributes, and the same attributes on the class."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import assert_type

import hbmodel as hb
from tests.project.typing.models import Action, FrozenVisit, Kind, User, Visit

now = datetime.now().astimezone()

action = Action(user_id=1, at=now, action_id=7, name="login")
full = Action(
    user_id=1, at=now, action_id=7, name="login", amount=Decimal(1), kind=Kind.CASH, tags=["a"], note="n", raw=b"r"
)
without_amount = Action(user_id=1, at=now, action_id=7, name="login", amount=None)

Action(user_id="1", at=now, action_id=7, name="login")  # E: arg-type reportArgumentType
Action(user_id=1, at=now, action_id=7, name=None)  # E: arg-type reportArgumentType
Action(user_id=1, at=now, action_id=7, name="login", amount=1.5)  # E: arg-type reportArgumentType
Action(user_id=1, at=now, action_id=7, name="login", tags=[1])  # E: list-item reportArgumentType
Action(user_id=1, at=now, name="login")  # E: call-arg reportCallIssue
Action(user_id=1, at=now, action_id=7, name="login", colour="red")  # E: call-arg reportCallIssue
Action(user_id=1, at=now, action_id=7, name="login", views=3)  # E: call-arg reportCallIssue
Action(1, now, 7, "login")  # E: call-arg reportCallIssue

assert_type(action.user_id, int)
assert_type(action.at, datetime)
assert_type(action.name, str)
assert_type(action.amount, Decimal | None)
assert_type(action.kind, Kind)
assert_type(action.tags, list[str])
assert_type(action.note, str | None)
assert_type(action.views, int)

assert_type(Action.user_id, hb.types.FieldExpression[int])
assert_type(Action.at, hb.types.FieldExpression[datetime])
assert_type(Action.name, hb.types.FieldExpression[str])
assert_type(Action.amount, hb.types.FieldExpression[Decimal | None])
assert_type(Action.tags, hb.types.FieldExpression[list[str]])
assert_type(Action.views, hb.types.FieldExpression[int])
assert_type(User.nick, hb.types.FieldExpression[str | None])

action.name = "logout"
action.name = 3  # E: assignment reportAttributeAccessIssue
str(action.missing)  # E: attr-defined reportAttributeAccessIssue
str(Action.missing)  # E: attr-defined reportAttributeAccessIssue

user = User(name="ann", nick=None, age=3)
user.age = 4  # E: misc reportAttributeAccessIssue
User(name="ann", age=3)  # E: call-arg reportCallIssue
User(name="ann", nick=None, age=None)  # E: arg-type reportArgumentType

visit = Visit(id=1, made=now)
assert_type(visit.made, datetime)
assert_type(Visit.made, hb.types.FieldExpression[datetime])
visit.made = now
Visit(id=1)  # E: call-arg reportCallIssue
FrozenVisit(id=1, made=now).made = now  # E: misc reportAttributeAccessIssue
