"""The version of HBase that the tests start, also for their additional servers, gateways and Java clients."""

from __future__ import annotations

import os

TESTED = os.environ.get("HBMODEL_TEST_HBASE_VERSION") or None
"""One of `hbmodel.localhbase.VERSIONS`; None uses an installed distribution, or else the newest version."""
