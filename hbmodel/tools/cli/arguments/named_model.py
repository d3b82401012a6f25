"""Models, and other Python objects, that are named on the command line as `package.module:name`."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from hbmodel.encoding.codecs import Dictionary
from hbmodel.errors import DeclarationError, HbmodelError, SchemaMismatch
from hbmodel.mapping.schema import TableSchema, schema_of
from hbmodel.tables.ids.id_tables import Declared
from hbmodel.tables.ids.sequence import IdSequence

_HBMODEL = str(Path(__file__).parents[3])
_NO_MODEL = "There is no such model: name it as package.module:Class."
_NO_SPLITS = "There is no such object: name a split strategy, or a dictionary of strategies, as package.module:name."

Kind = Literal["model", "splits"]
"""What a name on the command line stands for."""

_ABSENT: dict[Kind, str] = {"model": _NO_MODEL, "splits": _NO_SPLITS}
_BROKEN: dict[Kind, str] = {
    "model": "The module of the model cannot be imported: correct its code.",
    "splits": "The module of the splits cannot be imported: correct its code.",
}


def _imported(module: str, named: str, kind: Kind) -> Any:
    """Returns the module of a model, or of splits.

    Raises:
        DeclarationError: there is no such module, or its code raises an error.
    """
    try:
        return import_module(module)
    except Exception as error:  # the code of the module may raise any error
        absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        if absent or not module or module.startswith("."):
            raise DeclarationError(_ABSENT[kind], **{kind: named}, reason=str(error)) from error
        text = HbmodelError.__str__(error) if isinstance(error, HbmodelError) else str(error)
        own = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "importlib" not in frame.filename and not frame.filename.startswith((_HBMODEL, "<"))
        ]
        raise DeclarationError(
            _BROKEN[kind],
            **{kind: named},
            reason=f"{type(error).__name__}: {text}",
            file=f"{own[-1].filename}:{own[-1].lineno}" if own else None,
        ) from error


def find_object(named: str, kind: Kind = "model") -> Any:
    """Returns the object `package.module:name`, or a whole module. Modules in the current directory are found, too.

    Raises:
        DeclarationError: there is no such object.
    """
    module, colon, name = named.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    target: Any = _imported(module, named, kind)
    try:
        for part in name.split(".") if colon else ():
            target = getattr(target, part)
    except AttributeError as error:
        raise DeclarationError(_ABSENT[kind], **{kind: named}, reason=str(error)) from error
    return target


def find_splits(named: str | None) -> Any:
    """Returns the splits `package.module:name`, or None if no name is given.

    Raises:
        DeclarationError: there is no such object.
    """
    return None if named is None else find_object(named, "splits")


def find_model(named: str) -> type[Any]:
    """Returns the model `package.module:Class`.

    Raises:
        DeclarationError: there is no such model.
    """
    target = find_object(named)
    if isinstance(target, ModuleType):
        known = [f"{named}:{one.__name__}" for one in _declared_in(target) if isinstance(one, type)]
        raise DeclarationError(
            "There is no such model, only a module: name one of its models as package.module:Class.",
            model=named,
            known=known,
        )
    if not isinstance(target, type):
        raise DeclarationError(_NO_MODEL, model=named)
    schema_of(target)  # raises an error if the class is no model
    return target


def find_declared(names: Iterable[str], *, sequences: bool = True) -> list[Declared]:
    """Returns models, dictionaries and sequences, each given as `package.module:name`, or all models and sequences of a
    module.

    Args:
        sequences: whether the name of a module also stands for its sequences.

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
    """Yields the models and sequences in a module. Models that it imports from other packages are left out, and so are
    models that another model replaces. Dictionaries are left out too, because the dictionaries that models use need not
    be given.
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
    """Returns the model `package.module:Class`, which must belong to the table.

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
