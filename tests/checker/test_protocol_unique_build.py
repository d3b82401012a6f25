"""What the checker says of a purge of released claims, which there is not."""

from __future__ import annotations

from tests.checker.protocol_sweeps import sweep
from tests.checker.protocol_unique_build import purging


def test_released_claims_must_not_be_deleted() -> None:
    """Why nothing purges them: a writer that has read no claim and stands still for longer than the grace time puts its
    claim under the tombstone, where the store says that it was put and nobody sees it.
    """
    found = sweep(purging(("k x", "k gone", "m x", "k none"), waits=False))
    assert found.error is not None
    print(found)
