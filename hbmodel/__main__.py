"""The command line as `python -m hbmodel`."""

from __future__ import annotations

from hbmodel.tools.command import main

main("python -m hbmodel")
