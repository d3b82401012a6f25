"""The registered members of the enumeration of each field, with which `diff` reports new and removed members."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import frozen

Members = Mapping[str, Mapping[str, str]]
"""For each field, the names of the members by their stored bytes in hex digits. The field is given by its place: `key
0`, or the column.
"""


@frozen
class MemberChange:
    """A member that only the model has, or that only the registry has.

    Attributes:
        place: the place of the field, such as `key 0`, or the column.
        declared: True if only the model has the member, False if only the registry has it.
        code: the member's stored bytes in hexadecimal digits.
    """

    place: str
    member: str
    declared: bool
    code: str

    @property
    def what(self) -> str:
        """A readable name of the field and the member, for messages."""
        return f"{'' if self.place.startswith('key ') else 'column '}{self.place} member {self.member}"


def member_changes(declared: Mapping[str, Any], live: Mapping[str, Any]) -> Iterator[MemberChange]:
    """Yields the members that only the model's layout has, and those that only the registered layout has.

    Fields without registered members are left out: either they were registered before the registry kept members, or
    they had none.
    """
    known: Members = live.get("members", {})
    own: Members = declared.get("members", {})
    for place in sorted(own.keys() & known.keys()):
        for one, other, ours in ((own, known, True), (known, own, False)):
            for code in sorted(one[place].keys() - other[place].keys()):
                yield MemberChange(place, one[place][code], ours, code)


def registered_members(layout: Mapping[str, Any]) -> Mapping[str, Mapping[bytes, str]]:
    """Returns the names of the members in a registered layout, by the name of their field and their stored bytes.
    Fields without registered members are left out.
    """
    fields = {f"key {at}": spec for at, spec in enumerate(layout["key"])} | layout["columns"]
    return {
        fields[place]["name"]: {bytes.fromhex(code): name for code, name in named.items()}
        for place, named in layout.get("members", {}).items()
        if place in fields
    }


def with_members(declared: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a registered layout with the members of a model's fields added."""
    return _with(live, declared, lambda own, known: {**known, **own})


def with_members_alone(declared: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a registered layout in which a model's fields have the members that the model declares, and no other
    members.
    """
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
