"""Typed predicates on the fields of a model, and their parts.

The logic has two values, as in Python: `<` and similar comparisons are false for None. `!=` is the exact opposite of
`==`, and `~` gives the exact opposite of its operand. So `!=` and, for example, `~(a < 1)` include rows whose field is
None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn

from attrs import frozen
from typing_extensions import override

from hbmodel.errors import QueryError
from hbmodel.mapping.model_field import Field, Values

Comparator = Literal["=", "!=", "<", "<=", ">", ">="]
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

    def __repr__(self) -> str:
        return describe(self)

    def __bool__(self) -> NoReturn:
        raise QueryError(
            "A predicate has no truth value: combine predicates with &, | and ~. Write (a < b) & (b < c) for a chain, "
            "and field.in_([...]) for `in`."
        )

    @abstractmethod
    def test(self) -> Test:
        """Returns a function that tests whether field values satisfy the predicate."""

    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """Returns the fields that the predicate refers to."""

    def names(self) -> frozenset[str]:
        """Returns the names of the fields that the predicate refers to."""
        return frozenset(field.name for field in self.fields())

    def reads(self) -> frozenset[str]:
        """Returns the stored fields that the predicate's value depends on."""
        return frozenset[str]().union(*(field.reads for field in self.fields()))

    @abstractmethod
    def canonical(self) -> tuple[Any, ...]:
        """Returns the predicate as nested tuples of text and bytes, for continuation tokens. Equal predicates have
        equal tuples.
        """


def _checked(other: object) -> Predicate:
    if not isinstance(other, Predicate):
        raise QueryError(
            "Only predicates can be combined: put each comparison in parentheses.", found=type(other).__name__
        )
    return other


def is_nan(value: Any) -> bool:
    """Whether a value is a NaN; queries treat all NaNs as equal."""
    return isinstance(value, float) and value != value  # noqa: PLR0124


def _packed(field: Field, value: Any) -> bytes:
    """Returns the bytes that represent a value in `canonical`."""
    return b"" if value is None else b"\x01" + field.codec.encode(value)


@frozen(eq=False, repr=False)
class Comparison(Predicate):
    """A comparison of a field with a constant. The constant has the form that a read returns, and is never None."""

    field: Field
    operator: Comparator
    value: Any

    @override
    def test(self) -> Test:
        name, key, wanted = self.field.name, self.field.codec.order_key, self.value
        if is_nan(wanted) and self.operator in {"=", "!="}:
            equal = self.operator == "="
            return self.field.tested(lambda values: is_nan(values[name]) is equal)
        if self.operator == "=":
            return self.field.tested(lambda values: bool(values[name] == wanted))
        if self.operator == "!=":
            return self.field.tested(lambda values: bool(values[name] != wanted))
        compare, bound = _ORDERED[self.operator], key(self.value)

        def ordered(values: Values) -> bool:
            value = values[name]
            try:
                return value is not None and compare(key(value), bound)
            except TypeError:  # only for structured values, because their type may allow values that cannot be compared
                raise QueryError(
                    "A stored value and the value of the predicate have no order: compare with == or in_.",
                    field=name,
                ) from None

        return self.field.tested(ordered)

    @override
    def fields(self) -> tuple[Field, ...]:
        return (self.field,)

    @override
    def canonical(self) -> tuple[Any, ...]:
        return (self.operator, self.field.name, _packed(self.field, self.value))


@frozen(eq=False, repr=False)
class In(Predicate):
    """The condition that a field equals one of the given values, which may include None. The call `is_(None)` returns
    an `In` whose only value is None.
    """

    field: Field
    values: Sequence[Any]

    @override
    def test(self) -> Test:
        name, wanted = self.field.name, self.values
        nan = any(map(is_nan, wanted))
        try:
            known: frozenset[Any] | Sequence[Any] = frozenset(wanted)
        except TypeError:
            known = wanted

        def one_of(values: Values) -> bool:
            value = values[name]
            try:
                return value in known or (nan and is_nan(value))
            except TypeError:  # a structured value need not be hashable, even if the wanted values are, such as None
                return value in wanted

        return self.field.tested(one_of)

    @override
    def fields(self) -> tuple[Field, ...]:
        return (self.field,)

    @override
    def canonical(self) -> tuple[Any, ...]:
        return ("in", self.field.name, *sorted({_packed(self.field, v) for v in self.values}))


