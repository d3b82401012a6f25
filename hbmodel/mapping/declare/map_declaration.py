"""Declarations of map columns: the annotation, the function, and the checks."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from attrs import evolve, frozen

from hbmodel.encoding.codecs import Codec, Dictionary, codec_for
from hbmodel.errors import DeclarationError, QueryError, UnknownField
from hbmodel.mapping.annotations import allows_none, fits
from hbmodel.mapping.map_columns import MapField, NotLoaded
from hbmodel.mapping.model_field import Field
from hbmodel.mapping.schema import TableSchema
from hbmodel.store.values import Family

K = TypeVar("K")
V = TypeVar("V")

LONGEST_NAME = 100
"""The maximum length of the name of a map column, in bytes. Continuation tokens contain this name."""


@frozen(eq=False, repr=False, order=False)
class MapExpression(Generic[K, V]):
    """A map column as an attribute of the model class, for `Session.entries` and similar methods.

    Attributes:
        of: the declared map column.
        model: the class of the model.
    """

    of: MapField
    model: type[Any]

    def __repr__(self) -> str:
        return f"{self.model.__name__}.{self.of.name}"

    def __hash__(self) -> int:
        return hash((self.model, self.of.name))

    def _refuse(self, *_: object) -> NoReturn:
        raise QueryError(
            "A map column cannot be compared: read its entries with session.entries().", field=self.of.name
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __contains__ = __iter__ = __getitem__ = _refuse

    if not TYPE_CHECKING:  # methods that fields have and map columns do not have
        between = startswith = in_ = is_ = contains = desc = asc = _refuse


class Map(Generic[K, V]):
    """The annotation of a map column: a `MapExpression` on the class, a dictionary on an instance.

    In an object that was read without its entries, the value is `NotLoaded`.
    """

    def __init__(self, expression: MapExpression[K, V]) -> None:
        self._expression = expression

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> MapExpression[K, V]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any]) -> dict[K, V]: ...
    def __get__(self, instance: object, owner: type[Any]) -> Any:
        return self._expression if instance is None else NotLoaded

    if TYPE_CHECKING:  # as in fields, this method must not exist at run time

        def __set__(self, instance: object, value: Mapping[K, V]) -> None: ...


@frozen
class MapSpec:
    """The return value of `map_column` before the decorator resolves it."""

    alias: str | None
    key: Codec[Any] | None
    value: Codec[Any] | None
    family: str | None
    renamed_from: str | None = None


@overload
def map_column(
    alias: str | None,
    /,
    key: Codec[K],
    value: Codec[V],
    *,
    family: str | None = None,
    renamed_from: str | None = None,
    factory: Callable[[], dict[Any, Any]] = ...,
) -> Map[K, V]: ...
@overload
def map_column(
    alias: str | None = None,
    /,
    key: Codec[Any] | None = None,
    value: Codec[Any] | None = None,
    *,
    family: str | None = None,
    renamed_from: str | None = None,
    factory: Callable[[], dict[Any, Any]] = ...,
) -> Any: ...
def map_column(
    alias: str | None = None,
    /,
    key: Codec[Any] | None = None,
    value: Codec[Any] | None = None,
    *,
    family: str | None = None,
    renamed_from: str | None = None,
    factory: Callable[[], dict[Any, Any]] = dict,
) -> Any:
    """Declares a map column: each entry is a separate cell, sorted by its key, and there may be millions of them.

    Entries are read by `Session.entries` and changed by `Session.put_entries` and `remove_entries`; `add` and `update`
    merge their entries into the existing ones.

    Args:
        alias: the prefix of the qualifiers of all entries; by default the attribute's name. It must not begin with
            another alias of the family, and no other alias may begin with it.
        key: codec of the keys; by default the codec for the annotation, `hb.Map[str, int]` or `dict[str, int]`.
        value: codec of the values; by default also the codec for the annotation.
        family: column family; by default the model's.
        renamed_from: the former name of the field, in the same cells and with the same codecs.
        factory: tells type checkers by `factory=dict` that the constructor argument is optional. New objects have an
            empty dictionary with or without it.
    """
    if factory is not dict:
        raise DeclarationError(
            "A map column of a new object is an empty dictionary: the only factory is factory=dict.",
            found=repr(factory),
        )
    return MapSpec(alias, key, value, family, renamed_from)


def resolve_map(
    name: str,
    spec: MapSpec,
    hint: Any,
    family: Callable[[str | None], bytes],
    qualifier: Callable[[str], bytes],
    mistake: Callable[..., DeclarationError],
) -> MapField:
    """Makes a map column from its declaration.

    Args:
        family: a function that checks a family that was given, or returns the model's family if none was given.
        qualifier: a function that checks an alias.
        mistake: a function that makes the error to raise.

    Raises:
        DeclarationError: the annotation or a codec is not valid here, or the name is too long.
    """
    if typing.get_origin(hint) not in {Map, dict} or len(typing.get_args(hint)) != 2:
        raise mistake(
            "A map column must be annotated hb.Map[...] or dict[...], with the types of keys and values.",
            annotation=repr(hint),
        )
    if len(name.encode()) > LONGEST_NAME:
        raise mistake("The name of a map column must be at most 100 bytes long.", length=len(name.encode()))
    key_hint, value_hint = typing.get_args(hint)
    if allows_none(key_hint) or allows_none(value_hint):
        raise mistake("Neither the keys nor the values of a map column may be None: None means that there is no entry.")
    key = _codec(spec.key, key_hint, "keys", mistake)
    value = _codec(spec.value, value_hint, "values", mistake)
    if not key.key or key.raw_order is None:
        raise mistake(
            "A map column needs a key codec whose bytes keep the order of the keys: use another codec.", codec=repr(key)
        )
    if spec.alias == "":
        raise mistake(
            "A map column needs an alias, with which the qualifiers of its entries begin: give it a short one, such as "
            '"m".'
        )
    alias = qualifier(name if spec.alias is None else spec.alias)
    value_field = Field(
        name,
        "column",
        value,
        nullable=True,
        default=None,
        family=family(spec.family),
        qualifier=alias,
        hint=value_hint,
        renamed_from=spec.renamed_from,
    )
    return MapField(name, key, value_field)


def _codec(codec: object, hint: Any, role: str, mistake: Callable[..., DeclarationError]) -> Codec[Any]:
    if codec is None:
        try:
            return codec_for(hint)[0]
        except DeclarationError as error:
            raise mistake(error.message, **error.details) from None
    if not isinstance(codec, Codec):
        raise mistake(
            "A codec must be a Codec, such as hb.UInt32 or hb.Text(8); the alias comes before it.", found=repr(codec)
        )
    if isinstance(codec, Dictionary):
        raise mistake(
            "The entries of map columns cannot be names of a dictionary: use them in ordinary fields.",
            codec=repr(codec),
        )
    if not fits(codec, hint):
        raise mistake(
            f"The values of the codec of the {role} do not have the type in the annotation: change one of them.",
            annotation=repr(hint),
        )
    return codec


def map_of(schema: TableSchema, expression: object) -> MapField:
    """Returns the map column that was given as an attribute of the model class.

    Raises:
        QueryError: the argument is not a map column.
        UnknownField: the map column belongs to another model.
    """
    if not isinstance(expression, MapExpression):
        raise QueryError(
            "Give a map column as an attribute of the model class: Model.field.",
            table=schema.table,
            found=type(expression).__name__,
        )
    if schema.maps_by_name.get(expression.of.name) is not expression.of:
        raise UnknownField(
            "The map column belongs to another model: give one of this model.",
            table=schema.table,
            field=expression.of.name,
        )
    return expression.of


def check_maps(
    model: str,
    maps: Sequence[MapField],
    fields: Sequence[Field],
    families: Sequence[Family],
    *,
    immutable: bool,
    external: bool,
    marked: bool,
    flag: bytes | None,
) -> tuple[MapField, ...]:
    """Checks the map columns of a model together, and returns them with `marked` set.

    Args:
        immutable: whether rows never change.
        external: whether other programs write the table.
        marked: whether rows have system cells.
        flag: `family:qualifier` of the flag, or None.

    Raises:
        DeclarationError: a declaration is invalid; the error names the map column and what to do.
    """
    if not maps:
        return ()
    name = maps[0].name
    if immutable:
        raise DeclarationError(
            "An immutable model cannot have map columns: their entries are put one by one.", model=model, field=name
        )
    if external:
        raise DeclarationError(
            "An external table cannot have map columns: a delete could not tell which cells belong to them. Declare a "
            "second model of this family, whose last key field has in_qualifier=True and whose only column is "
            'hb.column("").',
            model=model,
            field=name,
        )
    if any(family.ttl is not None for family in families):
        raise DeclarationError(
            "A model with map columns cannot have a family with a TTL: entries would expire before or after their "
            "object. Leave out the TTL, or declare the entries as objects of a wide row, which can expire.",
            model=model,
            field=name,
        )
    if any(not f.is_key and not f.qualifier for f in fields):
        raise DeclarationError(
            "A model whose column has an empty alias has no other cells, so it cannot have map columns: in a new "
            "table, give the column an alias.",
            model=model,
            field=name,
        )
    taken = [(f.column, f.name) for f in fields if not f.is_key]
    taken += [] if flag is None else [(flag, "exists")]
    for map_field in maps:
        for column, other in taken:
            if column.startswith(map_field.column) or map_field.column.startswith(column):
                raise DeclarationError(
                    "The alias of a map column must not be a prefix of another alias of its family, and no other alias "
                    "may be a prefix of it: give another alias.",
                    model=model,
                    field=map_field.name,
                    other=other,
                )
        taken.append((map_field.column, map_field.name))
    return tuple(evolve(map_field, marked=marked) for map_field in maps)
