"""Makes commands for HBase's shell, for changes that a store itself cannot make."""

from __future__ import annotations

from collections.abc import Sequence

from hbmodel.store.values import Family


def create_line(table: str, families: Sequence[Family], split_keys: Sequence[bytes]) -> str:
    r"""Returns a `create` command for HBase's shell.

    Split keys are written in the form that the shell reads (`Bytes.toBytesBinary`): printable ASCII unchanged, all
    other bytes as `\xNN`.
    """
    parts = [_quoted(table), *(_family(family) for family in families)]
    if split_keys:
        parts.append("SPLITS => [" + ", ".join(f"'{_binary(key)}'" for key in split_keys) + "]")
    return "create " + ", ".join(parts)


def alter_line(table: str, family: Family) -> str:
    """Returns an `alter` command that adds a family or, if the family exists, changes the given options."""
    return f"alter {_quoted(table)}, {_family(family)}"


def create_namespace_line(namespace: str) -> str:
    """Returns a `create_namespace` command."""
    return f"create_namespace {_quoted(namespace)}"


def _family(family: Family) -> str:
    settings = [f"NAME => {_quoted(family.name.decode('utf-8', 'backslashreplace'))}"]
    if family.max_versions is not None:
        settings.append(f"VERSIONS => {family.max_versions}")
    if family.ttl is not None:
        settings.append(f"TTL => {family.ttl}")
    if family.compression is not None:
        settings.append(f"COMPRESSION => {_quoted(family.compression)}")
    if family.bloom_filter is not None:
        settings.append(f"BLOOMFILTER => {_quoted(family.bloom_filter)}")
    if family.block_size is not None:
        settings.append(f"BLOCKSIZE => {family.block_size}")
    if family.in_memory is not None:
        settings.append(f"IN_MEMORY => {str(family.in_memory).lower()}")
    if family.configuration:
        pairs = ", ".join(f"{_quoted(name)} => {_quoted(value)}" for name, value in family.configuration.items())
        settings.append(f"CONFIGURATION => {{{pairs}}}")
    return "{" + ", ".join(settings) + "}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _binary(key: bytes) -> str:
    # In Ruby's single quotes a backslash stands for itself before an x.
    return "".join(chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\x{byte:02X}" for byte in key)
