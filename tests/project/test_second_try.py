"""`.ci/run` runs failed tests once more, alone; it is run here in small checkouts with tests and a Makefile of their
own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.second_try import MOST

ROOT = Path(__file__).parents[2]

MAKEFILE = f"""
test:
	{sys.executable} -m pytest -n 1 --dist loadfile $(PYTEST_ARGS)
lint typecheck docs test-pythons:
	@echo this is make $@
"""

PYPROJECT = """
[tool.pytest.ini_options]
testpaths = ["checks"]
filterwarnings = ["error"]
"""

pytestmark = pytest.mark.lengthy


class Checkout:
    """A directory in which `.ci/run` finds what it needs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.write(".ci/run", (ROOT / ".ci/run").read_text(), mode=0o755)
        self.write(".venv/bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n', mode=0o755)
        self.write("bin/chromium", "#!/bin/sh\n", mode=0o755)  # none is installed
        self.write("Makefile", MAKEFILE)
        self.write("pyproject.toml", PYPROJECT)
        self.listed = directory / "build/passed-alone.txt"
        self.write("build/passed-alone.txt", "of an earlier run\n")
        self._environment = {
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # importing them takes most of the time
            "PYTEST_ADDOPTS": "-p xdist",
        }

    def write(self, name: str, text: str, *, mode: int = 0o644) -> None:
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)

    def run(self, **environment: str) -> tuple[int, list[str]]:
        """Its exit status, and the lines that it printed."""
        outer = ("PYTEST_", "MAKE", "MFLAGS", "HYPOTHESIS_")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
        done = subprocess.run(
            [self._directory / ".ci/run"],
            env={**inherited, **self._environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=120,
        )
        return done.returncode, done.stdout.splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def second_tries(lines: list[str]) -> list[str]:
    start = "second try, alone: "
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


BY_CHANCE = r"""
import os
from pathlib import Path

import pytest

ALONE = "PYTEST_XDIST_WORKER" not in os.environ

def test_sound():
    assert os.environ["HBMODEL_REQUIRE_HBASE"] == "1" and os.environ["HBMODEL_TEST_EXAMPLES"] == "0.5"

@pytest.mark.parametrize("text", ["a b::c", "[ä']\"$(echo)\n", "sound"])
def test_näme(text):
    assert ALONE or text == "sound"

class TestFixtures:
    @pytest.fixture
    def before(self):
        assert ALONE

    @pytest.fixture
    def after(self):
        yield
        assert ALONE

    def test_before(self, before):
        pass

    def test_after(self, after):
        pass

def test_only_the_first_time():
    assert was_here("failed")

def test_that_ends_its_worker():
    was_here("ended") or os._exit(1)  # pytest-xdist runs it again at once, in another worker, and reports both

def was_here(name):
    path = Path(name)
    try:
        return path.exists()
    finally:
        path.touch()
"""

NAMES = [
    r"test_näme[a b::c]",
    r"""test_näme[[\xe4']"$(echo)\n]""",
    "TestFixtures::test_before",
    "TestFixtures::test_after",
    "test_only_the_first_time",
    "test_that_ends_its_worker",
]


def test_what_passes_alone_fails_nothing_and_is_named(checkout: Checkout) -> None:
    checkout.write("checks/test_by chance.py", BY_CHANCE)
    status, lines = checkout.run(HBMODEL_TEST_EXAMPLES="0.5")
    named = [f"checks/test_by chance.py::{name}" for name in NAMES]
    assert status == 0, lines
    assert sorted(second_tries(lines)) == sorted(named)
    assert lines[-len(named) - 2 : -len(named)] == ["this is make test-pythons", "passed only alone"]
    assert "this is make docs" in lines
    assert lines[-len(named) :] == checkout.listed.read_text(encoding="utf-8").splitlines() == second_tries(lines)


PASSES_ALONE = "import os\ndef test():\n    assert 'PYTEST_XDIST_WORKER' not in os.environ\n"

OTHER_PYTHONS = f"""
%/.installed:
	mkdir -p $(VENV)/bin && cp .venv/bin/python $(VENV)/bin/ && touch $@
test-fast:
	{sys.executable} -m pytest -n 1 --dist loadfile $(PYTEST_ARGS)
test-pythons:
	.ci/test-pythons
"""


def test_tests_of_another_python_are_tried_again_too(checkout: Checkout) -> None:
    checkout.write(".ci/test-pythons", (ROOT / ".ci/test-pythons").read_text(), mode=0o755)
    checkout.write("Makefile", MAKEFILE.replace(" test-pythons", "") + OTHER_PYTHONS)
    checkout.write("checks/test_by_chance.py", PASSES_ALONE)
    status, lines = checkout.run(PYENV_ROOT="nowhere")
    assert status == 0, lines
    pythons = [line for line in lines if line.startswith("Python 3.") and ": /" in line]
    assert pythons
    assert second_tries(lines) == lines[-1 - len(pythons) :] == ["checks/test_by_chance.py::test"] * (1 + len(pythons))


@pytest.mark.parametrize("fails", ["test", "docs"])
def test_what_passes_alone_is_named_although_something_fails(checkout: Checkout, fails: str) -> None:
    checkout.write("checks/test_by_chance.py", PASSES_ALONE)
    checkout.write("checks/test_wrong.py", f"import os\ndef test():\n    assert {fails == 'docs'}\n")
    if fails == "docs":
        checkout.write("Makefile", MAKEFILE.replace("docs test-pythons", "test-pythons") + "docs:\n\tfalse\n")
    status, lines = checkout.run()
    assert status != 0
    assert lines[-2:] == ["passed only alone", "checks/test_by_chance.py::test"]
    assert ("failed alone too" in lines) == (fails == "test")
    assert "this is make test-pythons" not in lines


PROPERTIES = """
from pathlib import Path

from hypothesis import given, settings, strategies as st

BYTES = st.binary(min_size=16, max_size=16)

@settings(max_examples=50, derandomize=False)
@given(BYTES)
def test_replayed(data):
    fails_for_one(data, Path("replayed"))

@settings(max_examples=50, derandomize=False, database=None)
@given(BYTES)
def test_forget_table(data):
    fails_for_one(data, Path("forgotten"))

def fails_for_one(data, chosen):  # bytes that no other run draws
    if len(set(data)) > 8 and not chosen.exists():
        chosen.write_bytes(data)
    assert not chosen.exists() or data != chosen.read_bytes()
"""


def test_a_counterexample_is_tried_again(checkout: Checkout) -> None:
    checkout.write("checks/conftest.py", (ROOT / "tests/conftest.py").read_text())
    checkout.write("checks/test_properties.py", PROPERTIES)
    status, lines = checkout.run(CI="true")
    assert status != 0
    assert lines[lines.index("failed alone too") + 1 :] == [
        "checks/test_properties.py::test_replayed",
        "passed only alone",
        "checks/test_properties.py::test_forget_table",
    ]


LOST = "import os\ndef pytest_collection():\n    'PYTEST_XDIST_WORKER' in os.environ and os._exit(1)\n"
KILLED = "import os\ndef pytest_sessionfinish():\n    'PYTEST_XDIST_WORKER' in os.environ or os._exit(1)\n"

BROKEN = {
    "collection": {"checks/test_broken.py": "import nothing_of_this_name\n"},
    "nothing": {"checks/test_failing.py": ""},
    "usage": {"pytest.ini": "[pytest]\naddopts = --no-such-option\n"},
    "internal": {"conftest.py": "def pytest_runtest_logreport(report):\n    raise RuntimeError('of a plugin')\n"},
    "interrupted": {"checks/test_interrupted.py": "def test():\n    raise KeyboardInterrupt\n"},
    "incomplete": {
        "pytest.ini": "[pytest]\naddopts = --maxfail 1\n",
        "checks/test_more.py": "def test():\n    assert False\n",
    },
    "lost workers": {"conftest.py": LOST},
    "killed": {"conftest.py": KILLED},
    "make": {
        "Makefile": MAKEFILE.replace("$(PYTEST_ARGS)", "$(PYTEST_ARGS) ; exit 3"),
        "checks/test_failing.py": "def test(): pass\n",
    },
}


FEW = ("collection", "incomplete", "killed", "make")
"""The kinds that run by default: one for each check that finds a broken run."""


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=() if kind in FEW else pytest.mark.slow) for kind in BROKEN])
def test_a_run_that_broke_fails_at_once(checkout: Checkout, kind: str) -> None:
    checkout.write("checks/test_failing.py", "def test():\n    assert False\n")
    for name, text in BROKEN[kind].items():
        checkout.write(name, text)
    status, lines = checkout.run()
    assert status != 0
    assert "The tests did not run to their end; there is no second try." in lines, lines
    assert not second_tries(lines)
    assert not checkout.listed.exists()


def test_many_failures_are_not_chance(checkout: Checkout) -> None:
    checkout.write(
        "checks/test_many.py",
        f"import pytest\n@pytest.mark.parametrize('n', range({MOST + 1}))\ndef test(n):\n    assert False\n",
    )
    status, lines = checkout.run()
    assert status != 0
    assert f"{MOST + 1} tests failed, too many for chance; there is no second try." in lines
    assert not checkout.listed.exists()
