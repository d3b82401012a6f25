"""How many examples a property is tried with: all that it asks for in the default suite, a share of them in the fast one."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("HBMODEL_TEST_EXAMPLES", "1"))
"""The share; `make test-fast` sets it."""


def examples(count: int) -> int:
    """So many of `count` examples."""
    return max(1, round(count * SHARE))
