"""The SQLite file of an embedded store: its format, its connections for each thread and process, transactions, and
errors.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hbmodel.errors import HbmodelError, StoreError, StoreUnavailable, StoreURLError
from hbmodel.store.closing import store_closed
from hbmodel.store.embedded.damage import DAMAGED, UNREADABLE, check_undamaged

APPLICATION_ID = 0x68626D64
"""The `application_id` of SQLite in the file of an embedded store: "hbmd"."""

FORMAT_VERSION = 1
"""The `user_version` of SQLite in the file of an embedded store. A file of another version is refused."""

BUSY_TIMEOUT = 30.0
"""The maximum number of seconds to wait for another process that writes."""

_CACHE_KIB = 16 * 1024

_SCHEMA = (
    "CREATE TABLE tables (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, layout BLOB NOT NULL)",
    # The cells of a row from column `first` up to the first column of the next segment. `ends` is the earliest time at
    # which a cell in the segment expires because of the TTL of its put.
    "CREATE TABLE segments (table_id INTEGER, row BLOB, first BLOB, ends INTEGER, cells BLOB NOT NULL,"
    " PRIMARY KEY (table_id, row, first)) WITHOUT ROWID",
    # `target` is a family or a column; its cells up to `timestamp` are deleted, even if they arrive later.
    "CREATE TABLE tombstones (table_id INTEGER, row BLOB, target BLOB, timestamp INTEGER NOT NULL,"
    " PRIMARY KEY (table_id, row, target)) WITHOUT ROWID",
)


Connect = Callable[[str], sqlite3.Connection]
"""A function that opens a connection to the file at a path or, for `:memory:`, to a new database in memory."""


def open_connection(target: str, busy_timeout: float = BUSY_TIMEOUT) -> sqlite3.Connection:
    """Opens a connection that threads may share, and whose transactions begin and end explicitly.

    Args:
        target: the path of a file, or `:memory:`.
        busy_timeout: the maximum number of seconds to wait for another process that writes.
    """
    return sqlite3.connect(
        target, timeout=busy_timeout, isolation_level=None, check_same_thread=False, cached_statements=256
    )


class _Link:
    """A thread's connection, and a lock so that it is not closed (by `close`, or before a fork) while it is in use."""

    __slots__ = ("__weakref__", "_dropped", "connection", "lock")

    def __init__(self) -> None:
        self.connection: sqlite3.Connection | None = None
        self.lock = threading.Lock()
        self._dropped: weakref.finalize[[int, sqlite3.Connection], _Link] | None = None

    def open(self, connection: sqlite3.Connection) -> None:
        """Stores a connection in the link. The connection is closed together with the link, or when the link is
        freed.
        """
        self.connection = connection
        # This is not done in `__del__`, because in a cycle the garbage collector may finalize the connection first,
        # which Python 3.13 reports as a leak.
        self._dropped = weakref.finalize(self, _close_dropped, os.getpid(), connection)
        self._dropped.atexit = False

    def close(self) -> None:
        """Closes the connection, if one is open."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()
        if self._dropped is not None:
            self._dropped.detach()


def _close_dropped(pid: int, connection: sqlite3.Connection) -> None:
    # The thread has ended, or the store was freed without being closed. Connections that another process opened are not
    # touched.
    if pid == os.getpid():
        connection.close()


class _Process:
    """The locks and connections of a database in one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.writing = threading.Lock()
        self.writer: int | None = None
        self.registering = threading.Lock()
        self.links: weakref.WeakSet[_Link] = weakref.WeakSet()
        self.local = threading.local()
        self.shared: _Link | None = None


