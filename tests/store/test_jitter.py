from __future__ import annotations

import random
import subprocess
import sys

from hbmodel.store.jitter import jitter

FORKED = """
import os
from hbmodel.store.jitter import jitter
jitter.random()
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, repr(jitter.random()).encode())
    os._exit(0)
own = repr(jitter.random())
os.wait()
print(own != os.read(read, 100).decode())
"""


def test_numbers_do_not_depend_on_the_seed_of_the_program() -> None:
    drawn = []
    for _ in range(2):
        random.seed(7)
        before = random.random()
        random.seed(7)
        drawn.append(jitter.random())
        assert random.random() == before
    assert drawn[0] != drawn[1]


def test_forked_processes_get_different_numbers() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
