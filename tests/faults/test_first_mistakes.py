"""Mistakes of beginners: each message says what to write instead."""

from __future__ import annotations

import ast
import asyncio
import copy
import pickle
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hbmodel as hb
from hbmodel.errors import DETAILS
from hbmodel.mapping.field_expressions import _NAMED_ELSEWHERE as OTHER_CONDITIONS
from hbmodel.session.calls.row_group import _NAMED_ELSEWHERE as OTHER_CALLS
from hbmodel.session.calls.row_group import RowGroup
from hbmodel.session.names_of_other_libraries import NAMED_ELSEWHERE
from tests.support.beds import fresh


@hb.model(table="mistaken_users", family="d")
class User:
    id: hb.Key[int] = hb.key()
    name: hb.Column[str] = hb.column("n")
    age: hb.Column[int] = hb.column("a", default=0)
    tags: hb.Column[list[str]] = hb.column("t", hb.Json(list[str]), factory=list)
    active: hb.Column[bool] = hb.column("b", default=True)

    by_name = hb.index("name")


@hb.model(table="mistaken_posts", family="d")
class Post:
    id: hb.Key[int] = hb.key()
    title: hb.Column[str] = hb.column("t")
    version: hb.Column[int] = hb.version()


@hb.model(table="mistaken_lines", family="d")
class Line:
    order: hb.Key[int] = hb.key()
    sku: hb.Key[str] = hb.key(in_qualifier=True)
    count: hb.Column[int] = hb.column("c", default=1)
    version: hb.Column[int] = hb.version()


class Sub(User):
    """Extends a model without its own decorator."""


@pytest.fixture
def session() -> Iterator[hb.Session]:
    """A session on a store with both tables."""
    with fresh(User, Post) as store:
        yield hb.Session(store)


