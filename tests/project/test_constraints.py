"""What development installs is pinned, each package once for every Python, so that nobody's next release fails the
tests.
"""

from __future__ import annotations

from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FILE = Path(__file__).parents[2] / "constraints.txt"
PINS = [Requirement(line) for line in FILE.read_text().splitlines() if not line.startswith("#")]
PYTHONS = ("3.11", "3.12", "3.13")


def pinned(name: str, python: str) -> list[str]:
    """The versions of a package that hold for a Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    applying = [pin for pin in PINS if pin.marker is None or pin.marker.evaluate(environment)]
    return [str(pin.specifier) for pin in applying if canonicalize_name(pin.name) == name]


def installed(package: str = "hbmodel", extras: tuple[str, ...] = ("dev",)) -> set[str]:
    """The packages that one needs, itself left out, with what they need themselves."""
    found: set[str] = set()
    waiting = [(package, extras)]
    done = set(waiting)
    while waiting:
        package, extras = waiting.pop()
        for requirement in map(Requirement, requires(package) or []):
            if requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in (*extras, "")
            ):
                found.add(canonicalize_name(requirement.name))
                needed = (requirement.name, tuple(sorted(requirement.extras)))
                if needed not in done:
                    done.add(needed)
                    waiting.append(needed)
    return found - {"hbmodel"}


@pytest.mark.parametrize("python", PYTHONS)
def test_everything_is_pinned_once_for_every_python(python: str) -> None:
    needed = installed() | {"pip", "hatchling", "hatch-fancy-pypi-readme", "editables", "build", "twine"}
    assert len(needed) > 40
    for name in needed:
        (pin,) = pinned(name, python)
        assert pin.startswith("=="), name