class Database:
    """Runs transactions on one SQLite file, or on a private database in memory.

    Threads and processes, including forked ones, may use it at the same time. Each thread has a separate connection to
    a file; all threads share the connection to a database in memory. A forked child does not hold the file locks of its
    parent, but its copy of SQLite's data still lists them. So every connection to a file is closed before a fork, and
    each process opens new ones when it needs them.

    Args:
        path: the path of the file, which is created if it does not exist; with None, everything is kept in memory.

    Raises:
        StoreError: the file cannot be opened, or is not the file of an embedded store.
    """

    def __init__(self, path: str | None, connect: Connect = open_connection) -> None:
        if path is not None and (not path or path == ":memory:"):
            raise StoreURLError("An embedded store needs the path of a file; for a store in memory use memory:.")
        if path is not None and "\0" in path:
            raise StoreURLError("The path of an embedded store must not contain a 00 character.", path=path)
        self._path = None if path is None else os.path.abspath(path)
        self._connect = connect
        self._file: tuple[int, int] | None = None
        self._closed = False
        self._process = _Process()
        if path is not None:
            _FORKS.watch(self)
        with self.read():
            pass

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Runs its block in a transaction that sees one state of the file. In a thread that is in a write transaction,
        the block reads in that transaction.
        """
        process = self._here()
        link = self._link(process)
        if process.writer == threading.get_ident():
            assert link.connection is not None, "it is writing"
            yield link.connection
            return
        with link.lock:
            try:
                connection = self._opened(link)
                connection.execute("BEGIN")
                try:
                    yield connection
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise translated(error, self._path) from error
            except UNREADABLE as error:
                check_undamaged(link.connection, self._path, error)
                raise

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Runs its block in a write transaction, which is committed unless the block raises an error. Only one write
        transaction can be open at a time.
        """
        process = self._here()
        link = self._link(process)
        if process.writer == threading.get_ident():
            raise RuntimeError("This thread is already in a write transaction: nothing else can be written inside it.")
        # Threads wait here and not in SQLite, where they would poll.
        with process.writing, link.lock:
            try:
                connection = self._opened(link)
                connection.execute("BEGIN IMMEDIATE")
                process.writer = threading.get_ident()
                try:
                    self._check_file()
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                finally:
                    process.writer = None
            except sqlite3.Error as error:
                raise translated(error, self._path) from error
            except UNREADABLE as error:
                check_undamaged(link.connection, self._path, error)
                raise

    def close(self) -> None:
        """Closes every connection of this process, each as soon as it is idle. Further transactions raise
        `StoreClosed`.
        """
        self._closed = True
        if self._process.pid == os.getpid():
            with self._process.registering:
                links = list(self._process.links)
            for link in links:
                with link.lock:
                    link.close()

    # --- connections --------------------------------------------------------------------------------------------------

    def _here(self) -> _Process:
        self._check_open()
        process = self._process
        if process.pid != os.getpid():
            raise StoreError(
                "A memory store belongs to the process that opened it and cannot be used after a fork: open one in "
                "each process."
                if self._path is None
                else "The process was forked without Python's fork hooks while the embedded store was open; open "
                "it in the new process.",
                path=self._path,
            )
        return process

    def _check_open(self) -> None:
        if self._closed:
            raise store_closed()

    def _link(self, process: _Process) -> _Link:
        link: _Link | None = process.shared if self._path is None else getattr(process.local, "link", None)
        if link is None:
            with process.registering:
                if self._path is None:
                    link = process.shared = process.shared or _Link()
                else:
                    link = process.local.link = _Link()
                process.links.add(link)
        return link

    def _opened(self, link: _Link) -> sqlite3.Connection:
        # The lock of the link is held here, but `close` may have been called since the link was found.
        self._check_open()
        if link.connection is None:
            self._check_file()
            link.open(
                connection := _open_memory(self._connect)
                if self._path is None
                else _open_file(self._connect, self._path)
            )
            if self._path is not None and self._file is None:
                self._file = _identity(self._path)
            return connection
        return link.connection

    def _check_file(self) -> None:
        """Raises `StoreError` if the path no longer names the file that was opened. A write into the removed file would
        be lost, and a new connection would open another file.
        """
        if self._path is not None and self._file is not None and _identity(self._path) != self._file:
            raise StoreError(
                "The embedded store's file was removed or replaced while the store was open: nothing was written. "
                "Close the store, and open it again.",
                path=self._path,
            )

    # --- forks --------------------------------------------------------------------------------------------------------

    def before_fork(self) -> Callable[[], None]:
        """Waits for transactions in progress, closes all connections, and blocks new ones until the returned function
        is called.
        """
        process = self._process
        process.registering.acquire()  # this comes first, so that no thread can add a link
        locks = [process.registering]
        for link in list(process.links):
            link.lock.acquire()
            locks.append(link.lock)
            link.close()

        def resume() -> None:
            for lock in locks:
                lock.release()

        return resume

    def after_fork_in_child(self) -> None:
        """Forgets the parent's locks."""
        self._process = _Process()


