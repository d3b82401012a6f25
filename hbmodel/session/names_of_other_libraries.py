"""The names that users of other libraries may look for in a session, each with the corresponding name in this
library.
"""

from __future__ import annotations

NAMED_ELSEWHERE = {
    **dict.fromkeys(("rollback", "expunge", "expunge_all", "clear"), "discard() to drop what is pending"),
    **dict.fromkeys(("flush", "send"), "commit(), which sends what is pending"),
    **dict.fromkeys(
        ("begin", "begin_nested", "transaction", "batch"), "with hb.Session(store) as session: ..., or group()"
    ),
    **dict.fromkeys(
        ("merge", "save", "upsert", "update_or_create"),
        "add(obj) to put a whole object, or put(Model, key=value, field=value) to put some fields",
    ),
    **dict.fromkeys(("create", "get_or_create"), "insert(obj), which refuses a key that is taken, or add(obj)"),
    **dict.fromkeys(("bulk_save_objects", "bulk_insert_mappings", "bulk_create", "load"), "bulk_add(objects)"),
    **dict.fromkeys(
        ("execute", "scalars", "scalar", "select", "filter", "scan"), "query(Model).where(Model.field == value)"
    ),
    **dict.fromkeys(("refresh", "reload", "one", "find", "row"), "get(Model, key=value), which reads the object again"),
    **dict.fromkeys(("remove", "delete_all"), "delete(obj), or query(Model).where(...).delete()"),
    **dict.fromkeys(("count", "exists", "all", "first"), "query(Model).where(...), which has these methods"),
    **dict.fromkeys(("counter_inc", "counter_dec", "incr"), "increment(obj, Model.counter, 1)"),
    "rows": "get_many(Model, keys)",
}
"""Names of SQLAlchemy, Django, PynamoDB and happybase."""
