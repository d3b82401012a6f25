"""What is declared in a store in addition to models: sequences, dictionaries, and those that the fields of models
have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from hbmodel.encoding.codecs import Dictionary
from hbmodel.mapping.dictionary_tables import tables_of
from hbmodel.mapping.schema import schema_of
from hbmodel.tables.sequence import IdSequence

Declared: TypeAlias = type[Any] | IdSequence | Dictionary
"""What has tables."""


def models_and_ids(declared: Iterable[Declared], *, used: bool = True) -> tuple[list[type[Any]], list[type[Any]]]:
    """The models among what was given, and the models of the tables of ids: of the sequences and dictionaries given.

    Args:
        declared: models, sequences and dictionaries.
        used: whether the dictionaries that the models' fields use are meant too.
    """
    models: list[type[Any]] = []
    ids: dict[type[Any], None] = {}
    for each in declared:
        if isinstance(each, IdSequence):
            ids.update(dict.fromkeys(each.models))
        elif isinstance(each, Dictionary):
            ids.update(dict.fromkeys(tables_of(each).models))
        else:
            models.append(each)
            for dictionary in schema_of(each).dictionaries if used else ():
                ids.update(dict.fromkeys(tables_of(dictionary).models))
    return models, [model for model in ids if model not in models]
