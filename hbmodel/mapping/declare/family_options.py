"""Declarations of column families: `hb.family`, and the checks of names and options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from attrs import evolve

from hbmodel.errors import DeclarationError
from hbmodel.mapping.model_field import Field
from hbmodel.store.values import FOREVER, Family

# As in HBase's ColumnFamilyDescriptorBuilder.isLegalColumnFamilyName, and without blanks. KeyValue has one byte for the
# length.
_NAME = re.compile(r"[^\x00-\x20.:/\\\x7f-\x9f][^\x00-\x20:/\\\x7f-\x9f]*")
_RESERVED = "recovered.edits"
_LONGEST_NAME = 127

# The names in HBase's Compression.Algorithm and BloomType. Which compressions a server supports depends on its
# libraries.
COMPRESSIONS = ("NONE", "GZ", "SNAPPY", "LZO", "LZ4", "BZIP2", "ZSTD", "LZMA", "BROTLI")
BLOOM_FILTERS = ("NONE", "ROW", "ROWCOL")

# HBase's TableDescriptorChecker refuses other sizes.
_BLOCK_SIZES = range(1024, 16 * 1024 * 1024 + 1)
_SECOND = timedelta(seconds=1)
_MOST_VERSIONS = 2**31 - 1


def family(
    name: str,
    *,
    ttl: timedelta | None = None,
    max_versions: int | None = None,
    compression: str | None = None,
    bloom_filter: str | None = None,
    block_size: int | None = None,
    in_memory: bool | None = None,
    configuration: Mapping[str, str] | None = None,
) -> Family:
    """Declares a column family with options, for `@hb.model(family=...)` and `families=`.

    Options that are not given keep HBase's defaults when a table is created, and are not compared with a live table.
    The TTL is an exception: without one, cells do not expire.

    Args:
        name: a short name, since every cell contains it.
        ttl: lifetime of cells, in whole seconds; HBase removes them after that.
        max_versions: how many versions of each cell HBase keeps; HBase's default is 1.
        compression: `"NONE"`, `"GZ"`, `"SNAPPY"`, `"LZ4"`, `"ZSTD"`, ...; the servers must have the library for this
            compression.
        bloom_filter: `"NONE"`, `"ROW"` (HBase's default) or `"ROWCOL"`.
        block_size: size of blocks in HFiles, in bytes, 1 KiB to 16 MiB; HBase's default is 65,536.
        in_memory: whether the block cache favours the family.
        configuration: further settings by name, such as `hbase.hstore.blockingStoreFiles`.

    Raises:
        DeclarationError: HBase would not accept one of the options; `option` names it.
    """
    if ttl is not None and (
        not isinstance(ttl, timedelta) or ttl % _SECOND or ttl < _SECOND or ttl // _SECOND >= FOREVER
    ):
        raise DeclarationError(
            "A family's TTL must be a timedelta of whole seconds, at least one and less than 68 years.",
            family=name,
            option="ttl",
            found=repr(ttl),
        )
    declared = Family(
        name=family_name(name),
        max_versions=max_versions,
        ttl=None if ttl is None else ttl // _SECOND,
        compression=compression.upper() if isinstance(compression, str) else compression,
        bloom_filter=bloom_filter.upper() if isinstance(bloom_filter, str) else bloom_filter,
        block_size=block_size,
        in_memory=in_memory,
        configuration=dict(configuration)
        if isinstance(configuration, Mapping)
        else {}
        if configuration is None
        else configuration,
    )
    check_family(declared)
    return declared


def family_name(family: Any, **details: Any) -> bytes:
    """Returns the bytes of a column family's name. Raises `DeclarationError` if HBase does not accept the name."""
    if not isinstance(family, str) or not _NAME.fullmatch(family) or family == _RESERVED:
        raise DeclarationError(
            "A column family's name must be printable text without spaces, colons and slashes, and must not start "
            "with a dot.",
            **{"family": family, **details},
        )
    try:
        data = family.encode()
    except UnicodeEncodeError:
        raise DeclarationError(
            "A name with a lone surrogate cannot be encoded as UTF-8: choose another name.", **details
        ) from None
    if len(data) > _LONGEST_NAME:
        raise DeclarationError("A column family's name must be at most 127 bytes long.", **details, length=len(data))
    return data


def check_family(family: Family, **details: Any) -> None:
    """Raises `DeclarationError` for options that HBase does not accept; `option` names the option."""

    def mistake(option: str, message: str) -> DeclarationError:
        return DeclarationError(
            message, **details, family=family.name.decode(), option=option, found=repr(getattr(family, option))
        )

    if not isinstance(family.name, bytes):
        raise DeclarationError(
            'To declare a column family with options, write hb.family("name", ...).', **details, family=family.name
        )
    if family.ttl is not None and not _whole(family.ttl, range(1, FOREVER)):
        raise mistake("ttl", "A family's TTL must be at least one second.")
    if family.max_versions is not None and not _whole(family.max_versions, range(1, _MOST_VERSIONS + 1)):
        raise mistake("max_versions", "A family must keep at least one version.")
    if family.compression is not None and family.compression not in COMPRESSIONS:
        raise mistake("compression", f"A family's compression must be one of {', '.join(COMPRESSIONS)}.")
    if family.bloom_filter is not None and family.bloom_filter not in BLOOM_FILTERS:
        raise mistake("bloom_filter", f"A family's bloom filter must be one of {', '.join(BLOOM_FILTERS)}.")
    if family.block_size is not None and not _whole(family.block_size, _BLOCK_SIZES):
        raise mistake("block_size", "A family's block size must be between 1 KiB and 16 MiB.")
    if family.in_memory is not None and not isinstance(family.in_memory, bool):
        raise mistake("in_memory", "A family's in_memory must be True or False.")
    settings: Any = family.configuration
    if not isinstance(settings, Mapping) or not all(
        isinstance(text, str) and text for pair in settings.items() for text in pair
    ):
        raise mistake(
            "configuration", "A family's configuration must be a mapping from names to values, both non-empty text."
        )


def _whole(number: Any, allowed: range) -> bool:
    return type(number) is int and number in allowed


def with_versions(model: str, family: Family, fields: Sequence[Field], *, immutable: bool, external: bool) -> Family:
    """Returns the declared family, with the number of cell versions that its columns need. The argument `immutable`
    says that rows never change.

    Raises:
        DeclarationError: a column cannot keep the versions that it declares; the error names the field.
    """
    wanting = [(f, f.versions) for f in fields if f.versions is not None and f.family == family.name]
    for f, versions in wanting:
        if not _whole(versions, range(1, _MOST_VERSIONS + 1)):
            raise DeclarationError(
                "A column must keep at least one version.", model=model, field=f.name, found=repr(versions)
            )
        if f.null == "delete" and external:
            raise DeclarationError(
                "In an external table None is an absent cell, and a delete of the cell would hide its older versions: "
                "annotate the column without None, or leave out versions.",
                model=model,
                field=f.name,
            )
        if f.null == "delete":
            raise DeclarationError(
                'null="delete" hides the older versions of the cell: a column with versions stores None as an '
                "empty cell.",
                model=model,
                field=f.name,
            )
        if immutable:
            raise DeclarationError(
                "Rows of an immutable model never change, so their cells have only one version: leave out versions.",
                model=model,
                field=f.name,
            )
        if family.max_versions is not None and versions > family.max_versions:
            raise DeclarationError(
                "A column keeps more versions than max_versions of its family: leave out max_versions.",
                model=model,
                field=f.name,
                family=family.name.decode(),
                found=family.max_versions,
            )
    if not wanting or family.max_versions is not None:
        return family
    return evolve(family, max_versions=max(versions for _, versions in wanting))


def check_lives(model: str, fields: Sequence[Field], lives: Mapping[bytes, int | None], *, alone: bool) -> None:
    """Checks the TTLs of the families of a row: after some cells of the row have expired, the remaining cells must be a
    whole object or no object.

    Args:
        lives: TTL of each family in seconds, by the name of the family; None for a family without a TTL.
        alone: whether all cells of a row belong to columns, so that there is neither a flag nor a system cell of an
            index.

    Raises:
        DeclarationError: a column would expire before or after the rest of its row; the error names the field.
    """
    columns = [f for f in fields if not f.is_key]
    longest = None if None in lives.values() else max(life for life in lives.values() if life is not None)
    for f in columns:
        life = lives[f.family]
        if (
            f.kind == "counter"
            and life is not None
            and not (alone and all(other.kind == "counter" for other in columns))
        ):
            raise DeclarationError(
                "A counter has the timestamp of its last increment, so in a family with a TTL it would expire before "
                "or after its row: declare it in a model that has only counters, or in a family without a TTL.",
                model=model,
                field=f.name,
            )
        if f.required and life is not None and life != longest:
            raise DeclarationError(
                "A required column must not expire before the rest of its row: give it a default, or put "
                "it into a family whose TTL is not shorter than that of any other column.",
                model=model,
                field=f.name,
            )