class _Forks:
    """Closes databases before forks of this process. Fork hooks cannot be removed, so they are registered only once,
    for all databases.
    """

    def __init__(self) -> None:
        self._files: weakref.WeakSet[Database] = weakref.WeakSet()
        self._forking = threading.Lock()
        self._paused: list[tuple[Database, Callable[[], None]]] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before, after_in_parent=self._in_parent, after_in_child=self._in_child)

    def watch(self, database: Database) -> None:
        """Closes a database before each fork from now on. This must be called before the database opens a
        connection.
        """
        with self._forking:
            self._files.add(database)

    def _before(self) -> None:
        self._forking.acquire()
        self._paused = [(database, database.before_fork()) for database in list(self._files)]

    def _in_parent(self) -> None:
        paused, self._paused = self._paused, []
        for _, resume in paused:
            resume()
        self._forking.release()

    def _in_child(self) -> None:
        paused, self._paused = self._paused, []
        for database, _ in paused:
            database.after_fork_in_child()
        self._forking = threading.Lock()


_FORKS = _Forks()


def _identity(path: str) -> tuple[int, int] | None:
    """Returns the device and the number of the file at a path, or None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open_memory(connect: Connect) -> sqlite3.Connection:
    connection = connect(":memory:")
    _set_cache(connection)
    for statement in _SCHEMA:
        connection.execute(statement)
    return connection


def _open_file(connect: Connect, path: str) -> sqlite3.Connection:
    connection = connect(path)
    try:
        _set_cache(connection)  # this is the first read of the file, which may belong to another program
        # A power failure may lose the last transactions, but a killed process loses none. HBase's default is the same.
        connection.execute("PRAGMA synchronous = NORMAL")
        if _is_empty(connection):
            _use_write_ahead_log(connection)
            connection.execute("BEGIN IMMEDIATE")
            if _is_empty(connection):  # no other process has created it in the meantime
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            connection.execute("COMMIT")
        _check_format(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_cache(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")


def _is_empty(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return tables == 0 and _pragma(connection, "application_id") == 0


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    # If another process does the same at this moment, SQLite fails at once, without waiting for its busy timeout. So
    # this loop waits.
    deadline = time.monotonic() + _pragma(connection, "busy_timeout") / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _primary_code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _check_format(connection: sqlite3.Connection, path: str) -> None:
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise StoreError(
            "The file is a SQLite database of another program, not an embedded store: name another path.", path=path
        )
    version = _pragma(connection, "user_version")
    if version != FORMAT_VERSION:
        raise StoreError(
            "The embedded store's file has a format that this version of hbmodel does not read: use the version that "
            "wrote it, or name another path.",
            path=path,
            format=version,
            expected=FORMAT_VERSION,
        )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


# --- errors -----------------------------------------------------------------------------------------------------------


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def translated(error: sqlite3.Error, path: str | None) -> HbmodelError:
    """Returns the hbmodel error for an error of SQLite. A failed transaction is rolled back, so nothing was done."""
    match _primary_code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreUnavailable(
                "The embedded store's file is locked by another process: try again, or end that process.", path=path
            )
        case sqlite3.SQLITE_NOTADB:
            return StoreError("The file is not an embedded store: name another path.", path=path)
        case sqlite3.SQLITE_CORRUPT:
            return StoreError(DAMAGED, path=path)
        case sqlite3.SQLITE_FULL:
            return StoreError("The disk of the embedded store's file is full: free some space.", path=path)
        case sqlite3.SQLITE_CANTOPEN:
            return StoreError(
                "The embedded store's file cannot be opened or created; its directory must exist.", path=path
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return StoreError("The embedded store's file cannot be written: check its permissions.", path=path)
        case sqlite3.SQLITE_IOERR:
            return StoreError("The embedded store's file cannot be read or written: check the disk.", path=path)
        case sqlite3.SQLITE_NOMEM:
            return StoreError("The embedded store ran out of memory: read or write less at a time.", path=path)
        case sqlite3.SQLITE_TOOBIG:
            return StoreError("A value is too large for SQLite: write smaller cells.", path=path)
        case _:
            return StoreError(
                "SQLite refused an operation of the embedded store: see `reason`.", path=path, reason=str(error)
            )