@frozen(eq=False, repr=False)
class StartsWith(Predicate):
    """The condition that a text or bytes field starts with a prefix."""

    field: Field
    prefix: str | bytes

    @override
    def test(self) -> Test:
        name, prefix = self.field.name, self.prefix

        def starts(values: Values) -> bool:
            value = values[name]
            return value is not None and bool(value.startswith(prefix))

        return self.field.tested(starts)

    @override
    def fields(self) -> tuple[Field, ...]:
        return (self.field,)

    @override
    def canonical(self) -> tuple[Any, ...]:
        return ("prefix", self.field.name, self.prefix if isinstance(self.prefix, bytes) else self.prefix.encode())


@frozen(eq=False, repr=False)
class Contains(Predicate):
    """The condition that a collection contains at least one of the given elements. None and the empty collection do not
    satisfy this condition.
    """

    field: Field
    element: Field
    values: Sequence[Any]

    @override
    def test(self) -> Test:
        name, wanted = self.field.name, self.values

        def contains(values: Values) -> bool:
            collection = values[name]
            return collection is not None and any(value in collection for value in wanted)

        return self.field.tested(contains)

    @override
    def fields(self) -> tuple[Field, ...]:
        return (self.field,)

    @override
    def canonical(self) -> tuple[Any, ...]:
        return ("contains", self.field.name, *sorted({_packed(self.element, v) for v in self.values}))


@frozen(eq=False, repr=False)
class And(Predicate):
    """The condition that all parts hold."""

    parts: tuple[Predicate, ...]

    @override
    def test(self) -> Test:
        tests = [part.test() for part in self.parts]
        if len(tests) == 1:
            return tests[0]
        return lambda values: all(test(values) for test in tests)

    @override
    def fields(self) -> tuple[Field, ...]:
        return tuple(field for part in self.parts for field in part.fields())

    @override
    def canonical(self) -> tuple[Any, ...]:
        return ("and", *sorted((part.canonical() for part in self.parts), key=repr))


@frozen(eq=False, repr=False)
class Or(Predicate):
    """The condition that at least one part holds."""

    parts: tuple[Predicate, ...]

    @override
    def test(self) -> Test:
        tests = [part.test() for part in self.parts]
        return lambda values: any(test(values) for test in tests)

    @override
    def fields(self) -> tuple[Field, ...]:
        return tuple(field for part in self.parts for field in part.fields())

    @override
    def canonical(self) -> tuple[Any, ...]:
        return ("or", *sorted((part.canonical() for part in self.parts), key=repr))


@frozen(eq=False, repr=False)
class Not(Predicate):
    """The negation of one predicate."""

    parts: tuple[Predicate]

    @override
    def test(self) -> Test:
        test = self.parts[0].test()
        return lambda values: not test(values)

    @override
    def fields(self) -> tuple[Field, ...]:
        return self.parts[0].fields()

    @override
    def canonical(self) -> tuple[Any, ...]:
        return ("not", self.parts[0].canonical())


def conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """Returns the predicates that must all hold: the parts of a conjunction, or else the predicate itself."""
    if predicate is None:
        return ()
    return predicate.parts if isinstance(predicate, And) else (predicate,)


def _either(left: Predicate, right: Predicate) -> Predicate:
    """`left | right`. Equalities on one field are combined into one `In`, and elements of one collection into one
    `Contains`, because the planner can turn these into ranges.
    """
    sides = [equalities(side) for side in (left, right)]
    if sides[0] and sides[1] and sides[0][0].name == sides[1][0].name:
        return In(sides[0][0], (*sides[0][1], *sides[1][1]))
    if isinstance(left, Contains) and isinstance(right, Contains) and left.field.name == right.field.name:
        return Contains(left.field, left.element, (*left.values, *right.values))
    parts = [side.parts if isinstance(side, Or) else (side,) for side in (left, right)]
    return Or((*parts[0], *parts[1]))


def equalities(predicate: Predicate) -> tuple[Field, Sequence[Any]] | None:
    """Returns the field and its possible values, if the predicate is an equality or an `In`; otherwise None."""
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


def describe(predicate: Predicate) -> str:
    """Returns a predicate as text, without its values."""
    match predicate:
        case And(parts):
            return f"({' & '.join(describe(part) for part in parts)})"
        case Or(parts):
            return f"({' | '.join(describe(part) for part in parts)})"
        case Not((part,)):
            return f"~{describe(part)}" if isinstance(part, And | Or) else f"~({describe(part)})"
        case Comparison(field, operator):
            return f"{field.name} {'==' if operator == '=' else operator} ..."
        case In(field, (None,)):
            return f"{field.name} is None"
        case In(field):
            return f"{field.name} in ..."
        case StartsWith(field):
            return f"{field.name} starts with ..."
        case Contains(field):
            return f"{field.name} contains ..."
    return ", ".join(sorted(predicate.names()))
