"""The declaration of wide models, whose objects share rows, and the mapping of their objects to rows by a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import Factory, field, frozen

from hbmodel.encoding.key_layout import KeyField, KeyLayout, check_length
from hbmodel.encoding.object_key_layout import ObjectKeyLayout
from hbmodel.encoding.object_keys import ObjectKeyForm, PrefixEnd, Slice
from hbmodel.encoding.qualifier_layout import QualifierLayout
from hbmodel.encoding.salts import BoundSalt
from hbmodel.errors import DeclarationError, KeyTooLong
from hbmodel.mapping.model_field import Field
from hbmodel.store.ranges import KeyRange
from hbmodel.store.values import MAX_ROW_LENGTH, Family


@frozen
class WideLayout:
    """The places of a wide model's objects: converts object keys to rows and qualifiers, and back.

    Attributes:
        form: converts between object keys and pairs of row key and qualifier prefix.
        prefix_end: a function that returns the position in a qualifier at which the prefix of its object ends,
            including the kind. It returns None if the qualifier belongs to no object.
    """

    form: ObjectKeyForm
    family: bytes
    qualifiers: QualifierLayout
    prefix_end: PrefixEnd = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.qualifiers.prefix_end, takes_self=True)
    )

    @property
    def kind(self) -> bytes:
        """The prefix of the model's qualifiers, which may be empty."""
        return self.form.kind

    def slices(self, places: KeyRange) -> tuple[Slice, ...]:
        """Returns the slices that contain exactly the cells of the objects whose object keys lie in a range. The slices
        are in key order.
        """
        return self.form.slices(places, self.prefix_end)

    def check(self, place: bytes, *, table: str) -> None:
        """Refuses object keys whose row or qualifiers HBase would not store.

        Raises:
            KeyTooLong: the row key or the qualifier prefix is longer than 32,767 bytes, or the row key or the whole
                qualifier is empty, or the row key is constant and the qualifier is only the kind.
        """
        row, prefix = self.form.cut(place)
        check_length(row, table=table)
        if not prefix:
            raise KeyTooLong("A key whose qualifier would be empty cannot be stored.", table=table)
        if not place:
            message = "The qualifier of this key would be the kind alone, which a constant row key does not allow."
            raise KeyTooLong(message, table=table, kind=self.kind)
        if len(prefix) > MAX_ROW_LENGTH:
            raise KeyTooLong(
                "The key fields in a qualifier must not be longer than 32,767 bytes.", table=table, length=len(prefix)
            )


def key_layout(model: str, fields: Sequence[Field], row: Any, kind: Any, *, external: bool = False) -> KeyLayout:
    """Returns the layout of a model's key. The layout is an `ObjectKeyLayout` if several objects can share a row,
    including objects of other kinds.

    Args:
        row: the constant row, as declared, or None.
        kind: the kind, as declared, or None.
        external: whether other programs write the table.

    Raises:
        DeclarationError: the declarations contradict each other.
    """
    keys = [f for f in fields if f.is_key]
    declared = tuple(KeyField(f.name, f.codec, f.desc, f.nullable) for f in keys)
    for f in keys:
        try:
            f.codec.check_row_key(nullable=f.nullable, last=f is keys[-1])
        except DeclarationError as error:
            raise DeclarationError(error.message, **{"model": model, "field": f.name, **error.details}) from None
    if kind is not None and (type(kind) is not bytes or not kind or (len(kind) > 1 and not external)):
        raise DeclarationError(
            'A kind must be exactly one byte: kind=b"p". Only external models may have longer ones.',
            model=model,
            found=repr(kind),
        )
    if row is not None and (type(row) is not bytes or not 0 < len(row) <= MAX_ROW_LENGTH):
        raise DeclarationError(
            'row is the key of the one row that holds all objects, as bytes: row=b"pets".',
            model=model,
            found=repr(row) if not isinstance(row, bytes) else f"{len(row)} bytes",
        )
    for f in keys:
        if type(f.in_qualifier) is not bool:
            raise DeclarationError(
                "in_qualifier must be True or False.", model=model, field=f.name, found=repr(f.in_qualifier)
            )
        if f.row_span is not None and f.in_qualifier:
            raise DeclarationError(
                "A field with a row span is stored in the row key and in the qualifier: leave out in_qualifier.",
                model=model,
                field=f.name,
            )
    if row is None and kind is None and all(not f.in_qualifier and f.row_span is None for f in keys):
        return KeyLayout(declared)
    rows = next(
        (at + (f.row_span is not None) for at, f in enumerate(keys) if f.in_qualifier or f.row_span is not None),
        len(keys),
    )
    for f in keys[rows:]:
        if not f.in_qualifier:
            raise DeclarationError(
                "All key fields after a field in the qualifier must be in the qualifier too: give them "
                "in_qualifier=True, or declare them before that field.",
                model=model,
                field=f.name,
            )
    if row is not None and rows:
        raise DeclarationError(
            "The row key is constant, so every key field must be in the qualifier: in_qualifier=True.",
            model=model,
            field=keys[0].name,
        )
    if row is None and not rows:
        raise DeclarationError(
            'A row key needs a field, or one value for all objects: @hb.model(row=b"pets").',
            model=model,
            field=keys[0].name,
        )
    raw = any(f.kind == "column" and not f.qualifier for f in fields) and (
        rows < len(keys) or keys[-1].row_span is not None
    )
    try:
        return ObjectKeyLayout(declared, rows=rows, split=keys[rows - 1].row_span if rows else None, raw=raw)
    except DeclarationError as error:
        raise DeclarationError(
            error.message, **{"model": model, "field": keys[rows - 1].name, **error.details}
        ) from None


