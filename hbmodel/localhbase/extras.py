"""Imports the packages of the extra `hbmodel[hbase]`, only when a local HBase is used."""

from __future__ import annotations

import importlib
from typing import Any

from hbmodel.errors import LocalHBaseError

WITH_EXTRA = "install hbmodel with its extra `hbase` (in a checkout: pip install -e '.[hbase]')"
"""How to install the packages of the extra."""


def required(module: str) -> Any:
    """Imports a module of the extra.

    Raises:
        LocalHBaseError: the module is not installed; the message contains the command that installs the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise LocalHBaseError(
            f"A local HBase needs packages that are not installed: {WITH_EXTRA}.", missing=module
        ) from error
