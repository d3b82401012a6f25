"""The commands `hbmodel index`, each as an operator runs it."""

from __future__ import annotations

import json
import re
import time
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from rich.progress import Progress, TaskID

import hbmodel as hb
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.store import Delete, Family, Put
from hbmodel.store.jitter import jitter
from hbmodel.tables.indexes.index_states import IndexStates
from hbmodel.tables.registry.registry_table import Registry
from hbmodel.tables.roll.other_programs import Drain
from hbmodel.tools.cli import main
from tests.support.beds import cells_of, rows_of

TIMES = ("--lease", "0.1", "--longest-call", "0.1s", "--clock-bound", "0.05", "--grace", "1")

MODELS = """
import hbmodel as hb

@hb.model(table="visits-cli", family="d")
class Plain:
    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")

@hb.model(table="visits-cli", family="d")
class Visit:
    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")

    by_page = hb.index("page")

@hb.model(table="seen-cli", family="d", immutable=True)
class Seen:
    name: hb.Key[str] = hb.key()
    page: hb.Column[str] = hb.column("p")
    time: hb.Column[int] = hb.column("t", default=0)

    by_page = hb.index("page", covers=("time",))
"""


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store in a file with thirty rows, and a module with its models in the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"models_{tmp_path.name}.py").write_text(MODELS)
    url = f"embedded:{tmp_path / 'visits.db'}"
    with hb.connect(url) as store:
        plain = models(tmp_path).Plain
        hb.create_tables(store, plain)
        with hb.Session(store, lease=0) as session:
            session.add_all(plain(name=f"{n:02}", page=f"p{n % 3}") for n in range(30))
    return url


def models(path: Path):  # type: ignore[no-untyped-def]
    return __import__(f"models_{path.name}")


def run(url: str, path: Path, command: str, *options: str, model: str | None = "Visit", answer: str = "y\n") -> Result:
    named = () if model is None else ("--model", f"models_{path.name}:{model}")
    index = () if command in {"status", "purge"} else ("by_page",)
    table = "seen-cli" if model == "Seen" else "visits-cli"
    arguments = ["index", command, table, *index, "--store", url, *named, *TIMES, *options]
    return CliRunner().invoke(main, arguments, input=answer)


