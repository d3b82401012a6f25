"""The possible results of two concurrent calls: the results of either order, and other results that the documentation
allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

import hbmodel as hb
from hbmodel.errors import StoreUnavailable
from tests.support.called_kinds import Kind, State
from tests.support.calls_of_kinds import DEEDS
from tests.support.deeds import Then, without

PREPENDS = ("prepend", "prepend map")
"""Calls that put an object under the key before the first object."""


INSERTS = ("insert", "insert map", "insert j", *PREPENDS)
"""Calls that put an object only if there is no object under the key."""


CREATES = (*INSERTS, "put m", "put both", "put none")
"""Calls that create an object if there is none under the key."""


WHOLE = ("add", "add none", "add ttl", "load", "add map", "load map", "add j", *INSERTS)
"""Calls that put whole rows. If `rekey` runs at the same time, the object may remain under both keys, and `rekey`
raises an error.
"""


SEVERAL = ("update both", "set both", "update m and x", "put both", "put none")
"""Updates of several cells. On a limited store, there is one call for each cell, so other calls may be made in
between.
"""


UNSURE = (hb.ConflictError, hb.UnknownOutcome, hb.UniqueViolation, hb.errors.RowMoved, hb.errors.ClockError)
"""Errors after which a call may have been carried out or not."""


INTERRUPTED = (hb.PartialWrite, hb.UnknownOutcome, StoreUnavailable)
"""The errors that a call raises if one of its requests fails."""


@frozen(eq=False)
class Pair:
    """Two calls that were made at the same time, and their results.

    Attributes:
        of: the kind of model.
        distinct: whether the server's clock moved with every request.
        limited: whether the store could check only one cell.
        begin: the calls that were made before.
        state: the contents after these calls.
        deeds: the calls.
        errors: the errors that the calls raised; None for a call without an error.
        base: the number from which the values of this run are derived.
    """

    of: Kind
    distinct: bool
    limited: bool
    begin: Sequence[str]
    state: State
    deeds: Sequence[str]
    errors: Sequence[type[BaseException] | None]
    base: int

    def then(self, at: int, state: State) -> Then:
        """Returns the state after one of the calls."""
        return DEEDS[self.deeds[at]].then(self.of, state, self.base + 5 + at)

    def wrong(self, found: State) -> str | None:
        """Returns a description of the error in the result, or None."""
        outcomes = list(self.orders())
        if found in outcomes or self._allowed(found) or self._mixed(found, outcomes):
            return None
        errors = [error and error.__name__ for error in self.errors]
        return f"found {dict(found)} with {errors}, not one of {[dict(each) for each in outcomes]}"

    def orders(self) -> Iterator[State]:
        """Yields the states after the two calls in either order, as far as the order agrees with their answers."""
        for order in ((0, 1), (1, 0)):
            states = [self.state]
            for at in order:
                following: list[State] = []
                for each in states:
                    after, error = self.then(at, each), self.errors[at]
                    if error is hb.CapabilityError:
                        following.append(each)
                    elif error is None:
                        following += [] if isinstance(after, type) else [after]
                    elif isinstance(after, type):
                        following += [each] if error is after or error in UNSURE else []
                    elif error is hb.ConflictError and self.deeds[at].startswith("group"):
                        following.append(each)
                    elif error in UNSURE:
                        following += [each, after]
                states = following
            yield from states

    def _allowed(self, found: State) -> bool:
        """Returns whether the documentation allows the contents, although no order of the calls leads to them."""
        of, state = self.of, self.state
        if (
            self.limited
            and all(deed in CREATES for deed in self.deeds)
            and hb.UnknownOutcome in self.errors
            and {*self.errors} <= {hb.UnknownOutcome, hb.RowExists, hb.ConflictError}
            and found == state
        ):
            return True  # the claim of the first call remains until its grace time is over
        if of.schema.external and hb.RowExists in self.errors and found.keys() == {"k"}:
            # without a mark, an insert does not recognize its row once another call has changed it
            return True
        rest = without(state, "k")
        for at in (0, 1):
            one, other = self.deeds[at], self.deeds[1 - at]
            alone = self.then(1 - at, state)  # the contents that the other call alone would leave
            blind = (
                not of.schema.versioned or other == "increment"
            )  # with a versioned model, `rekey` loses nothing else
            moved_beside = (
                one == "rekey" and self.errors[at] is hb.RowExists and other in WHOLE and blind and "k" in state
            )
            if moved_beside and not isinstance(alone, type) and found == {**rest, "k": alone["k"], "z": state["k"]}:
                return True
            lost = (
                one == "rekey"
                and self.errors[at] is None
                and (blind or other == "rekey")
                and "k" in state
                and other not in INSERTS
            )
            if lost and found == {**rest, "z": state["k"]}:
                # the write of the other call under the old key is lost, as with a concurrent delete; or both calls have
                # made the same move
                return True
            if one == "delete all" and other in PREPENDS and self._put_before_deleted(found, 1 - at):
                return True
            if (
                self.limited
                and other in PREPENDS
                and one in CREATES
                and self.errors[at] is hb.UnknownOutcome
                and self._gap(found, at)
            ):
                return True
            if any(self.errors):
                continue
            if ("ttl" in one or "add ttl" in self.begin) and "delete" not in other and found == alone:
                # the time of the row was drawn earlier, so the other call wins although it was made first
                return True
            timed = of.indexed and not of.schema.versioned
            inserts = one in INSERTS or (one in CREATES and "k" not in state)
            if timed and inserts and other in WHOLE and found == self._put_over(alone, self.then(at, state)):
                return True  # in the same way, the other call had drawn its time earlier, and put its row later
        return False

    def _put_before_deleted(self, found: State, at: int) -> bool:
        """Returns whether only a new object is left. This is possible because a query is not a snapshot, and the new
        row comes before the rows that the query has read.
        """
        after = self.then(at, self.state)
        if isinstance(after, type):
            return False
        (name,) = after.keys() - self.state.keys()
        kept = {name: row for name, row in self.state.items() if name == "z"}
        order = [*self.of.numbers]
        return any(found == {**kept, before: after[name]} for before in order[: order.index(name) + 1])

    def _gap(self, found: State, at: int) -> bool:
        """Returns whether a prepend has skipped the claim of the other call, which ended before it could put its
        object.
        """
        claimed = self.then(at, self.state)
        if isinstance(claimed, type):
            return False
        after = self.then(1 - at, claimed)
        return not isinstance(after, type) and found == {
            name: row for name, row in after.items() if name not in claimed.keys() - self.state.keys()
        }

    def _put_over(self, under: Then, then: Then) -> State | None:
        """Returns the objects that one call puts over the objects that the other call leaves, whose map entries remain.
        Returns None if one of the calls is an error.
        """
        if isinstance(under, type) or isinstance(then, type):
            return None
        new = {name: row for name, row in then.items() if name not in self.state}
        return {
            **under,
            **{name: row._replace(e=under.get(name, row).e).merged(dict(row.e)) for name, row in new.items()},
        }

    def _mixed(self, found: State, outcomes: Sequence[State]) -> bool:
        """Returns whether a delete of a cell has hidden the cell of a put in the same millisecond, or a row was changed
        by several calls.
        """
        deletes = any(f.null == "delete" for f in self.of.schema.columns)
        apart = self.limited and (deletes or any(deed in SEVERAL for deed in self.deeds))
        if not apart and (self.distinct or not deletes):
            return False
        if any("ttl" in deed for deed in (*self.deeds, *self.begin)) and not any(self.errors):
            # The times of both calls were drawn before, so one of them is lost. In the same millisecond, a None of one
            # call hides a value of the other.
            outcomes = [*outcomes, *(each for at in (0, 1) if not isinstance(each := self.then(at, self.state), type))]
        values = [row for each in outcomes for row in each.values()]
        return any(each.keys() == found.keys() for each in outcomes) and all(
            row.m in [each.m for each in values]
            and (row.o is None or row.o in [each.o for each in values])
            and all(dict(row.e).get(key) in [dict(each.e).get(key) for each in values] for key in "xy")
            for row in found.values()
        )
