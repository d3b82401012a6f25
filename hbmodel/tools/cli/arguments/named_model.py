"""Models that are named on the command line, as `package.module:Class`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from hbmodel.errors import DeclarationError, SchemaMismatch
from hbmodel.mapping.schema import schema_of


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
        target: Any = import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise DeclarationError(
            "There is no such model: name it as package.module:Class.", model=named, reason=str(error)
        ) from error
    if not colon or not isinstance(target, type):
        raise DeclarationError("There is no such model: name it as package.module:Class.", model=named)
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
