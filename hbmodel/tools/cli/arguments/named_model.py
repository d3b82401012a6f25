"""Models that are named on the command line, as `package.module:Class`."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from hbmodel.errors import DeclarationError, HbmodelError, SchemaMismatch
from hbmodel.mapping.schema import schema_of

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


def find_model(named: str) -> type[Any]:
    """The model `package.module:Class`; modules in the current directory are found.

    Raises:
        DeclarationError: there is no such model.
    """
    module, colon, name = named.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        target: Any = _imported(module, named)
        for part in name.split("."):
            target = getattr(target, part)
    except AttributeError as error:
        raise DeclarationError(_NO_MODEL, model=named, reason=str(error)) from error
    if not colon or not isinstance(target, type):
        raise DeclarationError(_NO_MODEL, model=named)
    schema_of(target)  # raises if the class is no model
    return target


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
