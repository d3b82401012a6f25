"""Limits the number of key ranges of a query: with too many values, later conditions are checked row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hbmodel.mapping.index_kinds.base import Condition
from hbmodel.mapping.schema import Field
from hbmodel.query.match.key_conditions import KeyConditions, match
from hbmodel.query.match.key_ranges import located, scans_of
from hbmodel.query.match.merged_order import combinations
from hbmodel.query.match.or_ranges import refined
from hbmodel.query.match.plan import Path

MAX_RANGES = 10_000
"""The maximum number of key ranges in one bucket. IN lists that would need more ranges are checked row by row."""

MAX_SCANS = 100_000
"""The maximum number of key ranges in all buckets together."""


def limited_match(path: Path, conditions: Sequence[Condition], operands: Mapping[str, Field]) -> KeyConditions:
    """Matches conditions with the key of a path, and uses no more of them than the limits allow."""
    matched = match(path.layout, conditions, operands, MAX_RANGES)
    if combinations(matched, range(len(matched.parts))) * path.salt.buckets > MAX_SCANS and not located(
        path, matched.fixed(path.layout)
    ):
        matched = match(path.layout, conditions, operands, MAX_SCANS // path.salt.buckets)
    pieces = refined(path.layout, matched, MAX_RANGES)
    if scans_of(path, pieces) > MAX_SCANS:
        pieces = refined(path.layout, matched, MAX_SCANS // path.salt.buckets)
    return pieces
