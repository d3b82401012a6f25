"""Models, and other Python objects, that are named on the command line as `package.module:name`."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hbmodel.encoding.codecs import Dictionary
from hbmodel.errors import DeclarationError, HbmodelError, SchemaMismatch
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.tables.ids.id_tables import Declared
from hbmodel.tables.ids.sequence import IdSequence

_HBMODEL = str(Path(__file__).parents[3])
_NO_MODEL = "There is no such model: name it as package.module:Class."


def _imported(module: str, named: str) -> Any:
    """The module of a model.

    Raises:
        DeclarationError: there is no such module, or its code raises an error.
    """
    try:
        return import_module(module)
    except Exception as error:  # the code of the module may raise any error
        absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        if absent or not module or module.startswith("."):
            raise DeclarationError(_NO_MODEL, model=named, reason=str(error)) from error
        text = HbmodelError.__str__(error) if isinstance(error, HbmodelError) else str(error)
        own = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "importlib" not in frame.filename and not frame.filename.startswith((_HBMODEL, "<"))
        ]
        raise DeclarationError(
            "The module of the model cannot be imported: correct its code.",
            model=named,
            reason=f"{type(error).__name__}: {text}",
            file=f"{own[-1].filename}:{own[-1].lineno}" if own else None,
        ) from error


def find_object(named: str) -> Any:
    """The object `package.module:name`, or a whole module; modules in the current directory are found.

    Raises:
        DeclarationError: there is no such object.
    """
    module, colon, name = named.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    target: Any = _imported(module, named)
    try:
        for part in name.split(".") if colon else ():
            target = getattr(target, part)
    except AttributeError as error:
        raise DeclarationError(_NO_MODEL, model=named, reason=str(error)) from error
    return target


def find_model(named: str) -> type[Any]:
    """The model `package.module:Class`.

    Raises:
        DeclarationError: there is no such model.
    """
    target = find_object(named)
    if not isinstance(target, type):
        raise DeclarationError(_NO_MODEL, model=named)
    schema_of(target)  # raises if the class is no model
    return target


def find_declared(names: Iterable[str], *, sequences: bool = True) -> list[Declared]:
    """Models, dictionaries and sequences, each named as `package.module:name`, or all models and sequences of a module.

    Args:
        sequences: whether a module also stands for its sequences.

    Raises:
        DeclarationError: there is no such declaration, or a module contains none.
    """
    found: dict[Declared, None] = {}
    for named in names:
        target = find_object(named)
        if not isinstance(target, ModuleType):
            found[target if isinstance(target, IdSequence | Dictionary) else find_model(named)] = None
            continue
        declared = [one for one in _declared_in(target) if sequences or isinstance(one, type)]
        if not declared:
            raise DeclarationError(
                "The module declares no model: name another module, or a model as package.module:Class.", model=named
            )
        found.update(dict.fromkeys(declared))
    return list(found)


def _declared_in(module: ModuleType) -> Iterator[Declared]:
    """The models and sequences in a module. Models that it imports from other packages do not belong to it, and those
    that another one replaces are left out. So are its dictionaries: those that its models use need not be named.
    """
    schemas: list[TableSchema] = []
    for value in vars(module).values():
        if isinstance(value, IdSequence):
            yield value
        elif isinstance(value, type) and f"{value.__module__}.".startswith(f"{module.__name__}."):
            with suppress(DeclarationError):  # the class is not a model
                schemas.append(schema_of(value))
    replaced = {schema.replaces.table for schema in schemas if schema.replaces is not None}
    yield from (schema.model for schema in schemas if schema.table not in replaced)


def load_model(named: str, table: str) -> type[Any]:
    """The model `package.module:Class`, which must belong to the table.

    Raises:
        DeclarationError: there is no such model.
        SchemaMismatch: the model belongs to another table.
    """
    model = find_model(named)
    schema = schema_of(model)
    if schema.table != table:
        raise SchemaMismatch(
            "The model belongs to another table: name the model of this table.",
            table=table,
            model=named,
            of=schema.table,
        )
    return model
