"""The wheel that `make wheel` builds contains everything that the package needs without a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

import hbmodel

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheels")
    subprocess.run(["make", "wheel", f"WHEELS={directory}"], cwd=ROOT, check=True, capture_output=True, timeout=500)
    (made,) = directory.iterdir()
    return made


@pytest.mark.slow  # pip fetches the build backend
def test_a_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    assert wheel.name == f"hbmodel-{hbmodel.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        points = ConfigParser()
        points.read_string(archive.read(f"hbmodel-{hbmodel.__version__}.dist-info/entry_points.txt").decode())
    assert {"hbmodel/py.typed", "hbmodel/localhbase/versions/2.2.6.txt", "hbmodel/store/thrift2/hbase.thrift"} <= names
    there = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "hbmodel").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == {*there, "pytest_hbmodel.py"}
    assert dict(points["console_scripts"]) == {"hbmodel": "hbmodel.tools.command:main"}
    assert dict(points["pytest11"]) == {"pytest_hbmodel": "pytest_hbmodel"}


@pytest.mark.slow
def test_what_is_installed_from_a_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    program = (
        "import hbmodel as hb; from hbmodel.localhbase import jars; from hbmodel.store.thrift2.store import "
        "Thrift2Store\n"
        "print(hb.__file__); hb.connect('memory:').close(); hb.connect('hbase+thrift2://localhost:1').close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()) == site / "hbmodel" / "__init__.py"
