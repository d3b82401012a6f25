"""The changes of the decorator to a class: constructor, attributes on the class and on instances, copies, mixins,
annotations.
"""

from __future__ import annotations

import copy
import enum
import pickle
import sys
import types
from datetime import UTC, date, datetime
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Any, ClassVar, NewType

import attrs
import pytest
from typing_extensions import TypeAliasType

import hbmodel as hb
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.rows.mapper import RowDecoder
from hbmodel.mapping.schema import REQUIRED, Field, Index, TableSchema
from hbmodel.store import Family

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@hb.model(table="actions", family="d", salt=hb.HashSalt(16, by=("user_id",)))
class Action:
    """Something a user did."""

    user_id: hb.Key[int] = hb.key(hb.UInt32)
    at: hb.Key[datetime] = hb.key(desc=True)
    action_id: hb.Key[int] = hb.key(hb.UInt32)
    name: hb.Column[str] = hb.column("n")
    amount: hb.Column[Decimal | None] = hb.column("a", default=None)
    tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]), factory=list)
    views: hb.Column[int] = hb.counter("v")

    limit: ClassVar[int] = 3

    by_name = hb.index("name", "at", covers=("amount",))

    def shout(self) -> str:
        """The name in capitals."""
        return self.name.upper()


@hb.model(table="points")
class Point:
    x: hb.Key[int] = hb.key()
    label: hb.Column[str] = hb.column(default="")


def login(**changes: Any) -> Action:
    return Action(**{"user_id": 1, "at": NOON, "action_id": 7, "name": "login", **changes})


# --- instances --------------------------------------------------------------------------------------------------------


def test_the_constructor_takes_fields_by_name() -> None:
    action = login()
    assert (action.user_id, action.at, action.action_id, action.name) == (1, NOON, 7, "login")
    assert (action.amount, action.tags, action.views) == (None, [], 0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"user_id": 1, "at": NOON, "action_id": 7},
        {"user_id": 1, "at": NOON, "action_id": 7, "name": "x", "views": 3},
        {"colour": 1},
    ],
    ids=["missing", "counter", "unknown"],
)
def test_the_constructor_takes_nothing_else(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Action(**arguments)
    with pytest.raises(TypeError):
        Action(1, NOON, 7, "login")  # type: ignore[call-arg]


def test_it_stays_the_users_class() -> None:
    assert Action.__bases__ == (object,)
    assert type(Action) is type
    assert Action.__doc__ == "Something a user did."
    assert login().shout() == "LOGIN"
    assert Action.limit == 3
    assert [a.name for a in attrs.fields(Action)] == [f.name for f in hb.schema.schema_of(Action).fields]  # type: ignore[arg-type]
    assert repr(login()).startswith("Action(user_id=1, at=datetime.datetime(2026, 3, 1, 12, 0")


def test_objects_are_equal_by_value() -> None:
    assert login() == login()
    assert login() != login(name="logout")
    assert login() != Point(x=1)  # type: ignore[comparison-overlap]
    with pytest.raises(TypeError, match="unhashable"):
        hash(login())


def test_a_default_is_made_anew() -> None:
    first, second = login(), login()
    first.tags.append("a")
    assert second.tags == []


def test_fields_of_a_model_that_is_not_frozen_can_be_assigned() -> None:
    @hb.model(table="loose", frozen=False)
    class Loose:
        k: hb.Key[int] = hb.key()
        name: hb.Column[str] = hb.column("n")

    loose = Loose(k=1, name="a")
    loose.name = "b"
    assert loose.name == "b"
    with pytest.raises(TypeError, match="unhashable"):
        hash(loose)


def test_an_assignment_names_the_calls_that_write() -> None:
    point = Point(x=1, label="a")
    message = r"session\.update\(obj, field=value\), or .* hb\.evolve"
    with pytest.raises(hb.errors.FrozenObject, match=message) as caught:
        point.label = "b"
    assert (caught.value.model, caught.value.field) == ("Point", "label")
    with pytest.raises(hb.errors.FrozenObject, match="frozen") as caught:
        del point.label
    assert caught.value.field == "label"
    with pytest.raises(hb.errors.FrozenObject, match=r"not a field of the model.*__attrs_post_init__") as caught:
        point.lable = "b"  # type: ignore[attr-defined]
    assert caught.value.attribute == "lable"
    assert isinstance(caught.value, AttributeError)
    assert vars(point) == {"x": 1, "label": "a"}


def test_a_frozen_model_has_no_assignment_of_its_own() -> None:
    with pytest.raises(hb.DeclarationError, match="frozen=False"):

        @hb.model(table="t")
        class Own:
            k: hb.Key[int] = hb.key()

            def __setattr__(self, name: str, value: object) -> None:
                raise AssertionError


def test_nor_does_a_mixin_of_it() -> None:
    class Setting:
        def __setattr__(self, name: str, value: object) -> None:
            raise AssertionError

    with pytest.raises(hb.DeclarationError, match="frozen=False"):

        @hb.model(table="t")
        class Own(Setting):
            k: hb.Key[int] = hb.key()


def test_a_class_that_extends_a_model_may_have_attributes_of_its_own() -> None:
    class Shown(Point):
        more = 0

    shown = Shown(x=1, label="a")
    shown.more = 2
    assert shown.more == 2
    del shown.more
    assert shown.more == 0
    with pytest.raises(hb.errors.FrozenObject):
        shown.label = "b"
    with pytest.raises(hb.errors.FrozenObject):
        del shown.label


def test_objects_can_be_hashed() -> None:
    point = Point(x=1, label="a")
    assert hash(point) == hash(Point(x=1, label="a"))
    assert {point: 1}[Point(x=1, label="a")] == 1
    assert attrs.evolve(point, label="b") == Point(x=1, label="b")


@pytest.mark.parametrize("obj", [login(tags=["a"], amount=Decimal(3)), Point(x=1, label="a")], ids=["plain", "frozen"])
@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        *(lambda obj, p=protocol: pickle.loads(pickle.dumps(obj, p)) for protocol in range(2, 6)),
    ],
)
def test_objects_can_be_copied_and_pickled(obj: Any, copied: Any) -> None:
    again = copied(obj)
    assert again == obj
    assert again is not obj
    assert type(again) is type(obj)


