"""Converts bytes to text and back: hex, and the format of HBase's shell (`Bytes.toStringBinary`,
`Bytes.toBytesBinary`).
"""

from __future__ import annotations

import re

from hbmodel.errors import InvalidRequest

HEX = re.compile(r"(?:0x)?((?:[0-9A-Fa-f]{2})+)")
ESCAPE = re.compile(r"\\x([0-9A-Fa-f]{2})")
QUOTES = ('"', "'")
SHORTEST_QUOTED = 2


def shell_text(data: bytes) -> str:
    r"""Returns bytes as HBase's shell shows them: printable ASCII unchanged, a backslash and all other bytes as
    `\xNN`.
    """
    return "".join(chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\x{byte:02X}" for byte in data)


def shell_bytes(text: str) -> bytes:
    r"""Returns the bytes of a text in the format of HBase's shell, with or without quotes around it.

    Raises:
        InvalidRequest: a backslash does not begin `\xNN`, or a character is not ASCII.
    """
    if len(text) >= SHORTEST_QUOTED and text[0] in QUOTES and text[-1] == text[0]:
        text = text[1:-1]
    if not text.isascii():
        raise InvalidRequest(r"Write bytes outside of ASCII as \xNN, as HBase's shell shows them.")
    if "\\" in ESCAPE.sub("", text):
        raise InvalidRequest("A backslash must begin \\xNN: write a backslash itself as \\x5C.")
    return ESCAPE.sub(lambda matched: chr(int(matched[1], 16)), text).encode("latin-1")


def readings(text: str) -> dict[str, bytes]:
    """Returns the bytes that a pasted text may represent, by the form in which it can be read: `hex`, `shell` or both.
    Text that begins with `0x` is always hex.

    Raises:
        InvalidRequest: the text has neither form.
    """
    text = text.strip()
    matched = HEX.fullmatch(text)
    if matched is None:
        return {"shell": shell_bytes(text)}
    as_hex = bytes.fromhex(matched[1])
    return {"hex": as_hex} if text.startswith("0x") else {"hex": as_hex, "shell": text.encode()}
