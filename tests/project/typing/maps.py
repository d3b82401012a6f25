"""What type checkers must say of map columns."""

from __future__ import annotations

from datetime import datetime
from typing import assert_type

import hbmodel as hb
from tests.project.typing.models import Pet

now = datetime.now().astimezone()
session = hb.Session(hb.connect("memory:"))

pet = Pet(owner="ann", kind="cat", needed={1: 2})
Pet(owner="ann", kind="cat", needed={}, notes={"a": 1}, plain={"a": "b"}, visits={now: "x"})
Pet(owner="ann", kind="cat")  # E: call-arg reportCallIssue
Pet(owner="ann", kind="cat", needed={}, notes={"a": "b"})  # E: dict-item reportArgumentType
assert_type(pet.notes, dict[str, int])
assert_type(Pet.notes, hb.types.MapExpression[str, int])
assert_type(Pet.plain, dict[str, str])

notes = session.entries(Pet.notes, owner="ann")
assert_type(notes, hb.types.MapSlice[str, int])
assert_type(session.entries(Pet.plain, owner="ann"), hb.types.MapSlice[str, str])
assert_type(session.entries(Pet.visits, owner="ann").between(now, None), hb.types.MapSlice[datetime, str])
assert_type(notes.startswith("a").limit(3).page(2), hb.Page[tuple[str, int]])
assert_type(notes.first(), tuple[str, int] | None)
assert_type(notes.last(), tuple[str, int] | None)
assert_type(notes.count(), int)
assert_type(notes.all(), dict[str, int])
assert_type(notes.get("a"), int | None)
assert_type(notes.get("a", 0), int | None)
assert_type([key for key, _ in notes], list[str])
assert_type(session.query(Pet).load(Pet.notes, Pet.plain), hb.Query[Pet])
session.put_entries(pet, Pet.notes, {"a": 1})
session.put_entries(pet, Pet.plain, {"a": "b"})
session.remove_entries(pet, Pet.notes, ["a"])
session.query(Pet).load(Pet.kind)  # E: arg-type reportArgumentType
session.put_entries(pet, Pet.notes, {"a": "b"})  # E: misc reportArgumentType
notes.between(1, 2)  # E: arg-type reportArgumentType
