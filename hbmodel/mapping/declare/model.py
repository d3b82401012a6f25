"""The `model` decorator: makes an attrs class and its frozen schema."""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import attrs
from typing_extensions import dataclass_transform

from hbmodel.encoding.codecs import Codec, codec_for
from hbmodel.encoding.salts import Salt
from hbmodel.errors import DeclarationError, FrozenObject
from hbmodel.mapping.annotations import allows_all, allows_none, annotations_of, fits, is_class_var
from hbmodel.mapping.declare.allowed_names import as_qualifier, is_field_name
from hbmodel.mapping.declare.computed import Computed, ComputedSpec
from hbmodel.mapping.declare.declaration import build_schema
from hbmodel.mapping.declare.earlier_layout import earlier_layout
from hbmodel.mapping.declare.family_options import family_name
from hbmodel.mapping.declare.fields import Column, FieldSpec, FlagSpec, Key, column, counter, key, version
from hbmodel.mapping.declare.index_declaration import IndexSpec
from hbmodel.mapping.declare.key_order import in_key_order
from hbmodel.mapping.declare.map_declaration import Map, MapExpression, MapSpec, map_column, resolve_map
from hbmodel.mapping.declare.model_options import ModelOptions, check_options
from hbmodel.mapping.field_expressions import FieldExpression
from hbmodel.mapping.index_kinds.base import DeclaredPart
from hbmodel.mapping.map_columns import MapField
from hbmodel.mapping.missing_entries import note_missing_entries
from hbmodel.mapping.schema import REQUIRED, VERSION_QUALIFIER, Field, TableSchema, schema_of
from hbmodel.store.values import Family

C = TypeVar("C", bound=type[Any])

_NO_TABLE: Any = object()
"""Marks a decorator that was given no table."""

Declared = FieldSpec | IndexSpec | ComputedSpec | MapSpec
"""What `key`, `column`, `index`, `computed`, `map_column` and similar functions return."""


