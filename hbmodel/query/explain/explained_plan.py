"""Makes the result of `explain()` from a plan."""

from __future__ import annotations

from collections.abc import Mapping

from hbmodel.mapping.predicates import describe
from hbmodel.query.ask.explain_text import Access, Covering, Explanation, Slices, describe_filter
from hbmodel.query.explain.explained_slices import RANGES_OF_COLUMNS, calls_of_gets, slices_of
from hbmodel.query.match.plan import Plan
from hbmodel.query.match.pushdown import dropped_by_client
from hbmodel.store.filters import KeyOnly
from hbmodel.store.wide.object_filters import keys_only


def explain(
    plan: Plan,
    one_call_scans: bool,
    states: Mapping[str, str] | None = None,
    lease: float | None = None,
    *,
    one_call_gets: bool = True,
    skips: bool = False,
) -> Explanation:
    """Describes a plan.

    Args:
        plan: the plan.
        one_call_scans: whether a scan of the store is one call (see `Capabilities`).
        states: the states of the declared indexes, by name.
        lease: seconds after which a session notices that the state of an index has changed.
        one_call_gets: whether one call of the store can read different columns of each row.
        skips: whether separate scans first read the items that the query skips.
    """
    ranges = sum(len(bucket.ranges) for bucket in plan.buckets)
    through_index = plan.path.index is not None
    access: Access = "scan + get" if through_index and plan.covering is None else "scan"
    if not plan.buckets:
        access = "nothing"
    elif plan.rows is not None:
        access = "get"
    fixed = plan.path.layout.names[: len(plan.match.parts)]
    bounded = (
        plan.path.layout.names[len(fixed)] if plan.match.bounded and len(fixed) < len(plan.path.layout.names) else None
    )
    slices = slices_of(plan)
    scans = slices.scans if slices is not None else len(plan.buckets) if access.startswith("scan") else 0
    skipped = plan.terms.offset if plan.buckets and skips else 0
    gets = int(access.endswith("get"))
    if plan.terms.schema.wide is not None and gets:
        gets = calls_of_gets(plan, one_call_gets)
    turns = slices.turns if slices is not None else int(scans > 0)
    if skipped:  # by separate scans
        scans, turns = 2 * scans, 2 * turns
    opened = 0 if one_call_scans else scans
    dropping = dropped_by_client(plan) if plan.buckets else ()
    in_turn = plan.rows is None and any(len(bucket.ranges) > 1 for bucket in plan.buckets)
    known = {} if states is None else states
    return Explanation(
        path=plan.path.name,
        table=plan.path.table,
        kinds=() if plan.path.index is None else plan.path.index.kinds,
        access=access,
        equalities=fixed,
        range_field=bounded,
        buckets=len({bucket.prefix for bucket in plan.buckets}),
        of_buckets=plan.path.salt.buckets,
        ranges=ranges,
        backwards=plan.backwards,
        server=_server(plan, slices),
        client=[describe(p) for p in plan.residual],
        calls=opened + scans + gets,
        round_trips=turns * (1 + bool(opened)) + bool(gets),
        calls_saved=opened,
        full_scan=plan.full_scan and bool(plan.buckets),
        scan_calls=opened + scans,
        gets=gets,
        covering=_covering(plan),
        lacking=plan.lacking if _covering(plan) == "incomplete" else (),
        state=known.get(plan.path.name) if through_index else None,
        unreadable={name: state for name, state in known.items() if state != "readable"},
        lease=lease,
        slices=slices,
        as_of=plan.terms.moment,
        whole=_whole(plan),
        skipped=skipped,
        limit=_limit(plan, skipped),
        merged=[] if plan.order is None else [plan.path.layout.names[at] for at in plan.order.merged],
        dropping=[describe(p) for p in dropping],
        at_least=bool(dropping) or in_turn or (slices is not None and slices.end_searched),
    )


def _server(plan: Plan, slices: Slices | None) -> str | None:
    """Returns the server's filter as text, or None."""
    if slices is not None:
        return f"{RANGES_OF_COLUMNS}, {describe_filter(KeyOnly())}" if keys_only(plan.filter) else RANGES_OF_COLUMNS
    return None if plan.filter is None else describe_filter(plan.filter)


def _whole(plan: Plan) -> list[str]:
    """Returns the families that are read as a whole to find out which rows exist."""
    reads_rows = bool(plan.buckets) and plan.covering is None and plan.reader.whole_families
    return [family.decode() for family in plan.terms.schema.family_names] if reads_rows else []


def _limit(plan: Plan, skipped: int) -> int | None:
    """Returns the number of rows after which the query's limit ends the last scan of each bucket, or None if the limit
    does not end scans.
    """
    terms = plan.terms
    ends = plan.match.open and plan.limited and plan.buckets
    return terms.offset - skipped + terms.limit if terms.limit is not None and ends else None


def _covering(plan: Plan) -> Covering | None:
    """Returns the value of `Explanation.covering` for a plan."""
    index = plan.path.index
    if index is None or not index.covers:
        return None
    if index.name not in plan.terms.schema.covering:
        return "copy"
    return "incomplete" if plan.covering is None else "verified"
