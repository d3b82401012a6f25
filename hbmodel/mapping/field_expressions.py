"""Fields as attributes of a model class; comparing them builds predicates: `Action.user_id == 1`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from attrs import field, frozen

from hbmodel.encoding.codecs.base import below
from hbmodel.errors import EncodingError, QueryError
from hbmodel.mapping.collection_elements import element_of
from hbmodel.mapping.model_field import Field
from hbmodel.mapping.predicates import Comparator, Comparison, Contains, In, Not, Ordering, Predicate, StartsWith

T = TypeVar("T")
V = TypeVar("V")

_NAMED_ELSEWHERE = {
    **dict.fromkeys(("is_not", "isnot"), "~Model.field.is_(None)"),
    **dict.fromkeys(("isnull", "is_null", "does_not_exist", "exists"), "Model.field.is_(None), or ~ before it"),
    **dict.fromkeys(("not_in", "notin_", "notin"), "~Model.field.in_(values)"),
    **dict.fromkeys(("is_in", "isin", "any_"), "Model.field.in_(values)"),
    **dict.fromkeys(("has", "any", "overlaps"), "Model.field.contains(element)"),
    **dict.fromkeys(("like", "begins_with"), "Model.field.startswith(prefix)"),
    "descending": "Model.field.desc() in order_by",
    **dict.fromkeys(("year", "month", "day", "date"), "a range, such as Model.field >= first, Model.field < next"),
    **dict.fromkeys(
        ("lower", "upper", "casefold", "strip", "split", "endswith", "icontains", "ilike", "iexact", "istartswith"),
        "a condition on another field, declared with hb.computed(function, of=name), on which there can be an index",
    ),
}
"""Names of methods and lookups in SQLAlchemy, Django and PynamoDB, and of methods of Python values, each with what to
write in a condition instead.
"""


@frozen(eq=False, repr=False)
class FieldExpression(Generic[T]):
    """A field as an attribute of the model class; comparing it builds a predicate.

    Values are checked immediately: a value that the field cannot store exactly raises an `EncodingError` that names the
    field.
    """

    of: Field = field(alias="of")
    model: str = ""

    def __repr__(self) -> str:
        return f"{self.model}.{self.of.name}"

    def __hash__(self) -> int:
        return hash((self.model, self.of.name))

    def __bool__(self) -> NoReturn:
        raise QueryError(
            "A field has no truth value on the class: compare it, or read it from an instance.", field=self.of.name
        )

    def checked(self, value: Any) -> Any:
        """Returns the value in the form that a read of the field would return. None is accepted if the field allows
        None.
        """
        if isinstance(value, FieldExpression):
            self._refuse_field()
        if value is None:
            if not self.of.nullable:
                raise EncodingError(
                    "The field does not allow None, so no object has None in it: remove the comparison.",
                    field=self.of.name,
                )
            return None
        try:
            return self.of.codec.constant(value)
        except EncodingError as error:
            raise EncodingError(error.message, **{**error.details, "field": self.of.name}) from None

    def _refuse_field(self) -> NoReturn:
        raise QueryError(
            "A field can be compared with values only, not with another field: compare two fields in the program.",
            field=self.of.name,
        )

    def _compare(self, operator: Comparator, value: Any) -> Predicate:
        if value is None and operator not in {"=", "!="}:
            raise QueryError("None has no order: use .is_(None) or ~field.is_(None).", field=self.of.name)
        if operator not in {"=", "!="}:
            return self._ordered(operator, value)
        checked = self.checked(value)
        if checked is None:
            return In(self.of, (None,)) if operator == "=" else Not((In(self.of, (None,)),))
        return Comparison(self.of, operator, checked)

    def _ordered(self, operator: Comparator, value: Any) -> Predicate:
        """Makes a comparison with a bound that the field need not be able to store: `at >= 12:00:00.5` has a meaning
        even if the field stores whole seconds.
        """
        if isinstance(value, FieldExpression):
            self._refuse_field()
        try:
            floor, exact = below(self.of.codec, value)
        except (EncodingError, QueryError) as error:
            raise type(error)(error.message, **{**error.details, "field": self.of.name}) from None
        if floor is None:  # every storable value is above it
            # `<` matches no row, and `>` every row whose field is not None. `In` and its negation express this without
            # a bound that no key can contain, and stay correct if they are negated.
            return (
                In(self.of, ()) if operator in {"<", "<="} else Not((In(self.of, (None,) if self.of.nullable else ()),))
            )
        checked = self.checked(floor)
        if not exact:  # the nearest storable value is below the bound: `<` includes it, and `>=` does not
            operator = "<=" if operator in {"<", "<="} else ">"
        if not _sortable(self.of.codec.order_key(checked)):
            raise QueryError("Values of this field have no order: compare with == or in_.", field=self.of.name)
        return Comparison(self.of, operator, checked)

    if not TYPE_CHECKING:  # type checkers report these by themselves

        def _unbracketed(self, other: object) -> NoReturn:
            raise QueryError(
                "& and | bind tighter than comparisons: put each comparison into parentheses, (A == 1) | (B == 2).",
                field=self.of.name,
            )

        __and__ = __rand__ = __or__ = __ror__ = _unbracketed

        def __getattr__(self, name: str) -> NoReturn:
            advice = _NAMED_ELSEWHERE.get(name)
            raise AttributeError(
                f"A field of a model class has no attribute {name!r}" + (f": write {advice}." if advice else "."),
                name=name,
                obj=self,
            )

        def __contains__(self, value: object) -> NoReturn:
            raise QueryError(
                "Python turns `in` into a truth value: write Model.field.contains(value) for an element of the field, "
                "and Model.field.in_([...]) for a field that has one of several values.",
                field=self.of.name,
            )

        def __invert__(self) -> NoReturn:
            raise QueryError("~ negates a condition, ~(A == 1), and a field is not a condition.", field=self.of.name)

        def __neg__(self) -> NoReturn:
            raise QueryError("A descending order is written field.desc().", field=self.of.name)

    def __eq__(self, other: T) -> Predicate:  # type: ignore[override]
        return self._compare("=", other)

    def __ne__(self, other: T) -> Predicate:  # type: ignore[override]
        return self._compare("!=", other)

    def __lt__(self, other: T) -> Predicate:
        return self._compare("<", other)

    def __le__(self, other: T) -> Predicate:
        return self._compare("<=", other)

    def __gt__(self, other: T) -> Predicate:
        return self._compare(">", other)

    def __ge__(self, other: T) -> Predicate:
        return self._compare(">=", other)

    def between(self, low: T, high: T) -> Predicate:
        """`low <= field <= high`, both ends included."""
        return (self >= low) & (self <= high)

    def in_(self, values: Iterable[T]) -> Predicate:
        """Returns the condition that the field equals one of `values`. No object satisfies it if `values` is empty.

        The order of `values` does not matter: items are in the order of this field. With `order_by` on a later field of
        the key, they are in the order of that field, and this field comes last in the order.
        """
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise QueryError("in_ takes a collection of values.", field=self.of.name, found=type(values).__name__)
        return In(self.of, tuple(self.checked(v) for v in values))

    def is_(self, value: None) -> Predicate:
        """Returns the condition that the field is None. Its negation is written with `~`."""
        if value is not None:
            raise QueryError("is_ takes None only: compare values with ==.", field=self.of.name)
        return In(self.of, (self.checked(None),))

    @overload
    def startswith(self: FieldExpression[str], prefix: str) -> Predicate: ...
    @overload
    def startswith(self: FieldExpression[str | None], prefix: str) -> Predicate: ...
    @overload
    def startswith(self: FieldExpression[bytes], prefix: bytes) -> Predicate: ...
    @overload
    def startswith(self: FieldExpression[bytes | None], prefix: bytes) -> Predicate: ...
    def startswith(self: FieldExpression[Any], prefix: str | bytes) -> Predicate:
        """Returns the condition that a text or bytes field starts with `prefix`. Every value except None starts with
        the empty prefix.
        """
        wanted = self.of.codec.python_type
        if wanted not in {str, bytes} or not isinstance(prefix, wanted):
            raise QueryError(
                "startswith needs a text field and text, or a bytes field and bytes.",
                field=self.of.name,
                found=type(prefix).__name__,
            )
        if isinstance(prefix, str):
            try:
                prefix.encode()
            except UnicodeEncodeError:
                raise EncodingError(
                    "Text with a lone surrogate cannot be encoded as UTF-8: remove the surrogate.", field=self.of.name
                ) from None
        return StartsWith(self.of, prefix)

    @overload
    def contains(self: FieldExpression[list[V]], value: V) -> Predicate: ...
    @overload
    def contains(self: FieldExpression[list[V] | None], value: V) -> Predicate: ...
    @overload
    def contains(self: FieldExpression[tuple[V, ...]], value: V) -> Predicate: ...
    @overload
    def contains(self: FieldExpression[tuple[V, ...] | None], value: V) -> Predicate: ...
    @overload
    def contains(self: FieldExpression[set[V]], value: V) -> Predicate: ...
    @overload
    def contains(self: FieldExpression[set[V] | None], value: V) -> Predicate: ...
    @overload
    def contains(self: FieldExpression[frozenset[V]], value: V) -> Predicate: ...
    @overload
    def contains(self: FieldExpression[frozenset[V] | None], value: V) -> Predicate: ...
    def contains(self: FieldExpression[Any], value: Any) -> Predicate:
        """Returns the condition that a collection field contains this element. Combine such conditions with `|` to find
        one of several elements, and with `&` to find all of them.
        """
        element = element_of(self.of)
        if element is None:
            raise QueryError(
                "contains needs a collection whose annotation names the type of its elements, and keys must be able "
                "to store this type. For the beginning of a text, write startswith(prefix).",
                field=self.of.name,
            )
        return Contains(self.of, element, (FieldExpression[Any](of=element, model=self.model).checked(value),))

    def desc(self) -> Ordering:
        """Descending order, for `order_by`."""
        return Ordering(self.of, True)

    def asc(self) -> Ordering:
        """Ascending order, for `order_by` (the default for a field)."""
        return Ordering(self.of, False)


def _sortable(value: Any) -> bool:
    try:
        return not value < value  # noqa: PLR0124
    except TypeError:
        return False
