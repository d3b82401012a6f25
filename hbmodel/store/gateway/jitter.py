"""The random numbers of waits and choices; threads use them that no caller knows of, so a program's own seed must not see them."""

from __future__ import annotations

import random

jitter = random.Random()
