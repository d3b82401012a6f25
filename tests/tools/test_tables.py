"""The commands that create, change and drop the tables of models."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hbmodel as hb
from hbmodel.tools.cli import main
from hbmodel.tools.cli.arguments.named_model import find_model

MODULE = """
from datetime import timedelta

import hbmodel as hb

NAMES = hb.ids.dictionary("cli_names", hb.UInt32)
NUMBERS = hb.ids.IdSequence("cli_numbers")
SPLITS = {"cli_files": hb.tables.Hexadecimal(4)}
BY_BUCKET = hb.ByBucket()
TWO = hb.tables.AtKeys([b"\\x02"])


@hb.model(table="cli_files", family=hb.family("d", ttl=timedelta(hours=1)))
class File:
    digest: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")


@hb.model(table="cli_visits_1", family="v")
class EarlierVisit:
    user: hb.Key[int] = hb.key()
    page: hb.Column[str] = hb.column("p")


@hb.model(table="cli_visits", family="v", salt=hb.HashSalt(4), replaces=EarlierVisit)
class Visit:
    user: hb.Key[int] = hb.key()
    page: hb.Column[str] = hb.column("p")


class NoModel:
    pass
"""

CHANGED = """
from datetime import timedelta

import hbmodel as hb
from cli_models import NAMES


@hb.model(table="cli_files", family=hb.family("d", ttl=timedelta(seconds=TTL)))
class File:
    digest: hb.Key[str] = hb.key()
    size: hb.Column[int] = hb.column("s")
    owner: hb.Column[str] = hb.column("o", default="")

    by_owner = hb.index("owner")
"""

MEMBERS = """
import enum

import hbmodel as hb


