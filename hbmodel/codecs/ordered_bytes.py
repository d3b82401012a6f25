"""Codecs of HBase's class `OrderedBytes`, under the names of its methods and of its types."""

from __future__ import annotations

from hbmodel.encoding.codecs.ordered_bytes import OrderedBlob as Blob
from hbmodel.encoding.codecs.ordered_bytes import OrderedBlobVar as BlobVar
from hbmodel.encoding.codecs.ordered_bytes import OrderedFloat32 as Float32
from hbmodel.encoding.codecs.ordered_bytes import OrderedFloat64 as Float64
from hbmodel.encoding.codecs.ordered_bytes import OrderedInt8 as Int8
from hbmodel.encoding.codecs.ordered_bytes import OrderedInt16 as Int16
from hbmodel.encoding.codecs.ordered_bytes import OrderedInt32 as Int32
from hbmodel.encoding.codecs.ordered_bytes import OrderedInt64 as Int64
from hbmodel.encoding.codecs.ordered_bytes import OrderedNumeric as Numeric
from hbmodel.encoding.codecs.ordered_bytes import OrderedString as String

__all__ = [
    "Blob",
    "BlobVar",
    "Float32",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Numeric",
    "String",
]