@pytest.mark.lengthy
def test_an_index_is_built_watched_repaired_and_dropped(url: str, tmp_path: Path) -> None:
    planned = run(url, tmp_path, "build", "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert "entries 30" in planned.output
    built = run(url, tmp_path, "build", "--json", "--rows-per-second", "100000")
    assert built.exit_code == 0, built.output
    assert json.loads(built.stdout)["entries"] == 30
    assert json.loads(built.stdout)["state"] == "readable"
    assert "sound" in run(url, tmp_path, "verify").output
    assert json.loads(run(url, tmp_path, "verify", "--sample", "10", "--json").stdout)["sampled"] is True
    shown = run(url, tmp_path, "status", "--sample", "20")
    assert shown.exit_code == 0
    assert "visits-cli.by_page: readable" in shown.output
    with hb.connect(url) as store:
        store.delete("visits-cli.by_page", [Delete(sorted(cells_of(store, "visits-cli.by_page"))[0])])
    broken = run(url, tmp_path, "verify", "--json")
    assert broken.exit_code == 1
    assert json.loads(broken.stdout)["missing"] == 1
    assert run(url, tmp_path, "status", "--sample", "100").exit_code == 1
    assert run(url, tmp_path, "repair", "--dry-run").exit_code == 1
    repaired = run(url, tmp_path, "repair", "--json")
    assert repaired.exit_code == 0
    assert json.loads(repaired.stdout)["put"] == 1
    assert run(url, tmp_path, "verify").exit_code == 0
    assert json.loads(run(url, tmp_path, "purge", "--json").stdout) == {
        "table": "visits-cli",
        "purged": 0,
        "dry_run": False,
    }
    dropped = run(url, tmp_path, "drop", model=None)
    assert dropped.exit_code == 0, dropped.output
    assert dropped.stdout == "dropped visits-cli.by_page\n"
    assert run(url, tmp_path, "drop").output == "nothing was left\n"
    registered = run(url, tmp_path, "status", model=None)
    assert registered.output == "visits-cli.by_page: absent\n"


def test_a_status_tells_a_drop_that_was_killed_from_a_build(url: str, tmp_path: Path) -> None:
    def shown(sample: str) -> list[str]:
        with_model = run(url, tmp_path, "status", "--sample", sample).output.splitlines()
        return [run(url, tmp_path, "status", model=None).output.strip(), with_model[0]]

    assert run(url, tmp_path, "build").exit_code == 0
    with hb.connect(url) as store:
        schema = hb.schema.schema_of(models(tmp_path).Visit)
        states = IndexStates(store, Registry(store), schema, "by_page", Drain(0, 0, 0), lambda *_: None)
        states.hide()
        dropping = "visits-cli.by_page: write-only, being dropped"
        assert shown("0") == [dropping] * 2
        assert shown("5") == [dropping, f"{dropping}, sound"]
        assert json.loads(run(url, tmp_path, "status", "--json", model=None).stdout)["dropping"] is True
        states.leave()
        assert shown("0") == ["visits-cli.by_page: absent, being dropped"] * 2
    assert run(url, tmp_path, "drop").exit_code == 0
    assert shown("0") == ["visits-cli.by_page: absent"] * 2


@pytest.mark.lengthy
def test_a_status_exits_by_the_share_of_stale_entries(url: str, tmp_path: Path) -> None:
    assert run(url, tmp_path, "build").exit_code == 0
    assert run(url, tmp_path, "status", "--threshold", "0").exit_code == 0
    with hb.connect(url) as store:
        schema, row = hb.schema.schema_of(models(tmp_path).Visit), hb.row_key(models(tmp_path).Visit, name="never")
        (orphan,) = KeyMapper(schema).entries(schema.indexes["by_page"], {"name": "never", "page": "p0"}, row)
        long_ago = Registry(store).server_time() - 60_000  # its writer was killed before it put the row
        store.put("visits-cli.by_page", [Put(orphan, {b"d:_v": b"\x01" + bytes(8)}, long_ago)])
    found = json.loads(run(url, tmp_path, "status", "--json").stdout)
    assert (found["stale"], found["missing"], found["sound"], found["entries"]) == (1, 0, True, 31)
    assert found["drift"] == 1 / 61
    for threshold, status in (("1", 0), ("0.05", 0), (f"{1 / 61}", 0), ("0.016", 1), ("0", 1)):
        assert run(url, tmp_path, "status", "--threshold", threshold).exit_code == status, threshold
    # without a model nothing is checked
    assert run(url, tmp_path, "status", "--threshold", "0", model=None).exit_code == 0
    for threshold in ("-0.1", "1.1", "x", "nan"):
        assert run(url, tmp_path, "status", "--threshold", threshold).exit_code == 2
    assert json.loads(run(url, tmp_path, "repair", "--json").stdout)["deleted"] == 1
    assert run(url, tmp_path, "status", "--threshold", "0").exit_code == 0


@pytest.mark.lengthy
def test_a_status_counts_entries_that_are_not_verified(url: str, tmp_path: Path) -> None:
    seen = models(tmp_path).Seen
    with hb.connect(url) as store:
        hb.create_tables(store, seen)
        with hb.Session(store, lease=0) as session:
            session.add_all(seen(name=f"{n:02}", page="p") for n in range(5))
        entries = rows_of(store, "seen-cli.by_page")
        revoked = [Put(entry, {b"d:_s": b"\x00" + b"loser..."}, entries[entry] + 1) for entry in sorted(entries)[:2]]
        store.put("seen-cli.by_page", revoked)  # as a writer does that is killed before its row
    time.sleep(1.1)
    found = run(url, tmp_path, "status", "--json", "--threshold", "0", model="Seen")
    assert found.exit_code == 0, found.output
    report = json.loads(found.stdout)
    assert (report["unverified"], report["stale"], report["bare"], report["drift"]) == (2, 0, 0, 0.0)
    assert "unverified 2" in run(url, tmp_path, "status", model="Seen").output


@pytest.mark.lengthy
def test_a_drop_can_be_planned(url: str, tmp_path: Path) -> None:
    with hb.connect(url) as store:
        hb.create_tables(store, models(tmp_path).Visit)
    assert run(url, tmp_path, "drop", "--dry-run").output == "visits-cli.by_page: absent\n"
    assert run(url, tmp_path, "build").exit_code == 0

    def everything() -> dict[str, object]:
        with hb.connect(url) as store:
            return {table: cells_of(store, table) for table in store.tables()}

    before = everything()
    for model in ("Visit", None):
        planned = run(url, tmp_path, "drop", "--dry-run", model=model)
        assert planned.exit_code == 0, planned.output
        assert planned.output == "visits-cli.by_page: readable\nwould drop visits-cli.by_page\n"
        found = json.loads(run(url, tmp_path, "drop", "--dry-run", "--json", model=model).stdout)
        assert found == {"index": "by_page", "dry_run": True, "state": "readable", "would_drop": ["visits-cli.by_page"]}
    with hb.connect(url) as store:
        short = hb.indexes.IndexTimes(lease=0.1, longest_call=0.1, clock_bound=0.05, grace=1)
        assert hb.indexes.drop_index(store, models(tmp_path).Visit, "by_page", dry_run=True, times=short) == [
            "visits-cli.by_page"
        ]
    assert everything() == before
    assert run(url, tmp_path, "drop", "--yes").output == "dropped visits-cli.by_page\n"
    assert run(url, tmp_path, "drop", "--dry-run").output == "visits-cli.by_page: absent\n"


def test_an_index_that_is_built_already_is_said_to_be_so(url: str, tmp_path: Path) -> None:
    assert json.loads(run(url, tmp_path, "build", "--json").stdout)["already"] is False
    again = run(url, tmp_path, "build")
    assert (again.exit_code, again.output) == (0, "visits-cli.by_page: readable, built already\n")
    assert json.loads(run(url, tmp_path, "build", "--json").stdout)["already"] is True


def test_all_indexes_of_a_module_are_built_that_are_not_yet(url: str, tmp_path: Path) -> None:
    module = f"models_{tmp_path.name}"

    def build(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["index", "build", *arguments, "--store", url, *TIMES])

    with hb.connect(url) as store:
        hb.create_tables(store, models(tmp_path).Seen)
    planned = build(f"{module}:Visit", "--dry-run")
    assert (planned.exit_code, planned.stdout.splitlines()[0]) == (0, "visits-cli.by_page: absent")
    built = build(module)
    assert built.exit_code == 0, built.output
    assert [line for line in built.stdout.splitlines() if not line.startswith(" ")] == ["visits-cli.by_page: readable"]
    for arguments in ((module,), (f"{module}:Visit",), ("visits-cli", "--model", f"{module}:Visit")):
        assert build(*arguments).output == "nothing to build\n"
        assert build(*arguments, "--json").output == ""
    wrong = build(module, "by_page")
    assert (wrong.exit_code, "An INDEX needs the --model" in wrong.output) == (2, True)


def test_an_index_is_dropped_after_a_question(url: str, tmp_path: Path) -> None:
    assert run(url, tmp_path, "build").exit_code == 0
    for answer in ("n\n", ""):
        refused = run(url, tmp_path, "drop", answer=answer)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert refused.stderr.startswith(
            "visits-cli.by_page: readable\nwould drop visits-cli.by_page\nDrop this index, and its entries?"
        )
        assert run(url, tmp_path, "status", model=None).output == "visits-cli.by_page: readable\n"
    assert run(url, tmp_path, "drop", answer="y\n").stdout == "dropped visits-cli.by_page\n"
    assert run(url, tmp_path, "drop", answer="").output == "nothing was left\n"  # there is nothing to ask for


def test_a_build_shows_its_progress_on_a_terminal(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    console = partial(Console, file=shown, force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr("hbmodel.tools.cli.index.Console", lambda **_: console())
    updated: list[tuple[str, float, float | None, int]] = []
    update = Progress.update

    def noted(self: Progress, task: TaskID, **options: Any) -> None:
        update(self, task, **options)
        self.refresh()  # which it does ten times a second
        updated.append((options["description"].split()[0], options["completed"], options["total"], options["rows"]))

    monkeypatch.setattr(Progress, "update", noted)
    assert run(url, tmp_path, "build").exit_code == 0
    phases = [phase for phase, *_ in updated]
    assert sorted(set(phases), key=phases.index) == ["building", "verifying"]
    for phase in ("building", "verifying"):
        assert [each[1:] for each in updated if each[0] == phase][-1] == (1, 1, 30)
    drawn = shown.getvalue()
    assert re.search("building +0 rows", drawn)
    assert re.search("building .*━+ 30 rows", drawn)
    last = drawn[drawn.rindex("verifying") :]
    assert re.match("verifying ━+ 30 rows 0:00:00", last)
    assert last.endswith("\x1b[2K"), "the bar is still there"
    assert "\x1b[?25h" in last, "the cursor is still hidden"
    shown.truncate(0)
    assert json.loads(run(url, tmp_path, "build", "--json").stdout)["state"] == "readable"
    assert "rows" not in shown.getvalue()
    assert run(url, tmp_path, "drop").exit_code == 0
    assert re.search("waiting at most 0 s for readers", shown.getvalue())
    assert "writers" not in shown.getvalue()  # a local file


def test_rows_that_are_refused_are_an_exit_status(url: str, tmp_path: Path) -> None:
    with hb.connect(url) as store, hb.Session(store) as session:
        session.add(models(tmp_path).Plain(name="long", page="x" * 32_767))
    built = run(url, tmp_path, "build")
    assert built.exit_code == 1
    assert "rows refused: 1" in built.output


@pytest.mark.parametrize(
    ("model", "message"),
    [("Nothing", "no such model"), ("hb", "no such model"), ("Plain", "no such index")],
)
def test_a_wrong_model_is_one_line(url: str, tmp_path: Path, model: str, message: str) -> None:
    result = run(url, tmp_path, "build", model=model)
    assert result.exit_code == 2
    assert message in result.output
    assert re.fullmatch(r"Error: .* \((declaration-error|unknown-index)\)\n", result.output)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("\nundefined", "NameError: name 'undefined' is not defined"),
        ("def", "SyntaxError: "),
        ("import hbmodel as hb\nhb.HashSalt(0)", "DeclarationError: "),
    ],
)
def test_an_error_in_the_code_of_a_model_is_one_line_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "broken_models.py").write_text(code)
    result = CliRunner().invoke(main, ["diff", "broken_models:Model", "--store", "memory:"])
    assert result.exit_code == 2
    assert result.output.startswith("Error: The module of the model cannot be imported: correct its code. ")
    assert result.output.count("\n") == 1
    assert reason in result.output


