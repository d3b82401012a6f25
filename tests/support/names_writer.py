"""A program that assigns ids to names and takes ids from a sequence until it is killed.

Run it with `python -m tests.support.names_writer URL SEED`. It prints every id before it continues: `name id` for a
name, and `- id` for an id of the sequence.
"""

from __future__ import annotations

import random
import sys

import hbmodel as hb

WORDS = hb.ids.dictionary("killed_words", hb.UInt32)
NUMBERS = hb.ids.IdSequence("killed_numbers", block=7)
COUNT = 400


def main() -> None:
    url, seed = sys.argv[1:]
    draw = random.Random(int(seed))
    with hb.connect(url) as store:
        numbers = NUMBERS.on(store)
        while True:
            names = hb.ids.Names(store)  # a new cache, which has no ids in memory
            for _ in range(20):
                name = f"word{draw.randrange(COUNT)}"
                print(name, names.claim(WORDS, name), flush=True)
                print("-", numbers.next(), flush=True)


if __name__ == "__main__":
    main()
