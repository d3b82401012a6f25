"""Writes objects of random models into a store."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import EncodingError, KeyTooLong, RowKeyError
from tests.support.beds import fresh
from tests.support.faulty import RecordingStore
from tests.support.random_queries import RandomModel
from tests.support.strategies import given_as, plain


def written(draw: st.DrawFn, of: RandomModel) -> RecordingStore:
    """Returns a store with some objects of a model, some of them deleted."""
    store = fresh(of.model)
    built = [f for f in of.schema.fields if f.kind in {"key", "column"} and f.name in of.pools]
    known: dict[bytes, Any] = {}
    for _ in range(draw(st.integers(1, 3))):
        session = hb.Session(store)
        for _ in range(draw(st.integers(1, 6))):
            made = of.model(**{f.name: given_as(draw, f.codec, draw(st.sampled_from(of.pools[f.name]))) for f in built})
            with suppress(KeyTooLong, RowKeyError, EncodingError, hb.errors.ComputedFieldError, hb.SessionError):
                row = hb.schema.schema_of(of.model).layout.pack(
                    tuple(getattr(made, name) for name in of.schema.layout.names)
                )
                if known and draw(st.integers(0, 3)) == 0:
                    session.delete(known.pop(draw(st.sampled_from(sorted(known)))))
                elif not of.schema.immutable or row not in known:
                    known[row] = made
                    session.add(made)
        with suppress(hb.HbmodelError):
            session.commit()
    return store


def plain_of(obj: Any) -> dict[str, Any]:
    """Returns the values of an object in a form that can be compared."""
    return {name: plain(value) for name, value in vars(obj).items()}