def test_a_model_of_another_table_is_refused(url: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["index", "verify", "other", "by_page", "--store", url, "--model", f"models_{tmp_path.name}:Visit"]
    )
    assert result.exit_code == 2
    assert "The model belongs to another table: name the model of this table" in result.output


@pytest.mark.parametrize("text", ["10x", "-1", "", "s", "nan", "inf", "1e300", "1e9d"])
def test_times_are_checked(url: str, tmp_path: Path, text: str) -> None:
    result = run(url, tmp_path, "verify", "--every", text)
    assert result.exit_code == 2
    assert "must be a time such as 30s, 10m or 6h" in result.output


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "0", "-1"])
@pytest.mark.parametrize("option", ["--rows-per-second", "--bytes-per-second"])
def test_speeds_are_checked(url: str, tmp_path: Path, option: str, text: str) -> None:
    result = run(url, tmp_path, "verify", option, text)
    assert result.exit_code == 2
    assert "is not in the range" in result.output or "must be a finite number" in result.output


@pytest.mark.parametrize("command", ["verify", "repair", "purge", "status"])
@pytest.mark.parametrize("text", ["0", "0s", "0.0h"])
def test_no_command_is_repeated_without_a_pause(url: str, tmp_path: Path, command: str, text: str) -> None:
    result = run(url, tmp_path, command, "--every", text)
    assert result.exit_code == 2
    assert "must be longer than 0" in result.output


