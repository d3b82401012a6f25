"""Ids from a counter in the store, and short ids for the names of a dictionary."""

from __future__ import annotations

from hbmodel.encoding.codecs import Dictionary
from hbmodel.encoding.codecs.opentsdb_uids import UidDictionary
from hbmodel.mapping.declare.dictionary_tables import dictionary
from hbmodel.mapping.declare.uid_tables import opentsdb_uids
from hbmodel.tables.ids.dictionaries import Names
from hbmodel.tables.ids.sequence import IdSequence, SequenceIds

__all__ = [
    "Dictionary",
    "IdSequence",
    "Names",
    "SequenceIds",
    "UidDictionary",
    "dictionary",
    "opentsdb_uids",
]
