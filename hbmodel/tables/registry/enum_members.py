"""The members of enumerations that the registry knows for each field, with which `diff` can report a new or removed
member and its consequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import frozen

Members = Mapping[str, Mapping[str, str]]
"""For each field, given by its place (such as `key 0`, or the column), the names of the members by their stored bytes
in hex digits.
"""


@frozen
class MemberChange:
    """A member that only the model has, or only the registry.

    Attributes:
        place: the place of the field, such as `key 0`, or the column.
        declared: True if only the model has the member, False if only the registry has it.
        code: its stored bytes in hexadecimal digits.
    """

    place: str
    member: str
    declared: bool
    code: str

    @property
    def what(self) -> str:
        """The field and the member, for people."""
        return f"{'' if self.place.startswith('key ') else 'column '}{self.place} member {self.member}"


def member_changes(declared: Mapping[str, Any], live: Mapping[str, Any]) -> Iterator[MemberChange]:
    """The members that only the model's layout has, and those that only the registered layout has.

    Fields for which the registry has no members are left out: either they were registered before the registry kept
    members, or they had none.
    """
    known: Members = live.get("members", {})
    own: Members = declared.get("members", {})
    for place in sorted(own.keys() & known.keys()):
        for one, other, ours in ((own, known, True), (known, own, False)):
            for code in sorted(one[place].keys() - other[place].keys()):
                yield MemberChange(place, one[place][code], ours, code)


def registered_members(layout: Mapping[str, Any]) -> Mapping[str, Mapping[bytes, str]]:
    """The names of the members that a registered layout has, by the name of their field and their stored bytes. Fields
    of which the registry knows no members are left out.
    """
    fields = {f"key {at}": spec for at, spec in enumerate(layout["key"])} | layout["columns"]
    return {
        fields[place]["name"]: {bytes.fromhex(code): name for code, name in named.items()}
        for place, named in layout.get("members", {}).items()
        if place in fields
    }


def with_members(declared: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """A registered layout with the members of a model's fields added."""
    return _with(live, declared, lambda own, known: {**known, **own})


def with_members_alone(declared: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """A registered layout in which a model's fields have the members that the model declares, and no others."""
    return _with(live, declared, lambda own, _: dict(own))


def _with(
    live: Mapping[str, Any],
    declared: Mapping[str, Any],
    joined: Callable[[Mapping[str, str], Mapping[str, str]], dict[str, str]],
) -> dict[str, Any]:
    known: Members = live.get("members", {})
    own: Members = declared.get("members", {})
    members = {**known, **{place: joined(named, known.get(place, {})) for place, named in own.items()}}
    return {**live, "members": members} if members else dict(live)
