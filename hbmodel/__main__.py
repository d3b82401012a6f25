"""The command line as `python -m hbmodel`."""

from __future__ import annotations

from hbmodel.tools.cli import main

main(prog_name="python -m hbmodel")
