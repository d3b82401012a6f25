"""Random numbers for waits and for the choice of a gateway, apart from those of `random`, whose seed belongs to the
program.
"""

from __future__ import annotations

import random

jitter = random.Random()
