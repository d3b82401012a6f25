"""What type checkers must say of sessions and of what stands beside them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_type

import hbmodel as hb
from hbmodel.store import Row
from tests.project.typing.models import Action, Job, User

now = datetime.now().astimezone()

with hb.connect("memory:", token_key=None) as store:
    assert_type(store, hb.Store)
    assert_type(hb.create_tables(store, Action, User), hb.tables.Creation)
    by_table = {"users": hb.tables.Hexadecimal(4)}
    hb.create_tables(store, User, splits=by_table)
    hb.create_tables(store, Action, splits={Action: hb.ByBucket(), "actions.by_name": hb.tables.AtKeys([b"m"])})
    hb.create_tables(store, Action, splits=5)  # E: arg-type reportArgumentType
    assert_type(hb.diff(store, Action, splits=hb.ByBucket(hb.tables.Uniform(2))), hb.tables.Diff)
    assert_type(hb.alter(store, Action, lossy=True), hb.tables.Alteration)
    assert_type(hb.drop_tables(store, Action), list[str])
    assert_type(hb.tables.split_keys(Action, hb.ByBucket()), list[bytes])
    assert_type(hb.tables.check_regions(store, Action), list[hb.tables.RegionUse])
    with hb.Session(store, lease=3.0) as session:
        assert_type(session, hb.Session)

session = hb.Session(store)
user = User(name="ann", nick=None, age=3)

assert_type(session.get(User, name="ann", nick=None), User | None)
assert_type(session.get_many(User, [{"name": "ann", "nick": None}, ("bob", None)]), list[User | None])
assert_type(session.insert(user), User)
assert_type(session.update(user, age=4), User)
assert_type(session.increment(Action(user_id=1, at=now, action_id=1, name="x"), Action.views, 2), int)
assert_type(session.bulk_add([user], batch_size=10, shuffle=3), int)
assert_type(session.commit(), list[hb.Outcome])
assert_type(session.get(User, name="ann", nick=None, as_of=now), User | None)
assert_type(session.versions(User, User.age, name="ann", nick=None, limit=3), list[hb.types.CellVersion[int]])
assert_type([value for _, value in session.versions(User, User.age, name="ann", nick=None)], list[int])
assert_type(session.query(User).as_of(now).first(), User | None)
session.query(User).as_of(3)  # E: arg-type reportArgumentType
session.add(user)
session.add_all([user])
session.add(user, ttl=timedelta(hours=1))
session.insert(user, ttl=timedelta(hours=1))
session.update(user, ttl=timedelta(hours=1))
session.update_key(User, name="ann", nick=None, age=4)
assert_type(hb.evolve(user, age=4), User)
assert_type(hb.asdict(user), dict[str, Any])
session.delete(user)
session.delete_key(User, name="ann", nick=None)
session.discard()

job = Job(name="a", state="open")
assert_type(job.version, int)
assert_type(session.update(job, state="x", condition=(Job.state == "open") & (Job.version > 3)), Job)
session.delete(job, condition=Job.state.in_(["x"]))


def taken(session: hb.Session) -> Job | None:
    return session.get(Job, name="a")


assert_type(session.retry(taken), Job | None)
assert_type(hb.ids.IdSequence("jobs").on(session), hb.ids.SequenceIds)
assert_type(hb.ids.IdSequence("jobs").on(hb.connect("memory:")), hb.ids.SequenceIds)
assert_type(hb.ids.Names(session), hb.ids.Names)
hb.ids.IdSequence("jobs").on("memory:")  # E: arg-type reportArgumentType
assert_type(session.retry(lambda session: session.update(job, state="y"), attempts=3), Job)
Job(name="a", state="open", version=3)  # E: call-arg reportCallIssue
session.update(job, condition="open")  # E: arg-type reportArgumentType

assert_type(hb.row_key(User, name="ann", nick=None), bytes)
assert_type(hb.schema.key_of(User, b"ann"), dict[str, Any])
assert_type(hb.describe(User), hb.types.Description)


def decoded(row: Row) -> User | None:
    return hb.decode(User, row)


session.get(user, name="ann")  # E: arg-type reportArgumentType
session.get()  # E: call-arg reportCallIssue
session.increment(user, User.name)  # E: arg-type reportArgumentType
session.query("User")  # E: arg-type reportArgumentType
session.add(user, ttl=3600)  # E: arg-type reportArgumentType
session.add_all(user)  # E: arg-type reportArgumentType
hb.Session("memory:")  # E: arg-type reportArgumentType
hb.connect(3)  # E: arg-type reportArgumentType