@dataclass_transform(
    kw_only_default=True, eq_default=True, field_specifiers=(key, column, map_column, counter, version)
)
def model(
    misplaced: None = None,
    /,
    *,
    table: str,
    family: str | Family = "d",
    families: Sequence[Family] = (),
    salt: Salt | None = None,
    immutable: bool = False,
    external: bool = False,
    blind_puts: bool = True,
    exists: FlagSpec | str | None = None,
    row: bytes | None = None,
    kind: bytes | None = None,
    frozen: bool = True,
    replaces: type[Any] | None = None,
    key_order: Sequence[str] | None = None,
) -> Callable[[C], C]:
    """Makes the decorated class an attrs class and resolves its declarations.

    The class gets no base, no metaclass and no I/O methods. Its constructor takes keyword arguments. A mistake in the
    declarations raises a `DeclarationError` here, not at the first write.

    Args:
        table: name of the primary table, `namespace:name` or `name`; the table of an index is `<table>.<index>`.
        family: column family of every column that does not name another family: a name, or `hb.family(...)` with
            options.
        families: `hb.family(...)` for each further family that columns name and that has options. All families of a
            model with indexes have the same TTL, which the index tables get too.
        salt: spreads rows over buckets.
        immutable: rows are never changed after they are written, so writes need not read the old row; `update` and
            `increment` are refused. Keys of deleted rows must not be used again within the grace time (an hour).
        external: other programs write the table too. Deletes then touch mapped columns only. Such a model can have
            indexes only if it is immutable; rows of other programs are added to an index when it is built or repaired.
        blind_puts: whether `add` and `bulk_add` put objects without reading their rows. Without an index or version, a
            put does not notice a cell whose timestamp is ahead of the server's clock. With False, each commit first
            reads the rows of its puts in one call. If the commit finds such cells, it waits, or raises `ClockError`.
        exists: the cell that marks a row as existing, see `flag`. In an external table, every row with a cell in the
            model's families counts as a row of the model, unless a flag or the field of a required column is given
            here. With such a cell, only rows that have the cell are rows of the model, and reads do not have to ask for
            whole families.
        row: the row key, if one row contains all objects of the model. Every key field must then have
            `in_qualifier=True`.
        kind: one byte that is the prefix of the model's column qualifiers, so that several models can share rows in one
            family, such as an owner and their pets. It cannot be added later. In an external table it may be longer,
            such as `b"tag:"`.
        frozen: assignments to objects raise `FrozenObject`, since no commit would write them. Frozen objects can be
            hashed. With False, an assignment only changes the object in memory: the session does not notice it. Type
            checkers report assignments only if `frozen=True` is written out. `frozen=True` is not the default for type
            checkers, because mypy would then treat the fields that a model inherits from a mixin as plain values.
        replaces: a model with a different key or salt, whose objects are moved from its table into the table of this
            model; see `hb.migration.migrate`.
        key_order: names of all key fields in the order of the row key, if it differs from the order of declaration. By
            default fields of bases come first, beginning with the base that is named last.

    Raises:
        DeclarationError: a declaration is invalid; the error names the field and says what to do.
    """
    if misplaced is not None:
        raise DeclarationError(
            "hb.model takes options by name and returns a decorator: write @hb.model(table=...) above the class."
        )
    if table is _NO_TABLE:
        raise DeclarationError("hb.model needs the name of the table: @hb.model(table=...).")

    def decorate(cls: C) -> C:
        if not isinstance(cls, type):
            raise DeclarationError("@hb.model(...) decorates a class.", found=type(cls).__name__)
        if exists is not None and not isinstance(exists, FlagSpec if not external else FlagSpec | str):
            raise DeclarationError('exists takes a flag: exists=hb.flag("e").', model=cls.__name__, found=repr(exists))
        options = ModelOptions(table, family, families, salt, immutable, external, None, row, kind, blind_puts)
        if isinstance(exists, FlagSpec):
            alias = as_qualifier(cls.__name__, exists.alias, external=external, field="exists")
            options = attrs.evolve(options, exists=alias, flag_value=exists.value)
        elif exists is not None:
            options = attrs.evolve(options, witness=exists)
        check_options(cls.__name__, options)
        specs = in_key_order(cls, _declared(cls), key_order)
        fields, maps = _fields(cls, specs, sys._getframe(1), options)
        indexes = {name: spec for name, spec in specs.items() if isinstance(spec, IndexSpec)}
        attrs_class = _attrs_class(cls, fields, maps, frozen)
        computed = {name: spec for name, spec in specs.items() if isinstance(spec, ComputedSpec)}
        schema = build_schema(attrs_class, fields, indexes, options, computed, maps)
        if replaces is not None:
            schema = attrs.evolve(schema, replaces=earlier_layout(schema, schema_of(replaces)))
        for declared in fields:
            descriptor = Key if declared.is_key else Column
            setattr(attrs_class, declared.name, descriptor(FieldExpression(of=declared, model=attrs_class.__name__)))
        for entries in schema.maps:
            setattr(attrs_class, entries.name, Map(MapExpression[Any, Any](entries, attrs_class)))
        for field in schema.computed:
            setattr(attrs_class, field.name, Computed(FieldExpression(of=field, model=attrs_class.__name__)))
        for name in indexes:
            setattr(attrs_class, name, schema.indexes[name])
        attrs_class.__hbmodel__ = schema
        return attrs_class

    return decorate


if not TYPE_CHECKING:
    # The table is required. The default lets the function itself raise an error that shows how to write the decorator.
    model.__kwdefaults__ = {**model.__kwdefaults__, "table": _NO_TABLE}


@overload
def mixin(cls: C, /) -> C: ...
@overload
def mixin(*, frozen: bool = False) -> Callable[[C], C]: ...
@dataclass_transform(
    kw_only_default=True, eq_default=True, field_specifiers=(key, column, map_column, counter, version)
)
def mixin(cls: Any = None, /, *, frozen: bool = False) -> Any:
    """Marks a class whose fields and indexes several models inherit.

    Models inherit the declarations of any undecorated base. The mark is only for type checkers: without it they do not
    expect the inherited fields in a model's constructor.

    Key fields of mixins come before the model's own, beginning with the mixin that is named last (the reverse of the
    class's `__mro__`). If several mixins have key fields, declare the order: `@hb.model(..., key_order=("a", "b"))`.

    Args:
        cls: the class, if the decorator is used as `@hb.mixin`.
        frozen: whether the models that inherit from the class are declared with `frozen=True`. Type checkers require
            the same value for the mixin and its models.
    """
    del frozen

    def unchanged(cls: C) -> C:
        return cls

    return unchanged if cls is None else cls


