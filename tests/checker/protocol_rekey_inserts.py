"""Moves to another key in the model checker that begin before the insert of the object is acknowledged, and what must
hold.

An insert has put its row, and has yet to look at it, while others move the object, change or delete it, and put another
in its place. It may be in doubt: where a row has system cells, a call whose answer was lost is carried out twice. Rows
without them refuse no such call, so it is not drawn for those.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import frozen

import hbmodel as hb
from hbmodel.protocol.indexed.indexed_write import insert_indexed
from hbmodel.protocol.indexed.move_marks import LEAVING, mark_of
from hbmodel.protocol.operations import GetRows, Protocol
from hbmodel.protocol.server_timed.unindexed_insert import insert_unindexed
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.versioned.versioned_write import insert_versioned
from hbmodel.protocol.writes import put_object
from tests.checker.behaviour import once
from tests.checker.protocol_adapter import BOUND, Steps
from tests.checker.protocol_rekey import SHIPPED, Rules, driven, mover, nonces_of, planner_of, writer
from tests.checker.protocol_rekey_models import EXACT, LIVES, MODELS
from tests.checker.protocol_rekey_rows import ANOTHER, DELETING, LATE, OUTCOME, SERVER, THE, cells_of, place_of, row_of
from tests.checker.protocol_rekey_watch import RekeyModel, Watch

BARE = ("bare", "wide bare")
"""The models whose rows have no system cells."""

BESIDE = {
    "nobody": (), "an update": ("tag", "k"), "a delete": ("delete", "k"), "a delete of the new key": ("delete", "m"),
    "another insert": ("insert", "k"),
}  # fmt: skip
"""What another program does, by name."""

KEPT = tuple(name for name in BESIDE if name != "a delete")
"""All of these but a delete of the old key, which a program that copies the row may not see: it then puts the copy
once more.
"""

UNDRAWN = "a delete"
"""Beside a call that is carried out twice this is left out where the last write wins: the dead row says nothing of
the insert.
"""


@once
def inserter(kind: str, number: int, rules: Rules, repeat: int | None = None) -> Callable[[], Steps]:
    """`Session.insert` of the object that moves; the call `repeat` gets no answer and is therefore carried out
    twice.
    """
    model = MODELS[kind]
    schema = hb.schema.schema_of(model)

    def protocol() -> Protocol[Any]:
        write = put_object(schema, model(name="k", who=THE, tag=1))
        if schema.versioned:
            return insert_versioned(planner_of(schema, number, moving=False), write, {})
        if schema.indexes:
            return insert_indexed(planner_of(schema, number, moving=False), write)
        return insert_unindexed(UnindexedRowPlanner(schema, nonces_of(number)), write, b"d:w", BOUND)

    def run() -> Steps:
        steps = driven("insert", rules.inserts(protocol()), 12)
        answer: Any = None
        sent = 0
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return
            answer = yield step
            if step[0] == "par" or (step[0] == "moving" and not isinstance(step[1], GetRows)):
                if sent == repeat:
                    answer = yield step
                sent += 1

    return run


@once
def minute() -> Callable[[], Steps]:
    """So much time passes that the cells expire which say who put a row."""

    def run() -> Steps:
        yield ("moving_late",)

    return run


@frozen(eq=False)
class InsertWatch(Watch):
    """The invariants of one model whose object is put while it moves.

    Attributes:
        doubtful: whether the insert may raise `RowExists` or `UnknownOutcome` although no other program has put the
            key.
        deleted: whether a program deletes the key, so that the insert may raise `UnknownOutcome`.
    """

    doubtful: bool = False
    deleted: bool = False

    def broken(self, store: Any) -> str | None:
        """In every state."""
        rows = self.rows(store)
        here = [name for name, values in rows.items() if values["who"] == THE]
        if store.get((OUTCOME, "insert")) == "put" and not here and not store.get(DELETING):
            return "LOST: the insert is acknowledged, and the object is under no key"
        return next(itertools.chain(self.together(here), self.without_entry(store, rows)), None)

    def terminal(self, store: Any) -> str | None:
        """Once everything has stopped."""
        rows = self.rows(store)
        staying = [name for name, values in rows.items() if values["who"] == THE and not self._leaving(store, name)]
        if len(staying) > 1:
            return f"DOUBLED: the object is under {staying}"
        ended = store.get((OUTCOME, "insert"), "put")
        others = (OUTCOME, "insert k") in store or any(values["who"] == ANOTHER for values in rows.values())
        unknown = ended == "UnknownOutcome" and (self.deleted or store.get(LATE))
        if ended != "put" and not (self.doubtful or others or unknown):
            return f"REFUSED: the insert has ended in {ended}"
        return None

    def _leaving(self, store: Any, name: str) -> bool:
        """Whether the object is on its way from a key: a move that died is ended by the same call."""
        place = place_of(MODELS[self.kind], name)
        mark = mark_of(self.schema, row_of(place, cells_of(store, self.schema.table, place)))
        return mark is not None and mark.kind == LEAVING


def inserts(
    kinds: Sequence[str] = tuple(kind for kind in MODELS if kind not in LIVES),
    beside: Sequence[str] = tuple(BESIDE),
    rules: Rules = SHIPPED,
    repeats: Sequence[int | None] = (None, 0, 1),
    crashes: int = 1,
    *,
    onward: bool = False,
    late: bool = False,
) -> Iterator[tuple[str, RekeyModel]]:
    """An insert of an object, a move of it, and somebody else; `onward` there is a second move, of the object under its
    new key.

    With `late` so much time passes at any moment that the inserts of rows without system cells learn nothing from them.
    """
    for kind, others, repeat in itertools.product(kinds, beside, repeats):
        wins = repeat is not None and kind not in EXACT
        if (wins and (kind in BARE or others == UNDRAWN)) or (kind == "fact" and others == "an update"):
            continue
        running: list[Any] = [("W1", inserter(kind, 1, rules, repeat), 12), ("W2", mover(kind, 2, "m", rules), 12)]
        if onward:
            running.append(("W3", mover(kind, 3, "n", rules, "m"), 12))
        if call := BESIDE[others]:
            running.append(("W5", writer(kind, 5, *call, rules), 12))
        if late:
            running.append(("T", minute(), 0))
        deleted = kind in BARE and others == "a delete"
        watch = InsertWatch(kind, kind in EXACT, wins and others == "an update", deleted)
        label = f"{kind}, {others}, {'onward' if onward else 'once'}, call {repeat} twice{', late' if late else ''}"
        yield label, RekeyModel(watch, {SERVER: 10}, running, crashes)
