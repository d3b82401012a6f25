"""A program that prepends rows to one prefix: `python -m tests.faults.prepender URL NUMBER COUNT`; it prints the keys
that it got.
"""

from __future__ import annotations

import sys

import hbmodel as hb


@hb.model(table="stacked", family="d", exists=hb.flag("e"))
class Entry:
    """An entry of a stack, the newest first."""

    stack: hb.Key[str] = hb.key(hb.Text(4))
    number: hb.Key[int] = hb.key(hb.UInt32, desc=True)
    program: hb.Column[int] = hb.column("p", hb.codecs.UInt8)
    call: hb.Column[int] = hb.column("c", hb.UInt32)


STACK = "main"


def main(url: str, program: int, count: int) -> None:
    """Prepends once it is asked to; a line for each row that is acknowledged."""
    with hb.connect(url) as store:
        session = hb.Session(store)
        session.query(Entry).where(Entry.stack == STACK).first()
        print("ready", flush=True)
        sys.stdin.readline()
        for call in range(count):
            made = session.prepend(Entry, stack=STACK, program=program, call=call)
            print(call, made.number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
