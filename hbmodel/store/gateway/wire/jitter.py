"""Random numbers for waits and for the choice of a gateway, from a generator that does not affect the program's use of
`random`.
"""

from __future__ import annotations

import random

jitter = random.Random()
