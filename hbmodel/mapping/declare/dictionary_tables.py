"""The tables of dictionaries and sequences, declared as models."""

from __future__ import annotations

from functools import cache
from typing import Any

from attrs import frozen

from hbmodel.encoding.codecs import Codec, Dictionary, Text
from hbmodel.errors import IdsExhausted
from hbmodel.mapping.declare.fields import Column, Key, column, counter, key
from hbmodel.mapping.declare.model import model
from hbmodel.mapping.schema import schema_of

SEQUENCES = "hbmodel_sequences"
"""The table of the counters from which sequences take their ids."""


@frozen
class Counter:
    """The cell with the count of a sequence, which is the greatest id that was assigned."""

    table: str
    row: bytes
    column: bytes


@cache
def sequence_model(table: str) -> type[Any]:
    """Returns the model of a table of counters."""

    @model(table=table, family="d")
    class Sequenced:
        """The last count of one sequence."""

        name: Key[str] = key(Text)
        last: Column[int] = counter("n")

    return Sequenced


def counter_of(table: str, name: str) -> Counter:
    """Returns the counter of a sequence."""
    return Counter(table, name.encode(), schema_of(sequence_model(table)).by_name["last"].column)


@frozen
class DictionaryTables:
    """The tables of a dictionary, from name to id (`by_name`) and from id to name (`by_id`), and the counter of ids."""

    by_name: type[Any]
    by_id: type[Any]
    ids: Codec[int]
    counter: Counter

    @property
    def models(self) -> tuple[type[Any], ...]:
        """The models of all tables."""
        return (sequence_model(self.counter.table), self.by_name, self.by_id)

    @property
    def name_table(self) -> str:
        """The table from name to id."""
        return schema_of(self.by_name).table

    @property
    def id_table(self) -> str:
        """The table from id to name."""
        return schema_of(self.by_id).table

    @property
    def id_column(self) -> bytes:
        """The column of the id, in the table by name."""
        return schema_of(self.by_name).by_name["id"].column

    @property
    def name_column(self) -> bytes:
        """The column that holds the name, in the table whose key is the id."""
        return schema_of(self.by_id).by_name["name"].column

    def packed(self, number: int) -> bytes:
        """Returns the bytes of an id. Raises `IdsExhausted` if the codec cannot store the id."""
        try:
            return self.ids.encode(number)
        except ValueError:
            raise IdsExhausted(
                "All ids that the dictionary's codec can store are in use: declare a dictionary with a wider codec.",
                table=self.name_table,
                id=number,
            ) from None


@cache
def tables_of(dictionary: Dictionary) -> DictionaryTables:
    """Returns the tables of a dictionary."""
    name, ids = dictionary.name, dictionary.ids

    @model(table=f"{name}.ids", family="d")
    class NameToId:
        """The id of a name."""

        name: Key[str] = key(Text)
        id: Column[int] = column("i", ids)

    @model(table=f"{name}.names", family="d")
    class IdToName:
        """The name of an id."""

        id: Key[int] = key(ids)
        name: Column[str] = column("n", Text)

    return DictionaryTables(NameToId, IdToName, ids, counter_of(SEQUENCES, f"{name}.ids"))


def dictionary(name: str, ids: Codec[int]) -> Dictionary:
    """Declares a dictionary: short ids for long names, for use as the codec of a field.

    A name gets its id when a program first adds an object that contains the name. If several programs add the same new
    name at the same time, one of them assigns the id and the others use this id. Ids start at 1. `create_tables`
    creates the dictionary's tables, `<name>.ids` and `<name>.names`, together with the tables of every model that uses
    the dictionary.

    Args:
        name: name of the dictionary, `namespace:name` or `name`.
        ids: codec of the ids, whole numbers of fixed width: `hb.UInt32`, or `hb.codecs.Reversed(hb.UInt32)` to spread
            new names over the table.

    Raises:
        DeclarationError: the name is invalid, or the codec does not store whole numbers of fixed width.
    """
    codec = Dictionary(name, ids)
    tables_of(codec)
    return codec