ANN = User(id=1, name="ann")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.get(User, 1), hb.errors.IncompleteKey, r"by name: session\.get\(Model, field=value\)"),
        (lambda s: s.get("User", id=1), hb.DeclarationError, "the class of a model, not its name"),
        (lambda s: s.get(ANN, id=1), hb.DeclarationError, "the class of a model, not an object"),
        (lambda s: s.get(int, id=1), hb.DeclarationError, "declare the class with @hb.model"),
        (lambda s: s.add({"id": 1}), hb.DeclarationError, r"Model\(\*\*values\)"),
        (lambda s: s.add([ANN]), hb.DeclarationError, r"add_all\(\) takes several"),
        (lambda s: s.add(User), hb.DeclarationError, "an object of a model, not a class"),
        (lambda s: s.add(s.get(User, id=9)), hb.DeclarationError, r"get\(\) and first\(\) return None"),
        (lambda s: s.add(Sub(id=1, name="x")), hb.DeclarationError, "extends a model and is not a model itself.*mixin"),
        (lambda s: s.query(Sub), hb.DeclarationError, "extends a model and is not a model itself.*mixin"),
        (lambda s: s.delete("a"), hb.DeclarationError, "end in _key take the model and its key"),
        (lambda s: s.update(Post(id=1, title="t"), title="x", condition=User.name == "a"), hb.errors.UnknownField,
         "belongs to another model"),
        (lambda s: s.query(User).where(name="x"), hb.QueryError, r"Model\.field == value, and no keywords"),
        (lambda s: s.query(User).where(User.name is None), hb.QueryError, r"field\.is_\(None\)"),
        (lambda s: s.query(User).where(User.age == 1 | User.age == 2), hb.QueryError, "parentheses"),
        (lambda s: s.query(User).where(User.name == "a" & User.name == "b"), hb.QueryError, "parentheses"),
        (lambda s: s.query(User).where(~User.active), hb.QueryError, r"~\(A == 1\)"),
        (lambda s: s.query(User).order_by(-User.id), hb.QueryError, r"field\.desc\(\)"),
        (lambda s: s.update_key(User, idd=1, name="bob"), hb.errors.UnknownField, "field='idd'"),
        (lambda s: s.update_key(User, name="bob"), hb.errors.IncompleteKey, r"missing=\['id'\]"),
        (lambda s: s.query(User)[0], hb.QueryError, r"first\(\) for the first item"),
        (lambda s: s.query(User)[:10], hb.QueryError, r"limit\(n\)"),
        (lambda s: s.query(User).filter(User.id == 1), AttributeError, r"where\(Model\.field == value\)"),
        (lambda s: s.query(User).values_list("name"), AttributeError, r"select\(Model\.field\)"),
        (lambda s: s.query(User).nothing, AttributeError, "no attribute 'nothing'.$"),
        (lambda s: s.add_all(ANN), hb.DeclarationError, r"add\(\) takes one.*found='User'"),
        (lambda s: s.query(User.name), hb.DeclarationError, r"query\(Model\)\.select\(Model\.field\).*field='name'"),
        (lambda s: s.add(User(id=2**63, name="x")), hb.EncodingError, r"from `low` to `high`\..*low=-9"),
        (lambda s: s.query(User).join(Post), AttributeError, r"one query for each model, or session\.get_many"),
        (lambda s: s.query(User).group_by(User.age), AttributeError, r"first_of_each\(Model\.field"),
        (lambda s: s.query(User).paginate(20), AttributeError, r"page\(n\) for one page after another"),
        (lambda s: s.query(User).where(User.name.like("a%")), AttributeError,
         r"^A field of a model class has no attribute 'like': write Model\.field\.startswith\(prefix\)\.$"),
        (lambda s: s.query(User).where(User.name.is_not(None)), AttributeError, r"~Model\.field\.is_\(None\)"),
        (lambda s: s.query(User).where(User.age.not_in([1])), AttributeError, r"~Model\.field\.in_\(values\)"),
        (lambda s: s.query(User).where(User.name.lower() == "ann"), AttributeError, r"hb\.computed\(function"),
        (lambda s: s.query(User).where(User.name.nothing == "ann"), AttributeError, "no attribute 'nothing'.$"),
        (lambda s: s.query(User).where(User.name.contains("a")), hb.QueryError, r"write startswith\(prefix\)"),
        (lambda s: s.query(User).where("a" in User.tags), hb.QueryError, r"write Model\.field\.contains\(value\)"),
        (lambda s: s.rollback(), AttributeError, r"^A session has no attribute 'rollback': write discard\(\)"),
        (lambda s: s.merge(User(id=1, name="x")), AttributeError, r"write add\(obj\).*or put\(Model"),
        (lambda s: s.execute("select"), AttributeError, r"write query\(Model\)\.where"),
        (lambda s: s.nothing, AttributeError, "^A session has no attribute 'nothing'.$"),
        (lambda s: s.update_key(User, id=1, name="x", if_=User.age == 1), hb.SessionError,
         r"pass it as condition=.*field='if_'"),
        (lambda s: s.update(User(id=1, name="x"), where=User.age == 1), hb.SessionError, "pass it as condition="),
        (lambda s: s.add(User(id=1, name="x", active=np.bool_(True))), hb.EncodingError, r"found='numpy\.bool"),
        (lambda s: s.add(User(id=1, name="x", tags={"a"})), hb.EncodingError, r"field='tags'"),
    ],
)  # fmt: skip
def test_a_wrong_call_says_what_to_write(
    session: hb.Session, call: Callable[[Any], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(session)
    session.discard()
    assert session.query(User).allow_full_scan().all() == []


def test_advice_of_a_session_names_what_it_has(session: hb.Session) -> None:
    assert not [name for name in NAMED_ELSEWHERE if hasattr(type(session), name)]
    for advice in NAMED_ELSEWHERE.values():
        called = re.findall(r"(?<![\w.])(\w+)\(", advice)
        assert called, advice
        assert all(callable(getattr(session, name)) for name in called if name != "Session"), advice


def test_advice_of_a_group_names_what_it_has() -> None:
    assert not [name for name in OTHER_CALLS if hasattr(RowGroup, name)]
    for advice in OTHER_CALLS.values():
        assert all(callable(getattr(RowGroup, name)) for name in re.findall(r"(\w+)\(", advice)), advice


def test_a_group_says_what_to_write() -> None:
    with fresh(Line) as store:
        group: Any = hb.Session(store).group(Line, order=1)
        with pytest.raises(
            AttributeError, match=r"^A group has no attribute 'insert': write add\(obj\), if get\(Model"
        ):
            group.insert(Line(order=1, sku="tea"))
        with pytest.raises(AttributeError, match=r"^A group has no attribute 'nothing'\.$"):
            group.nothing()


def test_advice_of_a_field_names_what_it_has() -> None:
    assert not [name for name in OTHER_CONDITIONS if name in dir(User.name)]
    for advice in OTHER_CONDITIONS.values():
        assert all(callable(getattr(User.tags, name)) for name in re.findall(r"Model\.field\.(\w+)\(", advice)), advice


def test_a_field_can_be_copied_and_has_no_other_attributes() -> None:
    assert copy.copy(User.name).of is User.name.of
    assert not hasattr(User.name, "like")
    assert not hasattr(User.name, "__len__")


@pytest.mark.parametrize(
    ("name", "place"),
    [("IndexUnavailable", "errors"), ("UInt8", "codecs"), ("build_index", "indexes"), ("NotLoaded", "types"),
     ("split_keys", "tables"), ("migrate", "migration"), ("IdSequence", "ids")],
)  # fmt: skip
def test_a_name_of_a_module_is_not_at_the_top_and_the_error_says_where_it_is(name: str, place: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}': write hbmodel\.{place}\.{name}$"):
        getattr(hb, name)
    assert hasattr(getattr(hb, place), name)


@pytest.mark.parametrize("name", ["nothing", "_hidden", "__wrapped__", "Any", "Mapping"])
def test_an_unknown_name_at_the_top_is_refused_without_advice(name: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'$"):
        getattr(hb, name)


def test_tables_are_named_one_by_one() -> None:
    with hb.connect("memory:") as store, pytest.raises(hb.DeclarationError, match="each model as a separate argument"):
        hb.create_tables(store, [User, Post])  # type: ignore[arg-type]


def test_a_session_is_not_asynchronous(session: hb.Session) -> None:
    async def work() -> None:
        async with session:  # type: ignore[attr-defined]
            pass

    with pytest.raises(hb.SessionError, match=r"asyncio\.to_thread"):
        asyncio.run(work())


def test_a_list_of_a_query_needs_no_length(session: hb.Session) -> None:
    session.add_all(User(id=number, name="x") for number in range(3))
    session.commit()
    assert [user.id for user in list(session.query(User).allow_full_scan())] == [0, 1, 2]
    assert not hasattr(session.query(User), "filter")
    assert not hasattr(session.query(User), "__len__"), "others take what has it for a sequence"


# --- declarations -----------------------------------------------------------------------------------------------------


def declared_with(annotation: Any, field: Any, **options: Any) -> type[Any]:
    """A model with one more field."""
    body = {"id": hb.key(), "b": field, "__annotations__": {"id": hb.Key[int], "b": annotation}, "__module__": __name__}
    return hb.model(table="t", **options)(type("Made", (), body))


@pytest.mark.parametrize(
    ("annotation", "field", "message"),
    [
        (hb.Column[dict[str, int]], lambda: hb.column("b", hb.Json), r"called with its options, such as hb\.Json"),
        (hb.Column[datetime], lambda: hb.column("b", hb.Datetime), r"such as .*hb\.Datetime\(\)"),
        (hb.Column[dict[str, int]], lambda: hb.column("b"), r"hb\.map_column stores each entry"),
        (hb.Key[int], lambda: hb.key(desc="yes"), "desc is True or False"),
    ],
)
def test_a_wrong_declaration_says_what_to_write(annotation: Any, field: Callable[[], Any], message: str) -> None:
    with pytest.raises(hb.DeclarationError, match=message):
        declared_with(annotation, field())


def test_the_decorator_needs_the_table() -> None:
    bare: Any = hb.model
    with pytest.raises(hb.DeclarationError, match=r"write @hb\.model\(table=\.\.\.\)"):
        bare(User)
    with pytest.raises(hb.DeclarationError, match="name of the table"):
        bare(family="d")


@pytest.mark.parametrize("given", ["-name", "+name"])
def test_a_direction_in_the_name_of_an_indexed_field_is_refused(given: str) -> None:
    with pytest.raises(hb.DeclarationError, match=r'write hb\.desc\("at"\) or hb\.asc') as caught:

        @hb.model(table="t")
        class Indexed:
            id: hb.Key[int] = hb.key()
            name: hb.Column[str] = hb.column("n")
            by_it = hb.index(given)

    assert (caught.value.field, caught.value.index) == ("name", "by_it")


def test_an_index_in_the_order_of_the_table_is_refused() -> None:
    def indexed(by: Any, salt: hb.salts.Salt | None = None) -> type[Any]:
        @hb.model(table="t", salt=salt)
        class Indexed:
            first: hb.Key[int] = hb.key()
            second: hb.Key[int] = hb.key(desc=True)
            name: hb.Column[str] = hb.column("n")
            by_it = by

        return Indexed

    for index in (hb.index("first"), hb.index("first", "second"), hb.index(hb.asc("first"))):
        with pytest.raises(hb.DeclarationError, match="already has the order"):
            indexed(index)
    for index in (
        hb.index("second"), hb.index(hb.desc("first")), hb.index("first", covers=("name",)),
        hb.index("first", where=lambda row: row.name == "x"), hb.index("first", salt=hb.HashSalt(4)),
    ):  # fmt: skip
        assert indexed(index)
    assert indexed(hb.index("first"), hb.HashSalt(4))


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_detail_that_no_error_has_is_an_attribute_error() -> None:
    error = hb.RowNotFound("gone", table="t")
    assert (error.table, error.key) == ("t", None)
    with pytest.raises(AttributeError, match="no detail 'tabel'"):
        error.tabel  # noqa: B018
    assert "table" in dir(error)
    assert pickle.loads(pickle.dumps(error)).details == copy.copy(error).details == {"table": "t"}
    assert hb.RowNotFound("gone", colour="red").colour == "red"


@pytest.mark.lengthy
def test_every_detail_is_known() -> None:
    """The names of all keywords with which the package makes errors."""
    classes = {name for name, value in vars(hb.errors).items() if isinstance(value, type)}
    found: set[str] = set()
    for path in Path(hb.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in classes or name in {"mistake", "mismatch"}:
                    found |= {keyword.arg for keyword in node.keywords if keyword.arg is not None}
    assert found <= DETAILS


def test_any_store_is_an_instance_of_the_port() -> None:
    with hb.connect("memory:") as store:
        assert isinstance(store, hb.store.Store)
    assert not isinstance(object(), hb.store.Store)
