"""Hypothesis strategies for whole models, their rows and queries, in which each predicate has an equivalent Python
function.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import attrs
from attrs import evolve
from hypothesis import assume
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.errors import KeyTooLong
from hbmodel.mapping.collection_elements import element_of
from hbmodel.mapping.predicates import And, Not, Or, Predicate
from hbmodel.mapping.rows.mapper import KeyMapper
from hbmodel.mapping.schema import FLAG, LIVE, Index, TableSchema
from hbmodel.mapping.version_cell import VersionCell
from hbmodel.store import Row
from hbmodel.store.embedded.cells import StoredCell, StoredRow
from tests.support.random_kinds import COMPUTED, COMPUTED_POOLS, ELEMENTS, collections, empty_of, repeated
from tests.support.strategies import (
    BYTES,
    KEY_CODECS,
    SPLITS,
    as_read,
    changes,
    given_as,
    instants,
    plain,
    unit_of,
    values_of,
)

Values = Mapping[str, Any]
Oracle = Callable[[Values], bool]

STRUCTURED = hb.Json(list[int])
COLUMN_CODECS = (*KEY_CODECS, STRUCTURED, hb.Text, hb.Bytes, hb.Text, hb.codecs.Int8)

ORDERED_CODECS = tuple(codec for codec in KEY_CODECS if codec.order and codec.raw_order)
"""The codecs whose bytes keep the order at any place of a key."""

ROUNDING_CODECS = tuple(codec for codec in KEY_CODECS if unit_of(codec) > 1)
"""Codecs that round."""

DESCENDING_CODECS = tuple(codec for codec in KEY_CODECS if codec.order == "descending")
"""Codecs that store the largest value first."""

QUALIFIERS = ("a", "b", "x'y", "0", "ü", "a b", "z:z", "'", "\0")
"""Aliases, some of which must be escaped in a filter string."""


@cache
def codec_values(codec: hb.Codec[Any]) -> st.SearchStrategy[Any]:
    """Returns a strategy for the values that a column's codec can store."""
    return st.lists(st.integers(0, 3), max_size=3) if codec == STRUCTURED else values_of(codec)


@attrs.frozen
class RandomModel:
    """A model, and for each of its fields the few values that its rows have.

    Attributes:
        model: the class.
        pools: the values of the stored fields.
        computed: the values of the computed fields.
        wheres: for each partial index, a function that tests whether a row satisfies its condition.
    """

    model: Any
    pools: Mapping[str, Sequence[Any]]
    computed: Mapping[str, Sequence[Any]] = {}
    wheres: Mapping[str, Oracle] = {}

    @property
    def schema(self) -> TableSchema:
        """The schema of the model."""
        return hb.schema.schema_of(self.model)

    def expression(self, name: str) -> Any:
        """Returns the field as an attribute of the class."""
        return getattr(self.model, name)

    def value(self, values: Values, name: str) -> Any:
        """Returns the value of a field, stored or computed, in a row."""
        return self.schema.by_name[name].value_in(values)


@cache
def pools(codec: hb.Codec[Any]) -> st.SearchStrategy[list[Any]]:
    """Returns a strategy for the few values that the rows of a model have in a column with a codec."""
    return st.lists(codec_values(codec), min_size=1, max_size=4)


# A strategy is checked at its first draw, so each strategy is made only once.
BOOLEANS = st.booleans()
ALIASES = st.permutations(QUALIFIERS)


@cache
def _one_of(codecs: Sequence[hb.Codec[Any]]) -> st.SearchStrategy[hb.Codec[Any]]:
    return st.sampled_from(codecs)


@cache
def _salts(names: tuple[str, ...], random: bool) -> st.SearchStrategy[hb.salts.Salt | None]:
    by = st.sampled_from([(), (names[0],), names, (names[-1],)])
    kinds: list[st.SearchStrategy[Any]] = [
        st.none(),
        st.builds(hb.HashSalt, st.sampled_from([2, 3, 256]), by=by),
        st.builds(hb.salts.TextSalt, st.just(("b-", "a-", "\xff\xff".encode("latin-1"))), by=by),
        st.builds(hb.salts.DigestSalt, st.just(1), by=by),
        st.builds(hb.salts.JavaHashSalt, st.just(5), by=by),
    ]
    return st.one_of(*kinds, st.builds(hb.RandomSalt, st.just(3))) if random else st.one_of(*kinds)


