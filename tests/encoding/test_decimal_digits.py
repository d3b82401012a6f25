"""The digits of decimal numbers, in pairs."""

from __future__ import annotations

from decimal import Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.encoding.codecs.packed_digits import finite_digits, number_of_pairs, pairs_of, stripped_digits


@pytest.mark.lengthy
@given(st.decimals(allow_nan=False, allow_infinity=False).filter(bool))
def test_pairs_give_the_number_back(value: Decimal) -> None:
    sign, digits = stripped_digits(value)
    pairs, exponent = pairs_of(digits, value.adjusted())
    assert all(0 <= pair <= 99 for pair in pairs)
    assert pairs[0]
    assert pairs[-1]
    found = number_of_pairs(sign, pairs, exponent)
    assert found.as_tuple() == value.normalize(Context(prec=1000, Emin=-(10**9), Emax=10**9)).as_tuple()


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), 1, None])
def test_other_values_are_refused(value: Decimal) -> None:
    with pytest.raises(hb.EncodingError):
        finite_digits(value)
