"""Compares layouts in the JSON form of the registry, and shows their differences as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def differing(declared: Any, live: Any) -> tuple[str, str]:
    """Returns two descriptions as text, without the parts that are equal in both."""
    declared, live = jsonable(declared), jsonable(live)
    if _are_fields(declared) and _are_fields(live) and [f["name"] for f in declared] == [f["name"] for f in live]:
        pairs = [pair for pair in zip(declared, live, strict=True) if pair[0] != pair[1]]
        declared, live = [mine for mine, _ in pairs], [theirs for _, theirs in pairs]
    elif (
        isinstance(declared, dict)
        and isinstance(live, dict)
        and "codec" not in declared
        and declared.keys() == live.keys()
    ):
        changed = [name for name in declared if declared[name] != live[name]]
        texts = [(name, *differing(declared[name], live[name])) for name in changed]
        return ", ".join(f"{name} {mine}" for name, mine, _ in texts), ", ".join(
            f"{name} {theirs}" for name, _, theirs in texts
        )
    return shown(declared), shown(live)


def shown(spec: Any) -> str:
    """Returns a description as text."""
    if spec is None:
        return "nothing"
    if isinstance(spec, bool):
        return "yes" if spec else "no"
    if _is_field(spec):
        or_none, descending = (" or None" if spec.get("nullable") else ""), (" descending" if spec.get("desc") else "")
        place = (
            " in the qualifier"
            if spec.get("part") == "column"
            else f" split by {spec['split']} us"
            if "split" in spec
            else ""
        )
        return f"{spec['name']} {shown(spec['codec'])}{or_none}{descending}{place}"
    if isinstance(spec, Mapping):
        kind = next((name for name in ("codec", "salt") if isinstance(spec.get(name), str)), None)
        parts = ", ".join(
            f"{name} {shown(value)}" for name, value in sorted(spec.items()) if name != kind and value != []
        )
        return parts if kind is None else f"{spec[kind]}({parts})" if parts else str(spec[kind])
    if isinstance(spec, Sequence) and not isinstance(spec, str | bytes):
        return "(" + ", ".join(map(shown, spec)) + ")"
    return str(spec)


def _is_field(spec: Any) -> bool:
    return isinstance(spec, Mapping) and "name" in spec and isinstance(spec.get("codec"), Mapping)


def _are_fields(spec: Any) -> bool:
    return isinstance(spec, list) and bool(spec) and all(map(_is_field, spec))


def jsonable(spec: Any) -> Any:
    """Returns a copy in which all sequences are lists and all mappings are dictionaries, as in JSON."""
    if isinstance(spec, Mapping):
        return {name: jsonable(value) for name, value in spec.items()}
    return (
        [jsonable(value) for value in spec]
        if isinstance(spec, Sequence) and not isinstance(spec, str | bytes)
        else spec
    )


def canonical_json(value: Mapping[str, Any]) -> bytes:
    """Returns a value as JSON with sorted keys and no spaces, so that equal values have equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def same_spec(declared: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Returns whether two descriptions of an index are equal."""
    return canonical_json(declared) == canonical_json(live)


def compare_layouts(declared: Mapping[str, Any], live: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Returns the differences between two layouts, each with the declared and the live description. A column that only
    one of the layouts has does not count as a difference.
    """
    differences: list[tuple[str, Any, Any]] = []
    for part in ("format", "key", "salt", "exists", "flag", "version", "row", "kind"):
        if jsonable(declared.get(part)) != jsonable(live.get(part)):
            differences.append((part, declared.get(part), live.get(part)))
    for column, spec in declared["columns"].items():
        other = live.get("columns", {}).get(column)
        if other is not None:
            changed = [
                name
                for name in ("kind", "key", "codec", "nullable", "null")
                if jsonable(spec.get(name)) != jsonable(other.get(name))
            ]
            differences += [(f"column {column} {name}", spec.get(name), other.get(name)) for name in changed]
    live_columns = live.get("columns", {})
    differences += [
        (f"column {name}", mine, theirs) for name, mine, theirs in _overlaps(declared["columns"], live_columns)
    ]
    differences += [
        (f"column {name}", mine, theirs) for name, theirs, mine in _overlaps(live_columns, declared["columns"])
    ]
    return differences


def _overlaps(maps: Mapping[str, Any], columns: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yields the columns of one layout that would be read as entries of a map column of the other layout, each with the
    descriptions of the map and of the column.
    """
    for alias, spec in maps.items():
        if spec.get("kind") == "map" and alias not in columns:
            yield from ((name, spec, other) for name, other in columns.items() if name.startswith(alias))


def difference_line(subject: str, declared: Any, live: Any) -> str:
    """Returns one difference as text."""
    mine, theirs = differing(declared, live)
    return f"{subject}: declared {mine}, live {theirs}"