def _factory(value: Any) -> Any:
    return attrs.Factory(lambda: value)


@st.composite
def models(
    draw: st.DrawFn,
    codecs: Sequence[hb.Codec[Any]] = KEY_CODECS,
    versions: bool = False,
    covering: bool = False,
    wide: bool = False,
    columns: Sequence[hb.Codec[Any]] = COLUMN_CODECS,
) -> RandomModel:
    """Returns a model of any layout with the given codecs: with any directions, None, salts, defaults, families, a flag
    and indexes of any kind.

    With `versions`, some models have a version: their rows always have system cells, and their values include the
    version. With `covering`, the model is immutable or versioned, without a random salt, and has at least one index,
    and its indexes cover columns. With `wide`, some models have key fields in the qualifier, a split field, a constant
    row or a kind.
    """
    body: dict[str, Any] = {}
    hints: dict[str, Any] = {}
    values: dict[str, Sequence[Any]] = {}

    def declare(name: str, spec: Any, kind: Any, found: Sequence[Any], nullable: bool, hint: Any = Any) -> None:
        body[name], hints[name] = spec, kind[hint | None if nullable else hint]
        values[name] = [*found, None] if nullable else found

    keys = [f"k{number}" for number in range(draw(st.integers(1, 3)))]
    wide = wide and draw(BOOLEANS)
    rows = draw(st.integers(0, len(keys))) if wide else len(keys)
    split = draw(st.sampled_from(SPLITS)) if wide and rows and draw(BOOLEANS) else None
    for at, name in enumerate(keys):
        codec, nullable = draw(_one_of(tuple(codecs))), draw(BOOLEANS)
        stands: dict[str, Any] = {} if at < rows else {"in_qualifier": True}
        if split is not None and at == rows - 1:
            codec, nullable, stands = split[0], False, {"row_span": draw(st.sampled_from(split[1]))}
        declare(name, hb.key(codec, desc=draw(BOOLEANS), **stands), hb.Key, draw(pools(codec)), nullable)
    stored = [f"c{number}" for number in range(draw(st.integers(1, 3)))]
    aliases = draw(ALIASES)
    indexable = [*keys]
    for name, alias in zip(stored, aliases, strict=False):
        codec, nullable = draw(_one_of(tuple(columns))), draw(BOOLEANS)
        kinds = ["required", "value", *(["none"] if nullable else [])]
        match draw(st.sampled_from(kinds)):
            case "required":
                options: dict[str, Any] = {}
            case "none":
                options = {"default": None}
            case _:
                value = given_as(draw, codec, draw(codec_values(codec)))
                options = {"default": _factory(value) if draw(BOOLEANS) or codec == STRUCTURED else value}
        family = "d" if wide else draw(st.sampled_from(["d", "d", "x"]))
        declare(name, hb.column(alias, codec, family=family, **options), hb.Column, draw(pools(codec)), nullable)
        if codec.key:
            indexable.append(name)
    if draw(BOOLEANS):
        body["n"], hints["n"] = hb.counter("n"), hb.Column[int]
        values["n"] = [0, 1, -1, -(2**63), 2**63 - 1]

    several: list[str] = []
    if draw(BOOLEANS):
        held, nullable = draw(collections()), draw(BOOLEANS)
        declare(
            "s",
            hb.column("s", hb.Json(held.hint)),
            hb.Column,
            draw(st.lists(held.values, min_size=3, max_size=4)),
            nullable,
            held.hint,
        )
        several.append("s")
    computed: dict[str, Sequence[Any]] = {}
    for name in draw(st.lists(st.sampled_from(sorted(COMPUTED)), unique=True)):
        function, hint = COMPUTED[name]
        of = draw(
            st.lists(st.sampled_from([name for name in values if name != "n"]), min_size=1, max_size=2, unique=True)
        )
        codec = hb.Json(hint) if name == "q" else hb.codecs.Int8
        body[name] = hb.computed(
            function, of=of, codec=codec if draw(BOOLEANS) and name != "q" else None, nullable=name == "p"
        )
        computed[name] = COMPUTED_POOLS[name]
        (several if name == "q" else indexable).append(name)

    salt = draw(_salts(tuple(keys[:rows]), random=not covering and not wide)) if rows else None
    flag = hb.flag("e") if draw(BOOLEANS) else None
    immutable = draw(BOOLEANS) if covering else isinstance(salt, hb.RandomSalt)
    if not immutable if covering else versions and not wide and not isinstance(salt, hb.RandomSalt) and draw(BOOLEANS):
        body["version"], hints["version"] = hb.version(), hb.Column[int]
    options = {"salt": salt, "immutable": immutable, "exists": flag}
    if wide:
        options |= {"kind": draw(st.sampled_from([None, b"p", b"\0", b"\xff"])), "row": None if rows else b"pets"}

    def made(**indexes: Any) -> Any:
        if options["immutable"] and indexes and "n" in body:
            del body["n"], hints["n"], values["n"]
        return hb.model(table="t", **options)(
            type("Made", (), {**body, **indexes, "__annotations__": hints, "__module__": __name__})
        )

    indexes: dict[str, Any] = {}
    wheres: dict[str, Oracle] = {}
    for number in range(draw(st.integers(int(covering), 2))):
        names = draw(st.lists(st.sampled_from([*indexable, *several]), min_size=1, max_size=2, unique=True))
        if several and not set(several) & set(names) and draw(BOOLEANS):
            names.insert(draw(st.integers(0, 1)), draw(st.sampled_from(several)))
        plain_fields = RandomModel(made(), values, computed)
        turned: list[Any] = [
            hb.each(name, desc=draw(BOOLEANS))
            if name in several
            else draw(st.sampled_from([hb.asc(name), hb.desc(name), name]))
            for name in names
        ]
        fields = [element_of(of) if of.name in several else of for of in map(plain_fields.schema.field, names)]
        none = not any(of is not None and of.nullable for of in fields) or draw(BOOLEANS)
        where = None
        if draw(st.integers(0, 2)) == 0:
            uncounted = evolve(plain_fields, pools={name: pool for name, pool in values.items() if name != "n"})
            condition, wheres[f"i{number}"] = draw(predicates(uncounted, 1))
            where = repeated(condition)
        uncovered = [name for name in [*stored, "s"] if name in body and name not in names]
        covers = (
            draw(st.lists(st.sampled_from(uncovered), unique=True) | st.just(uncovered))
            if covering and uncovered
            else ()
        )
        index = hb.index(
            *turned, salt=draw(_salts(tuple(names), random=False)), skip_none=not none, where=where, covers=covers
        )
        try:
            made(**{f"i{number}": index})
        except hb.DeclarationError as error:
            if "already has the order" not in error.message:
                raise
            continue
        indexes[f"i{number}"] = index
    assume(indexes or not covering)
    return RandomModel(made(**indexes), values, computed, wheres)


