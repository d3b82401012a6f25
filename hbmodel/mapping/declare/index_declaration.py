"""Declarations of indexes: the functions that users call, and the checked description of an index."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from attrs import frozen

from hbmodel.encoding.key_layout import KeyField, KeyLayout
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.encoding.salts import BoundSalt, Salt
from hbmodel.errors import DeclarationError, EncodingError, QueryError
from hbmodel.mapping.declare.model_options import ModelOptions
from hbmodel.mapping.declare.salt_binding import bound_salt
from hbmodel.mapping.index_kinds.base import DeclaredPart, IndexPart
from hbmodel.mapping.index_kinds.multi_valued import EachField
from hbmodel.mapping.index_kinds.partial import Where, resolve_where
from hbmodel.mapping.index_kinds.plain import IndexField
from hbmodel.mapping.predicates import Predicate
from hbmodel.mapping.schema import PRIMARY, Field, Index

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


def index(
    *fields: str | DeclaredPart,
    covers: Sequence[str] = (),
    salt: Salt | None = None,
    skip_none: bool = False,
    where: Callable[[Any], Predicate] | None = None,
    unique: bool = False,
    renamed_from: str | None = None,
) -> Any:
    """Declares an index table.

    Args:
        fields: names of the fields by which rows are looked up, in key order. `asc("at")` and `desc("at")` set a
            direction; other fields keep their own. `each("tags")` uses the elements of a collection. The rest of the
            primary key is appended automatically.
        covers: a tuple of columns that are also stored in the entries. On versioned and immutable models, entries
            answer queries that need no other columns.
        salt: salt of the index table. Its argument `by` names fields of the index.
        skip_none: excludes rows that have None in a field of the index. A query can use the index only if it excludes
            None in these fields: by `==`, `<`, `startswith` and similar conditions, or by `~field.is_(None)`.
        where: excludes rows that do not satisfy a condition: `where=lambda ticket: ticket.state == "open"`. A query can
            use the index only if it repeats this condition, or has a condition that clearly implies it.
        unique: whether no two rows may have the same values in these fields (None excepted); a write that would break
            this rule raises `UniqueViolation`. Only for versioned models.
        renamed_from: the former name of the index, with the same entries.
    """
    parts = tuple(part if isinstance(part, DeclaredPart) else IndexField(part, None) for part in fields)
    return IndexSpec(parts, covers, salt, skip_none, where, unique, renamed_from)


def each(name: str, *, desc: bool = False) -> DeclaredPart:
    """Declares a part of an index that contains the elements of a collection field: each distinct element has its own
    entry.

    Queries use such an index for the condition `Model.tags.contains("x")`. Rows whose collection is empty or None have
    no entries.
    """
    return EachField(name, desc)


def asc(name: str) -> IndexField:
    """Declares an index field that sorts ascending, even if the field sorts descending in the row key."""
    return IndexField(name, False)


def desc(name: str) -> IndexField:
    """Declares an index field that sorts descending, even if the field sorts ascending in the row key."""
    return IndexField(name, True)


def build_index(
    model: str,
    name: str,
    spec: IndexSpec,
    fields: Mapping[str, Field],
    primary: KeyLayout,
    primary_salt: BoundSalt,
    options: ModelOptions,
) -> Index:
    """Resolves the declaration of an index into its description.

    Args:
        model: name of the model, for errors.
        name: name of the index.
        spec: the declaration.
        fields: all fields that an index may name, stored and computed, by name.
        primary: the key of the table.
        primary_salt: the salt of the table.
        options: options of the model.

    Raises:
        DeclarationError: the declaration is invalid; the error names the index.
    """

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
        salt=bound_salt(model, _by_places(spec, parts), layout, index=name),
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
