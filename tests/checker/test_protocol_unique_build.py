"""The checker's verdict on a purge of released claims, which the library does not have."""

from __future__ import annotations

from tests.checker.protocol_sweeps import sweep
from tests.checker.protocol_unique_build import purging


def test_released_claims_must_not_be_deleted() -> None:
    """The reason why nothing purges them: a writer that has read no claim, and is then paused for longer than the grace
    time, puts its claim under the tombstone. The store reports success, but no reader sees the claim.
    """
    found = sweep(purging(("k x", "k gone", "m x", "k none"), waits=False))
    assert found.error is not None
    print(found)
