"""Builds the frozen schema of a model from its declarations; refuses every mistake that can be detected without a
store.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from attrs import Factory, frozen

from hbmodel.encoding.key_layout import KeyField, KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.encoding.salts import UNSALTED, BoundSalt, RowSalt, Salt
from hbmodel.errors import DeclarationError, EncodingError, QueryError
from hbmodel.mapping.declare.computed import ComputedSpec
from hbmodel.mapping.declare.family_options import check_lives, with_versions
from hbmodel.mapping.declare.map_declaration import check_maps
from hbmodel.mapping.declare.model_options import ModelOptions, check_options
from hbmodel.mapping.declare.stored_names import StoredNames, check_former
from hbmodel.mapping.index_kinds.base import DeclaredPart, IndexPart
from hbmodel.mapping.index_kinds.partial import Where, resolve_where
from hbmodel.mapping.map_columns import MapField
from hbmodel.mapping.schema import PRIMARY, REQUIRED, Field, Index, TableSchema
from hbmodel.mapping.wide import key_layout, wide_rows
from hbmodel.store.values import Family

_INDEX_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@frozen
class IndexSpec:
    """The arguments of `hb.index`."""

    parts: Sequence[DeclaredPart]
    covers: Sequence[str]
    salt: Salt | None
    skip_none: bool = False
    where: Where | None = None
    unique: bool = False
    renamed_from: str | None = None


def build_schema(
    model: type[Any],
    fields: Sequence[Field],
    indexes: Mapping[str, IndexSpec],
    options: ModelOptions,
    computed: Mapping[str, ComputedSpec],
    maps: Sequence[MapField] = (),
) -> TableSchema:
    """Checks the declarations of `model` together and freezes them.

    Raises:
        DeclarationError: a declaration is invalid; the error names the model, and the field or index.
    """
    name = model.__name__
    check_options(name, options)
    versioned = _check_version(name, fields, options)
    system = versioned or bool(indexes)  # whether rows have system cells
    _check_fields(name, fields, system, options)
    layout = key_layout(name, fields, options.row, options.kind, external=options.external)
    salt = _bind(name, options.salt, layout)
    if salt.random and not options.immutable:
        raise DeclarationError(
            "RandomSalt needs @hb.model(immutable=True): the bucket of a row cannot be found again to change the row.",
            model=name,
        )
    if indexes and options.external and not options.immutable:
        raise DeclarationError(
            "Indexes on an external table need @hb.model(immutable=True): queries would miss what other "
            "programs change.",
            model=name,
        )
    if indexes and salt.random and any(prefix != bytes((bucket % 256,)) for bucket, prefix in enumerate(salt.prefixes)):
        raise DeclarationError(
            "On a model with indexes, the prefix of a random salt must be one byte, the number of the bucket.",
            model=name,
        )
    stored = {f.name: f for f in fields}
    computed_fields = [_computed(name, declared, spec, stored) for declared, spec in computed.items()]
    by_name = {**stored, **{f.name: f for f in computed_fields}}
    check_former(name, {f.name: f.renamed_from for f in (*fields, *(each.value for each in maps))}, "field")
    check_former(name, {index: spec.renamed_from for index, spec in indexes.items()}, "index")
    placed = StoredNames.of(by_name, layout)
    families = _families(name, fields, maps, system, options)
    marked = system or options.exists is not None
    flag = None if options.exists is None else options.family_name.encode() + b":" + options.exists
    checked = check_maps(
        name, maps, fields, families, immutable=options.immutable, external=options.external, marked=system, flag=flag
    )
    wide = wide_rows(
        name,
        layout,
        salt,
        fields,
        families,
        row=options.row,
        kind=options.kind,
        marked=marked,
        external=options.external,
    )
    # Entries can answer queries without a read of the row only if each writer of a row can revoke the entries of the
    # row. Writers can do so if they have read the row (versioned models), and never need to if rows never change
    # (immutable models). Entries cannot be revoked if cells expire, if a row can have several entries or buckets, or if
    # other programs write the table.
    lasting = not (options.external or salt.random or any(family.ttl is not None for family in families))
    known = lasting and (versioned or options.immutable)

    for index, spec in indexes.items() if maps else ():
        entries = {map_field.name for map_field in maps} & {*(part.name for part in spec.parts), *(spec.covers or ())}
        if entries:
            raise DeclarationError(
                "A map column cannot be in an index or covered by one: name an ordinary column.",
                model=name,
                index=index,
                field=entries.pop(),
            )

    def index_of(index: str, spec: IndexSpec) -> Index:
        built = _build_index(name, index, spec, by_name, layout, salt, options)
        stored = _build_index(name, index, placed.spec(spec), placed.fields, placed.layout, salt, options)
        verified = known and bool(built.covers) and built.has_one_entry
        return attrs.evolve(built, verified=verified, stored_spec=attrs.evolve(stored, verified=verified).spec)

    return TableSchema(
        model=model,
        table=options.table,
        family=options.family_name.encode(),
        fields=tuple(fields),
        layout=layout,
        salt=salt,
        indexes={index: index_of(index, spec) for index, spec in indexes.items()},
        immutable=options.immutable,
        external=options.external,
        blind_puts=options.blind_puts,
        exists=options.exists,
        flag_value=options.flag_value,
        witness=None if options.witness is None else _witness(name, fields, options),
        families=families,
        computed=tuple(computed_fields),
        row=options.row,
        kind=options.kind or b"",
        wide=wide,
        maps=checked,
    )


def _witness(model: str, fields: Sequence[Field], options: ModelOptions) -> bytes:
    """Returns the column whose cell shows that a row of an external table is an object."""
    known = {f.name: f.column for f in fields if f.required and not f.is_key}
    column = known.get(options.witness or "")
    if column is None:
        raise DeclarationError(
            "exists must name a field that has a cell in every row: a column without a default, not a key field.",
            model=model,
            field=options.witness,
            known=sorted(known),
        )
    return column


def _computed(model: str, name: str, spec: ComputedSpec, stored: Mapping[str, Field]) -> Field:
    try:
        return spec.resolve(name, stored)
    except DeclarationError as error:
        raise DeclarationError(error.message, **{"model": model, "field": name, **error.details}) from None


def _bind(model: str, salt: Salt | None, layout: KeyLayout, **details: Any) -> BoundSalt:
    if salt is None:
        return UNSALTED
    try:
        return (RowSalt.of(salt, layout) if isinstance(layout, ObjectKeyLayout) else salt).bind(layout)
    except DeclarationError as error:
        raise DeclarationError(error.message, **{"model": model, **details, **error.details}) from None


def _check_fields(model: str, fields: Sequence[Field], indexed: bool, options: ModelOptions) -> None:
    if not any(f.is_key for f in fields):
        raise DeclarationError("A model needs at least one hb.key field.", model=model)
    taken: dict[bytes, str] = {}
    if options.exists is not None:
        taken[options.family_name.encode() + b":" + options.exists] = "exists"
    for f in fields:
        if f.kind in {"key", "column"}:
            _check_spec(model, f)
        if f.is_key:
            if not f.codec.key:
                raise DeclarationError(
                    "This codec cannot be part of a key; use a scalar one, without nan=True. For numbers as text there "
                    "are hb.codecs.DecimalText(width) and hb.codecs.DelimitedInt(delimiter).",
                    model=model,
                    field=f.name,
                )
            continue
        if f.column in taken:
            raise DeclarationError(
                "Two fields have the same column alias: give one of them another alias.",
                model=model,
                field=f.name,
                other=taken[f.column],
            )
        taken[f.column] = f.name
        _check_default(model, f)
        if f.null not in {"marker", "delete"}:
            raise DeclarationError('null must be "marker" or "delete".', model=model, field=f.name, found=repr(f.null))
        if f.null == "delete" and indexed and not options.external:
            raise DeclarationError(
                'null="delete" cannot be used on a model with indexes or a version: leave it out, so that None is '
                "stored as an empty cell.",
                model=model,
                field=f.name,
            )
        if f.null == "delete" and not f.nullable:
            raise DeclarationError('null="delete" needs an annotation that allows None.', model=model, field=f.name)
        if f.null == "delete" and f.default is not None:
            raise DeclarationError(
                'null="delete" needs default=None: a deleted cell reads as the default.', model=model, field=f.name
            )
        if f.kind == "counter" and options.immutable and indexed:
            raise DeclarationError(
                "An immutable model with indexes cannot have counters: leave out immutable=True, or declare a "
                "column (in a new table).",
                model=model,
                field=f.name,
            )
    if not taken:
        raise DeclarationError(
            "A model needs at least one hb.column or exists=hb.flag(...): HBase stores no empty rows.", model=model
        )


def _check_version(model: str, fields: Sequence[Field], options: ModelOptions) -> bool:
    """Whether the model is versioned."""
    versions = [f.name for f in fields if f.kind == "version"]
    if not versions:
        return False
    if len(versions) > 1:
        raise DeclarationError(
            "A model can have only one version: remove the other hb.version().",
            model=model,
            field=versions[1],
            other=versions[0],
        )
    if options.immutable:
        raise DeclarationError(
            "Rows of an immutable model never change, so they cannot have a version: leave out one of the two.",
            model=model,
            field=versions[0],
        )
    if options.external:
        raise DeclarationError(
            "An external table cannot have versions: the other programs would not increase them.",
            model=model,
            field=versions[0],
        )
    families = [family for family in (options.family, *options.families) if isinstance(family, Family)]
    if any(family.ttl is not None for family in families):
        raise DeclarationError(
            "The families of a versioned model cannot have a TTL: a row's version must not expire. Store the time of "
            "expiry in a column, and delete expired rows with query.delete().",
            model=model,
            option="ttl",
        )
    return True


def _families(
    model: str, fields: Sequence[Field], maps: Sequence[MapField], indexed: bool, options: ModelOptions
) -> tuple[Family, ...]:
    """Returns the families of the columns with their options, sorted by name."""
    default = options.family if isinstance(options.family, Family) else Family(options.family.encode())
    declared = {family.name: family for family in (default, *options.families)}
    used = sorted(
        {default.name, *(f.family for f in fields if not f.is_key), *(map_field.family for map_field in maps)}
    )
    for name in declared:
        if name not in used:
            known = {"model": model, "option": "families", "family": name.decode()}
            raise DeclarationError(
                "families names a family that no column uses: remove it, or use it in a column.", **known
            )
    named = [declared.get(name, Family(name)) for name in used]
    families = tuple(
        with_versions(model, family, fields, immutable=options.immutable, external=options.external) for family in named
    )
    lives = {family.name.decode(): family.ttl for family in families}
    if indexed and len(set(lives.values())) > 1:
        # All entries of an index have one TTL, and must expire neither before their rows nor long after them.
        raise DeclarationError(
            "All families of a model with indexes must have the same TTL.", model=model, option="ttl", found=lives
        )
    check_lives(
        model, fields, {family.name: family.ttl for family in families}, alone=not indexed and options.exists is None
    )
    return families


def _check_spec(model: str, field: Field) -> None:
    """Checks that the registry can store a codec's description of its bytes."""
    spec = field.codec.spec
    try:
        kept = isinstance(spec, dict) and isinstance(spec.get("codec"), str) and json.loads(json.dumps(spec)) == spec
    except (TypeError, ValueError):
        kept = False
    if not kept:
        raise DeclarationError(
            "The registry stores the spec of the codec: it must be a JSON dictionary with the name of the codec under "
            '"codec". hb.codecs.check_codec() checks a codec.',
            model=model,
            field=field.name,
            codec=repr(field.codec),
            found=repr(spec),
        )


