"""A store in one SQLite file or in memory, with HBase's semantics, for development, tests and examples."""

from __future__ import annotations

from hbmodel.store.embedded.store import EmbeddedStore

__all__ = ["EmbeddedStore"]