@pytest.mark.parametrize("arguments", [("status", "nothing-cli"), ("drop", "nothing-cli", "by_page")])
def test_a_table_that_the_registry_does_not_know_is_an_error(url: str, arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["index", *arguments, "--store", url])
    assert result.exit_code == 2
    assert "The registry does not know the table" in result.output
    assert "known=['visits-cli']" in result.output


def test_an_index_that_the_registry_does_not_know_is_an_error(url: str, tmp_path: Path) -> None:
    assert run(url, tmp_path, "build").exit_code == 0
    result = CliRunner().invoke(main, ["index", "drop", "visits-cli", "by_pag", "--store", url])
    assert result.exit_code == 2
    assert "The registry does not know the index" in result.output
    assert "known=['by_page']" in result.output


def test_refused_rows_have_their_reasons_in_one_line(url: str, tmp_path: Path) -> None:
    with hb.connect(url) as store:
        store.put("visits-cli", [Put(b"00", {b"d:p": b"\xff"})])
    planned = run(url, tmp_path, "build", "--dry-run")
    assert planned.exit_code == 1
    assert planned.output.splitlines()[2:] == [
        "  rows refused: 1",
        "    3030: Stored bytes are not UTF-8. [table='visits-cli', key=b'00', field='page', column=b'd:p']",
    ]