def _takes_no_arguments(function: Callable[..., Any]) -> bool:
    """Whether a function can be called without arguments. True for builtins without a signature."""
    if not callable(function):
        return False
    try:
        signature = inspect.signature(function)
    except ValueError:
        return True
    return all(
        parameter.default is not parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in signature.parameters.values()
    )


def _check_default(model: str, field: Field) -> None:
    """Checks that a column can store its default. New objects get the default, and reads return it if the cell is
    missing.
    """
    default = field.default
    if default is REQUIRED or field.kind == "counter":
        return
    if isinstance(default, Factory):  # type: ignore[arg-type]
        if default.takes_self or not _takes_no_arguments(default.factory):
            raise DeclarationError(
                "A default factory must take no arguments: factory=make.", model=model, field=field.name
            )
        return
    if default is None:
        if not field.nullable:
            raise DeclarationError(
                "The default is None, so the annotation must allow None.", model=model, field=field.name
            )
        return
    if type(default).__hash__ is None:
        raise DeclarationError(
            "The default is mutable and would be shared by all objects: use a factory, such as factory=list.",
            model=model,
            field=field.name,
            found=type(default).__name__,
        )
    try:
        field.codec.encode(default)
    except EncodingError as error:
        raise DeclarationError(
            "The codec cannot store the default; for a default that is created for each object, use "
            "attrs.Factory(make).",
            **{**error.details, "model": model, "field": field.name, "reason": error.message},
        ) from None


