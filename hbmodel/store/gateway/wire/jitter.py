"""Random numbers for waits and for the choice of a gateway; the seed of `random` itself belongs to the program."""

from __future__ import annotations

import random

jitter = random.Random()
