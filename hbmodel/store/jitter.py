"""Random numbers for waits, samples and choices, which do not depend on how a program seeds `random`, and are different
in forked processes.
"""

from __future__ import annotations

import random

jitter = random.SystemRandom()
