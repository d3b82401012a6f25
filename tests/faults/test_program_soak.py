"""Programs on one table, killed at random, for a minute; `make soak` runs it for longer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.soak.__main__ import failures, soak
from tests.soak.journal import Journal


@pytest.mark.slow
@pytest.mark.hbase
@pytest.mark.timeout(600)
def test_nothing_is_lost_missing_wrong_or_doubled(hbmodel_hbase: Any) -> None:
    """`hbmodel_hbase` only says that a real HBase can be started here; the soak has its own."""
    found = soak(1)
    assert failures(found) == [], found
    assert found["kills"] >= 10
    assert found["acknowledged"] > 0
    assert found["reads_of_notes"] > 0
    assert found["unavailable"] > 0, "the index was never dropped"
    assert found["refused"] > 0, "no two rows wanted one value"


def test_a_journal_knows_what_a_row_may_be(tmp_path: Any) -> None:
    journal = Journal(tmp_path / "j")
    journal.ask(1, ["put", "t", None])
    assert journal.possible[1] == {None, ("t", None)}
    journal.answer()
    assert journal.possible[1] == {("t", None)}
    journal.ask(1, ["note", "n"])
    journal.ask(2, ["tag", "x"])
    journal.answer()
    with (tmp_path / "j").open("a") as file:
        file.write('["ask", 1, ["del')  # the writer was killed here
    journal.close()
    again = Journal(tmp_path / "j")
    assert again.possible == {1: {("t", None), ("t", "n")}, 2: {None}}
    again.ask(1, ["delete"])
    again.answer()
    assert again.possible[1] == {None}
    assert (again.acknowledged, again.refused) == (3, 0)
    again.ask(1, ["put", "t", "n"])
    again.refuse()
    assert again.possible[1] == {None}
    again.close()
    (last := Journal(tmp_path / "j")).close()
    assert (last.possible[1], last.acknowledged, last.refused) == ({None}, 3, 1)


def test_every_count_that_is_wrong_fails_a_soak() -> None:
    nothing: dict[str, Any] = {
        "lost": {},
        "shared": [],
        "missing": 0,
        "stale": 0,
        "read_wrong": [],
        "read_missing": [],
        "read_doubled": [],
        "died": [],
    }
    assert failures({**nothing, "state": "readable"}) == []
    assert failures({**nothing, "state": "building"}) == ["state"]
    assert failures({**nothing, "state": "readable", "lost": {1: []}, "shared": ["n"], "missing": 2}) == [
        "lost",
        "shared",
        "missing",
    ]
