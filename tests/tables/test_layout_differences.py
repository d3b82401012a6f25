"""Layouts as text: what differs, in the words of the declaration."""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.tables.registry.layout_differences import differing, shown


def declare(
    key: Any = hb.Int64,
    desc: bool = False,
    text: Any = str,
    salt: Any = None,
    index: tuple[Any, ...] = ("state",),
    covers: Any = (),
) -> Any:
    @hb.model(table="told", salt=salt)
    class Told:
        number: hb.Key[int] = hb.key(key)
        queue: hb.Key[str] = hb.key(desc=desc)
        state: hb.Column[text] = hb.column("s")
        note: hb.Column[str | None] = hb.column("n", default=None)

        by_state = hb.index(*index, covers=covers)

    return Told


CHANGES: dict[str, tuple[dict[str, Any], list[tuple[str, str, str]]]] = {
    "codec of a key field": (
        {"key": hb.UInt32},
        [
            ("key", "(number int(bits 64, signed yes))", "(number int(bits 32, signed no))"),
            ("index by_state", "fields (number int(bits 64, signed yes))", "fields (number int(bits 32, signed no))"),
        ],
    ),
    "direction": (
        {"desc": True},
        [
            ("key", "(queue text)", "(queue text descending)"),
            ("index by_state", "fields (queue text)", "fields (queue text descending)"),
        ],
    ),
    "salt": ({"salt": hb.HashSalt(4, by=("queue",))}, [("salt", "none", "hash(buckets 4, by (queue))")]),
    "type": (
        {"text": bytes | None},
        [
            ("column d:s codec", "text", "bytes"),
            ("column d:s nullable", "no", "yes"),
            ("index by_state", "fields (state text)", "fields (state bytes or None)"),
        ],
    ),
    "index fields": (
        {"index": ("state", "queue")},
        [
            (
                "index by_state",
                "fields (state text, number int(bits 64, signed yes), queue text), declared (state)",
                "fields (state text, queue text, number int(bits 64, signed yes)), declared (state, queue)",
            )
        ],
    ),
    "covered": ({"covers": ("note",)}, [("index by_state", "covers ()", "covers (note)")]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_differences_are_told_by_what_differs(name: str) -> None:
    options, expected = CHANGES[name]
    with hb.connect("memory:") as store:
        hb.create_tables(store, declare())
        model = declare(**options)
        found = str(hb.diff(store, model)).splitlines()
        with pytest.raises(hb.SchemaMismatch, match="does not have the layout") as caught:
            hb.Session(store).get(model, number=1, queue="q")
    with_key = any(what == "key" for what, _, _ in expected)  # then the indexes differ only because of it
    assert caught.value.differences == [
        f"{what}: declared {declared}, live {live}"
        for what, live, declared in expected
        if not (with_key and what.startswith("index"))
    ]
    assert (
        "restore the declaration that `live` shows, declare a changed column under another name" in caught.value.message
    )
    assert "with hb.migration.migrate()" in caught.value.message
    for what, live, declared in expected:
        assert any(line.startswith(f"! told: {what}: {live} -> {declared} (") for line in found)


def test_descriptions_of_any_shape_are_shown() -> None:
    assert shown(None) == "nothing"
    assert shown({"codec": "bool"}) == "bool"
    assert shown({"salt": "text", "prefixes": ["61", "62"], "by": []}) == "text(prefixes (61, 62))"
    assert (
        shown([{"name": "a", "codec": {"codec": "date"}, "nullable": True, "desc": True}])
        == "(a date or None descending)"
    )
    assert differing({"a": 1}, {"b": 1}) == ("a 1", "b 1")
    assert differing(1, 2) == ("1", "2")
    assert differing(("x",), ["y"]) == ("(x)", "(y)")
