"""The model of the feed, and sample actions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import hbmodel as hb

NAMES = ("login", "logout", "search", "order", "payment", "comment")


@hb.model(table="feed_actions", family="d", salt=hb.HashSalt(4, by=("user",)), immutable=True)
class Action:
    """An action of a user. The actions of a user are adjacent, newest first."""

    user: hb.Key[str] = hb.key()
    at: hb.Key[datetime] = hb.key(desc=True)
    number: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("n")
    text: hb.Column[str] = hb.column("t", default="")

    by_name = hb.index("name", hb.desc("at"), covers=("text",))
    by_time = hb.index(hb.desc("at"), salt=hb.HashSalt(4))


def samples(count: int, users: int = 5) -> Iterator[Action]:
    """Yields sample actions of several users, one per minute, the last one now."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    for number in range(count):
        name = NAMES[number * 7 % len(NAMES)]
        yield Action(
            user=f"user {number % users}",
            at=now - timedelta(minutes=number),
            number=number,
            name=name,
            text=f"{name} no. {number}",
        )
