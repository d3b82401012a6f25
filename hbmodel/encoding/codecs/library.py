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
    separated,
    structured,
    text,
    text_values,
    time_text,
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
    separated,
    structured,
    text,
    text_values,
    time_text,
    times,
    unordered,
    unterminated,
    uuids,
)

SCALARS: Mapping[type, Codec[Any]] = MappingProxyType(
    {python_type: codec for module in MODULES for python_type, codec in getattr(module, "DEFAULTS", {}).items()}
)
READERS: SpecReaders = MappingProxyType({name: reader for module in MODULES for name, reader in module.SPECS.items()})
