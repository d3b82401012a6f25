"""The version of HBase that the tests start, which is also that of additional servers, gateways and Java clients."""

from __future__ import annotations

import os

TESTED = os.environ.get("HBMODEL_TEST_HBASE_VERSION") or None
"""One of `hbmodel.localhbase.VERSIONS`; None means an installed distribution or, if there is none, the newest
version.
"""