def _declared(cls: type[Any]) -> Mapping[str, Declared]:
    """Returns the declarations of a class and its undecorated bases. The declarations of the bases come first. Within
    each class they keep their order.
    """
    declarations: dict[str, Declared] = {}
    for base in reversed(cls.__mro__):
        if isinstance(vars(base).get("__hbmodel__"), TableSchema):
            raise DeclarationError(
                "A model cannot extend another model: put shared fields into a mixin, see hb.mixin.", model=cls.__name__
            )
        for name, value in vars(base).items():
            if isinstance(value, Declared):
                declarations[name] = value
            elif isinstance(value, FlagSpec):
                raise DeclarationError(
                    "A flag is given to the decorator: @hb.model(exists=hb.flag(...)).", model=cls.__name__, field=name
                )
            elif isinstance(value, DeclaredPart):
                raise DeclarationError(
                    "A part of an index is declared inside hb.index(), as in hb.index(hb.desc(...)). A key field "
                    "takes hb.key(desc=True).",
                    model=cls.__name__,
                    field=name,
                )
            elif name in declarations:
                raise DeclarationError(
                    "The class replaces a field or index of a mixin with another attribute: rename one of them.",
                    model=cls.__name__,
                    field=name,
                )
    if "__dataclass_fields__" in vars(cls):
        raise DeclarationError(
            "hb.model makes the constructor, __eq__ and __repr__ itself: remove @dataclass.", model=cls.__name__
        )
    if not cls.__dictoffset__:
        raise DeclarationError(
            "A model stores its fields in the instance's dictionary: remove __slots__.", model=cls.__name__
        )
    return declarations


def _fields(
    cls: type[Any], specs: Mapping[str, Declared], frame: FrameType, options: ModelOptions
) -> tuple[tuple[Field, ...], tuple[MapField, ...]]:
    hints = annotations_of(cls, frame, frozenset(specs))
    for name, hint in hints.items():
        if isinstance(specs.get(name), ComputedSpec):
            raise DeclarationError(
                "A computed field must be declared without an annotation.", model=cls.__name__, field=name
            )
        if name not in specs and not is_class_var(hint):
            raise DeclarationError(
                "An annotated attribute must be declared with hb.key, hb.column, hb.map_column, hb.counter or "
                "hb.version (or be a ClassVar).",
                model=cls.__name__,
                field=name,
                expected=_as_column(name, hint, vars(cls).get(name, REQUIRED)),
            )
    fields = [
        _resolve(cls, name, spec, hints.get(name), options)
        for name, spec in specs.items()
        if isinstance(spec, FieldSpec)
    ]
    maps = [
        _resolve_map(cls, name, spec, hints.get(name), options)
        for name, spec in specs.items()
        if isinstance(spec, MapSpec)
    ]
    return tuple(fields), tuple(maps)


def _resolve_map(cls: type[Any], name: str, spec: MapSpec, hint: Any, options: ModelOptions) -> MapField:
    def mistake(message: str, **details: Any) -> DeclarationError:
        return DeclarationError(message, model=cls.__name__, field=name, **details)

    def family(given: str | None) -> bytes:
        return family_name(options.family_name if given is None else given, model=cls.__name__, field=name)

    _check_name(name, mistake)
    return resolve_map(name, spec, hint, family, lambda alias: as_qualifier(cls.__name__, alias, field=name), mistake)


def _check_name(name: str, mistake: Callable[..., DeclarationError]) -> None:
    if name == "self":
        raise mistake("A field cannot be called self: the constructor takes fields by name.")
    if name == "condition":
        raise mistake(
            "A field cannot be called condition: update() takes a condition by this name. Give the attribute another "
            'name; hb.column("condition") keeps the qualifier of a column.'
        )
    if not is_field_name(name):
        raise mistake(
            "The name of a field must be an identifier that is neither a keyword nor a special name of Python."
        )


def _shown(hint: Any) -> str:
    """Returns an annotation as text, with the public names that programs use for the types of this library."""
    text = hint.__qualname__ if isinstance(hint, type) and not typing.get_args(hint) else repr(hint)
    return re.sub(r"\bhbmodel\.[a-z_.]+\.(?=[A-Z])", "hb.", text)


