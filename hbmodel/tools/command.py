"""The command `hbmodel`; if its packages are missing, it says what to install."""

from __future__ import annotations

import sys

_PACKAGES = {"click", "rich"}

_MISSING = (
    "The command hbmodel needs packages that are not installed: install hbmodel with its extra `cli` (in a checkout: "
    "pip install -e '.[cli]')."
)


def main(name: str | None = None) -> None:
    """Runs the command with the arguments of the process.

    Args:
        name: the name that the help shows; by default the name of the file that was started.
    """
    try:
        from hbmodel.tools.cli import main as command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _PACKAGES:
            raise
        sys.stderr.write(f"{_MISSING}\n")
        sys.exit(2)  # as for every other error, see hbmodel.tools.cli
    command(prog_name=name)
