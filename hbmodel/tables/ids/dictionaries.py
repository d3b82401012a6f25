"""Looks up the names and ids of dictionaries in a store, and claims new names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import ParamSpec, TypeVar, cast

from hbmodel.encoding.codecs import Dictionary
from hbmodel.encoding.codecs.dictionary import bind_names, unbind_names
from hbmodel.encoding.codecs.opentsdb_uids import COUNTER_ROW, UidDictionary, highest
from hbmodel.errors import DeclarationError, DecodingError, UnknownName
from hbmodel.mapping.declare.uid_tables import all_tables_of
from hbmodel.mapping.schema import schema_of
from hbmodel.protocol.id_assignment import claim_name
from hbmodel.store.port import HasStore, Store, store_of
from hbmodel.store.ranges import KeyRange, key_successor
from hbmodel.store.values import Row, Scan
from hbmodel.tables.ids.name_cache import NameCache
from hbmodel.tables.ids.random_uids import drawn
from hbmodel.tables.ids.retrying import drive_with_retries
from hbmodel.tables.ids.uid_check import check_uids
from hbmodel.tables.registry.registry_table import REGISTRY_TABLE, Registry

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

READ_AHEAD = 100
"""How many names are read at once, beginning with the requested one. Rows are in the order of ids, so the names of the
next ids will probably be needed soon.
"""

AT_ONCE = 1_000
"""The maximum number of names that are looked up in one call."""


def within_names(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function so that it runs with access to the names of the store's dictionaries.

    The function's first argument is the store; it may have the argument `registry`.
    """

    @functools.wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        store = cast("Store", args[0] if args else kwargs.get("store"))
        with Names(store, registry=cast("str", kwargs.get("registry", REGISTRY_TABLE))).bound():
            return function(*args, **kwargs)

    return inside