@pytest.mark.parametrize("lost", ["table", "family", "primary"])
def test_a_live_index_whose_table_is_gone_is_an_error_of_each_command(url: str, tmp_path: Path, lost: str) -> None:
    assert run(url, tmp_path, "build").exit_code == 0
    with hb.connect(url) as store:
        store.delete_table("visits-cli" if lost == "primary" else "visits-cli.by_page")
        if lost == "family":
            store.create_table("visits-cli.by_page", [Family(b"other")])
    for command, model in (
        ("status", None), ("status", "Visit"), ("verify", "Visit"), ("repair", "Visit"), ("build", "Visit"),
    ):  # fmt: skip
        result = run(url, tmp_path, command, model=model)
        assert result.exit_code == 2, (command, result.output)
        assert ("hbmodel index drop TABLE INDEX" in result.output) == (lost != "primary"), (command, result.output)
        assert "Traceback" not in result.output
    if lost == "primary":
        return
    # the advice of the errors
    assert run(url, tmp_path, "drop", model=None).exit_code == 0
    assert run(url, tmp_path, "build").exit_code == 0
    verified = json.loads(run(url, tmp_path, "verify", "--json").stdout)
    assert (verified["sound"], verified["entries"]) == (True, 30)


def test_a_table_without_indexes_has_no_status(url: str) -> None:
    result = CliRunner().invoke(main, ["index", "status", "visits-cli", "--store", url])
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.lengthy
def test_a_sample_of_clustered_rows_says_no_time_for_the_whole_table(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jitter, "randint", lambda low, high: (low + high) // 2)  # between the clusters
    model = models(tmp_path).Visit
    with hb.connect(url) as store, hb.Session(store) as session:
        session.add_all(
            model(name=f"{group}{n:03}", page="p") for group in ("a", "much further away/") for n in range(100)
        )
    assert run(url, tmp_path, "build").exit_code == 0
    whole = json.loads(run(url, tmp_path, "verify", "--sample", "20", "--json").stdout)
    assert (whole["sampled"], whole["whole"]) == (True, None)
    shown = run(url, tmp_path, "verify", "--sample", "20")
    assert shown.exit_code == 0
    assert "the whole table would take" not in shown.output


def test_a_command_is_repeated(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    short_sleep = time.sleep

    def sleep(seconds: float) -> None:
        if seconds < 1:  # of a store, which waits for its clock
            return short_sleep(seconds)
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    result = run(url, tmp_path, "verify", "--every", "10m")
    assert slept == [600, 600, 600]
    assert result.exit_code == 1
    assert result.output.count("not built") == 3  # an error is reported and the next time comes
    assert result.output.count(" (index-unavailable)\n") == 3


def test_a_module_instead_of_a_model_is_refused_with_its_models(url: str, tmp_path: Path) -> None:
    module = models(tmp_path).Visit.__module__
    result = CliRunner().invoke(main, ["index", "verify", "visits-cli", "by_page", "--store", url, "--model", module])
    assert result.exit_code == 2
    assert "only a module: name one of its models as package.module:Class" in result.output
    assert f"'{module}:Visit'" in result.output


@pytest.mark.parametrize("named", ["", ":", "json", "json:", ":Visit", ".models:Visit", "json:nothing", "json:loads"])
def test_a_name_that_is_no_model_is_refused_in_one_line(url: str, named: str) -> None:
    result = CliRunner().invoke(
        main, ["index", "verify", "visits-cli", "by_page", "--store", url, "--model", named, *TIMES]
    )
    assert result.exit_code == 2
    assert "There is no such model" in result.output
