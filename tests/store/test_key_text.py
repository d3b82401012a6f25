"""Row keys as people paste them: hex, and as HBase's shell shows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbmodel.errors import InvalidRequest
from hbmodel.store.key_text import readings, shell_bytes, shell_text
from tests.support.strategies import BYTES

KEYS = st.one_of(BYTES, st.binary(max_size=12), st.text("\\x0aF'\"", max_size=8).map(str.encode))


@given(KEYS)
def test_what_the_shell_shows_is_read_back(data: bytes) -> None:
    shown = shell_text(data)
    assert shown.isascii()
    assert shell_bytes(f'"{shown}"') == data
    if not (shown[:1] in {'"', "'"} and shown[-1:] == shown[:1]):
        assert shell_bytes(shown) == data


@given(st.binary(min_size=1, max_size=12))
def test_hex_is_read_with_and_without_its_sign(data: bytes) -> None:
    assert readings(f" {data.hex()}\n")["hex"] == data
    assert readings("0x" + data.hex().upper()) == {"hex": data}


def test_text_of_hex_digits_may_be_either() -> None:
    assert readings("6162") == {"hex": b"ab", "shell": b"6162"}
    assert readings("616") == {"shell": b"616"}
    assert readings(r"\x00\x01abc") == {"shell": b"\0\1abc"}


def test_lower_case_escapes_are_read_too() -> None:
    assert shell_bytes(r"\x0a\xff") == b"\n\xff"


@pytest.mark.parametrize("text", ["\\", r"a\n", r"\xZZ", r"\x0", r"\\x41", "ü"])
def test_what_the_shell_would_not_show_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        shell_bytes(text)