def test_reading_a_field_costs_a_normal_attribute() -> None:
    """A data descriptor would take precedence over the instance's dictionary and be called for every access."""
    for descriptor in (hb.Key, hb.Column):
        assert hasattr(descriptor, "__get__")
        assert not hasattr(descriptor, "__set__")
        assert not hasattr(descriptor, "__delete__")
    action = login()
    assert vars(action) == {f.name: getattr(action, f.name) for f in hb.schema.schema_of(Action).fields}
    vars(action)["name"] = "from the dictionary"
    assert action.name == "from the dictionary"


def test_a_field_that_an_object_has_not_got_is_an_attribute_error() -> None:
    bare = object.__new__(Action)
    assert not hasattr(bare, "name")
    with pytest.raises(AttributeError, match="Action object has no value for 'name'"):
        _ = bare.name


# --- the class --------------------------------------------------------------------------------------------------------


def test_fields_on_the_class_are_expressions() -> None:
    assert isinstance(Action.name, FieldExpression)
    assert repr(Action.name) == "Action.name"
    assert Action.name.of is hb.schema.schema_of(Action).by_name["name"]
    assert hash(Action.name) == hash(Action.name)
    assert isinstance(Action.by_name, Index)


def test_a_field_on_the_class_has_no_truth_value() -> None:
    with pytest.raises(hb.QueryError, match="no truth value on the class") as caught:
        bool(Action.name)
    assert caught.value.field == "name"


def test_the_schema_says_what_was_declared() -> None:
    schema = hb.schema.schema_of(Action)
    assert isinstance(schema, TableSchema)
    assert schema.model is Action
    assert (schema.table, schema.family, schema.families) == ("actions", b"d", (Family(b"d"),))
    assert [f.name for f in schema.fields] == ["user_id", "at", "action_id", "name", "amount", "tags", "views"]
    assert schema.layout.names == ("user_id", "at", "action_id")
    assert [f.name for f in schema.columns] == ["name", "amount", "tags", "views"]
    assert schema.by_name["at"] == Field("at", "key", hb.codecs.Timestamp, desc=True)
    assert schema.by_name["name"] == Field("name", "column", hb.Text, default=REQUIRED, family=b"d", qualifier=b"n")
    assert schema.by_name["amount"] == Field(
        "amount", "column", hb.codecs.DecimalNumber, True, None, family=b"d", qualifier=b"a"
    )
    assert schema.by_name["views"] == Field(
        "views", "counter", hb.codecs.JavaLong, False, 0, family=b"d", qualifier=b"v"
    )
    assert (schema.immutable, schema.external, schema.exists) == (False, False, None)


