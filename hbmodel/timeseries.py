"""Aggregates the results of a query over spans of time."""

from __future__ import annotations

from hbmodel.query.run.downsample import TimeSpan, downsample

__all__ = [
    "TimeSpan",
    "downsample",
]
