"""The version of HBase that the tests start, also for servers, gateways and Java clients of their own."""

from __future__ import annotations

import os

TESTED = os.environ.get("HBMODEL_TEST_HBASE_VERSION") or None
"""One of `hbmodel.localhbase.VERSIONS`; None takes an installed distribution, or else the newest."""