def _build_index(
    model: str,
    name: str,
    spec: IndexSpec,
    fields: Mapping[str, Field],
    primary: KeyLayout,
    primary_salt: BoundSalt,
    options: ModelOptions,
) -> Index:
    def mistake(message: str, **details: Any) -> DeclarationError:
        return DeclarationError(message, model=model, index=name, **details)

    if not _INDEX_NAME.fullmatch(name):
        raise mistake(
            "An index name must be an ASCII identifier of at most 100 characters: it becomes part of a table's name."
        )
    if name == PRIMARY:
        raise mistake(
            "An index cannot be called primary: that is the name of the primary table in queries. Choose another name."
        )
    if not spec.parts:
        raise mistake("An index needs at least one field.")
    # not a set, because the registry stores the covered columns in the declared order
    covers = spec.covers if isinstance(spec.covers, list | tuple) else (None,)
    if not all(isinstance(n, str) for n in (*covers, *(part.name for part in spec.parts))):
        raise mistake(
            "An index takes the names of fields, in quotes, and covers= takes a tuple of them: "
            'hb.index("name", "at", covers=("amount",)).'
        )
    if spec.salt is not None and not isinstance(spec.salt, Salt):
        raise mistake("A salt must be a Salt, such as hb.HashSalt(16).", found=repr(spec.salt))
    parts: list[IndexPart] = []
    for declared_part in spec.parts:
        if declared_part.name not in fields:
            if declared_part.name[:1] in {"-", "+"} and declared_part.name[1:] in fields:
                raise mistake(
                    'A direction is not part of a name: write hb.desc("at") or hb.asc("at").',
                    field=declared_part.name[1:],
                )
            raise mistake(
                "The index names an unknown field: name one of the model.",
                field=declared_part.name,
                known=sorted(fields),
            )
        if any(declared_part.name == earlier.name for earlier in spec.parts[: len(parts)]):
            raise mistake("The index names a field twice: name it once.", field=declared_part.name)
        try:
            parts.append(declared_part.resolve(fields))
        except DeclarationError as error:
            raise mistake(error.message, **{"field": declared_part.name, **error.details}) from None
    if spec.skip_none:
        every, parts = parts, [part.without_none() for part in parts]
        if every == parts:
            raise mistake("skip_none=True leaves out rows with None, but no field of the index allows None: remove it.")
    try:
        where = resolve_where(spec.where, fields, model)
    except (DeclarationError, EncodingError, QueryError) as error:
        raise mistake(error.message, **error.details) from None
    except AttributeError as error:
        raise mistake(
            "The condition of the index names an unknown field.", field=error.name, known=sorted(fields)
        ) from None
    key_fields = [KeyField(p.operand.name, p.operand.codec, p.desc, p.operand.nullable) for p in parts]
    indexed = {f.name for f in key_fields}
    key_fields += [f for f in primary.fields if f.name not in indexed]
    if (
        tuple(key_fields) == tuple(primary.fields)
        and not isinstance(primary, ObjectKeyLayout)
        and not (spec.covers or where or spec.unique or spec.salt or primary_salt.width)
        and all(part.is_field and not part.required for part in parts)
    ):
        raise mistake("The table already has the order of this index, and queries read it directly: remove the index.")
    for covered in spec.covers:
        declared = fields.get(covered)
        if declared is None:
            raise mistake("The index covers an unknown field.", field=covered, known=sorted(fields))
        if declared.kind != "column":
            raise mistake(
                "Only ordinary columns can be covered: key fields are in every entry, counters and versions in none. "
                "Remove the field from covers.",
                field=covered,
            )
        if covered in indexed:
            raise mistake("The index covers a field that is already in its key: remove it from covers.", field=covered)
    if len(set(spec.covers)) != len(spec.covers):
        raise mistake("The index covers a column twice: name it once.")
    if spec.unique and not any(f.kind == "version" for f in fields.values()):
        raise mistake(
            "A unique index needs a versioned model: declare a field, such as version: hb.Column[int] = hb.version()."
        )
    if spec.unique and (where or not all(part.is_field and not part.required for part in parts)):
        raise mistake(
            "A unique index has an entry for every row, made of plain stored fields: remove where=, skip_none=True "
            "and computed parts."
        )
    if spec.unique and len(key_fields) == len(spec.parts):
        raise mistake("The index has every key field, so its values are unique in any case: remove unique=True.")
    layout = KeyLayout(tuple(key_fields), tail=1 if primary_salt.random else 0)
    if spec.salt is not None and spec.salt.random:
        raise mistake("An index table cannot have a random salt: its entries could not be found again.")
    positions = {f.name: at for at, f in enumerate(key_fields)}
    return Index(
        name=name,
        table=f"{options.table}.{name}",
        parts=tuple(parts),
        layout=layout,
        salt=_bind(model, _by_places(spec, parts), layout, index=name),
        covers=tuple(spec.covers),
        primary_positions=tuple(positions[f.name] for f in primary.fields),
        operands={**{f.name: fields[f.name] for f in primary.fields}, **{p.operand.name: p.operand for p in parts}},
        where=where,
        unique=spec.unique,
        renamed_from=spec.renamed_from,
    )


def _by_places(spec: IndexSpec, parts: Sequence[IndexPart]) -> Salt | None:
    """Returns the salt of an index, with its fields named as in the key of an entry."""
    salt = spec.salt
    places = {declared.name: part.operand.name for declared, part in zip(spec.parts, parts, strict=True)}
    by = () if salt is None else tuple(places.get(name, name) for name in salt.by)
    return salt if salt is None or by == tuple(salt.by) else attrs.evolve(salt, by=by)  # type: ignore[misc]
