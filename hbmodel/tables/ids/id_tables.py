"""The tables of ids, which hold sequences and dictionaries, including the dictionaries that fields of models use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from hbmodel.encoding.codecs import Dictionary
from hbmodel.encoding.codecs.opentsdb_uids import UidDictionary
from hbmodel.mapping.declare.dictionary_tables import tables_of
from hbmodel.mapping.schema import schema_of
from hbmodel.tables.ids.sequence import IdSequence

Declared: TypeAlias = type[Any] | IdSequence | Dictionary
"""A declaration with tables: a model, a sequence or a dictionary."""


def models_and_ids(declared: Iterable[Declared], *, used: bool = True) -> tuple[list[type[Any]], list[type[Any]]]:
    """Returns the given models, and the models of the id tables of the given sequences and dictionaries, except
    OpenTSDB's tables.

    Args:
        used: whether to include the dictionaries that the models' fields use.
    """
    models: list[type[Any]] = []
    ids: dict[type[Any], None] = {}
    for each in declared:
        if isinstance(each, IdSequence):
            ids.update(dict.fromkeys(each.models))
        elif isinstance(each, Dictionary):
            ids.update(dict.fromkeys(_models_of(each)))
        else:
            models.append(each)
            for dictionary in schema_of(each).dictionaries if used else ():
                ids.update(dict.fromkeys(_models_of(dictionary)))
    return models, [model for model in ids if model not in models]


def _models_of(dictionary: Dictionary) -> tuple[type[Any], ...]:
    """Returns the models of the tables that hbmodel creates for a dictionary."""
    return () if isinstance(dictionary, UidDictionary) else tables_of(dictionary).models


def opentsdb_dictionaries(declared: Iterable[Declared]) -> list[UidDictionary]:
    """Returns the given OpenTSDB dictionaries, and those that fields of the given models use."""
    found: dict[Dictionary, None] = {}
    for each in declared:
        if isinstance(each, Dictionary):
            found[each] = None
        elif not isinstance(each, IdSequence):
            found.update(dict.fromkeys(schema_of(each).dictionaries))
    return [dictionary for dictionary in found if isinstance(dictionary, UidDictionary)]
