"""HBase's class path: the jars of an installed distribution, or the pinned jars, downloaded once per user.

Jars are downloaded to a scratch directory, and moved to the jar directory once their SHA-256 has been checked. So the
jar directory never contains a part of a file, even if a download is interrupted. Jars come from the repositories that
jgo uses; the configuration file of jgo can name a mirror.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase.extras import required
from hbmodel.localhbase.locks import file_lock
from hbmodel.localhbase.pinned_jars import HBASE_VERSION, Pin, pinned
from hbmodel.localhbase.progress import Advance, download_progress

_log = logging.getLogger("hbmodel")

CONNECTIONS = 4
"""The number of jars that are downloaded at the same time."""

ATTEMPTS = 3
"""The maximum number of times that the download of a jar is tried before the start fails."""

PAUSE = 2.0
"""The number of seconds between two tries to download a jar."""

_DOWNLOAD_TIMEOUT = 1800.0  # seconds to wait while another process downloads


def one_line(error: BaseException, limit: int = 200) -> str:
    """Returns the message of another library's error as one short line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."


def fetch(pin: Pin, scratch: Path, count: Callable[[int], None]) -> Path:
    """Fetches one jar from the repositories of jgo.

    Args:
        scratch: a directory that is created and used only for this download.
        count: called with the number of received bytes, whenever bytes arrive.
    """
    maven = required("jgo.maven")
    settings = required("jgo.config").GlobalSettings.load()

    @contextmanager
    def reporter(_filename: str, _size: int) -> Iterator[Advance]:
        yield count

    context: Any = maven.MavenContext(
        resolver=maven.PythonResolver(progress_callback=reporter),
        repo_cache=scratch,
        timeout=30,
    )
    context.remote_repos.update(settings.repositories)
    path = context.project(pin.group, pin.artifact).at_version(pin.version).artifact().resolve()
    return Path(path)


@frozen
class Downloader:
    """Downloads missing jars.

    Attributes:
        fetch: fetches one jar; see `fetch`.
        pause: seconds between two tries to download a jar.
    """

    fetch: Callable[[Pin, Path, Callable[[int], None]], Path] = fetch
    pause: float = PAUSE

    def download(self, title: str, pins: Sequence[Pin], jars: Path, scratch: Path, *, progress: bool) -> None:
        """Fetches jars into their directory. The caller must hold the lock.

        Args:
            title: the text in front of the progress bar.
            scratch: a directory for incomplete downloads; it is deleted at the beginning and at the end.

        Raises:
            LocalHBaseError: a download failed.
        """
        shutil.rmtree(scratch, ignore_errors=True)
        total = sum(pin.size for pin in pins)
        try:
            with (
                download_progress(title, total, shown=progress) as advance,
                ThreadPoolExecutor(CONNECTIONS, "hbmodel-jars") as pool,
            ):
                # The largest jars come first, because otherwise a large jar might still be downloading when all others
                # are done.
                futures = [
                    pool.submit(self._fetch, pin, jars, scratch, advance)
                    for pin in sorted(pins, key=lambda pin: -pin.size)
                ]
                try:
                    wait(futures, return_when=FIRST_EXCEPTION)
                finally:
                    pool.shutdown(wait=False, cancel_futures=True)
                for future in futures:
                    if future.done() and not future.cancelled():
                        future.result()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _fetch(self, pin: Pin, jars: Path, scratch: Path, advance: Advance) -> None:
        """Downloads one jar, checks it, and moves it to its place."""
        for attempt in range(1, ATTEMPTS + 1):
            received = 0

            def count(size: int) -> None:
                nonlocal received
                received += size
                advance(size)

            try:
                path = self.fetch(pin, scratch / f"{pin.filename}.{attempt}", count)
                if hashlib.sha256(path.read_bytes()).hexdigest() != pin.sha256:
                    raise LocalHBaseError(
                        "A downloaded jar differs from the one that hbmodel was tested with; check the repository "
                        "or mirror in use.",
                        jar=pin.filename,
                    )
                path.replace(jars / pin.filename)
                advance(pin.size - received)
                return
            except Exception as error:  # jgo and its libraries document no common base class of errors
                advance(-received)
                if attempt == ATTEMPTS:
                    if isinstance(error, LocalHBaseError):
                        raise
                    raise LocalHBaseError(
                        "HBase could not be downloaded; check the network, or set HBASE_HOME to an unpacked HBase "
                        "distribution.",
                        jar=pin.filename,
                        cause=one_line(error),
                    ) from error
                _log.debug("download of %s failed, attempt %d", pin.filename, attempt)
                time.sleep(self.pause)


