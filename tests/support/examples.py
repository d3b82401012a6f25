"""How many examples a property is tried with: what it asks for in the default suite, fewer in the fast one, more in the long one."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("HBMODEL_TEST_EXAMPLES", "1"))
"""The share; `make test-fast` and `make test-all` set it."""


def examples(count: int) -> int:
    """So many of `count` examples."""
    return max(1, round(count * SHARE))
