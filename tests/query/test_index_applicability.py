"""Whether conditions imply the condition of a partial index."""

from __future__ import annotations

import pytest

import hbmodel as hb
from hbmodel.mapping.predicates import Predicate
from hbmodel.query.match.index_applicability import implied


@hb.model(table="applicable", family="d")
class Thing:
    name: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")
    colour: hb.Column[str] = hb.column("c")


SMALL, LARGE, RED = Thing.size < 3, Thing.size > 7, Thing.colour == "red"


@pytest.mark.parametrize(
    ("condition", "predicates", "follows"),
    [
        (SMALL, [SMALL], True),
        (SMALL, [RED, Thing.size < 3], True),
        (SMALL, [RED], False),
        (SMALL, [], False),
        (SMALL | RED, [RED], True),
        (SMALL | RED, [LARGE], False),
        (SMALL | RED, [SMALL | RED], True),
        (SMALL, [(Thing.size == 1) | (Thing.size == 2)], True),
        (SMALL, [(Thing.size == 1) | (Thing.size == 4)], False),
        (SMALL | LARGE, [(Thing.size == 1) | (Thing.size == 9)], True),
        (SMALL, [Thing.size.in_([0, 2])], True),
        (SMALL, [Thing.size.in_([0, 3])], False),
    ],
)
def test_what_follows_from_the_conditions_of_a_query(
    condition: Predicate, predicates: list[Predicate], follows: bool
) -> None:
    assert implied(condition, predicates) == follows