def test_only_models_have_a_schema() -> None:
    class Under(Action):
        pass

    for other, message in (
        (int, "declare the class with @hb.model"),
        (attrs.define(Action), "Another decorator has made a new class of the model"),
        ("Action", "not its name"),
        (Under, "extends a model and is not a model itself"),
    ):
        with pytest.raises(hb.DeclarationError, match=message):
            hb.schema.schema_of(other)  # type: ignore[arg-type]
    with pytest.raises(hb.DeclarationError, match="not an object of it"):
        hb.schema.schema_of(login())  # type: ignore[arg-type]


def test_columns_may_lie_in_families_of_their_own() -> None:
    @hb.model(table="t", family="d")
    class Split:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")
        b: hb.Column[int] = hb.column("a", family="x")
        c: hb.Column[int] = hb.counter("c", family="x")

    schema = hb.schema.schema_of(Split)
    assert [f.column for f in schema.columns] == [b"d:a", b"x:a", b"x:c"]
    assert schema.family_names == (b"d", b"x")


def test_a_flag_may_be_the_only_column() -> None:
    @hb.model(table="t", exists=hb.flag("e"))
    class Tag:
        name: hb.Key[str] = hb.key()

    assert hb.schema.schema_of(Tag).exists_column == b"d:e"
    assert Tag(name="a") == Tag(name="a")


def test_an_alias_is_the_name_where_none_is_given() -> None:
    assert hb.schema.schema_of(Point).by_name["label"].column == b"d:label"


def test_private_fields_keep_their_name_in_the_constructor() -> None:
    @hb.model(table="t")
    class Hidden:
        k: hb.Key[int] = hb.key()
        _secret: hb.Column[str] = hb.column("s")

    assert Hidden(k=1, _secret="x")._secret == "x"


def test_indexes_say_what_was_declared() -> None:
    index = hb.schema.schema_of(Action).indexes["by_name"]
    assert (index.name, index.table, index.fields, index.covers) == (
        "by_name",
        "actions.by_name",
        ("name", "at"),
        ("amount",),
    )
    assert index.layout.names == ("name", "at", "user_id", "action_id")
    assert [f.desc for f in index.layout.fields] == [False, True, False, False]
    assert [index.layout.names[at] for at in index.primary_positions] == ["user_id", "at", "action_id"]
    assert index.salt.buckets == 1


def test_an_index_may_turn_a_field_and_have_a_salt() -> None:
    @hb.model(table="t", salt=hb.RandomSalt(4), immutable=True)
    class Turned:
        k: hb.Key[int] = hb.key(desc=True)
        a: hb.Column[int] = hb.column("a")
        by_a = hb.index(hb.desc("a"), hb.asc("k"), salt=hb.HashSalt(8, by=("a",)))

    index = hb.schema.schema_of(Turned).indexes["by_a"]
    assert [f.desc for f in index.layout.fields] == [True, False]
    assert index.layout.tail == 1  # the primary's bucket
    assert (index.salt.buckets, index.salt.by) == (8, ("a",))


# --- mixins -----------------------------------------------------------------------------------------------------------


@hb.mixin()
class Dated:
    made: hb.Column[datetime] = hb.column("m")
    by_made = hb.index("made")


class Tenant:
    tenant: hb.Key[str] = hb.key()


@hb.model(table="notes")
class Note(Dated, Tenant):
    number: hb.Key[int] = hb.key()
    text: hb.Column[str] = hb.column("t")


@hb.model(table="memos")
class Memo(Dated):
    number: hb.Key[int] = hb.key()
    made: hb.Column[datetime] = hb.column("z")


def test_mixins_give_their_fields_and_indexes() -> None:
    schema = hb.schema.schema_of(Note)
    assert [f.name for f in schema.fields] == ["tenant", "made", "number", "text"]
    assert schema.layout.names == ("tenant", "number")
    assert schema.indexes["by_made"].table == "notes.by_made"
    note = Note(tenant="x", made=NOON, number=1, text="t")  # type: ignore[call-arg]
    assert (note.tenant, note.made) == ("x", NOON)
    assert repr(Note.made) == "Note.made"


def test_a_model_may_declare_an_inherited_field_anew() -> None:
    assert hb.schema.schema_of(Memo).by_name["made"].column == b"d:z"
    assert hb.schema.schema_of(Note).by_name["made"].column == b"d:m"
    assert hb.schema.schema_of(Memo).indexes["by_made"].table == "memos.by_made"


