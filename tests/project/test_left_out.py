"""Which tests the default suite leaves out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.checker import checked_code
from tests.support.left_out import SAMPLES, mark_left_out, repeated


class Found:
    """A test as pytest has collected it."""

    def __init__(self, path: str, name: str, kind: str | None = None, *marks: str, fixture: str = "bed") -> None:
        self.path, self.name, self.originalname, self.marks = (
            Path("/checkout/tests") / path,
            f"{name}[{kind}]",
            name,
            {*marks},
        )
        self.callspec = SimpleNamespace(params={} if kind is None else {fixture: kind})

    def add_marker(self, marker: Any) -> None:
        self.marks.add(marker.name)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


def left_out(*items: Any) -> list[str]:
    return [item.name for item in repeated(items)]


KINDS = ("memory", "limited", "embedded", "cut", "thrift1", "thrift2")


def test_stores_that_answer_alike_are_repeated() -> None:
    items = [Found("session/test_a.py", "test_a", kind) for kind in KINDS]
    assert left_out(*items) == ["test_a[embedded]", "test_a[thrift1]", "test_a[thrift2]"]
    assert left_out(
        *(Found("session/test_a.py", "test_a", kind, fixture="atomic_bed") for kind in ("memory", "embedded"))
    ) == ["test_a[embedded]"]


@pytest.mark.parametrize("folder", ["conformance", "store", "store/gateway"])
def test_tests_of_stores_run_on_all_of_them(folder: str) -> None:
    assert not left_out(*(Found(f"{folder}/test_a.py", "test_a", kind) for kind in KINDS))


def test_a_test_that_depends_on_the_answers_runs_on_every_store() -> None:
    assert not left_out(*(Found("session/test_a.py", "test_a", kind, "every_store") for kind in KINDS))


def test_a_test_that_runs_nowhere_else_is_kept() -> None:
    other = (
        Found("session/test_a.py", "test_b", "memory"),
        Found("session/test_c.py", "test_a", "memory"),
        Found("session/test_a.py", "c"),
    )
    assert not left_out(*other, *(Found("session/test_a.py", "test_a", kind) for kind in ("thrift1", "thrift2")))


@pytest.mark.parametrize("checked", [False, True])
def test_samples_are_left_out_where_their_code_has_passed(checked: bool) -> None:
    samples, other = (
        [Found(f"checker/{name}", "test_a") for name in SAMPLES],
        Found("checker/test_workers.py", "test_a"),
    )
    items: Any = [*samples, other]
    mark_left_out(items, lambda: checked)
    assert [item.marks for item in items] == [*({"checked"} if checked else set() for _ in samples), set()]


def test_every_module_of_samples_is_there() -> None:
    assert all((checked_code.ROOT / "tests" / "checker" / name).exists() for name in SAMPLES)
