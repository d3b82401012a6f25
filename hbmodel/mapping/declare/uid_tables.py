"""OpenTSDB's table of ids, declared as the tables of a dictionary."""

from __future__ import annotations

from functools import cache

from attrs import frozen

from hbmodel.encoding.codecs import Dictionary
from hbmodel.encoding.codecs.opentsdb_uids import COUNTER_ROW, UidDictionary
from hbmodel.errors import IdsExhausted
from hbmodel.mapping.declare.dictionary_tables import Counter, DictionaryTables, tables_of
from hbmodel.mapping.declare.fields import Column, Key, column, key
from hbmodel.mapping.declare.model import model

IDS, NAMES = "id", "name"
"""The column families: from name to id, and from id to name (`UniqueId.ID_FAMILY`, `UniqueId.NAME_FAMILY`)."""


@frozen
class UidTables(DictionaryTables):
    """The two families of OpenTSDB's table of ids, and the counter of one kind. They are never registered: OpenTSDB
    has declared them.
    """

    def packed(self, number: int) -> bytes:
        try:
            return self.ids.encode(number)
        except ValueError:
            raise IdsExhausted(
                "All ids of this width are in use: OpenTSDB cannot assign another one either.",
                table=self.name_table,
                column=self.id_column,
                id=number,
                width=self.ids.width,
            ) from None


@cache
def uid_tables_of(dictionary: UidDictionary) -> UidTables:
    """Returns the families of a kind of ids, as tables."""
    table, kind, ids = dictionary.table, dictionary.kind, dictionary.ids

    @model(table=table, family=IDS, external=True)
    class NameToUid:
        """The id of a name."""

        name: Key[bytes] = key()
        id: Column[int] = column(kind, ids)

    @model(table=table, family=NAMES, external=True)
    class UidToName:
        """The name of an id."""

        id: Key[int] = key(ids)
        name: Column[bytes] = column(kind)

    return UidTables(NameToUid, UidToName, ids, Counter(table, COUNTER_ROW, f"{IDS}:{kind}".encode()))


def all_tables_of(dictionary: Dictionary) -> DictionaryTables:
    """Returns the tables of a dictionary of hbmodel or of OpenTSDB."""
    return uid_tables_of(dictionary) if isinstance(dictionary, UidDictionary) else tables_of(dictionary)


def opentsdb_uids(kind: str, *, width: int = 3, table: str = "tsdb-uid", random: bool = False) -> UidDictionary:
    """Declares the ids that OpenTSDB keeps in its table `tsdb-uid`, for use as the codec of a field.

    Names that OpenTSDB has assigned are read. New names get their ids in the same way as in OpenTSDB's `UniqueId`: by
    an increment of the counter, a check-and-put of the name under the id, and a check-and-put of the id under the name.
    So OpenTSDB and hbmodel can both assign ids at the same time. The table belongs to OpenTSDB: `create_tables` checks
    it, and neither creates nor registers it.

    Names are ISO-8859-1. OpenTSDB's own interface accepts letters, digits and `-_./` only.

    Args:
        kind: the kind of the names: `metrics`, `tagk` (tag names) or `tagv` (tag values).
        width: the length of an id in bytes, big-endian, from 1 to 8: `tsd.storage.uid.width.metric`, `.tagk` or
            `.tagv` in OpenTSDB's configuration.
        table: the name of OpenTSDB's table of ids, `tsd.storage.hbase.uid_table`.
        random: whether OpenTSDB assigns random ids to metrics, `tsd.core.uid.random_metrics`.

    Raises:
        DeclarationError: there is no such kind, the width is out of range, or `random` is given for ids that OpenTSDB
            never draws at random.
    """
    codec = UidDictionary(table, kind, width, random)
    uid_tables_of(codec)
    return codec
