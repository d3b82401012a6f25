"""Typed predicates over the fields of a model: what `Action.user_id == 1` builds.

Two-valued logic, as in Python: `<` and its like are false for None, `!=` is the exact opposite of `==` and `~` of its operand,
so both include rows whose field is None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, NoReturn, TypeVar, overload

from attrs import field, frozen
from typing_extensions import override

from hbmodel.errors import EncodingError, QueryError
from hbmodel.schema import Field

T = TypeVar("T")
Comparator = Literal["=", "!=", "<", "<=", ">", ">="]
Values = Mapping[str, Any]
Test = Callable[[Values], bool]

_ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Predicate(ABC):
    """A condition on an object; combine with `&`, `|` and `~`."""

    def __and__(self, other: Predicate) -> Predicate:
        return And((*conjuncts(self), *conjuncts(_checked(other))))

    def __or__(self, other: Predicate) -> Predicate:
        return _either(self, _checked(other))

    def __invert__(self) -> Predicate:
        return self.parts[0] if isinstance(self, Not) else Not((self,))

    def __bool__(self) -> NoReturn:
        raise QueryError("A predicate has no truth value: combine predicates with &, | and ~, and write a < b & b < c for a chain.")

    @abstractmethod
    def test(self) -> Test:
        """A function from field values to whether they satisfy the predicate."""

    @abstractmethod
    def names(self) -> frozenset[str]:
        """The fields that the predicate reads."""

    @abstractmethod
    def canonical(self) -> tuple[Any, ...]:
        """The predicate as nested tuples of text and bytes, equal for equal predicates; for continuation tokens."""


def _checked(other: object) -> Predicate:
    if not isinstance(other, Predicate):
        raise QueryError("Only predicates can be combined: put each comparison in parentheses.", found=type(other).__name__)
    return other


def sort_key(of: Field) -> Callable[[Any], Any]:
    """A function that maps values of a field to what they sort by: packed bytes where the codec keeps order, else the value."""
    if of.codec.order == "ascending":
        return of.codec.encode_part
    return lambda value: value


def _packed(of: Field, value: Any) -> bytes:
    """The bytes by which equality is decided."""
    return b"" if value is None else b"\x01" + of.codec.encode(value)


@frozen(eq=False)
class Comparison(Predicate):
    """A field beside a constant, as it reads back from its bytes; the constant is never None."""

    field: Field
    operator: Comparator
    value: Any

    @override
    def test(self) -> Test:
        name, key, wanted = self.field.name, sort_key(self.field), self.value
        if self.operator == "=":
            return lambda values: bool(values[name] == wanted)
        if self.operator == "!=":
            return lambda values: bool(values[name] != wanted)
        compare, bound = _ORDERED[self.operator], key(self.value)

        def ordered(values: Values) -> bool:
            value = values[name]
            return value is not None and compare(key(value), bound)

        return ordered

    @override
    def names(self) -> frozenset[str]:
        return frozenset((self.field.name,))

    @override
    def canonical(self) -> tuple[Any, ...]:
        return (self.operator, self.field.name, _packed(self.field, self.value))


@frozen(eq=False)
class In(Predicate):
    """A field that equals one of some values; None among them matches None. `is_(None)` is the one-value case."""

    field: Field
    values: Sequence[Any]

    @override
    def test(self) -> Test:
        name, wanted = self.field.name, self.values
        try:
            known: frozenset[Any] | Sequence[Any] = frozenset(wanted)
        except TypeError:
            known = wanted

        def one_of(values: Values) -> bool:
            value = values[name]
            try:
                return value in known
            except TypeError:  # structured values need not be hashable, and None beside them is
                return value in wanted

        return one_of

    @override
    def names(self) -> frozenset[str]:
        return frozenset((self.field.name,))

    @override
    def canonical(self) -> tuple[Any, ...]:
        return ("in", self.field.name, *sorted({_packed(self.field, v) for v in self.values}))


@frozen(eq=False)
class StartsWith(Predicate):
    """A text or bytes field that starts with a prefix."""

    field: Field
    prefix: str | bytes

    @override
    def test(self) -> Test:
        name, prefix = self.field.name, self.prefix

        def starts(values: Values) -> bool:
            value = values[name]
            return value is not None and bool(value.startswith(prefix))

        return starts

    @override
    def names(self) -> frozenset[str]:
        return frozenset((self.field.name,))

    @override
    def canonical(self) -> tuple[Any, ...]:
        return ("prefix", self.field.name, self.prefix if isinstance(self.prefix, bytes) else self.prefix.encode())


@frozen(eq=False)
class And(Predicate):
    """Every part holds."""

    parts: tuple[Predicate, ...]

    @override
    def test(self) -> Test:
        tests = [part.test() for part in self.parts]
        if len(tests) == 1:
            return tests[0]
        return lambda values: all(test(values) for test in tests)

    @override
    def names(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.names() for part in self.parts))

    @override
    def canonical(self) -> tuple[Any, ...]:
        return ("and", *sorted((part.canonical() for part in self.parts), key=repr))


@frozen(eq=False)
class Or(Predicate):
    """At least one part holds."""

    parts: tuple[Predicate, ...]

    @override
    def test(self) -> Test:
        tests = [part.test() for part in self.parts]
        return lambda values: any(test(values) for test in tests)

    @override
    def names(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.names() for part in self.parts))

    @override
    def canonical(self) -> tuple[Any, ...]:
        return ("or", *sorted((part.canonical() for part in self.parts), key=repr))


@frozen(eq=False)
class Not(Predicate):
    """The one part does not hold."""

    parts: tuple[Predicate]

    @override
    def test(self) -> Test:
        test = self.parts[0].test()
        return lambda values: not test(values)

    @override
    def names(self) -> frozenset[str]:
        return self.parts[0].names()

    @override
    def canonical(self) -> tuple[Any, ...]:
        return ("not", self.parts[0].canonical())


def conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """The predicates that must all hold, conjunctions taken apart."""
    if predicate is None:
        return ()
    return predicate.parts if isinstance(predicate, And) else (predicate,)


def _either(left: Predicate, right: Predicate) -> Predicate:
    """`left | right`, with equalities on one field gathered into `In`, which the planner can turn into ranges."""
    found = [equalities(side) for side in (left, right)]
    if found[0] and found[1] and found[0][0].name == found[1][0].name:
        return In(found[0][0], (*found[0][1], *found[1][1]))
    parts = [side.parts if isinstance(side, Or) else (side,) for side in (left, right)]
    return Or((*parts[0], *parts[1]))


def equalities(predicate: Predicate) -> tuple[Field, Sequence[Any]] | None:
    """The field and the values that it must be one of, where the predicate is just that."""
    if isinstance(predicate, Comparison) and predicate.operator == "=":
        return predicate.field, (predicate.value,)
    if isinstance(predicate, In):
        return predicate.field, predicate.values
    return None


@frozen(eq=False)
class Ordering:
    """A field with a direction, for `order_by`."""

    field: Field
    desc: bool


@frozen(eq=False, repr=False)
class FieldExpression(Generic[T]):
    """A field as it stands on the model class; comparing it builds a predicate.

    Values are checked at once: one that the field cannot store exactly is an `EncodingError` that names the field.
    """

    of: Field = field(alias="of")
    model: str = ""

    def __repr__(self) -> str:
        return f"{self.model}.{self.of.name}"

    def __hash__(self) -> int:
        return hash((self.model, self.of.name))

    def __bool__(self) -> NoReturn:
        raise QueryError("A field has no truth value on the class: compare it, or read it from an instance.", field=self.of.name)

    def _value(self, value: Any) -> Any:
        """A value as it would read back; None where the field allows it."""
        self._not_a_field(value)
        if value is None:
            if not self.of.nullable:
                raise EncodingError("The field does not allow None, so no object has None there.", field=self.of.name)
            return None
        codec = self.of.codec
        try:
            if codec.key:
                codec.encode_part(value)
            return codec.decode(codec.encode(value))
        except EncodingError as error:
            raise EncodingError(error.message, **{**error.details, "field": self.of.name}) from None

    def _not_a_field(self, value: object) -> None:
        if isinstance(value, FieldExpression):
            raise QueryError("A field can be compared with values only, not with another field.", field=self.of.name)

    def _compare(self, operator: Comparator, value: Any) -> Predicate:
        if value is None and operator not in {"=", "!="}:
            raise QueryError("None has no order: use .is_(None) or ~field.is_(None).", field=self.of.name)
        if operator not in {"=", "!="}:
            return self._ordered(operator, value)
        checked = self._value(value)
        if checked is None:
            return In(self.of, (None,)) if operator == "=" else Not((In(self.of, (None,)),))
        return Comparison(self.of, operator, checked)

    def _ordered(self, operator: Comparator, value: Any) -> Predicate:
        """A comparison with a bound that need not be storable: `at >= noon and half a second` has a meaning for whole seconds."""
        self._not_a_field(value)
        try:
            floor = self.of.codec.floor(value)
        except EncodingError as error:
            raise EncodingError(error.message, **{**error.details, "field": self.of.name}) from None
        if floor is None:  # every storable value is above it
            return In(self.of, ()) if operator in {"<", "<="} else Not((In(self.of, (None,)),))
        checked = self._value(floor)
        if floor is not value and floor != value:  # the nearest storable value lies below: it is within `<`, and not within `>=`
            operator = "<=" if operator in {"<", "<="} else ">"
        if self.of.codec.order is None and not _sortable(checked):
            raise QueryError("Values of this field have no order.", field=self.of.name)
        return Comparison(self.of, operator, checked)

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
        """Equal to one of `values`; an empty collection matches nothing."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise QueryError("in_ takes a collection of values.", field=self.of.name, found=type(values).__name__)
        return In(self.of, tuple(self._value(v) for v in values))

    def is_(self, value: None) -> Predicate:
        """The field is None; negate it with `~`."""
        if value is not None:
            raise QueryError("is_ takes None only: compare values with ==.", field=self.of.name)
        return In(self.of, (self._value(None),))

    @overload
    def startswith(self: FieldExpression[str], prefix: str) -> Predicate: ...
    @overload
    def startswith(self: FieldExpression[str | None], prefix: str) -> Predicate: ...
    @overload
    def startswith(self: FieldExpression[bytes], prefix: bytes) -> Predicate: ...
    @overload
    def startswith(self: FieldExpression[bytes | None], prefix: bytes) -> Predicate: ...
    def startswith(self: FieldExpression[Any], prefix: str | bytes) -> Predicate:
        """A text or bytes field that starts with `prefix`; the empty prefix matches every value but None."""
        wanted = self.of.codec.python_type
        if wanted not in {str, bytes} or not isinstance(prefix, wanted):
            raise QueryError(
                "startswith needs a text field and text, or a bytes field and bytes.", field=self.of.name, found=type(prefix).__name__
            )
        if isinstance(prefix, str):
            try:
                prefix.encode()
            except UnicodeEncodeError:
                raise EncodingError("Text with a lone surrogate has no UTF-8.", field=self.of.name) from None
        return StartsWith(self.of, prefix)

    def desc(self) -> Ordering:
        """Descending, for `order_by`."""
        return Ordering(self.of, True)

    def asc(self) -> Ordering:
        """Ascending, for `order_by` (what a bare field means)."""
        return Ordering(self.of, False)


def _sortable(value: Any) -> bool:
    try:
        return not value < value  # noqa: PLR0124
    except TypeError:
        return False