class Kind(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Fewer(enum.Enum):
    SMALL = "small"


@hb.model(table="cli_boxes", family="d")
class Box:
    number: hb.Key[int] = hb.key()
    kind: hb.Column[Kind] = hb.column("k")


@hb.model(table="cli_boxes", family="d")
class SmallBox:
    number: hb.Key[int] = hb.key()
    kind: hb.Column[Fewer] = hb.column("k")
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules with models, in the current directory."""
    (tmp_path / "cli_models.py").write_text(MODULE)
    (tmp_path / "cli_changed.py").write_text(CHANGED.replace("TTL", "7200"))
    (tmp_path / "cli_lossy.py").write_text(CHANGED.replace("TTL", "60"))
    (tmp_path / "cli_empty.py").write_text("from cli_models import File\n")
    (tmp_path / "cli_members.py").write_text(MEMBERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("cli_models", "cli_changed", "cli_lossy", "cli_empty", "cli_members"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"embedded:{tmp_path / 'store.db'}"


def run(url: str, *arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, [*arguments, "--store", url], input=answer)


def tables(url: str) -> list[str]:
    with hb.connect(url) as store:
        return sorted(store.tables())


def test_the_tables_of_a_module_are_created(url: str) -> None:
    result = run(url, "create", "cli_models", "--splits", "cli_models:SPLITS")
    assert result.exit_code == 0, result.output
    assert "+ cli_files: created" in result.output.splitlines()
    assert tables(url) == ["cli_files", "cli_visits", "hbmodel", "hbmodel_sequences"]
    with hb.connect(url) as store:
        assert len(store.regions("cli_files")) == 4
    again = run(url, "create", "cli_models", "--json")
    lines = [json.loads(line) for line in again.output.splitlines()]
    assert {line["table"]: line["created"] for line in lines}["cli_files"] is False
    assert {tuple(line) for line in lines} == {("table", "created", "differences", "unreachable_regions", "registered")}


def test_one_model_is_created(url: str) -> None:
    result = run(url, "create", "cli_models:Visit", "cli_models:NAMES", "--splits", "cli_models:BY_BUCKET")
    assert result.exit_code == 0, result.output
    assert tables(url) == ["cli_names.ids", "cli_names.names", "cli_visits", "hbmodel", "hbmodel_sequences"]


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("cli_empty", "The module declares no model"),
        ("cli_models:NoModel", "not a model"),
        ("cli_models:Absent", "There is no such model"),
        ("cli_models:SPLITS", "There is no such model"),
        ("no_such_module", "There is no such model"),
    ],
)
def test_what_is_no_model_is_refused(url: str, named: str, message: str) -> None:
    result = run(url, "create", named)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.splitlines()) == 1


def test_changes_are_shown_before_they_are_made(url: str) -> None:
    run(url, "create", "cli_models:File")
    refused = run(url, "alter", "cli_changed", answer="n\n")
    assert refused.exit_code == 1
    assert "~ cli_files: family d ttl: 3600 s -> 7200 s" in refused.output
    assert "+ cli_files: column d:o: missing" in refused.output
    with hb.connect(url) as store:
        assert [family.ttl for family in store.families("cli_files")] == [3600]
    altered = run(url, "alter", "cli_changed", answer="y\n")
    assert altered.exit_code == 0, altered.output
    assert tables(url) == ["cli_files", "hbmodel"]  # the index is to be built
    with hb.connect(url) as store:
        assert [family.ttl for family in store.families("cli_files")] == [7200]
    again = run(url, "alter", "cli_changed")  # it does not ask if nothing is to be done
    assert again.exit_code == 0
    assert all(line.startswith("= cli_files: index by_owner: absent") for line in again.output.splitlines())


def test_what_will_be_refused_is_not_asked_for(url: str) -> None:
    run(url, "create", "cli_models:File")
    refused = run(url, "alter", "cli_lossy", answer="y\n")
    assert refused.exit_code == 2
    assert "- cli_files: family d ttl: 3600 s -> 60 s" in refused.output
    assert "--lossy on the command line" in refused.output
    assert "Apply" not in refused.output


@pytest.mark.parametrize("command", [("create",), ("alter",), ("alter", "--yes")])
def test_a_difference_that_is_left_is_printed_once(
    url: str, command: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    run(url, "create", "cli_models:File")
    run(url, "alter", "cli_changed", "--yes")
    caplog.clear()
    result = run(url, *command, "cli_changed")
    assert result.exit_code == 0, result.output
    assert result.output.count("= cli_files: index by_owner: absent") == 1
    assert not caplog.messages


def test_differences_are_logged_again_after_a_command(url: str, caplog: pytest.LogCaptureFixture) -> None:
    run(url, "create", "cli_models:File")
    run(url, "alter", "cli_changed", "--yes")
    caplog.clear()
    with hb.connect(url) as store:
        hb.create_tables(store, find_model("cli_changed:File"))
    assert [message.partition(":")[0] for message in caplog.messages] == ["A live table differs from its model"]


def test_splits_that_do_not_exist_are_no_model(url: str) -> None:
    for named in ("cli_models:NO_SPLITS", "no_such_module:SPLITS"):
        result = run(url, "create", "cli_models", "--splits", named)
        assert result.exit_code == 2
        assert "name a split strategy, or a dictionary of strategies, as package.module:name" in result.output
        assert f"splits='{named}'" in result.output


def test_the_regions_are_compared_by_an_option(url: str) -> None:
    run(url, "create", "cli_models:File")
    assert run(url, "diff", "cli_models:File").exit_code == 0
    result = run(url, "diff", "cli_models:File", "--splits", "cli_models:SPLITS")
    assert result.exit_code == 1
    assert result.output.startswith("= cli_files: split keys: 1 regions -> 4 regions")


def test_a_migration_takes_splits(url: str) -> None:
    run(url, "create", "cli_models:EarlierVisit")
    more = ("--model", "cli_models:Visit", "--offline", "--splits", "cli_models:TWO")
    result = run(url, "migrate", "start", "cli_visits", *more)
    assert result.exit_code == 0, result.output
    with hb.connect(url) as store:
        assert len(store.regions("cli_visits")) == 2


def test_changes_that_lose_data_need_an_option(url: str) -> None:
    run(url, "create", "cli_models:File")
    refused = run(url, "alter", "cli_lossy", "--yes")
    assert refused.exit_code == 2
    assert "ttl" in refused.output
    result = run(url, "alter", "cli_lossy", "--yes", "--lossy", "--json")
    assert result.exit_code == 0, result.output
    done = json.loads(result.output)
    assert ("ttl", "lossy") in {(each["option"], each["effect"]) for each in done["applied"]}
    assert done["dropped"] == []


def test_undeclared_indexes_are_dropped_by_an_option(url: str) -> None:
    run(url, "create", "cli_changed:File")
    left = run(url, "alter", "cli_models:File", "--yes", "--lossy")
    assert left.exit_code == 0, left.output
    assert "cli_files.by_owner" in tables(url)
    result = run(url, "alter", "cli_models:File", "--drop", answer="y\n")
    assert result.exit_code == 0, result.output
    assert "dropped cli_files.by_owner" in result.output
    assert tables(url) == ["cli_files", "hbmodel"]


def test_tables_are_dropped_after_a_question(url: str) -> None:
    run(url, "create", "cli_changed:File", "cli_models:Visit")
    refused = run(url, "drop", "cli_changed", answer="n\n")
    assert refused.exit_code == 1
    assert refused.output.startswith("would drop cli_files\nwould drop cli_files.by_owner\n")
    assert len(tables(url)) == 4
    result = run(url, "drop", "cli_changed", "--yes")
    assert (result.exit_code, result.output) == (0, "dropped cli_files\ndropped cli_files.by_owner\n")
    assert tables(url) == ["cli_visits", "hbmodel"]
    assert json.loads(run(url, "drop", "cli_models:Visit", "--yes", "--json").output) == {"dropped": ["cli_visits"]}
    assert run(url, "drop", "cli_models:Visit", "--yes").output == "no table was left\n"


def test_changes_can_be_planned(url: str) -> None:
    run(url, "create", "cli_models:File")
    planned = run(url, "alter", "cli_changed", "--dry-run", "--yes")
    assert planned.exit_code == 0, planned.output
    assert planned.stdout == run(url, "diff", "cli_changed").stdout
    found = json.loads(run(url, "alter", "cli_changed", "--dry-run", "--json").stdout)
    assert (found["dry_run"], found["left"]) == (True, [])
    assert {each["kind"] for each in found["would_apply"]} == {"option", "column", "index"}
    refused = run(url, "alter", "cli_lossy", "--dry-run")
    assert (refused.exit_code, "--lossy on the command line" in refused.stderr) == (2, True)
    with hb.connect(url) as store:
        assert [family.ttl for family in store.families("cli_files")] == [3600]
    run(url, "alter", "cli_changed", "--yes")
    assert run(url, "alter", "cli_changed", "--dry-run").stdout.startswith("= cli_files: index by_owner")
    run(url, "create", "cli_models:EarlierVisit")
    assert run(url, "alter", "cli_models:EarlierVisit", "--dry-run").stdout == "nothing to change\n"


def test_drops_of_indexes_that_no_model_declares_can_be_planned(url: str) -> None:
    run(url, "create", "cli_changed:File")
    planned = run(url, "alter", "cli_models:File", "--lossy", "--drop", "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert "would drop cli_files: index by_owner" in planned.stdout
    assert tables(url) == ["cli_files", "cli_files.by_owner", "hbmodel"]


def test_what_would_be_refused_is_refused_in_the_plan(url: str) -> None:
    run(url, "create", "cli_members:Box")
    box = find_model("cli_members:Box")
    with hb.connect(url) as store, hb.Session(store) as session:
        session.add(box(number=1, kind=sys.modules["cli_members"].Kind.LARGE))
    for option, shown in (("--dry-run", True), ("--yes", False)):
        refused = run(url, "alter", "cli_members:SmallBox", "--drop", option)
        assert (refused.exit_code, "Rows hold members" in refused.stderr) == (2, True)
        assert ("member LARGE" in refused.stdout) == shown


def test_a_mistyped_registry_is_not_created(url: str) -> None:
    run(url, "create", "cli_models:File")
    result = run(url, "create", "cli_models:File", "--registry", "typo")
    assert result.exit_code == 2
    assert "The table is registered in another registry" in result.output
    assert "other='hbmodel'" in result.output
    compared = run(url, "diff", "cli_models:File", "--registry", "typo")
    assert compared.exit_code == 3
    assert "! cli_files: registry: hbmodel -> typo (the other registry knows the table" in compared.stdout
    altered = run(url, "alter", "cli_changed:File", "--registry", "typo", "--yes", "--lossy")
    assert altered.exit_code == 2
    assert "the other registry knows the table" in altered.output
    assert tables(url) == ["cli_files", "hbmodel"]


def test_drops_can_be_planned(url: str) -> None:
    run(url, "create", "cli_changed:File")
    planned = run(url, "drop", "cli_changed", "--dry-run", "--yes")
    assert (planned.exit_code, planned.stdout) == (0, "would drop cli_files\nwould drop cli_files.by_owner\n")
    assert json.loads(run(url, "drop", "cli_changed", "--dry-run", "--json").stdout) == {
        "dry_run": True,
        "would_drop": ["cli_files", "cli_files.by_owner"],
    }
    assert tables(url) == ["cli_files", "cli_files.by_owner", "hbmodel"]
    run(url, "drop", "cli_changed", "--yes")
    assert run(url, "drop", "cli_changed", "--dry-run").stdout == "no table is left\n"


def test_only_create_makes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "typo.db"
    for command in ("alter", "drop"):
        result = run(f"embedded:{path}", command, "cli_models", "--yes")
        assert result.exit_code == 2
        assert "Only `hbmodel create`" in result.output
    assert not path.exists()


@pytest.mark.parametrize("answer", ["n\n", ""], ids=["no", "nobody answers"])
def test_a_question_without_a_yes_changes_nothing_and_says_how_not_to_be_asked(url: str, answer: str) -> None:
    run(url, "create", "cli_models:File")
    asked = run(url, "drop", "cli_models:File", answer=answer)
    assert asked.exit_code == 1
    assert "Nothing was changed. With --yes the command does not ask." in asked.stderr
    assert tables(url) == ["cli_files", "hbmodel"]