def _as_column(name: str, hint: Any, default: Any) -> str:
    """Returns a possible declaration of an attribute that is only annotated. Its value, if it has one, becomes the
    default.
    """
    origin = typing.get_origin(hint)
    if origin in {Key, Map}:
        return f"{name}: {_shown(hint)} = hb.{'key' if origin is Key else 'map_column'}()"
    annotation = _shown(hint) if origin is Column else f"hb.Column[{_shown(hint)}]"
    simple = type(default) in {type(None), bool, int, float, str, bytes}  # their text is Python
    return f"{name}: {annotation} = hb.column({f'default={default!r}' if simple else ''})"


def _default(spec: FieldSpec, mistake: Callable[..., DeclarationError]) -> Any:
    """Returns the default of a column, or the factory that makes it."""
    if spec.factory is None:
        return spec.default
    if spec.default is not REQUIRED:
        raise mistake("Give a column a default or a factory, not both.", found=repr(spec.default))
    if not callable(spec.factory):
        raise mistake("The factory must be a function that makes the default, such as list.", found=repr(spec.factory))
    return attrs.Factory(spec.factory)


def _resolve(cls: type[Any], name: str, spec: FieldSpec, hint: Any, options: ModelOptions) -> Field:
    def mistake(message: str, **details: Any) -> DeclarationError:
        return DeclarationError(message, model=cls.__name__, field=name, **details)

    expected = Key if spec.kind == "key" else Column
    if typing.get_origin(hint) is not expected:
        value = typing.get_args(hint)[0] if typing.get_origin(hint) in {Key, Column} else hint
        raise mistake(
            f"The attribute must be annotated hb.{expected.__name__}[...].",
            annotation=_shown(hint),
            expected=f"{name}: hb.{expected.__name__}[{'...' if hint is None else _shown(value)}]",
        )
    (inner,) = typing.get_args(hint)
    nullable = allows_none(inner) or (spec.default is None and allows_all(inner))
    codec = spec.codec
    if codec is None:
        try:
            codec, nullable = codec_for(inner)
        except DeclarationError as error:
            raise mistake(error.message, **error.details) from None
    elif not isinstance(codec, Codec):
        if callable(codec) and (not isinstance(codec, type) or issubclass(codec, Codec)):
            raise mistake(
                "The codec must be called with its options, such as hb.Json(dict) or hb.Datetime().", found=repr(codec)
            )
        raise mistake(
            "The codec must be a Codec, such as hb.UInt32 or hb.Text(8); a column's alias comes before it.",
            found=repr(codec),
        )
    elif not fits(codec, inner):
        raise mistake(
            "The values of the codec do not have the type in the annotation: change one of them.",
            annotation=_shown(hint),
            codec=repr(codec),
        )
    _check_name(name, mistake)
    if spec.nullable and not nullable:
        raise mistake("nullable=True needs an annotation that allows None, such as hb.Key[str | None].")
    if spec.kind == "counter" and inner is not int:
        raise mistake("A counter must be annotated hb.Column[int].")
    if spec.kind == "version" and inner is not int:
        raise mistake("A version must be annotated hb.Column[int].")
    if not isinstance(spec.desc, bool):
        raise mistake("desc is True or False.", found=repr(spec.desc))
    if spec.kind == "key":
        return Field(
            name,
            "key",
            codec,
            nullable,
            desc=spec.desc,
            hint=inner,
            renamed_from=spec.renamed_from,
            in_qualifier=spec.in_qualifier,
            row_span=spec.row_span,
        )
    if spec.kind == "version":
        return Field(
            name,
            "version",
            codec,
            default=spec.default,
            family=options.family_name.encode(),
            qualifier=VERSION_QUALIFIER,
        )
    if isinstance(spec.family, Family):
        raise mistake(
            'A column takes only the name of its family: family="x". The options of the family belong in '
            '@hb.model(families=(hb.family("x", ...),)).'
        )
    null = spec.null or "marker"
    if options.external and nullable:
        if spec.null == "marker":
            raise mistake(
                "In an external table None is an absent cell, since an empty cell is a value of its own for other "
                "programs: leave out null=."
            )
        if spec.default is not None:
            raise mistake("In an external table None is an absent cell: give default=None.")
        null = "delete"
    family = family_name(options.family_name if spec.family is None else spec.family, model=cls.__name__, field=name)
    alias = name if spec.alias is None else spec.alias
    return Field(
        name,
        spec.kind,
        codec,
        nullable,
        _default(spec, mistake),
        family=family,
        qualifier=as_qualifier(
            cls.__name__, alias, family=family, empty=spec.kind == "column", external=options.external, field=name
        ),
        null=null,
        hint=inner,
        renamed_from=spec.renamed_from,
        versions=spec.versions,
        unescaped=options.external and nullable,
        strict=options.external and spec.kind == "column",
    )