def wide_rows(
    model: str,
    layout: KeyLayout,
    salt: BoundSalt,
    fields: Sequence[Field],
    families: Sequence[Family],
    *,
    row: bytes | None,
    kind: bytes | None,
    marked: bool,
    external: bool,
) -> WideLayout | None:
    """Describes how a store maps the objects of a wide model to rows. None if each object has its own row.

    Args:
        row: the constant row, or None.
        kind: the prefix of the model's qualifiers, or None.
        marked: whether objects have cells that are not columns: system cells or a flag.
        external: whether other programs write the table. In this case None is stored as the absence of the cell.

    Raises:
        DeclarationError: the columns are not possible in a wide model.
    """
    cells = [f for f in fields if not f.is_key]
    empty = next((f for f in cells if not f.qualifier), None)
    place = layout if isinstance(layout, ObjectKeyLayout) else None
    if empty is not None:
        _check_empty_alias(model, empty, place, cells, families, marked=marked, external=external)
    if place is None:
        return None
    if len(families) > 1:
        raise DeclarationError(
            "A wide model must have one column family: an object's cells must be adjacent.",
            model=model, families=[family.name.decode() for family in families],
        )  # fmt: skip
    for f in cells:
        if f.null == "delete" and not external:
            raise DeclarationError(
                'null="delete" cannot be used on a wide model: leave it out, so that None is stored as an empty cell.',
                model=model,
                field=f.name,
            )
    form = ObjectKeyForm(salt.width, row, kind or b"")
    return WideLayout(form, families[0].name, QualifierLayout(form.kind, place.columns))


def _check_empty_alias(
    model: str,
    empty: Field,
    place: ObjectKeyLayout | None,
    cells: Sequence[Field],
    families: Sequence[Family],
    *,
    marked: bool,
    external: bool,
) -> None:
    """Raises `DeclarationError` if the column must not have an empty alias. A qualifier that ends with the last key
    field leaves no place for another cell of its object.
    """
    if place is None and external:
        return
    if place is None or place.columns is None:
        raise DeclarationError(
            "A column alias must not be empty, unless each object of an external table has a row of its own, or the "
            "model has key fields with in_qualifier=True.",
            model=model,
            field=empty.name,
        )
    if len(cells) > 1:
        raise DeclarationError(
            "A column with an empty alias must be the only column of its model.", model=model, field=empty.name
        )
    if marked or any(family.ttl is not None for family in families):
        raise DeclarationError(
            "A model whose column has an empty alias cannot have indexes, a flag or a TTL, which need another cell: "
            'give the column an alias, such as hb.column("v").',
            model=model,
            field=empty.name,
        )
