"""Values that count as whole numbers: any integer of Python or NumPy, but not a bool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbmodel.store.checks.numbers import is_plain, whole_number

SIGNED = st.integers(-(2**63), 2**63 - 1)


@given(SIGNED)
def test_integers_of_python_and_numpy_are_plain_ints(number: int) -> None:
    for given_number in (number, np.int64(number)):
        found = whole_number(given_number)
        assert found == number
        assert type(found) is int
    assert is_plain(number)
    assert not is_plain(np.int64(number))


@pytest.mark.parametrize("value", [True, False, 1.0, "1", b"1", None, np.float64(1), np.bool_(True)])
def test_anything_else_is_none(value: Any) -> None:
    assert whole_number(value) is None
    assert not is_plain(value)