VERSION_ARGUMENT = "_hbmodel_{name}_"
"""The name of the constructor's argument for the version: `attrs.evolve` must be able to pass the version on, but
programs must not pass it by the name of the field.
"""


def _attribute(field: Field) -> Any:
    """Makes the attrs field for a field of the model."""
    if field.kind == "version":
        return attrs.field(
            default=field.default, kw_only=True, alias=VERSION_ARGUMENT.format(name=field.name), eq=False
        )
    default = attrs.NOTHING if field.default is REQUIRED else field.default
    return attrs.field(default=default, init=field.kind != "counter", kw_only=True, alias=field.name)


def _attrs_class(cls: C, fields: Sequence[Field], maps: Sequence[MapField], frozen: bool) -> C:
    these = {f.name: _attribute(f) for f in fields}
    these |= {
        map_field.name: attrs.field(
            factory=dict, kw_only=True, alias=map_field.name, eq=False, validator=note_missing_entries
        )
        for map_field in maps
    }
    for name in these:
        if name in vars(cls):
            delattr(cls, name)
    if frozen and any({"__setattr__", "__delattr__"} & vars(base).keys() for base in cls.__mro__[:-1]):
        raise DeclarationError(
            "Objects of a frozen model cannot be assigned to: remove __setattr__ and __delattr__, or declare "
            "@hb.model(..., frozen=False).",
            model=cls.__name__,
        )
    own = vars(cls).get("__init__")
    if frozen and own is not None and "__attrs_init__" not in getattr(getattr(own, "__code__", None), "co_names", ()):
        raise DeclarationError(
            "hb.model makes the constructor, and a frozen model has no other way to set its fields: make __init__ a "
            "classmethod of another name, use __attrs_post_init__, or call self.__attrs_init__(...) in __init__.",
            model=cls.__name__,
        )
    make = attrs.define(
        these=these,
        auto_attribs=False,
        slots=False,
        kw_only=True,
        frozen=frozen,
        order=False,
        on_setattr=attrs.setters.NO_OP,
    )
    made: C = make(cls)
    if frozen:
        assignment, deletion = _refusals(made)
        made.__setattr__ = assignment  # type: ignore[assignment]
        made.__delattr__ = deletion  # type: ignore[assignment]
    return made


def _refusals(model: type[Any]) -> tuple[Callable[[object, str, object], None], Callable[[object, str], None]]:
    """Returns the methods `__setattr__` and `__delattr__` of a frozen model. Classes that extend it without a decorator
    may have further attributes.
    """

    def refuse_assignment(obj: object, name: str, value: object) -> None:
        schema = schema_of(model)
        if name in {field.name for field in schema.computed}:
            raise FrozenObject(
                "The field is computed and cannot be set: change the fields from which it is computed.",
                model=model.__name__,
                field=name,
            )
        if name in schema.by_name or name in schema.maps_by_name:
            raise FrozenObject(
                "Assigning to an object writes nothing, so objects are frozen: write session.update(obj, field=value), "
                "or make a changed copy with hb.evolve(obj, field=value).",
                model=model.__name__,
                field=name,
            )
        if type(obj) is not model:
            object.__setattr__(obj, name, value)
            return
        raise FrozenObject(
            "Objects are frozen, and this is not a field of the model. In __attrs_post_init__, set an attribute with "
            "object.__setattr__(self, name, value).",
            model=model.__name__,
            attribute=name,
        )

    def refuse_deletion(obj: object, name: str) -> None:
        schema = schema_of(model)
        if name not in schema.by_name and name not in schema.maps_by_name:
            object.__delattr__(obj, name)  # such as a cached property, which is computed again
            return
        raise FrozenObject(
            "Objects are frozen. session.update(obj, field=None) removes the value of a field that may be None.",
            model=model.__name__,
            field=name,
        )

    return refuse_assignment, refuse_deletion
