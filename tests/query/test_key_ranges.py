"""Keys that a query asks for by equality, and that no object can have."""

from __future__ import annotations

import hbmodel as hb
from hbmodel.store import Put


@hb.model(table="befriended", family="d")
class Friend:
    user: hb.Key[str] = hb.key()
    friend: hb.Key[str] = hb.key(in_qualifier=True)
    since: hb.Column[int] = hb.column("", hb.codecs.JavaInt)


def test_the_empty_qualifier_is_no_object() -> None:
    """Another program has put a cell there."""
    with hb.connect("memory:") as store:
        hb.create_tables(store, Friend)
        store.put("befriended", [Put(b"ann", {b"d:": b"\0\0\0\7", b"d:bob": b"\0\0\0\1"})])
        query = hb.Session(store).query(Friend).where(Friend.user == "ann")
        assert [one.friend for one in query] == ["bob"]
        assert query.where(Friend.friend == "").all() == []
        assert query.where(Friend.friend == "").count() == 0
        assert [one.friend for one in query.where(Friend.friend.in_(["", "bob", "x" * 40_000]))] == ["bob"]
        assert query.where(Friend.friend == "").delete() == 0
        assert {cell.value for row in store.get("befriended", [b"ann"]) if row for cell in row.columns.values()} == {
            b"\0\0\0\7", b"\0\0\0\1",
        }  # fmt: skip
