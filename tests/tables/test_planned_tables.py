"""New columns of models whose objects are being moved to another table: both tables get them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import hbmodel as hb
from tests.support.beds import fresh
from tests.support.examples import in_turn

QUICK = hb.indexes.IndexTimes(lease=0.1, longest_call=0.05, grace=20, clock_bound=2)

NEW: Mapping[str, tuple[Any, Any]] = {
    "column": (hb.Column[int], hb.column("n", default=7)),
    "nullable": (hb.Column[int | None], hb.column("n", default=None)),
    "family": (hb.Column[int], hb.column("n", default=7, family="e")),
}
"""New columns of each kind that a migration can move."""

KINDS: Mapping[str, Mapping[str, Any]] = {
    "versioned": {},
    "indexed": {"indexed": True},
    "salted": {"salt": hb.HashSalt(3)},
    "immutable": {"immutable": True},
}


def declare(
    table: str,
    new: str | None = None,
    replaces: Any = None,
    *,
    indexed: bool = False,
    immutable: bool = False,
    **options: Any,
) -> Any:
    """A model by user, or by time if it replaces another one, with or without a new column."""
    fields: dict[str, tuple[Any, Any]] = {
        "user": (hb.Key[str], hb.key()),
        "at": (hb.Key[int], hb.key(hb.UInt32)),
        "topic": (hb.Column[str], hb.column("t")),
    }
    if replaces is not None:
        fields = {name: fields[name] for name in ("at", "user", "topic")}
        options = {**options, "replaces": replaces}
    if indexed:
        fields["by_topic"] = (None, hb.index("topic"))
    if not immutable:
        fields["version"] = (hb.Column[int], hb.version())
    if new is not None:
        fields["new"] = NEW[new]
    hints = {name: hint for name, (hint, _) in fields.items() if hint is not None}
    body = {name: declaration for name, (_, declaration) in fields.items()}
    made = type("Note", (), {**body, "__annotations__": hints, "__module__": __name__})
    return hb.model(table=table, family="d", immutable=immutable, **options)(made)


class Models:
    """The models of both tables, without the new column and with it."""

    def __init__(self, kind: str, new: str) -> None:
        declared = dict(KINDS[kind])
        self.old, self.old_with = (declare("by_user", each, **declared) for each in (None, new))
        self.moved = declare("by_time", None, self.old, **declared)
        self.moved_with = declare("by_time", new, self.old_with, **declared)

    def write(self, session: hb.Session, model: Any) -> None:
        """Adds an object, and changes one that can be changed, in the new column."""
        session.add(model(user="new", at=2, topic="b", new=9))
        if not hb.schema.schema_of(model).immutable:
            session.update_key(model, user="x", at=1, new=8)
        session.commit()


def check(store: hb.Store, model: Any, default: int | None) -> None:
    """Every object has what was written."""
    changed = default if hb.schema.schema_of(model).immutable else 8
    found = {each.user: each.new for each in hb.Session(store).query(model).allow_full_scan()}
    assert found == {"new": 9, "x": changed, "y": default, "z": default}


@pytest.mark.parametrize("moving", [False, True], ids=["before", "while they move"])
@pytest.mark.parametrize(("kind", "new"), in_turn([*KINDS], [*NEW]))
@pytest.mark.parametrize("back", [False, True], ids=["to the end", "and back"])
def test_a_new_column_is_registered_in_both_tables(kind: str, new: str, moving: bool, back: bool) -> None:
    models = Models(kind, new)
    with fresh(models.old) as store:
        with hb.Session(store) as session:
            session.add_all(models.old(user=user, at=1, topic="a") for user in "xyz")
        move = hb.migration.migrate(store, models.moved, times=QUICK)  # of a program that does not know the new column
        if moving:
            move.start()
        with pytest.raises(hb.SchemaMismatch) as refused:
            models.write(hb.Session(store), models.moved_with)
        first = "by_time" if moving and kind == "immutable" else "by_user"
        assert (refused.value.table, refused.value.columns) == (first, ["e:n" if new == "family" else "d:n"])
        differences = hb.diff(store, models.moved_with)
        assert {each.table for each in differences if each.kind == "column"} == {
            "by_user",
            *(["by_time"] if moving else []),
        }
        if new == "family":
            with pytest.raises(hb.errors.FamilyNotFound, match=r"hb\.alter"):
                hb.create_tables(store, models.moved_with)
            assert "by_user" in {each.table for each in hb.alter(store, models.moved_with).applied}
        else:
            hb.create_tables(store, models.moved_with)
        assert not hb.diff(store, models.moved_with)
        models.write(hb.Session(store), models.moved_with)
        move.start()
        if back:
            move.roll_back()
            check(store, models.old_with, NEW[new][1].default)
        else:
            move.cut_over()
            check(store, models.moved_with, NEW[new][1].default)


def test_a_table_whose_objects_have_moved_is_left_alone() -> None:
    models = Models("versioned", "column")
    with fresh(models.old) as store:
        with hb.Session(store) as session:
            session.add(models.old(user="x", at=1, topic="a"))
        move = hb.migration.migrate(store, models.moved, times=QUICK)
        move.start()
        move.cut_over()
        created = hb.create_tables(store, models.moved_with)
        assert "by_user" not in {each.table for each in created}
        with hb.Session(store) as session:
            session.add(models.moved_with(user="y", at=1, topic="a", new=3))
        store.delete_table("by_user")
        assert not hb.diff(store, models.moved_with)


def test_the_models_of_both_tables_may_be_given() -> None:
    models = Models("versioned", "column")
    with fresh(models.old) as store:
        created = hb.create_tables(store, models.old_with, models.moved_with)
        assert [each.table for each in created].count("by_user") == 1
        with hb.Session(store) as session:
            session.add(models.moved_with(user="y", at=1, topic="a", new=3))


def test_the_splits_of_a_model_are_not_those_of_the_table_that_it_replaces() -> None:
    models = Models("versioned", "column")
    with fresh(models.old) as store:
        splits = {models.moved_with: hb.tables.Uniform(4)}
        hb.create_tables(store, models.moved_with, splits=splits)
        assert len(store.regions("by_time")) == 4
        assert not hb.diff(store, models.moved_with, splits=splits)
        assert not hb.diff(store, models.moved_with, splits=hb.tables.Uniform(4))


@pytest.mark.parametrize("moved", [False, True], ids=["in the old table", "in the new table"])
@pytest.mark.parametrize("new", NEW)
def test_an_older_program_writes_while_objects_with_new_columns_move(new: str, moved: bool) -> None:
    models = Models("versioned", new)
    with fresh(models.old) as store:
        with hb.Session(store) as session:
            session.add_all(models.old(user=user, at=1, topic="a") for user in "xyz")
        move = hb.migration.migrate(store, models.moved, times=QUICK)
        move.start()
        hb.alter(store, models.moved_with)
        newer, older = hb.Session(store), hb.Session(store)
        if moved:
            newer.update_key(models.moved_with, user="x", at=1, new=8)
        newer.add(models.moved_with(user="new", at=2, topic="b", new=9))
        newer.add(models.moved_with(user="gone", at=2, topic="b", new=5))
        newer.commit()
        if not moved:
            older.update_key(models.moved, user="x", at=1, topic="b")
            older.commit()
            newer.update_key(models.moved_with, user="x", at=1, new=8)
            newer.commit()
        older.update_key(models.moved, user="x", at=1, topic="c")
        older.delete_key(models.moved, user="gone", at=2)
        older.commit()
        older.add(models.moved(user="gone", at=2, topic="d"))
        older.commit()
        move.start()
        move.cut_over()
        default = NEW[new][1].default
        found = {
            each.user: (each.topic, each.new) for each in hb.Session(store).query(models.moved_with).allow_full_scan()
        }
        assert found == {
            "gone": ("d", default),
            "new": ("b", 9),
            "x": ("c", 8),
            "y": ("a", default),
            "z": ("a", default),
        }