DOWNLOADER = Downloader()
"""The downloader that fetches jars from the repositories of jgo."""


def installed_distribution() -> Path | None:
    """Returns the directory of the unpacked HBase distribution in `HBASE_HOME`, or None if the variable is not set."""
    home = os.environ.get("HBASE_HOME")
    return Path(home) if home else None


def class_path(version: str | None = None, *, progress: bool = True) -> str:
    """Returns the Java class path of the server and both gateways, without the configuration directory.

    Args:
        version: one of `pins.VERSIONS`, whose jars are used; missing jars are downloaded. None means the distribution
            in `HBASE_HOME` or, if it is not set, the newest version.
        progress: whether to show the download on standard error.

    Raises:
        LocalHBaseError: there is no such version, `HBASE_HOME` does not name an HBase distribution, or the download
            failed.
    """
    home = installed_distribution()
    if home and version is None:
        return distribution_class_path(home)
    version = version or HBASE_VERSION
    jars = pinned_jars(version=version, progress=progress)
    return os.pathsep.join(str(jars / pin.filename) for pin in pinned(version))


def distribution_class_path(home: Path) -> str:
    """Returns the class path of an unpacked HBase distribution.

    Raises:
        LocalHBaseError: the `lib` of the distribution contains no HBase server or no Thrift gateway.
    """
    library = home.expanduser().resolve() / "lib"
    if not any(library.glob("hbase-server-*.jar")) or not any(library.glob("hbase-thrift-*.jar")):
        raise LocalHBaseError(
            "HBASE_HOME is not an unpacked HBase distribution; correct it or unset it.", hbase_home=str(home)
        )
    # The distribution has its logging jars in a separate directory, so that clients can use others.
    return f"{library}/*{os.pathsep}{library}/client-facing-thirdparty/*"


def cache_directory() -> Path:
    """Returns the directory in which this user's jars are kept. All versions share it, because most jars are the
    same.
    """
    path: Path = required("platformdirs").user_cache_path("hbmodel")
    return path / "hbase"


def pinned_jars(
    directory: Path | None = None,
    *,
    version: str = HBASE_VERSION,
    pins: Sequence[Pin] | None = None,
    progress: bool = True,
    downloader: Downloader = DOWNLOADER,
) -> Path:
    """Returns the directory with all pinned jars of a version. Missing jars are downloaded first, by one process at a
    time.

    Args:
        directory: the cache; the user's cache by default.
        version: one of `pins.VERSIONS`.
        pins: the jars; all jars of the version by default.
        progress: whether to show the download on standard error.
        downloader: downloads missing jars.

    Raises:
        LocalHBaseError: the cache cannot be written or a download failed.
    """
    directory = directory or cache_directory()
    pins = pinned(version) if pins is None else pins
    jars = directory / "jars"
    if not _missing(jars, pins):
        return jars
    try:
        jars.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalHBaseError(
            "The cache for HBase's jars cannot be written; correct its permissions.",
            directory=str(directory),
            cause=error.strerror,
        ) from error
    busy = "Another process is downloading HBase and has not finished; stop it or wait for it."
    with file_lock(directory / "lock", timeout=_DOWNLOAD_TIMEOUT, busy=busy):
        if missing := _missing(jars, pins):
            title = f"Downloading HBase {version} (once)"
            downloader.download(title, missing, jars, directory / "download", progress=progress)
    return jars


def _missing(jars: Path, pins: Sequence[Pin]) -> list[Pin]:
    # The digest was checked before the file was moved here; the size shows that the file has not been truncated since.
    return [pin for pin in pins if not _has_size(jars / pin.filename, pin.size)]


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False
