"""Tests that the random queries support every codec of keys, or raise an error for it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from attrs import frozen

import hbmodel as hb
from hbmodel.encoding.codecs.decimals import DecimalCodec
from tests.support.random_queries import beyond
from tests.support.strategies import KEY_CODECS


@frozen
class Floored(DecimalCodec):
    """Whole numbers."""

    def floor(self, value: Decimal) -> Decimal:
        return Decimal(int(value // 1))


@pytest.mark.parametrize("codec", KEY_CODECS, ids=repr)
def test_bounds_of_every_codec_are_known(codec: hb.Codec[Any]) -> None:
    assert not beyond(codec).is_empty


def test_bounds_are_not_guessed() -> None:
    with pytest.raises(AssertionError, match="no bounds are known for Floored"):
        beyond(Floored())