@attrs.frozen
class StoredObject:
    """A stored row: its values in the form that a read returns, its row key and its cells, some of which may be
    missing.
    """

    values: Values
    row: bytes
    cells: Mapping[bytes, bytes]

    def read(self, columns: Sequence[bytes]) -> Row | None:
        """Returns the part of the row that a scan of these columns or families returns."""
        found = {
            c: StoredCell(v, 1)
            for c, v in sorted(self.cells.items())
            if not columns or c in columns or c.partition(b":")[0] in columns
        }
        return StoredRow(self.row, found) if found else None


@st.composite
def stored_objects(
    draw: st.DrawFn, of: RandomModel, indexed: bool, max_size: int = 8, blanks: bool = False
) -> list[StoredObject]:
    """Returns objects with different keys, stored as hbmodel or, if a default allows it, as an older program writes
    them.

    With `blanks`, some cells are empty, as after a full write over a dead row with cells of another program.
    """
    absent = ["written", "absent", *(["blank"] if blanks else [])]
    schema = of.schema
    mapper = KeyMapper(schema)
    made: dict[tuple[bytes, ...], StoredObject] = {}
    for _ in range(draw(st.sampled_from([1, max_size // 2, max_size]))):
        values = {name: as_read(draw(st.sampled_from(pool))) for name, pool in of.pools.items()}
        cells: dict[bytes, bytes] = {}
        for f in schema.columns:
            if f.kind == "version":
                continue
            match draw(st.sampled_from(["written"] if f.required else absent)):
                case "written":
                    cells[f.column] = f.encode_cell(values[f.name])
                case "absent":
                    values[f.name] = as_read(f.default_value())
                case _:
                    cells[f.column] = b""
                    values[f.name] = as_read(f.default_value()) if f.empty_is_missing else f.decode_cell(b"")
        if schema.exists_column is not None:
            cells[schema.exists_column] = FLAG
        if schema.versioned:
            version = values["version"] = draw(st.integers(1, 2**63 - 1))
            cells[schema.liveness_column], cells[schema.version_column] = LIVE, VersionCell(version, (bytes(8),)).data
        elif indexed:
            cells[schema.liveness_column], cells[schema.version_column] = LIVE, b"\x01" + bytes(8)
        if not cells:
            continue
        key = tuple(values[name] for name in schema.layout.names)
        try:
            row = draw(st.sampled_from(mapper.rows(key)))
            for index in schema.indexes.values():
                mapper.entries(index, values, row)
        except KeyTooLong:  # the only key field is an empty text
            continue
        made[tuple(mapper.parts(key))] = StoredObject(values, row, cells)
    return list(made.values())


# --- predicates -------------------------------------------------------------------------------------------------------

THIRDS = st.integers(0, 2)

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@st.composite
def leaves(
    draw: st.DrawFn, of: RandomModel, name: str | None = None, only: Sequence[str] = ()
) -> tuple[Predicate, Oracle]:
    """Returns a condition of the given kinds on one field (the given one, or any), usually with a value that some rows
    have.
    """
    if name is None:
        name = draw(st.sampled_from([*of.pools, *of.computed]))
    element = element_of(of.schema.by_name[name.removesuffix("[]")])
    if element is not None and (name.endswith("[]") or draw(st.booleans())):
        return draw(elements(of, name.removesuffix("[]")))
    field, expression = of.schema.by_name[name], of.expression(name)
    pool = of.pools[name] if name in of.pools else of.computed[name]
    given_values = [value for value in pool if value is not None]
    far = codec_values(field.codec) if element is None else st.just(empty_of(field.hint))
    near = bool(given_values) and draw(THIRDS) < 2
    value = draw(st.sampled_from(given_values) if near else far)
    kinds = ["=", "=", "!=", "in", "in", *(COMPARISONS if element is None else ())]
    if field.codec.python_type in {str, bytes}:
        kinds += ["prefix"] * 3
    if field.nullable:
        kinds += ["none", "not none"]
    kind = draw(st.sampled_from([kind for kind in kinds if kind in only] or kinds))

    given = given_as(draw, field.codec, value)  # it is equal to its rounded value, but is ordered by its exact value

    def read(values: Values) -> Any:
        return of.value(values, name)

    match kind:
        case "=":
            return expression == given, lambda values: same(read(values), value)
        case "!=":
            return expression != given, lambda values: not same(read(values), value)
        case "in":
            pool = [*pool, value]
            several = draw(st.lists(st.sampled_from(pool), max_size=4))
            asked = [given_as(draw, field.codec, one) for one in several]
            return expression.in_(asked), lambda values: any(same(read(values), one) for one in several)
        case "prefix":
            length = draw(st.integers(0, len(value)))
            prefix = value[:length]
            return expression.startswith(
                prefix
            ), lambda values: read(values) is not None and read(values).startswith(prefix)
        case "none":
            return expression.is_(None), lambda values: read(values) is None
        case "not none":
            return ~expression.is_(None), lambda values: read(values) is not None
    compare = COMPARISONS[kind]
    bound = draw(beyond(field.codec)) if draw(THIRDS) == 2 else given
    return compare(
        expression, bound
    ), lambda values: read(values) is not None and bool(compare(plain(read(values)), plain(bound)))


@st.composite
def elements(draw: st.DrawFn, of: RandomModel, name: str) -> tuple[Predicate, Oracle]:
    """Returns a condition that a collection contains one element, one of several elements, or all of several
    elements.
    """
    element = element_of(of.schema.by_name[name])
    assert element is not None
    held = {one for value in (of.pools[name] if name in of.pools else of.computed[name]) for one in value or ()}
    far = ELEMENTS[int if element.codec.python_type is int else str]
    near = st.sampled_from(sorted(held, key=repr)) if held else far
    wanted = draw(st.lists(st.one_of(near, near, near, far), min_size=draw(st.integers(1, 3)), max_size=3))
    every = draw(st.integers(0, 3)) == 0
    found = [of.expression(name).contains(one) for one in wanted]
    return functools.reduce(operator.and_ if every else operator.or_, found), lambda values: (all if every else any)(
        one in (of.value(values, name) or ()) for one in wanted
    )


@cache
def beyond(codec: hb.Codec[Any]) -> st.SearchStrategy[Any]:
    """Returns a strategy for bounds that a codec may be unable to store: below and above its values, and between
    them.
    """
    if isinstance(codec, hb.codecs.Reversed | hb.codecs.DigestPrefixed):
        return beyond(codec.codec)
    if isinstance(codec, hb.codecs.NonEmpty):
        return codec_values(codec.codec)  # including the empty value
    if type(codec).floor is hb.Codec.floor or codec.python_type is float:
        return codec_values(codec)
    if codec.python_type is int:
        return st.sampled_from([-(10**30), -1, 0, 256, 10**30])
    if codec.python_type is timedelta:
        return st.sampled_from([timedelta.min, timedelta.max])
    if codec.python_type is bytes:
        return BYTES
    if codec.python_type is datetime:
        return st.one_of(instants(), changes())
    raise AssertionError(f"no bounds are known for {codec}")


def same(left: Any, right: Any) -> bool:
    """Returns whether two values, or None, are equal."""
    return bool(plain(left) == plain(right)) if left is not None and right is not None else left is right


@st.composite
def predicates(draw: st.DrawFn, of: RandomModel, depth: int = 2) -> tuple[Predicate, Oracle]:
    """Returns a condition, sometimes a combination."""
    kind = draw(st.sampled_from(["leaf", "leaf", "leaf", "and", "or", "not"])) if depth else "leaf"
    if kind == "leaf":
        return draw(leaves(of))
    predicate, oracle = draw(predicates(of, depth - 1))
    if kind == "not":
        return ~predicate, lambda values: not oracle(values)
    other, second = draw(predicates(of, depth - 1))
    if kind == "and":
        return predicate & other, lambda values: oracle(values) and second(values)
    return predicate | other, lambda values: oracle(values) or second(values)


RANGES = ("=", "=", "in", "none", "not none", "prefix", "<", "<=", ">", ">=")
"""The kinds of conditions that bound keys."""


@st.composite
def trees(draw: st.DrawFn, of: RandomModel, names: Sequence[str], depth: int = 3) -> tuple[Predicate, Oracle]:
    """Returns a tree of conditions with `&`, `|` and `~` at any place. Most conditions are on fields with the given
    names.
    """
    kind = draw(st.sampled_from(["and", "or", "or", "keyset", "leaf", "not"])) if depth else "leaf"
    if kind == "leaf":
        return draw(leaves(of, draw(st.sampled_from(names)), RANGES) if draw(st.integers(0, 6)) else leaves(of))
    if kind == "keyset":
        return draw(keysets(of, names))
    if kind == "not":
        predicate, oracle = draw(trees(of, names, depth - 1))
        return ~predicate, lambda values: not oracle(values)
    parts = [draw(trees(of, names, depth - 1)) for _ in range(draw(st.integers(2, 3)))]
    joined = functools.reduce(operator.and_ if kind == "and" else operator.or_, [predicate for predicate, _ in parts])
    return joined, lambda values: (all if kind == "and" else any)(oracle(values) for _, oracle in parts)


@st.composite
def keysets(draw: st.DrawFn, of: RandomModel, names: Sequence[str]) -> tuple[Predicate, Oracle]:
    """Returns the condition for rows after some values of fields: the first field is bounded, or the first field is
    equal and the next one is bounded, and so on.
    """
    taken = names[: draw(st.integers(1, len(names)))]
    bounds = [draw(leaves(of, name, tuple(COMPARISONS))) for name in taken]
    equals = [draw(leaves(of, name, ("=", "none"))) for name in taken]
    ways = [(*equals[:at], bounds[at]) for at in range(len(taken))]
    joined = [functools.reduce(operator.and_, [predicate for predicate, _ in way]) for way in ways]
    return functools.reduce(operator.or_, joined), lambda values: any(
        all(oracle(values) for _, oracle in way) for way in ways
    )


def branches(predicate: Predicate) -> list[list[Predicate]]:
    """Returns a predicate as alternatives. Each alternative consists of single conditions that must all be true."""
    match predicate:
        case And(parts):
            return [list(itertools.chain(*each)) for each in itertools.product(*map(branches, parts))]
        case Or(parts):
            return [each for part in parts for each in branches(part)]
        case Not((And(parts),)):
            return [each for part in parts for each in branches(~part)]
        case Not((Or(parts),)):
            return [list(itertools.chain(*each)) for each in itertools.product(*(branches(~part) for part in parts))]
    return [[predicate]]


@st.composite
def conditions(draw: st.DrawFn, of: RandomModel) -> tuple[list[Predicate], Oracle]:
    """Returns the arguments of `where`: conditions on the leading fields of a key, then a range, and any other
    conditions.
    """
    found: list[tuple[Predicate, Oracle]] = []
    several = [index for index in of.schema.indexes.values() if any(name.endswith("[]") for name in index.fields)]
    index = draw(st.sampled_from([*paths(of.schema), *several]))
    names = (of.schema.layout if index is None else index.layout).names
    if index is not None and index.where and draw(st.integers(0, 3)):
        found.append((And(tuple(index.where)), of.wheres[index.name]))
    asked = [name for name in names if name.endswith("[]") and draw(st.integers(0, 3))]
    found += [draw(elements(of, name.removesuffix("[]"))) for name in asked]
    names = tuple(name for name in names if name not in asked)
    if asked and draw(st.booleans()):
        names = ()
    # conditions on the fields in the qualifier, in any row
    if index is None and of.schema.wide is not None and draw(st.booleans()):
        names = names[draw(st.integers(0, len(names) - 1)) :]
    fixed = draw(st.integers(0, len(names)))
    found += [draw(leaves(of, name, ("=", "in", "none"))) for name in names[:fixed]]
    if fixed < len(names):
        ranges = (*COMPARISONS, *COMPARISONS, "prefix", "not none")
        found += [draw(leaves(of, names[fixed], ranges)) for _ in range(draw(st.integers(0, 3)))]
    found += draw(st.lists(predicates(of), max_size=2 if names else 0))
    return [predicate for predicate, _ in found], lambda values: all(oracle(values) for _, oracle in found)


def paths(schema: TableSchema) -> list[Index | None]:
    """Returns the primary table and every index."""
    return [None, *schema.indexes.values()]


def stored_keys(schema: TableSchema, index: Index | None, obj: StoredObject) -> Sequence[bytes]:
    """Returns the keys of an object, or of each of its entries in an index."""
    return (obj.row,) if index is None else KeyMapper(schema).entries(index, obj.values, obj.row)


def in_order(schema: TableSchema, ordering: Sequence[tuple[str, bool]], rows: Sequence[Values]) -> bool:
    """Returns whether rows are sorted by fields, each of which ascends or descends. None comes before all values, or
    after all values if the field descends.
    """
    return all(_compare(schema, ordering, a, b) <= 0 for a, b in itertools.pairwise(rows))


def _compare(schema: TableSchema, ordering: Sequence[tuple[str, bool]], left: Values, right: Values) -> int:
    for name, desc in ordering:
        a, b = (schema.by_name[name].value_in(values) for values in (left, right))
        sign = (
            (a is not None) - (b is not None)
            if a is None or b is None
            else (plain(a) > plain(b)) - (plain(a) < plain(b))
        )
        if sign:
            return -sign if desc else sign
    return 0
