"""Every mistake in a declaration fails at the decorator, names the model and the field or index, and says what to
do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
import pytest

import hbmodel as hb

if TYPE_CHECKING:
    from fractions import Fraction

Declaration = Callable[[], object]
MISTAKES: list[Any] = []


def mistake(message: str, **details: Any) -> Callable[[Declaration], Declaration]:
    """Says what the error of a declaration must hold."""

    def keep(declare: Declaration) -> Declaration:
        MISTAKES.append(pytest.param(declare, message, details, id=declare.__name__))
        return declare

    return keep


@mistake("at least one hb.key field")
def no_key() -> None:
    @hb.model(table="t")
    class Bad:
        a: hb.Column[int] = hb.column("a")


@mistake("HBase stores no empty rows")
def no_column() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()


@mistake("must be annotated hb.Key", field="k", annotation="None", expected="k: hb.Key[...]")
def annotation_missing() -> None:
    @hb.model(table="t")
    class Bad:
        k = hb.key()
        a: hb.Column[int] = hb.column("a")


@mistake("must be annotated hb.Key", field="k", annotation="hb.Column[int]", expected="k: hb.Key[int]")
def key_annotated_as_column() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Column[int] = hb.key()
        a: hb.Column[int] = hb.column("a")


@mistake("must be annotated hb.Column", field="a", annotation="hb.Key[int]", expected="a: hb.Column[int]")
def column_annotated_as_key() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Key[int] = hb.column("a")


@mistake("must be annotated hb.Column", field="a", annotation="int", expected="a: hb.Column[int]")
def annotated_with_the_plain_type() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: int = hb.column("a")


@mistake("must be annotated hb.Key", field="k")
def annotation_without_a_type() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key = hb.key()  # type: ignore[type-arg]
        a: hb.Column[int] = hb.column("a")


@mistake(
    "must be declared with hb.key, hb.column, hb.map_column, hb.counter or hb.version",
    field="a",
    expected="a: hb.Column[int] = hb.column()",
)
def annotation_without_a_declaration() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int]


@mistake("must be declared with hb.key, hb.column, hb.map_column, hb.counter or hb.version", field="a")
def plain_attribute() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: int = 3


@mistake("must be declared with hb.key", field="a", expected="a: hb.Column[str | None] = hb.column(default=None)")
def attribute_of_a_dataclass() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: str | None = None


@mistake("must be declared with hb.key", field="a", expected="a: hb.Column[Path] = hb.column()")
def attribute_with_a_value_that_is_no_literal() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: Path = Path("here")


@mistake("must be declared with hb.key", field="k", expected="k: hb.Key[int] = hb.key()")
def key_without_a_declaration() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int]


@mistake("must be declared with hb.key", field="m", expected="m: hb.Map[str, int] = hb.map_column()")
def map_without_a_declaration() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        m: hb.Map[str, int]


@mistake("This type has no default codec", field="a", type="list[str]")
def type_without_a_codec() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[list[str]] = hb.column("a")


@mistake("This type has no default codec", field="k")
def union_without_a_codec() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int | str] = hb.key()
        a: hb.Column[int] = hb.column("a")


@mistake("cannot be evaluated", field="a", annotation="hb.Column[Fraction]", reason="name 'Fraction' is not defined")
def annotation_known_to_checkers_only() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[Fraction] = hb.column("a")


@mistake("cannot be evaluated", field="a", reason="name 'Fraction' is not defined")
def text_in_an_annotation_that_only_checkers_can_evaluate() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column["Fraction"] = hb.column("a")  # noqa: UP037


@mistake("remove @dataclass")
def dataclass_below_the_decorator() -> None:
    @hb.model(table="t")
    @dataclasses.dataclass
    class Bad:
        k: hb.Key[int] = hb.key()  # noqa: RUF009
        a: hb.Column[int] = hb.column("a")  # noqa: RUF009


@mistake("hb.model makes the constructor")
def constructor_of_a_frozen_model() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")

        def __init__(self, k: int) -> None:
            self.k = k
            self.a = 0


@mistake("do not have the type in the annotation", field="k")
def codec_of_another_type() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key(hb.Text)  # type: ignore[arg-type]
        a: hb.Column[int] = hb.column("a")


@mistake("do not have the type in the annotation", field="a")
def codec_of_a_wider_type() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[bool] = hb.column("a", hb.codecs.Int8)  # type: ignore[arg-type]


@mistake("The codec must be a Codec", field="k", found="<class 'int'>")
def type_for_a_codec() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key(int)  # type: ignore[call-overload]
        a: hb.Column[int] = hb.column("a")


@mistake("A column alias must be text", field="a", found="TextCodec()")
def codec_for_an_alias() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[str] = hb.column(hb.Text)  # type: ignore[call-overload]


@mistake("alias must not be empty", field="a")
def empty_alias() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("")


@mistake("begin with '_' are reserved for system cells", field="a")
def alias_of_a_system_cell() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("_l")


@mistake("begin with '_' are reserved for system cells", field="_hidden")
def private_name_for_an_alias() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        _hidden: hb.Column[int] = hb.column()


@mistake("cannot be encoded as UTF-8", field="a")
def alias_without_utf8() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("\ud800")


@mistake("at most 32,767 bytes", field="a", length=40_000)
def endless_alias() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("ä" * 20_000)


@mistake("the same column alias", field="b", other="a")
def alias_twice() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("x")
        b: hb.Column[int] = hb.column("x")


@mistake("the same column alias", field="b", other="a")
def alias_of_a_name() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column()
        b: hb.Column[int] = hb.counter("a")


@mistake("the same column alias", field="a", other="exists")
def alias_of_the_flag() -> None:
    @hb.model(table="t", exists=hb.flag("x"))
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("x")


@mistake("begin with '_'", field="exists")
def flag_of_a_system_cell() -> None:
    @hb.model(table="t", exists=hb.flag("_x"))
    class Bad:
        k: hb.Key[int] = hb.key()


@mistake("A column alias must be text", field="exists", found="b'e'")
def flag_of_bytes() -> None:
    @hb.model(table="t", exists=hb.flag(b"e"))
    class Bad:
        k: hb.Key[int] = hb.key()


@mistake("reserved for system cells, even in tables of other programs", field="a")
def alias_of_a_system_cell_in_an_external_table() -> None:
    @hb.model(table="t", external=True)
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("_t")


@mistake("reserved for system cells, even in tables of other programs", field="exists")
def flag_of_a_system_cell_in_an_external_table() -> None:
    @hb.model(table="t", external=True, exists=hb.flag(b"_parent"))
    class Bad:
        k: hb.Key[int] = hb.key()


@mistake("A column alias must be text", field="a", found="b'x'")
def alias_of_bytes() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column(b"x")


@mistake("at most 32,767 bytes", field="a", length=32_768)
def long_alias_of_bytes() -> None:
    @hb.model(table="t", external=True)
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column(bytes(32_768))


@mistake("can choose the value of its flag", option="exists")
def value_of_a_flag_of_our_own() -> None:
    @hb.model(table="t", exists=hb.flag("e", b"x"))
    class Bad:
        k: hb.Key[int] = hb.key()


@mistake("It must not be empty, and must not be a 00 byte", option="exists", found="b''")
def empty_value_of_a_flag() -> None:
    @hb.model(table="t", external=True, exists=hb.flag("_0", b""))
    class Bad:
        k: hb.Key[int] = hb.key()


@mistake("It must not be empty, and must not be a 00 byte", option="exists", found=repr(bytes(9)))
def value_of_a_claim() -> None:
    @hb.model(table="t", external=True, exists=hb.flag("_0", bytes(9)))
    class Bad:
        k: hb.Key[int] = hb.key()


@mistake("a field that has a cell in every row", field="a", known=["b"])
def existence_by_a_column_with_a_default() -> None:
    @hb.model(table="t", external=True, exists="a")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column(default=3)
        b: hb.Column[int] = hb.column()


@mistake("exists takes a flag", found="'e'")
def text_for_a_flag() -> None:
    @hb.model(table="t", exists="e")
    class Bad:
        k: hb.Key[int] = hb.key()


@mistake("A flag is given to the decorator", field="e")
def flag_in_the_class() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        e = hb.flag("e")


@mistake("cannot be part of a key", field="k")
def structured_key() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[list[int]] = hb.key(hb.Json(list[int]))
        a: hb.Column[int] = hb.column("a")


@mistake("needs an annotation that allows None", field="k")
def nullable_key_without_none() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[str] = hb.key(hb.Text, nullable=True)  # type: ignore[assignment]
        a: hb.Column[int] = hb.column("a")


@mistake("The default is None, so the annotation must allow None", field="a")
def default_none_without_optional() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[Decimal] = hb.column("a", default=None)


@mistake("The codec cannot store the default", field="a", found="str")
def default_of_another_type() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a", default="x")


@mistake("The codec cannot store the default", field="a")
def default_out_of_range() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a", hb.codecs.UInt8, default=256)


@mistake(
    "The codec cannot store the default",
    field="a",
    reason="Text with a lone surrogate cannot be encoded as UTF-8: remove the surrogate.",
)
def default_without_utf8() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[str | None] = hb.column("a", default="\ud800")


@mistake("The codec cannot store the default", field="a")
def default_naive_time() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[datetime] = hb.column("a", default=datetime(2026, 1, 1))


@mistake("The codec cannot store the default", field="a")
def function_for_a_default() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[datetime] = hb.column("a", default=lambda: datetime.now(UTC))


@mistake("would be shared by all objects", field="a", found="list")
def shared_default() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[list[int]] = hb.column("a", hb.Json(list[int]), default=[])


@mistake("A default factory must take no arguments", field="a")
def default_from_self() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a", default=attrs.Factory(lambda self: self.k, takes_self=True))


@mistake("A default factory must take no arguments", field="a")
def factory_with_an_argument() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a", factory=abs)  # type: ignore[arg-type]


@mistake("Give a column a default or a factory, not both", field="a", found="3")
def default_and_factory() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a", default=3, factory=int)


@mistake("The factory must be a function that makes the default", field="a", found="[]")
def factory_that_is_a_value() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[list[int]] = hb.column("a", hb.Json(list[int]), factory=cast("Any", []))


@mistake('null="delete" cannot be used on a model with indexes', field="a")
def deleted_null_beside_an_index() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int | None] = hb.column("a", default=None, null="delete")
        b: hb.Column[int] = hb.column("b")
        by_b = hb.index("b")


@mistake('null="delete" needs an annotation that allows None', field="a")
def deleted_null_that_is_never_null() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a", default=3, null="delete")


@mistake('null="delete" needs default=None', field="a")
def deleted_null_that_must_be_there() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int | None] = hb.column("a", null="delete")


@mistake('null="delete" needs default=None', field="a")
def deleted_null_that_reads_as_something_else() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int | None] = hb.column("a", default=3, null="delete")


@mistake('null must be "marker" or "delete"', field="a", found="'drop'")
def unknown_null() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int | None] = hb.column("a", default=None, null="drop")  # type: ignore[call-overload]


@mistake("A counter must be annotated", field="a")
def optional_counter() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int | None] = hb.counter("a")  # type: ignore[assignment]


@mistake("An immutable model with indexes cannot have counters", field="c")
def counter_that_cannot_count() -> None:
    @hb.model(table="t", immutable=True)
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")
        c: hb.Column[int] = hb.counter("c")
        by_a = hb.index("a")


@mistake("cannot be called self", field="self")
def field_called_self() -> None:
    @hb.model(table="t")
    class Bad:
        self: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")


@mistake("cannot be called condition: update", field="condition")
def field_called_as_the_condition_of_an_update() -> None:
    @hb.model(table="t")
    class Bad:
        condition: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")


# --- indexes ----------------------------------------------------------------------------------------------------------


def with_index(made: Any, **options: Any) -> None:
    """Declares a model with an index."""

    @hb.model(table="t", **options)
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")
        j: hb.Column[list[int]] = hb.column("j", hb.Json(list[int]))
        c: hb.Column[int] = hb.counter("c")
        by_it = made


@mistake("names an unknown field", index="by_it", field="b", known=["a", "c", "j", "k"])
def index_of_an_unknown_field() -> None:
    with_index(hb.index("b"))


@mistake("A counter cannot be indexed", index="by_it", field="c")
def index_of_a_counter() -> None:
    with_index(hb.index("a", "c"))


@mistake("cannot be part of an index key", index="by_it", field="j")
def index_of_a_structured_column() -> None:
    with_index(hb.index("j"))


@mistake("names a field twice", index="by_it", field="a")
def index_of_a_field_twice() -> None:
    with_index(hb.index("a", hb.desc("a")))


@mistake("at least one field", index="by_it")
def index_of_nothing() -> None:
    with_index(hb.index())


@mistake("the names of fields, in quotes", index="by_it")
def index_of_a_declaration() -> None:
    with_index(hb.index(hb.column("x")))


@mistake("the names of fields, in quotes", index="by_it")
def covers_of_one_name() -> None:
    with_index(hb.index("a", covers="amount"))


@mistake("covers= takes a tuple", index="by_it")
def covers_in_no_order() -> None:
    with_index(hb.index("a", covers={"amount"}))  # type: ignore[arg-type]


@mistake("covers= takes a tuple", index="by_it")
def covers_of_none() -> None:
    with_index(hb.index("a", covers=None))  # type: ignore[arg-type]


@mistake("the names of fields, in quotes", index="by_it")
def covers_of_a_declaration() -> None:
    with_index(hb.index("a", covers=(hb.column("x"),)))


@mistake("covers an unknown field", index="by_it", field="b")
def covers_of_an_unknown_field() -> None:
    with_index(hb.index("a", covers=("b",)))


@mistake("Only ordinary columns can be covered", index="by_it", field="k")
def covers_of_a_key() -> None:
    with_index(hb.index("a", covers=("k",)))


@mistake("Only ordinary columns can be covered", index="by_it", field="c")
def covers_of_a_counter() -> None:
    with_index(hb.index("a", covers=("c",)))


@mistake("already in its key", index="by_it", field="a")
def covers_of_an_indexed_column() -> None:
    with_index(hb.index("a", covers=("a",)))


@mistake("covers a column twice", index="by_it")
def covers_twice() -> None:
    with_index(hb.index("a", covers=("j", "j")))


@mistake("A salt must be a Salt", index="by_it", found="16")
def number_for_an_index_salt() -> None:
    with_index(hb.index("a", salt=16))  # type: ignore[arg-type]


@mistake("cannot have a random salt", index="by_it")
def random_index_salt() -> None:
    with_index(hb.index("a", salt=hb.RandomSalt(4)))


@mistake("by= takes only these", index="by_it", unknown=["j"])
def index_salt_by_another_field() -> None:
    with_index(hb.index("a", salt=hb.HashSalt(4, by=("j",))))


@mistake("Indexes on an external table need @hb.model(immutable=True)")
def external_index() -> None:
    with_index(hb.index("a"), external=True)


@mistake("An index name must be an ASCII identifier", index="näme")
def index_name() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")
        näme = hb.index("a")  # noqa: PLC2401


@mistake("An index cannot be called primary", index="primary")
def index_called_primary() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")
        primary = hb.index("a")


@mistake("A part of an index is declared inside hb.index()", field="newest")
def direction_beside_an_index() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")
        newest = hb.desc("a")


# --- kinds of indexes and computed fields -----------------------------------------------------------------------------


def kind(declared: Callable[[], Any], message: str, **details: Any) -> None:
    """Says what the error of an index must hold; it is declared on a model with fields of several types."""

    def declare() -> None:
        body = {
            "k": hb.key(),
            "a": hb.column("a"),
            "b": hb.column("b", default=None),
            "n": hb.counter("n"),
            "tags": hb.column("t", hb.Json(list[str])),
            "half": hb.computed(half, of="a"),
            "by": declared(),
        }
        hints: dict[str, Any] = {"k": hb.Key[int], "a": hb.Column[int], "b": hb.Column[int | None], "n": hb.Column[int]}
        hb.model(table="t")(type("Bad", (), {**body, "__annotations__": {**hints, "tags": hb.Column[list[str]]}}))

    MISTAKES.append(pytest.param(declare, message, details, id=f"kind-{len(MISTAKES)}"))


def half(number: int) -> int:
    return number // 2


def unknown(number: int):  # type: ignore[no-untyped-def]
    return number


@hb.model(table="other")
class Other:
    k: hb.Key[int] = hb.key()
    a: hb.Column[int] = hb.column("a")


kind(lambda: hb.index("a", skip_none=True), "skip_none=True leaves out rows with None", index="by")
kind(lambda: hb.index(hb.each("tags"), skip_none=True), "skip_none=True leaves out rows with None", index="by")
kind(lambda: hb.index("a", where="a"), "where takes a function", index="by", found="str")  # type: ignore[arg-type]
kind(lambda: hb.index("a", where=lambda m: True), "where takes a function", index="by", found="bool")  # type: ignore[arg-type,return-value]
kind(
    lambda: hb.index("a", where=lambda m: m.c == 1),
    "condition of the index names an unknown field",
    index="by",
    field="c",
)
kind(lambda: hb.index("a", where=lambda m: m.n == 1), "cannot use a counter", index="by", field="n")
kind(lambda: hb.index("a", where=lambda m: m.a == "x"), "A value does not have the type", index="by", field="a")
kind(lambda: hb.index("a", where=lambda m: Other.a == 1), "fields of its own model", index="by", field="a")
kind(lambda: hb.index("a", where=lambda m: m.a.contains(1)), "contains needs a collection", index="by", field="a")
kind(lambda: hb.index("tags"), 'hb.index(hb.each("tags"))', index="by", field="tags")
kind(lambda: hb.index(hb.each("a")), "hb.each takes a collection", index="by", field="a")
kind(lambda: hb.index(hb.each("x")), "names an unknown field", index="by", field="x")
kind(lambda: hb.index(hb.each("tags"), "tags"), "names a field twice", index="by", field="tags")
kind(
    lambda: hb.index(hb.each("tags"), salt=hb.HashSalt(2, by=("a",))),
    "by= takes only these",
    index="by",
    unknown=["a"],
)
kind(lambda: hb.index("a", covers=("half",)), "Only ordinary columns can be covered", index="by", field="half")
kind(lambda: hb.computed(half, of=()), "takes a function and names", field="by")
kind(lambda: hb.computed(3, of="a"), "takes a function and names", field="by")  # type: ignore[arg-type]
kind(lambda: hb.computed(half, of="c"), "A computed field can be computed from key fields", field="by", unknown="c")
kind(lambda: hb.computed(half, of="n"), "A computed field can be computed from key fields", field="by", unknown="n")
kind(
    lambda: hb.computed(half, of="half"), "A computed field can be computed from key fields", field="by", unknown="half"
)
kind(lambda: hb.computed(half, of="a", version=0), "version of a computed field", field="by", found="0")
kind(lambda: hb.computed(half, of="a", codec=int), "The codec must be a Codec", field="by")  # type: ignore[arg-type]
kind(
    lambda: hb.computed(half, of="a", codec=hb.ids.dictionary("halves", hb.UInt32)),
    "A computed field cannot have a dictionary",
    field="by",
    dictionary="halves",
)
kind(lambda: hb.computed(unknown, of="a"), "Annotate what the function returns", field="by")
kind(lambda: hb.each("tags"), "A part of an index is declared inside hb.index()", field="by")


@mistake("A computed field must be declared without", field="half")
def annotated_computed_field() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")
        half: hb.Column[int] = hb.computed(half, of="a")  # type: ignore[assignment]


# --- the decorator ----------------------------------------------------------------------------------------------------


def with_options(**options: Any) -> None:
    """Declares a model with options of the decorator."""

    @hb.model(**{"table": "t", **options})
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")


def _named(name: str, kind: Callable[[], Any]) -> Declaration:
    names = {"k": hb.key(), name: kind(), "__annotations__": {"k": hb.Key[int], name: hb.Column[int]}}
    return lambda: hb.model(table="t")(type("Bad", (), names))


for _kind in (lambda: hb.column("a"), lambda: hb.counter("a")):
    for _name in ("class", "a b", "a=1, b", "a\nimport os", "__dict__", "__eq__", "\ufb01", "1", ""):
        MISTAKES.append(
            pytest.param(_named(_name, _kind), "The name of a field must be an identifier", {"field": _name})
        )


class OddSalt(hb.salts.Salt):
    """A custom salt with given prefixes."""

    random = True
    width = 1

    def __init__(self, *prefixes: bytes) -> None:
        self.prefixes = prefixes
        self.buckets = len(prefixes)

    def prefix(self, bucket: int) -> bytes:
        return self.prefixes[bucket]

    def bucket(self, data: bytes) -> int:
        return 0

    @property
    def spec(self) -> dict[str, Any]:
        return {"salt": "odd"}


for _prefixes in ([], [b"a", b"a"], [b"a", b"bc"], [b""], ["a", "b"]):
    MISTAKES.append(
        pytest.param(
            lambda p=_prefixes: with_options(salt=OddSalt(*p), immutable=True),
            "Every bucket of a salt needs a different",
            {},
        )
    )


@mistake("one byte, the number of the bucket")
def index_under_letters_drawn_at_random() -> None:
    @hb.model(table="t", salt=OddSalt(b"a", b"b"), immutable=True)
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")
        by_a = hb.index("a")


@mistake("RandomSalt needs @hb.model(immutable=True)")
def random_salt_on_a_mutable_model() -> None:
    with_options(salt=hb.RandomSalt(4))


@mistake("by= takes only these", unknown=["a"], fields=("k",))
def salt_by_a_column() -> None:
    with_options(salt=hb.HashSalt(4, by=("a",)))


@mistake("A salt must be a Salt", found="16")
def number_for_a_salt() -> None:
    with_options(salt=16)


def _bad_table(name: Any) -> Declaration:
    return lambda: with_options(table=name)


def _bad_family(name: Any) -> Declaration:
    return lambda: with_options(family=name)


for number, name in enumerate(["", "-t", ".t", "a b", "a/b", "a:b:c", ":t", "a:", "tä", "t\n", None, b"t"]):
    MISTAKES.append(
        pytest.param(_bad_table(name), "A table name may contain letters", {"table": name}, id=f"table name {number}")
    )
MISTAKES.append(pytest.param(_bad_table("hbase:t"), "reserved for HBase", {"table": "hbase:t"}, id="HBase's namespace"))
for number, name in enumerate(
    ["", ".d", "a:b", "a b", "a/b", "a\\b", "\0", "d\n", "\x85", "recovered.edits", None, b"d"]
):
    MISTAKES.append(
        pytest.param(
            _bad_family(name), "A column family's name must be printable", {"family": name}, id=f"family {number}"
        )
    )
MISTAKES.append(pytest.param(_bad_family("ä" * 64), "at most 127 bytes", {"length": 128}, id="long family"))


@mistake("A column family's name must be printable", field="a", family="x:y")
def family_of_a_column() -> None:
    @hb.model(table="t")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a", family="x:y")


@mistake("A model cannot extend another model")
def model_of_a_model() -> None:
    @hb.model(table="t")
    class Good:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")

    @hb.model(table="u")
    class Bad(Good):
        b: hb.Column[int] = hb.column("b")


@mistake("A model stores its fields in the instance's dictionary")
def slots() -> None:
    @hb.model(table="t")
    class Bad:
        __slots__ = ()
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("a")


@mistake("The class replaces a field or index of a", field="a")
def hidden_field() -> None:
    class Shared:
        a: hb.Column[int] = hb.column("a")

    @hb.model(table="t")
    class Bad(Shared):
        k: hb.Key[int] = hb.key()

        def a(self) -> int:  # type: ignore[override]
            return 3


@mistake("A column alias is the qualifier only", field="a")
def alias_with_its_family() -> None:
    @hb.model(table="t", family="info")
    class Bad:
        k: hb.Key[int] = hb.key()
        a: hb.Column[int] = hb.column("info:a")


@pytest.mark.parametrize(("declare", "message", "details"), MISTAKES)
def test_mistakes_are_found_at_the_decorator(declare: Declaration, message: str, details: dict[str, Any]) -> None:
    with pytest.raises(hb.DeclarationError) as caught:
        declare()
    assert message in caught.value.message
    found = {name: caught.value.details.get(name) for name in details}
    assert found == details
    assert caught.value.model == "Bad"


def test_only_a_class_can_be_a_model() -> None:
    with pytest.raises(hb.DeclarationError, match="decorates a class"):
        hb.model(table="t")(lambda: None)  # type: ignore[type-var]


def test_salts_are_checked_where_they_are_made() -> None:
    with pytest.raises(hb.DeclarationError, match="2 to 256 buckets"):
        hb.HashSalt(1)


def test_text_in_an_annotation_is_evaluated() -> None:
    @hb.model(table="t")
    class Quoted:
        k: hb.Key["datetime"] = hb.key()  # noqa: UP037
        a: hb.Column["Decimal | None"] = hb.column("a", default=None)  # noqa: UP037

    codecs = [field.codec for field in hb.schema.schema_of(Quoted).fields]
    assert codecs == [hb.Datetime("us"), hb.codecs.DecimalNumber]


@pytest.mark.parametrize("name", ["t", "T_1", "ns:t", "_t", "9", "a.b-c", "hbase_1:x.y"])
def test_names_that_hbase_takes(name: str) -> None:
    with_options(table=name)


@pytest.mark.parametrize("family", ["d", "Daten", "ä", "a.b", "'", "-", "_"])
def test_families_that_hbase_takes(family: str) -> None:
    with_options(family=family)


def test_an_error_of_a_declaration_is_a_type_error_that_shows_everything() -> None:
    with pytest.raises(TypeError, match=r"model='Bad', index='by_it', field='b'"):
        index_of_an_unknown_field()
