"""Updates of rows without an index: what another program does between any two calls, and the cell that shows that a
row exists.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.protocol.operations import AskIfAhead, CheckAndPut, CheckAndPutRows, DeleteRows, GetRows, Operation
from hbmodel.protocol.server_timed.unindexed_plan import UnindexedRowPlanner
from hbmodel.protocol.server_timed.unindexed_write import write_unindexed_batch
from hbmodel.protocol.writes import UpdateFields
from hbmodel.store import ConditionalPut, Delete, Family, Put, Row
from tests.support.beds import HBASE, KINDS, Bed, cells_of, fresh, paired
from tests.support.beside import Beside, commit
from tests.support.examples import SHARE
from tests.support.following import Following


def model(name: str, *, required: type | None, flag: bool = False, **options: Any) -> Any:
    """A model with the columns m and o; None is the absence of the cell of o."""
    fields = {
        "k": hb.key(),
        "m": hb.column("m") if required is not None else hb.column("m", default=None, null="delete"),
        "o": hb.column("o", default=None, null="delete"),
    }
    of = str if required is None or required is str else int
    column = hb.Column[of | None] if required is None else hb.Column[of]  # type: ignore[valid-type]
    fields["__annotations__"] = {"k": hb.Key[str], "m": column, "o": hb.Column[str | None]}
    exists = {"exists": hb.flag("e")} if flag else {}
    return hb.model(table=name, family="d", **exists, **options)(type("Made", (), fields))


SLOW = [pytest.mark.hbase, pytest.mark.slow]

NUMBER = model("gu_number", required=int)
TEXT = model("gu_text", required=str)
FLAG = model("gu_flag", required=int, flag=True)
EXTERNAL = model("gu_external", required=int, external=True)
NOTHING = model("gu_nothing", required=None)
MODELS = (NUMBER, TEXT, FLAG, EXTERNAL, NOTHING)


@hb.model(table="gu_one", family="d")
class ONE:
    """A row of one cell."""

    k: hb.Key[str] = hb.key()
    m: hb.Column[str] = hb.column("m")


ON_HBASE = {FLAG: "thrift1", NUMBER: "thrift2"}
"""By default each gateway has one model: a store that changes rows one by one and one that does not are there too."""

BESIDE = paired(
    *((KINDS[:4], made) for made in MODELS),
    *(
        ([store if ON_HBASE.get(made) == store.values[0] else pytest.param(*store.values, marks=SLOW)], made)
        for made in MODELS
        for store in HBASE
    ),
)


def table_of(made: Any) -> str:
    return hb.schema.schema_of(made).table


def value(made: Any, number: int) -> Any:
    """A value of the column m."""
    return number if made in (NUMBER, FLAG, EXTERNAL) else str(number)


def use(bed: Bed, made: Any) -> hb.Session:
    if made is EXTERNAL and "gu_external" not in bed.store.tables():
        bed.store.create_table("gu_external", [Family(b"d")])
    return bed.use(made)


def read(session: hb.Session, made: Any) -> Any:
    found = session.get(made, k="a")
    return None if found is None else (found.m, found.o)


@pytest.mark.parametrize("made", MODELS, ids=table_of)
@pytest.mark.parametrize("before", ["y", None])
def test_an_update_to_none_leaves_the_row(bed: Bed, made: Any, before: str | None) -> None:
    session = use(bed, made)
    for changes in (
        {"m": value(made, 2), "o": None},
        {"m": value(made, 1), "o": None},
        {"o": None},
        {"m": value(made, 2)},
    ):
        session.add(made(k="a", m=value(made, 1), o=before))
        session.commit()
        session.update_key(made, k="a", **changes)
        session.commit()
        assert read(session, made) == (changes.get("m", value(made, 1)), changes.get("o", before))


@pytest.mark.lengthy
@pytest.mark.every_store
@pytest.mark.parametrize(
    ("bed", "made"), BESIDE, indirect=["bed"], ids=lambda given: given if isinstance(given, str) else table_of(given)
)
def test_any_call_of_another_program_between_two_calls_of_an_update(bed: Bed, made: Any) -> None:
    """The result is that of some order of the two calls: no row disappears without a delete, and no deleted row comes
    back.
    """
    use(bed, made)
    one, two, three = (value(made, n) for n in (1, 2, 3))
    changes: list[dict[str, Any]] = [{"m": two}, {"o": "b"}, {"m": two, "o": None}, {"o": None}, {"m": two, "o": "b"}]
    others: dict[str, tuple[Callable[[hb.Session], object], Callable[[Any], Any]]] = {
        "delete": (lambda s: s.delete_key(made, k="a"), lambda row: None),
        "add": (lambda s: s.add(made(k="a", m=one, o="c")), lambda row: (one, "c")),
        "update m": (lambda s: s.update_key(made, k="a", m=three), lambda row: (three, row[1])),
        "forget o": (lambda s: s.update_key(made, k="a", o=None), lambda row: (row[0], None)),
        "update both": (lambda s: s.update_key(made, k="a", m=three, o=None), lambda row: (three, None)),
    }
    if made is NOTHING:
        changes += [{"m": None}, {"m": None, "o": None}]
        others["forget m"] = (lambda s: s.update_key(made, k="a", m=None), lambda row: (None, row[1]))
    pairs = list(itertools.product(changes, others.items()))
    for change, (name, (other, then)) in pairs if bed.kind == "memory" or SHARE >= 1 else pairs[::2]:
        for at in itertools.count(1):
            assert commit(bed.store, lambda s: s.add(made(k="a", m=one, o="a"))) is None
            beside = Beside(bed.store, at, other)
            session = hb.Session(bed.store, on_call=beside)
            session.update_key(made, k="a", **change)
            failed = None
            try:
                session.commit()
            except hb.HbmodelError as error:
                failed = type(error)
                session.discard()
            assert beside.error is None
            if not beside.made:
                break
            first = (change.get("m", one), change.get("o", "a"))
            updated_last = then((one, "a"))
            if updated_last is not None:
                updated_last = (change.get("m", updated_last[0]), change.get("o", updated_last[1]))
            found = read(hb.Session(bed.store), made)
            wanted = [then(first), updated_last]
            if not bed.atomic:  # cells are changed one by one, so the two may mix
                assert (found is None) == (name == "delete"), (change, name, at, found)
                assert made is NOTHING or found is None or found[0] in [row[0] for row in wanted if row], (
                    change,
                    name,
                    at,
                    found,
                )
            else:
                assert found in wanted, (change, name, at, found, wanted)
            assert failed in ((None, hb.RowNotFound) if name == "delete" else (None,)), (change, name, at, failed)


def test_each_of_two_updates_makes_the_cell_empty_that_the_other_leaves(bed: Bed) -> None:
    bed.use(NOTHING)
    for at in range(1, 6):
        assert commit(bed.store, lambda s: s.add(NOTHING(k="a", m="1", o="a"))) is None
        beside = Beside(bed.store, at, lambda s: s.update_key(NOTHING, k="a", m=None))
        session = hb.Session(bed.store, on_call=beside)
        session.update_key(NOTHING, k="a", o=None)
        session.commit()
        if beside.made:
            assert read(session, NOTHING) == (None, None)


# --- rows whose cells are all empty -----------------------------------------------------------------------------------


def test_empty_text_needs_no_flag(bed: Bed) -> None:
    session = bed.use(TEXT)
    session.add_all([TEXT(k="a", m=""), TEXT(k="b", m="x"), TEXT(k="c", m="x")])
    session.commit()
    session.update_key(TEXT, k="c", m="")
    session.commit()
    assert cells_of(bed.store, "gu_text") == {b"a": {b"d:m": b"\0"}, b"b": {b"d:m": b"x"}, b"c": {b"d:m": b"\0"}}
    for key in "ac":
        session.update_key(TEXT, k=key, m="y", o="z")
        session.commit()
        assert session.get(TEXT, k=key) == TEXT(k=key, m="y", o="z")
    session.delete_key(TEXT, k="a")
    session.commit()
    assert session.get(TEXT, k="a") is None
    session.update_key(TEXT, k="a", m="again")
    with pytest.raises(hb.RowNotFound):
        session.commit()


def test_a_row_gets_a_flag_where_its_other_cells_are_empty(bed: Bed) -> None:
    session = bed.use(NOTHING)
    session.add_all([NOTHING(k="a"), NOTHING(k="b", m="x"), NOTHING(k="c", m="x")])
    session.commit()
    session.update_key(NOTHING, k="c", m=None)
    session.commit()
    flags = {row: cells.get(b"d:_") for row, cells in cells_of(bed.store, "gu_nothing").items()}
    assert (flags[b"a"], flags[b"c"]) == (b"\x01", b"\x01")
    session.update_key(NOTHING, k="a", o="z")
    session.commit()
    assert session.get(NOTHING, k="a") == NOTHING(k="a", o="z")
    session.delete_key(NOTHING, k="a")
    session.commit()
    session.update_key(NOTHING, k="a", m="again")
    with pytest.raises(hb.RowNotFound):
        session.commit()


def test_an_object_of_nothing_but_none_is_there(bed: Bed) -> None:
    session = bed.use(NOTHING)
    session.add_all([NOTHING(k="a"), NOTHING(k="b", m="x")])
    session.commit()
    session.update_key(NOTHING, k="b", m=None)
    session.commit()
    assert session.query(NOTHING).allow_full_scan().all() == [NOTHING(k="a"), NOTHING(k="b")]
    assert session.query(NOTHING).select(NOTHING.k, NOTHING.o).allow_full_scan().all() == [("a", None), ("b", None)]
    assert session.query(NOTHING).where(NOTHING.m.is_(None)).allow_full_scan().count() == 2


def test_a_row_from_before_the_flag_is_put_whole(bed: Bed) -> None:
    """Without a cell that is not empty nothing shows that the row still exists when the update is applied."""
    session = bed.use(NOTHING)
    bed.store.put("gu_nothing", [Put(b"a", {b"d:m": b""})])
    assert read(session, NOTHING) == (None, None)
    session.update_key(NOTHING, k="a", m="y")
    with pytest.raises(hb.CapabilityError, match="Put the whole object") as caught:
        session.commit()
    assert (caught.value.table, caught.value.key) == ("gu_nothing", b"a")
    session.add(NOTHING(k="a", m=None))
    session.commit()
    session.update_key(NOTHING, k="a", m="y")
    session.commit()
    assert read(session, NOTHING) == ("y", None)


def test_where_other_programs_write_a_row_without_a_required_cell_is_not_emptied(bed: Bed) -> None:
    made = model("gu_theirs", required=None, external=True)
    if "gu_theirs" not in bed.store.tables():
        bed.store.create_table("gu_theirs", [Family(b"d")])
    session = bed.use(made)
    bed.store.put("gu_theirs", [Put(b"a", {b"d:m": b"1", b"d:o": b"a"})])
    session.update_key(made, k="a", m=None)
    if bed.atomic:
        session.commit()
        assert read(session, made) == (None, "a")
        session.update_key(made, k="a", o=None)
    with pytest.raises(hb.CapabilityError, match="Put the whole object" if bed.atomic else "updated to None"):
        session.commit()
    session.discard()
    assert read(session, made)[1] == "a"
    session.add(made(k="b"))
    with pytest.raises(hb.EncodingError, match="no cell to store"):
        session.commit()
    assert all(b"d:_" not in cells for cells in cells_of(bed.store, "gu_theirs").values())


@pytest.mark.every_store
def test_a_commit_of_many_updates_is_one_conditional_call_each(atomic_bed: Bed) -> None:
    session = atomic_bed.use(NUMBER)
    session.add_all(NUMBER(k=f"{n:03}", m=n) for n in range(150))
    session.commit()
    atomic_bed.store.told()
    for n in range(150):
        session.update_key(NUMBER, k=f"{n:03}", m=n + 1, o=None)
    session.commit()
    assert [call for call in atomic_bed.store.told() if call.startswith("check")] == ["check_and_mutate_many gu_number"]
    assert [item.m for item in session.query(NUMBER).allow_full_scan()] == list(range(1, 151))


# --- cell by cell -----------------------------------------------------------------------------------------------------

APART = pytest.mark.parametrize("bed", ["limited", HBASE[0]], indirect=True)
"""The stores on which each cell is put by a conditional call of its own."""


@hb.model(table="gu_wide", family="d")
class Wide:
    """Objects that share rows."""

    group: hb.Key[str] = hb.key()
    number: hb.Key[int] = hb.key(in_qualifier=True)
    m: hb.Column[int] = hb.column("m")
    o: hb.Column[str | None] = hb.column("o", default=None)


@pytest.mark.every_store
@APART
def test_the_cells_of_many_rows_are_put_in_rounds(bed: Bed) -> None:
    session = bed.use(NUMBER)
    session.add_all(NUMBER(k=f"{n:03}", m=n, o="x") for n in range(150))
    session.commit()
    bed.store.calls.clear()
    for n in range(150):
        session.update_key(NUMBER, k=f"{n:03}", m=n + 1, **[{}, {"o": "y"}, {"o": None}][n % 3])
    session.commit()
    calls = [call for call in bed.store.calls if call.table == "gu_number" and call.writes]
    assert [(call.name, len(call.items)) for call in calls] == [
        ("check_and_put_each", 150),
        ("check_and_put_each", 50),
        ("delete", 50),
    ]
    found = session.query(NUMBER).allow_full_scan().all()
    assert [(item.m, item.o) for item in found] == [(n + 1, ["x", "y", None][n % 3]) for n in range(150)]


@APART
@pytest.mark.parametrize(
    ("changes", "calls"),
    [
        ({"m": 2}, ["check_and_put"]),
        ({"m": 2, "o": "b"}, ["check_and_put", "check_and_put"]),
        ({"m": 2, "o": None}, ["check_and_put", "delete"]),
    ],
)
def test_a_single_update_takes_single_calls(bed: Bed, changes: Mapping[str, Any], calls: Sequence[str]) -> None:
    session = bed.use(NUMBER)
    session.add(NUMBER(k="a", m=1, o="a"))
    session.commit()
    bed.store.calls.clear()
    session.update_key(NUMBER, k="a", **changes)
    session.commit()
    assert [call.name for call in bed.store.calls if call.table == "gu_number" and call.writes] == calls


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("made", [NUMBER, TEXT])
@pytest.mark.parametrize(
    ("changes", "together"),
    [({"m": 2}, True), ({"m": 2, "o": "b"}, True), ({"m": 2, "o": None}, False)],
)
def test_a_single_update_is_read_back_in_the_same_call(
    made: Any, limited: bool, changes: Mapping[str, Any], together: bool
) -> None:
    """If a store can do this, and nothing is deleted through Thrift1."""
    with hb.connect("memory:") as inner:
        store = Following(inner, limited=limited, gated=False)
        hb.create_tables(store, made)
        session = hb.Session(store)
        session.add(made(k="a", m=value(made, 1), o="a"))
        session.commit()
        store.calls.clear()
        changed = {**changes, "m": value(made, changes["m"])}
        session.update_key(made, k="a", **changed)
        session.commit()
        calls = [call.name for call in store.calls if call.table == table_of(made)]
        before = ["check_and_put"] * (len(changes) - 1) if limited and together else []
        if together or not limited:
            assert calls == ["get", *before, "change_and_get"]
        else:
            assert calls == ["get", "check_and_put", "delete", "get"]
        assert read(session, made) == (changed["m"], changes.get("o", "a"))


def test_an_update_reads_no_optional_columns_that_it_does_not_change() -> None:
    columns: list[Sequence[bytes]] = []

    class Reading(Following):
        def get(self, table: str, rows: Sequence[bytes], wanted: Sequence[bytes] = ()) -> Sequence[Row | None]:
            if table == "gu_number":
                columns.append(wanted)
            return super().get(table, rows, wanted)

    with hb.connect("memory:") as inner:
        session = hb.Session(Reading(inner, gated=False))
        hb.create_tables(inner, NUMBER)
        session.add(NUMBER(k="a", m=1, o="a page of text"))
        session.commit()
        session.update_key(NUMBER, k="a", m=2)
        session.commit()
        assert columns == [(b"d:_t", b"d:m")]
        session.update_key(NUMBER, k="a", m=3, o="b")
        session.commit()
        assert columns[1:] == [(b"d",)]
        assert read(session, NUMBER) == (3, "b")


@pytest.mark.parametrize("limited", [False, True])
def test_an_insert_is_read_back_in_the_same_call(limited: bool) -> None:
    with hb.connect("memory:") as inner:
        store = Following(inner, limited=limited, gated=False)
        hb.create_tables(store, ONE)
        session = hb.Session(store)
        session.get(ONE, k="a")
        store.calls.clear()
        session.insert(ONE(k="a", m="x"))
        with pytest.raises(hb.RowExists):
            session.insert(ONE(k="a", m="y"))
        assert [call.name for call in store.calls if call.table == "gu_one"] == ["change_and_get"] * 2


@pytest.mark.lengthy
@APART
@pytest.mark.parametrize("number", [0, 1, 2])
def test_any_call_of_another_program_between_the_calls_of_many_updates(bed: Bed, number: int) -> None:
    """The rows of the others are updated as if there were no other program."""
    bed.use(NUMBER)
    keys = "abc"
    for at in itertools.count(1):
        for key in keys:
            assert commit(bed.store, lambda s, key=key: s.add(NUMBER(k=key, m=1, o="a"))) is None  # type: ignore[misc]
        beside = Beside(bed.store, at, lambda s: s.delete_key(NUMBER, k=keys[number]))
        session = hb.Session(bed.store, on_call=beside)
        for key, o in zip(keys, ("b", "b", None), strict=True):
            session.update_key(NUMBER, k=key, m=2, o=o)
        failed: list[Any] = []
        try:
            session.commit()
        except hb.PartialWrite as error:
            failed = [type(failure.error) for failure in error.failures]
            session.discard()
        assert failed in ([], [hb.RowNotFound])
        if not beside.made:
            break
        found = {item.k: (item.m, item.o) for item in hb.Session(bed.store).query(NUMBER).allow_full_scan()}
        wanted = {key: (2, o) for key, o in zip(keys, ("b", "b", None), strict=True) if key != keys[number]}
        assert found == wanted, at


@APART
def test_objects_that_share_rows_are_updated_in_rounds(bed: Bed) -> None:
    bed.use(Wide)
    calls: list[hb.store.Call] = []
    session = hb.Session(bed.store, on_call=calls.append, atomic_rows=False)
    session.add_all(Wide(group=group, number=n, m=n, o="x") for group in "ab" for n in range(40))
    session.commit()
    calls.clear()
    for group in "ab":
        for n in range(40):
            session.update_key(Wide, group=group, number=n, m=n + 1, **({"o": "y"} if n % 2 else {}))
    session.commit()
    writes = [
        (call.operation, call.rows)
        for call in calls
        if call.table == "gu_wide" and call.operation not in ("get", "get_each", "scan")
    ]
    assert writes == [("check_and_put_each", 80), ("check_and_put_each", 40)]
    found = session.query(Wide).allow_full_scan().all()
    assert [(item.group, item.number, item.m, item.o) for item in found] == [
        (group, n, n + 1, "y" if n % 2 else "x") for group in "ab" for n in range(40)
    ]


Changes = Mapping[str, Mapping[str, Any]]


def operations(made: Any, changes: Changes, refused: Callable[[ConditionalPut], bool]) -> list[Operation]:
    """The operations for updates of rows, by their keys, until a row is read again."""
    schema = hb.schema.schema_of(made)
    session = hb.Session(store := fresh(made))
    session.add_all(made(k=key, m=value(made, 1), o="a") for key in changes)
    session.commit()
    writes = [UpdateFields(None, hb.row_key(made, k=key), {"k": key}, of) for key, of in changes.items()]
    protocol = write_unindexed_batch(
        UnindexedRowPlanner.of(schema), writes, 500, hb.connect("hbase://nobody").capabilities
    )
    done: list[Operation] = []
    answer: Any = None
    while True:
        operation = protocol.send(answer)
        match operation:
            case GetRows(table, rows, columns) if not done:
                answer = store.get(table, rows, columns)
            case AskIfAhead():
                answer = None
                continue
            case CheckAndPut(_, _, column, expected, put):
                answer = not refused(ConditionalPut(column, expected, put))
            case CheckAndPutRows(_, puts):
                answer = [not refused(each) for each in puts]
            case DeleteRows():
                answer = None
            case _:
                return done
        done.append(operation)


def of_row(done: Sequence[Operation], key: str) -> list[ConditionalPut | Delete]:
    """The operations on one row, in order."""
    found: list[ConditionalPut | Delete] = []
    for operation in done:
        match operation:
            case CheckAndPut(_, _, column, expected, put):
                found.append(ConditionalPut(column, expected, put))
            case CheckAndPutRows(_, puts):
                found += puts
            case DeleteRows(_, deletes):
                found += deletes
    return [each for each in found if (each.put.row if isinstance(each, ConditionalPut) else each.row) == key.encode()]


@pytest.mark.lengthy
@pytest.mark.parametrize("made", MODELS, ids=table_of)
def test_each_row_gets_what_it_gets_alone(made: Any) -> None:
    two = value(made, 2)
    changes: dict[str, dict[str, Any]] = {
        "a": {"m": two, "o": "b"},
        "b": {"m": two, "o": None},
        "c": {"m": two},
        "d": {"o": None, "m": two},
    }
    if made is NOTHING:
        changes |= {"e": {"m": None}, "f": {"m": None, "o": "b"}}
    columns = (b"d:e", b"d:_", b"d:m", b"d:o", None)
    for refused in itertools.product(changes, columns):

        def refuses(each: ConditionalPut, refused: Any = refused) -> bool:
            return (each.put.row.decode(), *each.put.cells) == refused

        together = operations(made, changes, refuses)
        for key, change in changes.items():
            assert of_row(together, key) == of_row(operations(made, {key: change}, refuses), key), (refused, key)


def test_a_row_that_is_refused_gets_no_further_cell_and_no_delete() -> None:
    changes = {"a": {"m": "2", "o": None}, "b": {"m": "2", "o": None}, "c": {"m": "2", "o": "b"}}
    done = operations(NOTHING, changes, lambda each: each.put.row == b"b" and b"d:_" in each.put.cells)
    rounds = [[each.put for each in operation.puts] for operation in done if isinstance(operation, CheckAndPutRows)]
    flag = {b"d:_": b"\x01"}
    assert rounds == [
        [Put(b"a", flag), Put(b"b", flag), Put(b"c", {b"d:m": b"2"})],
        [Put(b"a", {b"d:m": b"2"}), Put(b"c", {b"d:o": b"b"})],
    ]
    assert [operation.deletes for operation in done if isinstance(operation, DeleteRows)] == [
        [Delete(b"a", columns=(b"d:o",))]
    ]
