"""Random numbers for waits and for the choice of a gateway, from a separate generator, so that the program's use of
`random` is not affected.
"""

from __future__ import annotations

import random

jitter = random.Random()
