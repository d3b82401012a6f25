"""How many examples a property is tried with: half of what it asks for by default, fewer in the fast suite, twice in
the long one.
"""

from __future__ import annotations

import os

SHARE = float(os.environ.get("HBMODEL_TEST_EXAMPLES", "0.5"))
"""The share; `make test-fast` and `make test-all` set it."""


def examples(count: int) -> int:
    """So many of `count` examples."""
    return max(1, round(count * SHARE))
