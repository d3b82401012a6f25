"""Checks of the fields of a model: their codecs, defaults, columns and the version."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

from attrs import Factory

from hbmodel.encoding.codecs import Dictionary
from hbmodel.errors import DeclarationError, EncodingError
from hbmodel.mapping.declare.model_options import ModelOptions
from hbmodel.mapping.schema import REQUIRED, Field
from hbmodel.store.values import Family


def check_fields(model: str, fields: Sequence[Field], indexed: bool, options: ModelOptions) -> None:
    """Checks the fields of a model one by one, and that no two of them have the same column.

    Args:
        model: name of the model.
        fields: the fields in the order of their declaration.
        indexed: whether rows have system cells, because the model has indexes or a version.
        options: options of the model.

    Raises:
        DeclarationError: a field is invalid, or the model has no key or no cell.
    """
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


def check_version(model: str, fields: Sequence[Field], options: ModelOptions) -> bool:
    """Returns whether the model is versioned, after a check that it may be.

    Raises:
        DeclarationError: the version contradicts another declaration.
    """
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
    if isinstance(field.codec, Dictionary) and field.default is not None:
        raise DeclarationError(
            "A column with the names of a dictionary can have only None as its default, because another name may have "
            "no id, and then indexes and queries could not find the rows that lack the cell: allow None, and declare "
            "default=None.",
            model=model,
            field=field.name,
        )
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
