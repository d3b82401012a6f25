"""Declaring a version: what cannot work with one is refused at the decorator."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.mapping.schema import schema_of

NAME, TEXT, VERSION = hb.Key[str], hb.Column[str], hb.Column[int]


def declare(fields: dict[str, tuple[Any, Any]], **options: Any) -> type[Any]:
    """A model of these fields, each with its annotation."""
    body = {name: value for name, (_, value) in fields.items()}
    annotations = {name: hint for name, (hint, _) in fields.items() if hint is not None}
    made: type[Any] = hb.model(table="declared_versions", **options)(
        type("Declared", (), {**body, "__annotations__": annotations})
    )
    return made


def fields(**more: tuple[Any, Any]) -> dict[str, tuple[Any, Any]]:
    return {"name": (NAME, hb.key()), "text": (TEXT, hb.column("t")), "version": (VERSION, hb.version()), **more}


WRONG: dict[str, tuple[str, Callable[[], object]]] = {
    "two versions": ("A model can have only one version", lambda: declare(fields(other=(VERSION, hb.version())))),
    "immutable": (
        "Rows of an immutable model never change, so they cannot have",
        lambda: declare(fields(), immutable=True),
    ),
    "random salt": ("RandomSalt|immutable", lambda: declare(fields(), salt=hb.RandomSalt(4))),
    "external": ("external", lambda: declare(fields(), external=True)),
    "a family with a TTL": (
        "The families of a versioned model cannot have a TTL",
        lambda: declare(fields(), family=hb.family("d", ttl=timedelta(minutes=1))),
    ),
    "another family with a TTL": (
        "TTL",
        lambda: declare(
            fields(more=(TEXT, hb.column("m", default="", family="e"))),
            families=(hb.family("e", ttl=timedelta(minutes=1)),),
        ),
    ),
    "null deletes": (
        "version",
        lambda: declare(fields(note=(hb.Column[str | None], hb.column("n", default=None, null="delete")))),
    ),
    "no int": (
        "The values of the codec do not have the type in the annotation",
        lambda: declare(fields(version=(hb.Column[str], hb.version()))),
    ),
    "a key": ("The attribute must be annotated hb", lambda: declare(fields(version=(hb.Key[int], hb.version())))),
    "indexed": ("version cannot be indexed", lambda: declare(fields(by=(None, hb.index("version"))))),
    "covered": ("covered", lambda: declare(fields(by=(None, hb.index("text", covers=("version",)))))),
    "unique without a version": (
        "A unique index needs a versioned model",
        lambda: declare(
            {"name": (NAME, hb.key()), "text": (TEXT, hb.column("t")), "by": (None, hb.index("text", unique=True))}
        ),
    ),
    "unique over the whole key": (
        "The index has every key field",
        lambda: declare(fields(by=(None, hb.index("text", "name", unique=True)))),
    ),
    "an alias of its own": ("system cells", lambda: declare(fields(more=(TEXT, hb.column("_v"))))),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_go_with_a_version_is_refused(name: str) -> None:
    message, call = WRONG[name]
    with pytest.raises(hb.DeclarationError, match=message):
        call()


def test_the_layout_says_that_there_is_a_version_and_nothing_else_of_it() -> None:
    with_it = schema_of(declare(fields())).layout_spec
    without = dict(fields())
    del without["version"]
    bare = schema_of(declare(without)).layout_spec
    assert "version" not in bare
    assert with_it == {**bare, "version": True}


def test_a_model_may_have_nothing_but_keys_and_a_version() -> None:
    bare: Any = declare({"name": (NAME, hb.key()), "version": (VERSION, hb.version())}, family="f")
    with hb.connect("memory:") as store:
        hb.create_tables(store, bare)
        session = hb.Session(store)
        session.insert(bare(name="a"))
        found = session.get(bare, name="a")
        assert found.version > 0
        assert session.get(bare, name="b") is None
        assert hb.describe(bare).cells == 2
        (row,) = store.get("declared_versions", [b"a"])
        assert hb.decode(bare, row).version == found.version
