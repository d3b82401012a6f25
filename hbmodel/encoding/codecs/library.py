"""Collects what the modules of codecs register: the default codec of each plain Python type, and the reader of each
spec.

To add a codec, write a module with the class and with the tables `DEFAULTS` or `SPECS`, and add the name of the module
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hbmodel.encoding.codecs import (
    booleans,
    decimals,
    dictionary,
    float_and_bool_text,
    floats,
    integers,
    ip_addresses,
    java,
    java_values,
    non_empty,
    opentsdb_uids,
    ordered_bytes,
    padded_and_delimited,
    phoenix,
    reversed_and_digests,
    separated,
    structured,
    text,
    time_text,
    times,
    unterminated,
    uuids,
)
from hbmodel.encoding.codecs.base import Codec, SpecReaders

MODULES = (
    booleans,
    decimals,
    dictionary,
    float_and_bool_text,
    floats,
    integers,
    ip_addresses,
    java,
    java_values,
    non_empty,
    opentsdb_uids,
    ordered_bytes,
    padded_and_delimited,
    phoenix,
    reversed_and_digests,
    separated,
    structured,
    text,
    time_text,
    times,
    unterminated,
    uuids,
)

SCALARS: Mapping[type, Codec[Any]] = MappingProxyType(
    {python_type: codec for module in MODULES for python_type, codec in getattr(module, "DEFAULTS", {}).items()}
)
READERS: SpecReaders = MappingProxyType({name: reader for module in MODULES for name, reader in module.SPECS.items()})
