"""What the reports of checks and repairs say."""

from __future__ import annotations

from typing import Any

import pytest

from hbmodel.indexes import IndexReport


@pytest.mark.parametrize(
    ("found", "mended", "said"),
    [
        ({}, True, "sound"),
        ({"stale": 3}, True, "sound"),
        ({"missing": 2}, False, "NOT sound"),
        ({"missing": 2, "put": 1}, False, "NOT sound"),
        ({"missing": 2, "put": 2}, True, "sound again"),
        ({"unclaimed": 2, "claimed": 1}, False, "NOT sound"),
        ({"unclaimed": 2, "claimed": 2}, True, "sound again"),
        ({"missing": 2, "put": 2, "unclaimed": 1}, False, "NOT sound"),
        ({"missing": 2, "put": 2, "refused": 1}, False, "NOT sound"),
        ({"outdated": 2, "updated": 1}, False, "NOT sound"),
        ({"outdated": 2, "updated": 2}, True, "sound again"),
    ],
)
def test_a_report_says_whether_the_index_is_sound_now(found: dict[str, Any], mended: bool, said: str) -> None:
    report = IndexReport("visits", "by_page", "readable", **found)
    assert report.mended is mended
    assert str(report).splitlines()[0] == f"visits.by_page: readable, {said}"
