"""What the failures that HBase's gateways answer with mean: Java exceptions by name, in the text of a Thrift exception."""

from __future__ import annotations

import logging
from typing import Any

from hbmodel.errors import FamilyNotFound, HbmodelError, InvalidRequest, StoreError, TableExists, TableNotFound

logger = logging.getLogger("hbmodel")

# The gateway passes on how HBase's Java client failed, often wrapped (RetriesExhausted... around the cause), so a name counts
# wherever it stands in the stack trace; a cause that says more comes first.
_MEANINGS: tuple[tuple[str, type[StoreError], str], ...] = (
    ("NoSuchColumnFamilyException", FamilyNotFound, "The table has no such column family."),
    ("TableNotFoundException", TableNotFound, "There is no such table."),
    ("TableExistsException", TableExists, "There is already a table of that name."),
    ("Field is not a long", InvalidRequest, "Only a cell of eight bytes, or an absent one, can be incremented."),
)

# Conditions that end by themselves: a region that moves, a server that starts, stops or is busy, a call that took too long
# (whose outcome is then unknown), a scanner that the region server forgot.
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
)


def message_of(failure: Exception) -> str:
    """The text of a Thrift exception: usually a Java stack trace."""
    text: Any = getattr(failure, "message", None)
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return str(text or "")


def first_line(failure: Exception) -> str:
    """The first line of a Thrift exception's text: what happened, without Java's stack."""
    return message_of(failure).strip().partition("\n")[0].strip()


def is_passing(failure: Exception) -> bool:
    """Whether the same request may well succeed a moment later. If it was a write, its outcome is unknown."""
    message = message_of(failure)
    return not any(name in message for name, _, _ in _MEANINGS) and any(name in message for name in _PASSING)


def store_error(failure: Exception, **details: Any) -> HbmodelError:
    """The error of this library that says the same as a gateway's failure.

    Args:
        failure: a Thrift exception.
        **details: what the request was about (`table`, `key`, ...).
    """
    message = message_of(failure)
    logger.debug("HBase's gateway answered: %s", message)
    for name, kind, sentence in _MEANINGS:
        if name in message:
            return kind(sentence, **details)
    if type(failure).__name__ == "AlreadyExists":
        return TableExists("There is already a table of that name.", **details)
    return StoreError("HBase refused the request.", **details, reason=first_line(failure) or type(failure).__name__)
