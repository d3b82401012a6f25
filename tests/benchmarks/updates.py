"""Comparisons of updates, deletes, and puts with and without the cell that shows that a row exists, with code by hand
on happybase.

By hand an update of one object reads its row, to see that there is one, and puts the cells: two calls, between which
another program may delete the row. hbmodel's put is conditional. By hand, a delete is one call, which does not delete
cells whose timestamps are in the future.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import happybase

import hbmodel as hb
from tests.benchmarks.comparison import IN_ROW, MANY, Case

OBJECTS_OF_A_BATCH = 500
PUTS_OF_A_BATCH = 1000


COLUMNS = ("first", "second", "third")


def _declared(name: str, required: Collection[str], **options: Any) -> Any:
    fields: dict[str, Any] = {"number": hb.key(hb.UInt32)}
    types: dict[str, Any] = {"number": hb.Key[int]}
    for column in COLUMNS:
        fields[column] = hb.column(column[0]) if column in required else hb.column(column[0], default=None)
        types[column] = hb.Column[str] if column in required else hb.Column[str | None]  # type: ignore[valid-type]
    body = {**fields, "__annotations__": types, "__module__": __name__}
    return hb.model(table=f"bench_{name}_{os.getpid()}", family="d", **options)(type(name.title(), (), body))


Account = _declared("account", COLUMNS)
"""Its columns are required: they show that a row exists."""

Flagged = _declared("flagged", COLUMNS, exists=hb.flag("e"))
"""The same with a flag."""

Partly = _declared("partly", COLUMNS[:1])
"""The column that is updated is not required."""

Loose = _declared("loose", ())
"""No column is required."""

Seen = _declared("seen", COLUMNS, blind_puts=False)
"""Its puts read their rows first."""

UPDATED_MODELS = (Account, Flagged, Partly, Loose, Seen)

VALUES = {"first": "the first value", "second": "the second value", "third": "the third value"}


def accounts(rows: int, model: Any = Account) -> Iterator[Any]:
    """The objects that are updated."""
    for number in range(min(rows, 20_000)):
        yield model(number=number, **VALUES)


UPDATED_OBJECTS: dict[type, Callable[[int], Iterator[Any]]] = {
    model: partial(accounts, model=model) for model in UPDATED_MODELS
}


def update_cases(first: hb.Store, second: hb.Store, by_hand: happybase.Connection) -> Iterator[Case]:
    """Updates one by one, 500 in a commit, and batches of 1,000 puts."""
    table = by_hand.table(hb.schema.schema_of(Account).table)
    numbers = itertools.count()

    def one(session: hb.Session, model: Any) -> None:
        session.update_key(model, number=next(numbers) % 20_000, second=f"value {next(numbers)}")
        session.commit()

    def one_by_hand(calls: int) -> None:
        key = struct.pack(">I", next(numbers) % 20_000)
        assert table.row(key)
        table.put(key, {b"d:s": f"value {next(numbers)}".encode()})
        if calls == 3:
            table.row(key)

    def many(session: hb.Session, model: Any) -> None:
        begin = next(numbers) % 19_000
        for number in range(begin, begin + OBJECTS_OF_A_BATCH):
            session.update_key(model, number=number, second=f"value {begin}")
        session.commit()

    def many_by_hand() -> None:
        begin = next(numbers) % 19_000
        keys = [struct.pack(">I", number) for number in range(begin, begin + OBJECTS_OF_A_BATCH)]
        assert len(table.rows(keys)) == OBJECTS_OF_A_BATCH
        with table.batch() as batch:
            for key in keys:
                batch.put(key, {b"d:s": f"value {begin}".encode()})

    def puts(session: hb.Session, model: Any) -> None:
        begin = next(numbers) % 19_000
        session.bulk_add(model(number=begin + number, **VALUES) for number in range(PUTS_OF_A_BATCH))

    def puts_by_hand() -> None:
        begin = next(numbers) % 19_000
        with table.batch() as batch:
            for number in range(PUTS_OF_A_BATCH):
                batch.put(
                    struct.pack(">I", begin + number),
                    {b"d:" + name[:1].encode(): value.encode() for name, value in VALUES.items()},
                )

    def put(session: hb.Session, model: Any) -> None:
        session.add(model(number=next(numbers) % 20_000, **VALUES))
        session.commit()

    def put_and_delete(session: hb.Session) -> None:
        session.add(Account(number=next(numbers), **VALUES))
        session.commit()
        session.delete_key(Account, number=next(numbers) - 1)
        session.commit()

    def put_and_delete_by_hand() -> None:
        key = struct.pack(">I", next(numbers))
        table.put(key, {b"d:" + name[:1].encode(): value.encode() for name, value in VALUES.items()})
        table.delete(key)

    def deletes(session: hb.Session) -> None:
        begin = next(numbers) % 19_000
        for number in range(begin, begin + OBJECTS_OF_A_BATCH):
            session.delete_key(Account, number=number)
        session.commit()

    def deletes_by_hand() -> None:
        begin = next(numbers) % 19_000
        with table.batch() as batch:
            for number in range(begin, begin + OBJECTS_OF_A_BATCH):
                batch.delete(struct.pack(">I", number))

    for gateway, store in (("thrift1", first), ("thrift2", second)):
        session = hb.Session(store)
        target = 1.0 if gateway == "thrift1" else None
        yield Case(
            f"{gateway}: one update / row and put",
            partial(one, session, Account),
            partial(one_by_hand, 2),
            MANY,
            None,
            IN_ROW,
            (Account,),
        )
        yield Case(
            f"{gateway}: one update / row, put and row",
            partial(one, session, Account),
            partial(one_by_hand, 3),
            MANY,
            target,
            IN_ROW,
            (Account,),
        )
        optional = partial(one, session, Partly)
        yield Case(
            f"{gateway}: one update of an optional column / row, put and row",
            optional,
            partial(one_by_hand, 3),
            MANY,
            target,
            IN_ROW,
            (Partly,),
        )
        yield Case(
            f"{gateway}: one update with a flag / without",
            partial(one, session, Flagged),
            partial(one, session, Account),
            MANY,
            in_row=IN_ROW,
            reads=(Account, Flagged),
        )
        yield Case(
            f"{gateway}: 500 updates in a commit / rows and a batch",
            partial(many, session, Account),
            many_by_hand,
            15,
            None,
            reads=(Account,),
        )
        flagged, plain = partial(many, session, Flagged), partial(many, session, Account)
        yield Case(
            f"{gateway}: 500 updates in a commit with a flag / without", flagged, plain, 15, reads=(Account, Flagged)
        )
        yield Case(
            f"{gateway}: 1000 puts without an index / a batch",
            partial(puts, session, Account),
            puts_by_hand,
            15,
            1.25 if target else None,
        )
        yield Case(
            f"{gateway}: 1000 puts, no column required / required",
            partial(puts, session, Loose),
            partial(puts, session, Account),
            15,
            1.25,
        )
        seen, blind = partial(put, session, Seen), partial(put, session, Account)
        yield Case(
            f"{gateway}: one put that is not blind / blind", seen, blind, MANY, in_row=IN_ROW, reads=(Account, Seen)
        )
        seen, blind = partial(puts, session, Seen), partial(puts, session, Account)
        yield Case(f"{gateway}: 1000 puts that are not blind / blind", seen, blind, 15, reads=(Account, Seen))
        both = partial(put_and_delete, session)
        yield Case(f"{gateway}: one put and one delete / by hand", both, put_and_delete_by_hand, MANY, in_row=IN_ROW)
        yield Case(f"{gateway}: 500 deletes in a commit / a batch", partial(deletes, session), deletes_by_hand, 15)