def test_a_mixin_may_be_marked_without_parentheses() -> None:
    @hb.mixin
    class Dated:
        day: hb.Column[int] = hb.column("day")

    @hb.model(table="t")
    class Made(Dated):
        name: hb.Key[str] = hb.key()

    assert Made(name="a", day=3).day == 3


def test_a_mixin_is_left_as_it_is() -> None:
    assert not hasattr(Dated, "__hbmodel__")
    assert not attrs.has(Dated)


# --- annotations ------------------------------------------------------------------------------------------------------

UserId = NewType("UserId", int)
Maybe = str | None
Alias = TypeAliasType("Alias", Maybe)  # `type Alias = str | None` from Python 3.12 on


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@pytest.mark.parametrize(
    ("hint", "codec", "nullable"),
    [
        (int, hb.Int64, False),
        (int | None, hb.Int64, True),
        (UserId, hb.Int64, False),
        (Maybe, hb.Text, True),
        (Alias, hb.Text, True),
        (Level, hb.EnumOf(Level), False),
        (IPv4Address | IPv6Address | None, hb.codecs.IPAddress, True),
        (Annotated[int, hb.codecs.UInt8], hb.codecs.UInt8, False),
        (Annotated[int, hb.codecs.UInt8] | None, hb.codecs.UInt8, True),
    ],
    ids=str,
)
def test_the_annotation_chooses_the_codec(hint: Any, codec: hb.Codec[Any], nullable: bool) -> None:
    @hb.model(table="t")
    class Made:
        k: hb.Key[hint] = hb.key()
        a: hb.Column[hint] = hb.column("a")

    schema = hb.schema.schema_of(Made)
    assert [(f.codec, f.nullable) for f in schema.fields] == [(codec, nullable)] * 2


@pytest.mark.parametrize(
    ("hint", "codec", "nullable"),
    [
        (int, hb.codecs.UInt8, False),
        (UserId | None, hb.codecs.UInt8, True),
        (Annotated[str | None, "a note"], hb.Text(4), True),
        (Alias, hb.Text(4), True),
        (Any, hb.codecs.Int8, False),
        (object, hb.codecs.Int8, False),
        (int, hb.EnumOf(Level), False),
        (IPv4Address | IPv6Address, hb.codecs.IPAddress, False),
        (dict[str, int] | None, hb.Json(dict[str, int]), True),
        (UserId, hb.codecs.Reversed(hb.UInt32), False),
    ],
    ids=str,
)
def test_a_named_codec_stands(hint: Any, codec: hb.Codec[Any], nullable: bool) -> None:
    @hb.model(table="t")
    class Made:
        k: hb.Key[int] = hb.key()
        a: hb.Column[hint] = hb.column("a", codec)

    field = hb.schema.schema_of(Made).by_name["a"]
    assert (field.codec, field.nullable) == (codec, nullable)


@pytest.mark.parametrize("hint", [Any, object, Annotated[Any, "a note"]], ids=str)
@pytest.mark.parametrize("external", [True, False])
def test_under_any_the_default_says_whether_none_is_stored(hint: Any, external: bool) -> None:
    """With the default None, the field is that of an annotation that names None."""

    @hb.model(table="t", family="d", external=external)
    class Made:
        k: hb.Key[int] = hb.key()
        a: hb.Column[hint] = hb.column("a", hb.Json(Any), default=None)
        b: hb.Column[dict[str, int] | None] = hb.column("b", hb.Json(Any), default=None)
        c: hb.Column[hint] = hb.column("c", hb.Json(Any), default=7)
        d: hb.Column[int] = hb.column("d", default=0)

    fields = hb.schema.schema_of(Made).by_name
    assert fields["a"] == attrs.evolve(fields["b"], name="a", qualifier=b"a")
    assert not fields["c"].nullable
    with hb.connect("memory:") as store:
        hb.create_tables(store, Made, create_external=True)
        with hb.Session(store) as session:
            session.add_all([Made(k=1, a=None, c=[1]), Made(k=2, a={"x": [1]}, c=[2])])
        session = hb.Session(store)
        assert [made.a for made in session.query(Made).allow_full_scan()] == [None, {"x": [1]}]
        assert session.query(Made).where(Made.a.is_(None)).allow_full_scan().count() == 1


