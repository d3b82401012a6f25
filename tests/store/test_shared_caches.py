"""Caches that the users of a store share: who gets which, and which are superseded."""

from __future__ import annotations

from attrs import define

from hbmodel.store.embedded import EmbeddedStore
from hbmodel.store.observed import ObservedStore
from hbmodel.store.shared_caches import SharedCaches, shared_caches
from hbmodel.store.thrift2.store import Thrift2Store
from hbmodel.store.wide.folded import FoldedStore


@define(eq=False)
class Kept:
    """A cache that counts how often it was superseded."""

    superseded: int = 0

    def supersede(self) -> None:
        self.superseded += 1


def test_each_key_has_one_cache() -> None:
    shared = SharedCaches()
    first, other = shared.cache("a", Kept), shared.cache("b", Kept)
    assert first is not other
    assert (shared.cache("a", Kept), shared.cache("b", Kept)) == (first, other)
    assert first.superseded == 0


def test_after_a_renewal_users_get_new_caches() -> None:
    shared = SharedCaches()
    first = shared.cache("a", Kept)
    shared.renew()
    second = shared.cache("a", Kept)
    assert second is not first
    assert (first.superseded, second.superseded) == (1, 0)
    shared.renew()
    assert (first.superseded, second.superseded) == (1, 1)


def test_a_cache_that_was_made_at_the_same_time_is_shared() -> None:
    """Another thread makes a cache with the same key while this one makes its own."""
    shared = SharedCaches()
    others: list[Kept] = []

    def slowly() -> Kept:
        others.append(shared.cache("a", Kept))
        return Kept()

    assert shared.cache("a", slowly) is others[0]


def test_views_of_a_store_share_its_caches() -> None:
    with EmbeddedStore(None) as store, EmbeddedStore(None) as other:
        shared = shared_caches(store)
        assert shared is not None
        assert shared is shared_caches(store)
        assert shared is shared_caches(ObservedStore(store, print)) is shared_caches(FoldedStore(store, []))
        assert shared is not shared_caches(other)
    assert shared_caches(object()) is None


def test_a_view_that_counts_retries_shares_the_caches_of_its_store() -> None:
    with Thrift2Store("localhost", 1) as store:
        view = store.on_retry(lambda: None)
        assert shared_caches(view) is shared_caches(store) is not None
