"""Refusals of values, codecs, fields and arguments, each with its message; see `test_refusals`."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from ipaddress import IPv6Address
from typing import Any

import pytest

import hbmodel as hb
from hbmodel.encoding.key_layout import KeyField, KeyLayout
from hbmodel.encoding.object_keys import ObjectKeyForm
from hbmodel.encoding.salts import TextSalt
from hbmodel.store import Family
from hbmodel.store.thrift1.store import Thrift1Store
from tests.faults.test_refusals import refused

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Measure(enum.Enum):
    NONE = float("nan")


@hb.model(table="refused_wide", family="p", kind=b"p")
class Pet:
    owner: hb.Key[str] = hb.key(hb.Text)
    name: hb.Key[str] = hb.key(hb.Text, in_qualifier=True)
    species: hb.Column[str] = hb.column("s")


@hb.model(table="refused_wide_without_kind", family="p", row=b"pets")
class Named:
    name: hb.Key[str] = hb.key(hb.Text, in_qualifier=True)
    species: hb.Column[str] = hb.column("")


def family(**options: Any) -> Callable[[], Any]:
    return lambda: hb.family("d", **options)


def declared(body: Callable[[], dict[str, Any]], **options: Any) -> Callable[[], Any]:
    """Declares a model with one key and the fields of the body."""

    def declare() -> Any:
        given = {"k": (hb.Key[int], hb.key(hb.UInt32)), **body()}
        space = {name: field for name, (_, field) in given.items()}
        hints = {name: hint for name, (hint, _) in given.items() if hint is not None}
        return hb.model(**{"table": "refused", "family": "d", **options})(
            type("Refused", (), {**space, "__annotations__": hints})
        )

    return declare


def column(alias: str = "v") -> tuple[Any, Any]:
    return hb.Column[int], hb.column(alias, hb.UInt32)


def unregistered() -> Any:
    with hb.connect("memory:") as store:
        hb.create_tables(store, Pet)
        return hb.indexes.build_index(store, declared(lambda: {"v": column(), "by_v": (None, hb.index("v"))})(), "by_v")


VALUES = [
    refused(
        hb.EncodingError,
        "An IPv6 address with a scope cannot be stored",
        lambda: hb.codecs.IPAddress.encode(IPv6Address("fe80::1%eth0")),
    ),
    refused(
        hb.DecodingError,
        "continue after the end of an IP address",
        lambda: hb.codecs.IPAddress.decode(b"\x04\x01\x02\x03\x04\x05"),
    ),
    refused(
        hb.DecodingError,
        "Stored bytes are not an IP address",
        lambda: hb.codecs.IPAddress.decode(b"\x05\x01\x02\x03\x04"),
    ),
    refused(
        hb.EncodingError,
        "Only finite decimal numbers can be stored",
        lambda: hb.codecs.DecimalNumber.encode(Decimal("NaN")),
    ),
    refused(
        hb.DecodingError,
        "continue after the end of a decimal number",
        lambda: hb.codecs.DecimalNumber.decode(b"\x03\x80\x00\x00\x01\x10\x00\x00"),
    ),
    refused(
        hb.EncodingError,
        "The exponent of a decimal number does not fit",
        lambda: hb.codecs.DecimalNumber.encode(Decimal("1E+9999999999")),
    ),
    refused(
        hb.DeclarationError,
        "NaN equals no value, so it could not be found again",
        lambda: hb.EnumOf(Measure, hb.Float64(nan=True)),
    ),
    refused(
        hb.EncodingError,
        "65,535 bytes that writeUTF allows: shorten it",
        lambda: hb.codecs.JavaUTF.encode("a" * 65_536),
    ),
    refused(hb.DecodingError, "continue after the end of a text", lambda: hb.codecs.JavaUTF.decode(b"\x00\x01ab")),
    refused(hb.DecodingError, "Stored bytes end before the text does", lambda: hb.codecs.JavaUTF.decode(b"\x00\x02a")),
    refused(
        hb.EncodingError,
        "a lone surrogate cannot be stored: remove the surrogate",
        lambda: hb.codecs.JavaUTF.encode("\ud800"),
    ),
    refused(hb.DeclarationError, "A delimiter must have at least one byte", lambda: hb.codecs.Delimited("")),
    refused(
        hb.DecodingError, "not a structured value of the declared type", lambda: hb.Json(list[int]).decode(b'["a"]')
    ),
    refused(hb.EncodingError, "the zero looks like padding", lambda: hb.Text(4).encode("a\0")),
    refused(hb.QueryError, "Padded values cannot be searched by a prefix", lambda: hb.Text(3).encode_prefix("a\0")),
    refused(
        hb.EncodingError,
        "give exactly that many bytes, or declare hb.Bytes, or hb.codecs.PaddedBytes",
        lambda: hb.Bytes(4).encode(b"abc"),
    ),
    refused(hb.DeclarationError, "Only a codec of fixed width can be reversed", lambda: hb.codecs.Reversed(hb.Text)),
    refused(
        hb.DeclarationError,
        "There is no digest of fixed length with that name",
        lambda: hb.codecs.DigestPrefixed(hb.Text, algorithm="crc7"),
    ),
    refused(
        hb.DeclarationError,
        "This codec is for columns and cannot be part of a key",
        lambda: KeyField("a", hb.Json(int)),
    ),
    refused(hb.DeclarationError, "A key needs at least one field", lambda: KeyLayout(())),
    refused(
        hb.DeclarationError,
        "The fields of a key need different names",
        lambda: KeyLayout((KeyField("a", hb.codecs.Int8), KeyField("a", hb.Text))),
    ),
    refused(
        hb.DecodingError,
        "does not begin with the kind of the model",
        lambda: ObjectKeyForm(kind=b"p").join(b"ann", b"q"),
    ),
    refused(hb.DecodingError, "A row key is shorter than its salt", lambda: ObjectKeyForm(salt=2).join(b"a", b"q")),
    refused(hb.DeclarationError, "A text salt takes a collection of prefixes", lambda: TextSalt("ab")),  # type: ignore[arg-type]
    refused(
        hb.errors.KeyTooLong,
        "The key fields in a qualifier must not be longer than 32,767 bytes",
        lambda: hb.row_key(Pet, owner="ann", name="a" * 32_767),
    ),
    refused(
        hb.DeclarationError,
        "needs an integer codec of fixed width|need an integer codec of fixed width",
        lambda: hb.ids.Dictionary("n", hb.Text),
    ),
]
"""Codecs and keys."""

DECLARATIONS = [
    refused(hb.DeclarationError, "must be a timedelta of whole seconds, at least one", family(ttl=60)),
    refused(hb.DeclarationError, "A family must keep at least one version", family(max_versions=0)),
    refused(hb.DeclarationError, "A family's compression must be one of", family(compression="ZIP")),
    refused(hb.DeclarationError, "A family's bloom filter must be one of", family(bloom_filter="COL")),
    refused(hb.DeclarationError, "A family's block size must be between 1 KiB and 16 MiB", family(block_size=0)),
    refused(hb.DeclarationError, "A family's in_memory must be True or False", family(in_memory=1)),
    refused(
        hb.DeclarationError,
        "A family's configuration must be a mapping from names to values",
        family(configuration={"a": 1}),
    ),
    refused(
        hb.DeclarationError,
        "A family's TTL must be at least one second",
        declared(lambda: {"v": column()}, family=Family(b"d", ttl=0)),
    ),
    refused(
        hb.DeclarationError,
        "A column family is declared twice: declare the model's own family",
        declared(lambda: {"v": column()}, families=[hb.family("t"), hb.family("t")]),
    ),
    refused(
        hb.DeclarationError,
        "All families of a model with indexes must have the same TTL",
        declared(
            lambda: {
                "v": column(),
                "w": (hb.Column[int], hb.column("w", hb.UInt32, family="t", default=0)),
                "by_v": (None, hb.index("v")),
            },
            family=hb.family("d", ttl=HOUR),
            families=[hb.family("t")],
        ),
    ),
    refused(hb.DeclarationError, "must be at most 32,767 bytes long", declared(lambda: {"v": column("a" * 32_768)})),
    refused(
        hb.DeclarationError,
        "An index needs at least one field",
        declared(lambda: {"v": column(), "by_v": (None, hb.index())}),
    ),
    refused(
        hb.DeclarationError,
        "An index table cannot have a random salt",
        declared(lambda: {"v": column(), "by_v": (None, hb.index("v", salt=hb.RandomSalt(4)))}),
    ),
    refused(
        hb.DeclarationError,
        "A required column must not expire before the rest of its row",
        declared(
            lambda: {"v": column(), "w": (hb.Column[int], hb.column("w", hb.UInt32, family="t"))},
            families=[hb.family("t", ttl=HOUR)],
        ),
    ),
    refused(
        hb.DeclarationError,
        r"nullable=True needs an annotation that allows None",
        declared(lambda: {"l": (hb.Key[int], hb.key(hb.UInt32, nullable=True)), "v": column()}),
    ),
    refused(
        hb.DeclarationError,
        r"A version must be annotated hb\.Column\[int\]",
        declared(lambda: {"v": column(), "version": (hb.Column[int | None], hb.version())}),
    ),
    refused(
        hb.DeclarationError,
        "a column's alias comes before it",
        declared(lambda: {"v": (hb.Column[int], hb.column("v", int))}),  # type: ignore[call-overload]
    ),
    refused(
        hb.DeclarationError,
        "row is the key of the one row that holds all objects",
        declared(lambda: {"l": (hb.Key[int], hb.key(hb.UInt32, in_qualifier=True)), "v": column()}, row="pets"),
    ),
    refused(
        hb.DeclarationError,
        "A wide model must have one column family",
        declared(
            lambda: {
                "l": (hb.Key[int], hb.key(hb.UInt32, in_qualifier=True)),
                "v": column(),
                "w": (hb.Column[int], hb.column("w", hb.UInt32, family="t", default=0)),
            },
            families=[hb.family("t")],
        ),
    ),
    refused(
        hb.DeclarationError,
        "A column alias must not be empty, unless each object of an external table has a row of its own",
        declared(lambda: {"v": column("")}),
    ),
    refused(
        hb.DeclarationError,
        "A column alias must not be empty.",
        declared(lambda: {"v": column()}, exists=hb.flag("")),
    ),
    refused(
        hb.DeclarationError,
        "A map column needs an alias, with which the qualifiers of its entries begin",
        declared(lambda: {"v": (hb.Map[int, int], hb.map_column("", hb.UInt32, hb.UInt32))}),
    ),
    refused(
        hb.DeclarationError,
        "The values of the codec of the keys do not have the type in the annotation",
        declared(lambda: {"v": column(), "m": (hb.Map[str, int], hb.map_column("m", hb.UInt32, hb.UInt32))}),
    ),
]
"""Families and models."""

ARGUMENTS = [
    refused(
        hb.DeclarationError,
        r"such as hb\.UInt32 or hb\.Text\(8\)\.",
        declared(lambda: {"v": column(), "w": (None, hb.computed(str, of=("v",), codec=int))}),  # type: ignore[arg-type]
    ),
    refused(hb.SchemaMismatch, r"The table is not registered: call hb\.create_tables\(\) first", unregistered),
    refused(
        hb.DeclarationError, "A sequence needs a name: it is the row key of its counter", lambda: hb.ids.IdSequence("")
    ),
    refused(
        hb.DeclarationError,
        "name of a sequence must be text that UTF-8 can encode",
        lambda: hb.ids.IdSequence("\ud800"),
    ),
    refused(
        hb.DeclarationError, "A block must be a whole number of ids from 1", lambda: hb.ids.IdSequence("ids", block=0)
    ),
    refused(
        hb.DeclarationError,
        "A speed must be a positive number, or None for no limit",
        lambda: repaired(rows_per_second=0),
    ),
    refused(hb.DeclarationError, "A batch must be a positive number of rows", lambda: repaired(batch_size=0)),
    refused(
        hb.DeclarationError,
        "The lifetime of a claim must be a positive number of seconds",
        lambda: repaired(claim_life=0),
    ),
    refused(hb.DeclarationError, "progress must be a function", lambda: repaired(progress=1)),
    refused(
        hb.errors.StoreURLError,
        "The store URL does not have the expected scheme: write the URL in the expected form",
        lambda: Thrift1Store.from_url("hbase+thrift2://a:1"),
    ),
    refused(
        hb.errors.StoreURLError, "An IPv6 address must be written in brackets", lambda: hb.connect("hbase://::1:9090")
    ),
    refused(
        hb.errors.StoreURLError,
        "An embedded store needs the path of its file: 'embedded:dev.db'",
        lambda: hb.connect("embedded:"),
    ),
    refused(hb.errors.StoreURLError, r"An embedded store takes no options", lambda: hb.connect("embedded:a.db?b=c")),
]
"""Arguments of calls, and URLs."""


def repaired(**options: Any) -> Any:
    with hb.connect("memory:") as store:
        model = declared(
            lambda: {"v": column(), "by_v": (None, hb.index("v")), "version": (hb.Column[int], hb.version())}
        )()
        hb.create_tables(store, model)
        return hb.indexes.build_index(store, model, "by_v", **options)


@pytest.mark.parametrize(("kind", "message", "call"), [*VALUES, *DECLARATIONS, *ARGUMENTS])
def test_each_refusal_has_its_message(kind: type[hb.HbmodelError], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind, match=message):
        call()
