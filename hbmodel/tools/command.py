"""The command `hbmodel`, which says what to install if its packages are missing."""

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
        name: the name of the command in the help; by default the name of the started file.
    """
    try:
        from hbmodel.tools.cli import main as command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _PACKAGES:
            raise
        sys.stderr.write(f"{_MISSING}\n")
        sys.exit(2)  # the status of every error, see hbmodel.tools.cli
    command(prog_name=name)
