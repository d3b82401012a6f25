"""Whole sweeps of what gives out, moves and changes keys."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from tests.checker import protocol_ids as ids
from tests.checker import protocol_insert_builds as filled
from tests.checker import protocol_migration as migration
from tests.checker import protocol_prepend as prepended
from tests.checker import protocol_put_builds as put_builds
from tests.checker import protocol_rekey as moved
from tests.checker import protocol_rekey_builds as rebuilt
from tests.checker import protocol_rekey_inserts as inserted
from tests.checker import protocol_sealing as sealing
from tests.checker import protocol_sealing_sweeps as sealing_sweeps

Sweep = Callable[[], Iterable[Any]]

ENDLESS = ("an update of the old key", "twice")
LIKE_EXPIRING = ("indexed", "wide expiring")
"""Where the last write wins, two moves and an update that undo each other's work reach about 15 million states. Rows
that expire are moved by the same code with further rules, so they alone are run beside such an update.
"""


def _prepended() -> Iterator[tuple[str, Sweep]]:
    """Programs that prepend rows to one prefix, by claims and by checked puts."""
    claiming, atomic = prepended.CLAIMING, prepended.ATOMIC
    for model in (prepended.Word, prepended.Remark, prepended.SaltedRemark):
        for kinds in ((claiming, claiming), (claiming, atomic), (atomic, atomic)):
            name = f"{model.__name__}, {['checked' if kind else 'claimed' for kind in kinds]}"
            yield f"prepend, two programs: {name}", partial(prepended.prepends, model, kinds)
    yield "prepend, one of two calls", partial(prepended.prepends, prepended.Remark, (claiming, claiming), calls=(2, 1))
    yield "prepend, two programs die", partial(prepended.prepends, prepended.Remark, (claiming, claiming), crashes=2)
    for model in (prepended.Word, prepended.Remark):
        yield (
            f"prepend, three programs: {model.__name__}",
            partial(prepended.prepends, model, (atomic,) * 3, calls=(1, 1, 1)),
        )


def _ids() -> Iterator[tuple[str, Sweep]]:
    """Names that get ids, and blocks of ids."""
    for store in ids.STORES:
        yield f"ids, claims of names: {store}", partial(ids.claims, programs=ids.MORE, stores=(store,), crashes=2)
    yield "ids, blocks of a sequence", partial(ids.blocks, crashes=2)


def _rekey() -> Iterator[tuple[str, Sweep]]:
    """Moves to another key."""
    for kind, ways in itertools.product(moved.MODELS, moved.ALSO):
        beside = [what for what in moved.BESIDE if not (kind in LIKE_EXPIRING and (what, ways) == ENDLESS)]
        yield f"rekey, {kind}, {ways}", partial(moved.moves, (kind,), beside, also=(ways,))
    yield "rekey, two crashes", partial(moved.moves, beside=("nobody",), also=("twice", "two ways"), crashes=2)
    yield "rekey, a unique value", moved.values
    yield "rekey, a move that is ended twice", partial(moved.renewals, "bare", crashes=1)
    yield "rekey, a move that is ended and refused", partial(moved.refusals, "covered", crashes=2)
    yield "rekey, an index that is built", rebuilt.moves
    yield "rekey, an index that is built, twice", partial(rebuilt.moves, twice=True, beside=("nobody",))
    yield "rekey, an index that is built, two crashes", partial(rebuilt.moves, crashes=2)
    yield "inserts, an index that is built", filled.inserts
    yield "puts, an index that is built", put_builds.puts
    yield (
        "puts that may land later, an index that is built",
        put_builds.late_puts,
    )
    yield "rekey before an insert is acknowledged", inserted.inserts
    yield "rekey before an insert is acknowledged, two crashes", partial(inserted.inserts, crashes=2)
    yield (
        "rekey before an insert is acknowledged, which takes too long",
        partial(inserted.inserts, inserted.BARE, late=True),
    )
    yield (
        "rekey before an insert is acknowledged, and once more",
        partial(inserted.inserts, beside=inserted.KEPT, onward=True),
    )


def _migration() -> Iterator[tuple[str, Sweep]]:
    """Changing the key of a table."""
    for way in migration.WAYS:
        yield f"migration: {way}", partial(migration.models, ways=(way,))


def _sealing() -> Iterator[tuple[str, Sweep]]:
    """Changing the key of a table of versioned objects."""
    yield "sealing: two programs", partial(sealing_sweeps.pairs, movers=False)
    yield "sealing: two programs, an index", partial(sealing_sweeps.pairs, layouts=sealing.INDEXED, movers=False)
    for phases in sealing_sweeps.PAIRS:
        yield f"sealing, somebody moves: {phases[0]} and {phases[1]}", partial(sealing_sweeps.pairs, phases=(phases,))
    for way in sealing_sweeps.WAYS:
        yield f"sealing, one program: {way}", partial(sealing_sweeps.models, ways=(way,), crews=sealing_sweeps.ALONE)


# the largest of them first, so that both processes end together
KEYS = (_rekey, _prepended, _ids, _migration, _sealing)
