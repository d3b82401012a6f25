"""The claim of a key by an insert on HBase's Thrift1 gateway: a value of the existence flag that others may take over
later.
"""

from __future__ import annotations

from hbmodel.errors import RowExists
from hbmodel.mapping.schema import is_claim
from hbmodel.protocol.operations import Protocol, ReadClock
from hbmodel.store.values import Cell


def abandoned_claim(table: str, row: bytes, flag: Cell | None, grace: int) -> Protocol[bytes]:
    """Returns the value of the claim on a key if the claim is older than the grace time. Otherwise raises `RowExists`.

    Args:
        flag: the existence flag of the row; None if it has been deleted since it was found.
    """
    if flag is None or not is_claim(flag.value):
        raise RowExists(
            "A row with this key exists already: use another key, or change the row with update().",
            table=table,
            key=row,
        )
    now = yield ReadClock()
    if now - flag.timestamp <= grace:
        raise RowExists(
            "Another program is inserting a row with this key, or crashed while it did: try again after the "
            "grace time.",
            table=table,
            key=row,
        )
    return flag.value
