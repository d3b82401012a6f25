"""The number of examples for which a property is tested: by default half of the number that it requests, fewer in the
fast suite, and twice as many in the long one.
"""

from __future__ import annotations

import os

SHARE = float(os.environ.get("HBMODEL_TEST_EXAMPLES", "0.5"))
"""The share; `make test-fast` and `make test-all` set it."""


def examples(count: int) -> int:
    """The share of `count` examples that are run."""
    return max(1, round(count * SHARE))