class Names:
    """Looks up the names and ids of the dictionaries in a store. It is thread-safe.

    A session looks up names and ids by itself. This class is for work outside of sessions, and for listing the names of
    a dictionary. Names and ids never change, so they are cached, in bounded memory.

    Args:
        store: the store that holds the dictionaries, or a session.
        registry: name of the registry table.
        cache: a cache to share with other objects; by default a new one.
    """

    def __init__(
        self, store: Store | HasStore, *, registry: str = REGISTRY_TABLE, cache: NameCache | None = None
    ) -> None:
        self._store = store_of(store)
        self._registry = Registry(self._store, registry)
        self._cache = NameCache() if cache is None else cache

    def id_of(self, dictionary: Dictionary, name: str) -> int:
        """Returns the id of a name.

        Raises:
            UnknownName: the name has no id.
            EncodingError: the name is not valid.
        """
        number = self._cache.id_of(dictionary, name)
        if number is None:
            number = self.find(dictionary, (name,)).get(name)
        if number is None:
            raise UnknownName(
                "The dictionary has no id for the name, so no row has the name.", dictionary=dictionary.name
            )
        return number

    def find(self, dictionary: Dictionary, names: Iterable[str]) -> Mapping[str, int]:
        """Returns the ids of the names that have an id, looked up in as few calls as possible."""
        ids: dict[str, int] = {}
        missing: list[str] = []
        _dictionary(dictionary)
        for name in dict.fromkeys(names):
            known = self._cache.id_of(dictionary, name)
            if known is None:
                missing.append(dictionary.constant(name))
            else:
                ids[name] = known
        tables = all_tables_of(dictionary)
        keys = {dictionary.written(name).encode(): name for name in missing}
        for name, cell in self._cells(dictionary, tables.name_table, tables.id_column, keys):
            ids[name] = tables.ids.decode(cell)
            self._cache.keep(dictionary, name, ids[name])
        return ids

    def find_names(self, dictionary: Dictionary, numbers: Iterable[int]) -> Mapping[int, str]:
        """Returns the names of the ids that have a name, looked up in as few calls as possible. Names that cannot be
        read are left out.
        """
        names: dict[int, str] = {}
        missing: list[int] = []
        _dictionary(dictionary)
        for number in dict.fromkeys(numbers):
            known = self._cache.name_of(dictionary, number)
            if known is None:
                missing.append(number)
            else:
                names[number] = known
        tables = all_tables_of(dictionary)
        keys = {tables.ids.encode(number): number for number in missing}
        for number, cell in self._cells(dictionary, tables.id_table, tables.name_column, keys):
            with suppress(DecodingError):  # names that cannot be read are left out
                names[number] = dictionary.read(cell)
                self._cache.keep_name(dictionary, number, names[number])
        return names

    def _cells(
        self, dictionary: Dictionary, table: str, column: bytes, keys: Mapping[bytes, T]
    ) -> Iterator[tuple[T, bytes]]:
        """Yields the cells of a column in the rows with these keys, each with the value in `keys` for its row key."""
        wanted = list(keys)
        for at in range(0, len(wanted), AT_ONCE):
            self._check(dictionary)
            for row in self._store.get(table, wanted[at : at + AT_ONCE], [column]):
                if row is not None:
                    yield keys[row.row], row.columns[column].value

    def claim(self, dictionary: Dictionary, name: str) -> int:
        """Returns the id of a name. If the name has no id, one is assigned.

        Raises:
            IdsExhausted: every id that the dictionary's codec allows is used.
        """
        number = self._cache.id_of(_dictionary(dictionary), dictionary.constant(name))
        if number is None:
            self._check(dictionary)
            tables = all_tables_of(dictionary)
            protocol = claim_name(tables, dictionary.written(name))
            if isinstance(dictionary, UidDictionary) and dictionary.random:
                protocol = drawn(tables, highest(dictionary.width), protocol)
            number = drive_with_retries(self._store, protocol)
            self._cache.keep(dictionary, name, number)
        return number

    def name_of(self, dictionary: Dictionary, number: int) -> str:
        """Returns the name of an id.

        Raises:
            DecodingError: the id has no name.
        """
        answer = self._cache.name_of(dictionary, number)
        if answer is None:
            self._check(dictionary)
            for at, name in self._named(dictionary, number):
                self._cache.keep_name(dictionary, at, name)
                if at == number:
                    answer = name
        if answer is None:
            raise DecodingError("The dictionary has no name for a stored id.", dictionary=dictionary.name, id=number)
        return answer

    def _named(self, dictionary: Dictionary, number: int) -> Iterator[tuple[int, str]]:
        """Yields some ids with their names, beginning with the id `number`."""
        tables = all_tables_of(dictionary)
        scan = Scan(
            KeyRange(tables.ids.encode(number)), columns=[tables.name_column], limit=READ_AHEAD, batch_size=READ_AHEAD
        )
        for row in self._rows(tables.id_table, scan):
            if len(row.row) == tables.ids.width:
                at = tables.ids.decode(row.row)
                try:
                    yield at, dictionary.read(row.columns[tables.name_column].value)
                except DecodingError:
                    if at == number:
                        raise

    def starting_with(self, dictionary: Dictionary, prefix: str = "", *, limit: int | None = None) -> Iterator[str]:
        """Yields the names that begin with a prefix, in order.

        Args:
            dictionary: the dictionary.
            prefix: the prefix of the names; by default all names are returned.
            limit: maximum number of names.
        """
        self._check(dictionary)
        if prefix != "":
            dictionary.constant(prefix)
        tables = all_tables_of(dictionary)
        keys = KeyRange.prefix(dictionary.written(prefix).encode())
        if isinstance(dictionary, UidDictionary):
            keys = keys.intersect(KeyRange(key_successor(COUNTER_ROW)))
        scan = Scan(keys, columns=[tables.id_column], limit=limit)
        return (dictionary.read(row.row) for row in self._rows(tables.name_table, scan))

    def _rows(self, table: str, scan: Scan) -> Iterator[Row]:
        (batches,) = self._store.scan(table, [scan])
        return (row for batch in batches for row in batch)

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Lets `hb.row_key`, `hb.decode` and `hb.schema.key_of` use dictionaries in its block, in this thread, as in
        the calls of a session.
        """
        token = bind_names(self)
        try:
            yield
        finally:
            unbind_names(token)

    def _check(self, dictionary: Dictionary) -> None:
        """Raises `SchemaMismatch` if the dictionary's ids have another codec in the store."""
        if dictionary in self._cache.checked:
            return
        if isinstance(dictionary, UidDictionary):
            check_uids(self._store, dictionary)
        else:
            tables = all_tables_of(_dictionary(dictionary))
            for model in (tables.by_name, tables.by_id):
                self._registry.bind(schema_of(model))
        self._cache.checked.add(dictionary)


def _dictionary(given: object) -> Dictionary:
    if not isinstance(given, Dictionary):
        raise DeclarationError("This is not a dictionary: declare one with hb.ids.dictionary().", found=repr(given))
    return given
