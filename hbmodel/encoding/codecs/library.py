"""The codecs of this library, from what their modules register: the default codec of each plain Python type, and the
reader of each spec.

A new codec is a module with a class and the tables `DEFAULTS` or `SPECS`, and its name here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hbmodel.encoding.codecs import (
    addresses,
    booleans,
    decimals,
    dictionary,
    floats,
    integers,
    java,
    java_values,
    non_empty,
    number_text,
    opentsdb_uids,
    ordered_bytes,
    phoenix,
    structured,
    text,
    times,
    unordered,
    unterminated,
    uuids,
)
from hbmodel.encoding.codecs.base import Codec, SpecReaders

MODULES = (
    addresses,
    booleans,
    decimals,
    dictionary,
    floats,
    integers,
    java,
    java_values,
    non_empty,
    number_text,
    opentsdb_uids,
    ordered_bytes,
    phoenix,
    structured,
    text,
    times,
    unordered,
    unterminated,
    uuids,
)

SCALARS: Mapping[type, Codec[Any]] = MappingProxyType(
    {python_type: codec for module in MODULES for python_type, codec in getattr(module, "DEFAULTS", {}).items()}
)
READERS: SpecReaders = MappingProxyType({name: reader for module in MODULES for name, reader in module.SPECS.items()})
