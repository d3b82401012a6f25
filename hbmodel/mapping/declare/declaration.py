"""Builds the frozen schema of a model from its declarations; refuses every mistake that can be detected without a
store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from hbmodel.errors import DeclarationError
from hbmodel.mapping.declare.computed import ComputedSpec
from hbmodel.mapping.declare.family_options import check_lives, with_versions
from hbmodel.mapping.declare.field_checks import check_fields, check_version
from hbmodel.mapping.declare.index_declaration import IndexSpec, build_index
from hbmodel.mapping.declare.map_declaration import check_maps
from hbmodel.mapping.declare.model_options import ModelOptions, check_options
from hbmodel.mapping.declare.names_by_place import StoredNames, check_former
from hbmodel.mapping.declare.salt_binding import bound_salt
from hbmodel.mapping.map_columns import MapField
from hbmodel.mapping.schema import Field, Index, TableSchema
from hbmodel.mapping.wide import key_layout, wide_rows
from hbmodel.store.values import Family


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
    versioned = check_version(name, fields, options)
    system = versioned or bool(indexes)  # whether rows have system cells
    check_fields(name, fields, system, options)
    layout = key_layout(name, fields, options.row, options.kind, external=options.external)
    salt = bound_salt(name, options.salt, layout)
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
        built = build_index(name, index, spec, by_name, layout, salt, options)
        stored = build_index(name, index, placed.spec(spec), placed.fields, placed.layout, salt, options)
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
