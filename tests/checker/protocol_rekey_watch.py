"""The invariants of moves to another key in the model checker."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

import hbmodel as hb
from hbmodel.mapping.rows.covering import EntryDecoder, fields_held, is_verified
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import TableSchema
from hbmodel.protocol.indexed.move_marks import mark_of
from tests.checker.protocol_adapter import mc
from tests.checker.protocol_rekey_models import LIVES, MODELS
from tests.checker.protocol_rekey_rows import ANOTHER, BROKEN, DELETING, OUTCOME, SAME, THE, cells_of, place_of, row_of
from tests.checker.search import Model

NAMES = ("k", "m", "n", "o")


@frozen(eq=False)
class Watch:
    """The invariants of one model.

    Attributes:
        kind: of the model.
        exact: whether no acknowledged write is lost.
    """

    kind: str
    exact: bool

    @property
    def schema(self) -> TableSchema:
        """Of the model."""
        return hb.schema.schema_of(MODELS[self.kind])

    def rows(self, store: Any) -> dict[str, dict[str, Any]]:
        """The live rows, decoded."""
        schema = self.schema
        decoder = RowDecoder.of(schema, bool(schema.indexes) or schema.versioned)
        found = {}
        for name in NAMES:
            place = place_of(MODELS[self.kind], name)
            row = row_of(place, cells_of(store, schema.table, place))
            if row is not None and decoder.exists(row):
                found[name] = decoder.values(row)
        return found

    def broken(self, store: Any) -> str | None:
        """In every state."""
        rows = self.rows(store)
        here = [name for name, values in rows.items() if values["who"] == THE]
        return store.get(BROKEN) or next(
            itertools.chain(self._places(store, rows, here), self._writes(store, rows, here)), None
        )

    def _places(self, store: Any, rows: Mapping[str, Any], here: Sequence[str]) -> Iterator[str]:
        if not here and not store.get(DELETING):
            yield "NEITHER: the object is under no key"
        if {"m", "n"} <= set(here):
            yield "DOUBLED: the object is under two new keys"
        yield from self.together(here)
        if store.get((OUTCOME, "insert m")) == "put" and rows.get("m", {}).get("who") != ANOTHER:
            yield "TAKEN: an object that another program has put under the new key is gone"
        yield from self.without_entry(store, rows)
        yield from self.lies(store, rows)

    def together(self, here: Sequence[str]) -> Iterator[str]:
        """Two places of the object in one row."""
        if self.schema.wide is not None and self.kind not in LIVES and len(here) > 1:
            yield f"BOTH: the object is under {here} in one row"

    def without_entry(self, store: Any, rows: Mapping[str, Any]) -> Iterator[str]:
        """Rows that an index does not show."""
        for name, values in rows.items():
            for index in self.schema.indexes.values():
                for entry in KeyMapper(self.schema).entries(index, values, place_of(MODELS[self.kind], name)):
                    if not index.unique and not mc.vis(store, index.table, entry):
                        yield f"MISSING: the row {name} has no entry"

    def lies(self, store: Any, rows: Mapping[str, Any]) -> Iterator[str]:
        """Verified entries that do not agree with their row, although covering queries trust them."""
        schema = self.schema
        at = {place_of(MODELS[self.kind], name): values for name, values in rows.items()}
        for index in schema.indexes.values():
            held = EntryDecoder(schema, index, fields_held(schema, index))
            for table, key in [place for place in store if place[0] == index.table and index.covers]:
                entry = row_of(key, cells_of(store, table, key))
                if entry is not None and is_verified(schema, entry):
                    values = at.get(KeyMapper(schema).row_of_entry(index, key)[0], {})
                    if any(values.get(name) != value for name, value in held.values(entry).items()):
                        yield f"LIES: a verified entry does not say what its row says: {key!r}"

    def _writes(self, store: Any, rows: Mapping[str, Any], here: Sequence[str]) -> Iterator[str]:
        holders = [name for name, values in rows.items() if values["tag"] == 1]
        if self.kind == "unique" and "o" in holders and len(holders) > 1:
            yield f"DUPLICATE: the rows {holders} hold one value"
        if not self.exact:
            return
        if store.get((OUTCOME, "delete k")) == "deleted" and here:
            yield f"BACK: the object was deleted and is under {here}"
        for name in ("k", "m"):
            if here and store.get((OUTCOME, f"tag {name}")) == "put" and rows[here[-1]]["tag"] != 5:
                yield f"LOST: an update under {name} is acknowledged and is not there"

    def terminal(self, store: Any) -> str | None:
        """Once everything has stopped."""
        done = [number for number in (1, 2) if store.get((OUTCOME, f"move {number}")) == "put"]
        rows, schema = self.rows(store), self.schema
        if done and not store.get(DELETING):
            if rows.get("k", {}).get("who") == THE:
                return "LEFT: the object has moved and is under the old key too"
            # An update that puts a whole row again may have put the mark again too, which does no harm.
            for name in () if self.kind in LIVES else ("m", "n"):
                place = place_of(MODELS[self.kind], name)
                if mark_of(schema, row_of(place, cells_of(store, schema.table, place))) is not None:
                    return "LEFT: the object has moved and is marked still"
        both = all(rows.get(name, {}).get("who") == THE for name in ("k", "m"))
        if self.kind in LIVES and both and store.get((OUTCOME, "move 1")) == "RowExists":
            return "DOUBLED: a move that was refused has left its copy"
        refused = store.get((OUTCOME, "move 2")) in {"RowExists", "ConflictError"}
        if refused and store.get(SAME) and len(rows) > 1:
            return "STUCK: a move that died is not ended by the same call"
        return None


class RekeyModel(Model):
    """Processes on the rows of one model."""

    def __init__(self, watch: Watch, store: Any, processes: Sequence[Any], crashes: int) -> None:
        super().__init__(store, processes, crashes)
        self._watch = watch

    def broken(self, store: Any) -> str | None:
        """See `Watch.broken`."""
        return self._watch.broken(store)

    def terminal(self, store: Any) -> str | None:
        """See `Watch.terminal`."""
        return self._watch.terminal(store)

    def over(self, store: Any, process: int) -> bool:
        """Nothing in the store says whether a process has died."""
        return True
