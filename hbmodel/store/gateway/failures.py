"""Finds the meaning of a failure of a gateway, from the names of Java exceptions in the text of the Thrift
exception.
"""

from __future__ import annotations

import logging
import re
from itertools import takewhile
from typing import Any

from hbmodel.errors import (
    FamilyExists,
    FamilyNotFound,
    HbmodelError,
    InvalidRequest,
    NamespaceExists,
    NamespaceNotFound,
    StoreError,
    TableExists,
    TableNotFound,
)
from hbmodel.store.checks.rows import NO_FAMILY, NO_TABLE
from hbmodel.store.checks.tables import TABLE_EXISTS

logger = logging.getLogger("hbmodel")

# The gateway passes on the failure of HBase's Java client, often wrapped (RetriesExhausted... around the cause). So the
# names are searched for in the whole stack trace, the more specific ones first.
_MEANINGS: tuple[tuple[str, type[StoreError], str], ...] = (
    ("NoSuchColumnFamilyException", FamilyNotFound, NO_FAMILY),
    ("already exists so cannot be added", FamilyExists, "The table already has a column family of that name."),
    ("does not exist, so it cannot be modified", FamilyNotFound, NO_FAMILY),
    (
        "NamespaceNotFoundException",
        NamespaceNotFound,
        "There is no such namespace: check the name, or create it with store.create_namespace().",
    ),
    ("NamespaceExistException", NamespaceExists, "There is already a namespace of that name."),
    ("TableNotFoundException", TableNotFound, NO_TABLE),
    ("table does not exist", TableNotFound, NO_TABLE),
    ("TableExistsException", TableExists, TABLE_EXISTS),
    ("Field is not a long", InvalidRequest, "Only a cell of eight bytes, or an absent one, can be incremented."),
    (
        "Invalid method name",
        StoreError,
        "The URL names the other kind of gateway: hbase:// is for Thrift1, hbase+thrift2:// for Thrift2.",
    ),
)

_MISSING_FAMILY = re.compile(r"NoSuchColumnFamilyException: Column family (\S+) does not exist")

# Conditions that end without any action: a region moves; a server starts, stops or is busy; a call took too long (so
# its outcome is unknown); the region server has dropped a scanner.
_PASSING = (
    "NotServingRegionException",
    "RegionServerStoppedException",
    "RegionServerAbortedException",
    "ServerNotRunningYetException",
    "ServerTooBusyException",
    "RegionTooBusyException",
    "RegionMovedException",
    "RegionOpeningException",
    "CallQueueTooBigException",
    "CallTimeoutException",
    "ConnectionClosedException",
    "FailedServerException",
    "java.net.ConnectException",
    "java.net.SocketTimeoutException",
    "MasterNotRunningException",
    "NoServerForRegionException",
    "PleaseHoldException",
    "RetriesExhausted",
    "UnknownScannerException",
    "ScannerResetException",
    "OutOfOrderScannerNextException",
    "LeaseException",
    # Another write has held the lock of the row for longer than the server waits.
    "LockTimeoutException",
    # The region could not be found in ZooKeeper or hbase:meta, or the rows of a scan did not arrive. These failures
    # have no specific exception names. Newer gateways mark them as retriable, but the gateways of HBase 2.2 and 2.3 do
    # not.
    "could not be completed in ",
    "Cannot get the location for replica",
    "Failed to get result within timeout",
)

# The gateway fails with one of Java's standard exceptions if a region has no server, such as a daughter region of a
# split that is not open yet.
_NO_SERVER = ("Internal error processing getAllRegionLocations", "Internal error processing getTableRegions")

# The message with which the HBase client in the Thrift2 gateway reports a call that failed row by row
# ("RetriesExhaustedWithDetailsException").
_FAILED_ACTIONS = re.compile(r"Failed \d+ actions?: (.*): \d+ times?, servers with issues: ", re.DOTALL)

# The beginning of a line about one attempt ("RetriesExhaustedException"): the time of the attempt and its caller.
_ATTEMPT = re.compile(r"^\S+, (?:RpcRetryingCaller\{[^}]*\}, )?")


def message_of(failure: Exception) -> str:
    """Returns the text of a Thrift exception, which is usually a Java stack trace."""
    text: Any = getattr(failure, "message", None)
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return str(text or "")


def reason_of(failure: Exception) -> str:
    """Returns the first line of a Thrift exception's text, which describes the failure without Java's stack trace.

    Below a line that ends in "exceptions:", HBase's client lists the error of each attempt; the last of these errors is
    appended.
    """
    message = message_of(failure)
    if _has(message, _NO_SERVER):
        return "A region of the table has no server: it is being split or moved, or HBase cannot open it."
    first, *more = message.strip().splitlines() or [""]
    if not first.rstrip().endswith("exceptions:"):
        return first.strip()
    attempts = [line for line in takewhile(str.strip, more) if not line.startswith("\t")]
    return " ".join([first.strip(), *(_ATTEMPT.sub("", line).strip() for line in attempts[-1:])])


def is_passing(failure: Exception, name: str = "") -> bool:
    """Returns whether the same request is likely to succeed a moment later. If the request was a write, its outcome is
    unknown.

    Args:
        failure: a Thrift exception.
        name: HBase's name of the table in the request.
    """
    message = message_of(failure)
    if _meaning(message, name) is not None:
        return False
    # Thrift2 marks each failure as retriable or not, including failures whose names are not listed here.
    return bool(getattr(failure, "canRetry", False)) or _has(message, _PASSING + _NO_SERVER)


def store_error(failure: Exception, name: str = "", **details: Any) -> HbmodelError:
    """Returns the hbmodel error for a failure of a gateway.

    Args:
        failure: a Thrift exception.
        name: HBase's name of the table in the request.
        **details: details of the request for the error (`table`, `key`, ...).
    """
    message = message_of(failure)
    logger.debug("HBase's gateway answered: %s", message)
    meaning = _meaning(message, name)
    if meaning is not None:
        kind, sentence = meaning
        if kind is FamilyNotFound and (family := _MISSING_FAMILY.search(message)) is not None:
            details = {**details, "family": family[1].encode()}
        return kind(sentence, **details)
    if type(failure).__name__ == "AlreadyExists":
        return TableExists(TABLE_EXISTS, **details)
    return StoreError(
        "HBase refused the request: see `reason`.", **details, reason=reason_of(failure) or type(failure).__name__
    )


def _has(message: str, names: tuple[str, ...]) -> bool:
    return any(java in message for java in names)


def _meaning(message: str, name: str) -> tuple[type[StoreError], str] | None:
    for java, kind, sentence in _MEANINGS:
        if java in message:
            return kind, sentence
    # Thrift2 leaves out the kind of the exception. If a table is missing, the text is only the table's name.
    failed = _FAILED_ACTIONS.match(message)
    said = message if failed is None else failed[1]
    if name and said == name:
        return TableNotFound, NO_TABLE
    if name and said == f"{name} is disabled.":
        return StoreError, "The table is disabled: enable it in `hbase shell`."
    return None
