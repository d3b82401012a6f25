"""Models that several test modules use."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import hbmodel as hb

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def day(number: int) -> datetime:
    """Returns a time some days after the first of March."""
    return DAY + timedelta(days=number)


@hb.model(table="orders", family="d", salt=hb.HashSalt(4, by=("customer",)))
class Order:
    """A model with a salt by a part of the key, newest first, with one salted and one covering index."""

    customer: hb.Key[int] = hb.key(hb.codecs.UInt16)
    at: hb.Key[datetime] = hb.key(desc=True)
    number: hb.Key[int] = hb.key(hb.UInt32)
    state: hb.Column[str] = hb.column("s")
    amount: hb.Column[Decimal | None] = hb.column("a", default=None)
    note: hb.Column[str | None] = hb.column("n", default=None)
    views: hb.Column[int] = hb.counter("v")

    by_state = hb.index("state", "at", covers=("amount",))
    by_amount = hb.index(hb.desc("amount"), salt=hb.HashSalt(3))


def order(
    number: int, state: str = "new", *, customer: int = 1, amount: int | None = None, note: str | None = None
) -> Order:
    """Returns an order. Its number also determines its day."""
    price = None if amount is None else Decimal(amount)
    return Order(customer=customer, at=day(number), number=number, state=state, amount=price, note=note)


@hb.model(table="samples", family="d")
class Sample:
    """A frozen model without indexes: no system cells, the server's time, and the last text field of the key in raw
    form.
    """

    station: hb.Key[str] = hb.key()
    label: hb.Key[str] = hb.key()
    level: hb.Column[int] = hb.column("l", hb.Int32)
    remark: hb.Column[str | None] = hb.column("r", default=None)
    seen: hb.Column[int] = hb.counter("c")


@hb.model(table="flagged", family="d", exists=hb.flag("e"))
class Flagged:
    """A model whose columns may all be empty or absent, so that a flag shows that a row exists."""

    name: hb.Key[str] = hb.key()
    text: hb.Column[str] = hb.column("t", default="")
    extra: hb.Column[bytes | None] = hb.column("x", default=None)


@hb.model(table="hits", family="d", salt=hb.RandomSalt(3), immutable=True)
class Hit:
    """An immutable, indexed model with a random salt."""

    at: hb.Key[datetime] = hb.key()
    serial: hb.Key[int] = hb.key(hb.UInt32)
    page: hb.Column[str] = hb.column("p")
    agent: hb.Column[str | None] = hb.column("a", default=None)

    by_page = hb.index("page")


@hb.model(table="logged", family="d", salt=hb.RandomSalt(3), immutable=True)
class Logged:
    """An immutable model with a random salt and without indexes."""

    serial: hb.Key[int] = hb.key(hb.UInt32)
    page: hb.Column[str] = hb.column("p")


@hb.model(table="facts", family="d", immutable=True)
class Fact:
    """An immutable, indexed model, whose adds read nothing."""

    number: hb.Key[int] = hb.key(hb.Int32)
    topic: hb.Column[str] = hb.column("t")
    body: hb.Column[str | None] = hb.column("b", default=None)

    by_topic = hb.index("topic", covers=("body",))


@hb.model(table="people", family="p")
class Person:
    """A model with two families, one only for a counter and a long text. Its index has two fields that change
    independently.
    """

    name: hb.Key[str] = hb.key()
    city: hb.Column[str | None] = hb.column("c", default=None)
    street: hb.Column[str | None] = hb.column("s", default=None)
    story: hb.Column[str] = hb.column("t", family="x", default="")
    visits: hb.Column[int] = hb.counter("v", family="x")

    by_place = hb.index("city", "street")


@hb.model(table="legacy", family="f", external=True, exists="title", salt=hb.salts.TextSalt(("a-", "b-", "c-")))
class Legacy:
    """A model for a table that other programs write, with a salt by text, and absent columns instead of empty cells."""

    code: hb.Key[str] = hb.key(hb.Text(4))
    when: hb.Key[int] = hb.key(hb.codecs.JavaLong)
    title: hb.Column[str] = hb.column("title")
    tag: hb.Column[str | None] = hb.column("tag", default=None, null="delete")


@hb.model(table="visits", family="d")
class Visit:
    """An indexed model with a column outside the index."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")
    note: hb.Column[str | None] = hb.column("n", default=None)
    extra: hb.Column[str | None] = hb.column("e", default=None)

    by_page = hb.index("page", covers=("note",))


@hb.model(table="tokens", family="d", exists=hb.flag("k"))
class Token:
    """A model without an index and with a flag."""

    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")
    note: hb.Column[str | None] = hb.column("n", default=None)
    extra: hb.Column[str | None] = hb.column("e", default=None)


def declare_thing(
    table: str,
    salt: hb.salts.Salt | None,
    index_salt: hb.salts.Salt | None,
    *,
    immutable: bool = False,
    nullable: bool = True,
) -> Any:
    """Returns a model for random operations. Its keys and indexes have text that needs escaping, None, and descending
    fields.

    Args:
        table: the name of the model's table.
        salt: the salt of the primary table.
        index_salt: the salt of one of the index tables.
        immutable: whether rows never change.
        nullable: whether the first key field may be None.
    """
    rank_type = int | None if nullable else int

    @hb.model(table=table, family="d", salt=salt, immutable=immutable)
    class Thing:
        owner: hb.Key[str] = hb.key()
        rank: hb.Key[rank_type] = hb.key(hb.codecs.Int8, desc=True)  # type: ignore[valid-type]
        serial: hb.Key[bytes] = hb.key()
        tag: hb.Column[str | None] = hb.column("t", default=None)
        size: hb.Column[int | None] = hb.column("s", hb.codecs.Int8, default=None)
        title: hb.Column[str] = hb.column("n")
        blob: hb.Column[bytes | None] = hb.column("b", default=None)

        by_tag = hb.index("tag", covers=("blob",))
        by_size = hb.index(hb.desc("size"), "tag", salt=index_salt)
        by_title = hb.index("title", "size", covers=("tag",))
        by_rank = hb.index(hb.asc("rank"), hb.desc("title"))

    return Thing