def test_annotations_know_local_names() -> None:
    class Colour(enum.Enum):
        RED = "red"

    @hb.model(table="t")
    class Local:
        class Size(enum.Enum):
            BIG = "big"

        colour: hb.Key[Colour] = hb.key()
        size: hb.Column[Size | None] = hb.column("s", default=None)

    schema = hb.schema.schema_of(Local)
    assert schema.by_name["colour"].codec == hb.EnumOf(Colour)
    assert schema.by_name["size"].codec == hb.EnumOf(Local.Size)


def test_a_field_may_be_named_as_its_type() -> None:
    @hb.model(table="t")
    class Diary:
        date: hb.Key[date] = hb.key()
        int: hb.Column[int] = hb.column("i")

    assert hb.schema.schema_of(Diary).by_name["date"].codec == hb.codecs.Date
    assert hb.schema.schema_of(Diary).by_name["int"].codec == hb.Int64


def test_annotations_of_a_mixin_know_the_names_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("a_module_of_mixins")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    source = """
from __future__ import annotations
from fractions import Fraction as Amount
import enum
import hbmodel as hb

class Only(enum.Enum):
    HERE = 1

class Shared:
    only: hb.Column[Only] = hb.column("o")
"""
    exec(source, vars(module))

    @hb.model(table="t")
    class Made(module.Shared):  # type: ignore[name-defined,misc]
        k: hb.Key[int] = hb.key()

    assert hb.schema.schema_of(Made).by_name["only"].codec == hb.EnumOf(module.Only)


def test_a_class_of_no_module_can_be_a_model() -> None:
    scope: dict[str, Any] = {"__name__": "nowhere at all", "hb": hb}
    exec(
        """
from __future__ import annotations
from decimal import Decimal as Price

def make():
    from datetime import date as Day

    @hb.model(table="t")
    class Made:
        day: hb.Key[Day] = hb.key()
        price: hb.Column[Price] = hb.column("p")

    return Made
""",
        scope,
    )
    schema = hb.schema.schema_of(scope["make"]())
    assert (schema.by_name["day"].codec, schema.by_name["price"].codec) == (hb.codecs.Date, hb.codecs.DecimalNumber)


def test_annotations_need_not_be_text() -> None:
    scope: dict[str, Any] = {"__name__": __name__, "hb": hb}
    exec(
        '@hb.model(table="t")\nclass Made:\n    k: hb.Key[int | None] = hb.key()\n    a: hb.Column[str] = '
        'hb.column("a")\n',
        scope,
        scope,
    )
    assert hb.schema.schema_of(scope["Made"]).by_name["k"].nullable


# --- hooks ------------------------------------------------------------------------------------------------------------


def test_the_hook_behind_the_constructor_runs_for_stored_rows_too() -> None:
    seen: list[tuple[int, str]] = []

    @hb.model(table="t")
    class Hooked:
        k: hb.Key[int] = hb.key()
        a: hb.Column[str] = hb.column("a", default="x")

        def __attrs_post_init__(self) -> None:
            seen.append((self.k, self.a))
            object.__setattr__(self, "shown", f"{self.k}{self.a}")

    assert Hooked(k=1).shown == "1x"  # type: ignore[attr-defined]
    read = RowDecoder(hb.schema.schema_of(Hooked), indexed=False).make({"k": 2, "a": "y"})
    assert read.shown == "2y"
    assert read == Hooked(k=2, a="y")
    assert seen == [(1, "x"), (2, "y"), (2, "y")]


def test_special_methods_of_the_class_stay() -> None:
    @hb.model(table="t")
    class Own:
        k: hb.Key[int] = hb.key()
        a: hb.Column[str] = hb.column("a")

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    assert repr(Own(k=1, a="x")) == "own"
    assert Own(k=1, a="x") == 3


@pytest.mark.parametrize("frozen", [True, False])
def test_a_constructor_of_the_class_can_set_the_fields(frozen: bool) -> None:
    @hb.model(table="t", frozen=frozen)
    class Own:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")

        def __init__(self, k: int, a: int = 7) -> None:
            self.__attrs_init__(k=k, a=a)  # type: ignore[attr-defined]

    assert (Own(3).a, hb.evolve(Own(3), a=4)) == (7, Own(3, 4))
    assert RowDecoder(hb.schema.schema_of(Own), indexed=False).make({"k": 3, "a": 7}) == Own(3)
