"""The differences between models and live tables, as values and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

from hbmodel.tables.registry.layout_differences import differing

Kind = Literal[
    "namespace", "table", "family", "option", "splits", "entry", "layout", "column", "member", "index", "rename"
]

Effect = Literal["safe", "lossy", "left", "refused"]

_SIGNS: Mapping[Effect, str] = {"safe": "~", "lossy": "-", "left": "=", "refused": "!"}


@frozen
class Difference:
    """One difference between a model and a live table.

    Attributes:
        table: the name of the table.
        kind: `namespace`, `table`, `family`, `option` (of a family), `splits`, `entry` (of the registry), `layout`,
            `column`, `member` (of an enumeration), `index`, or `rename` (of a key field, a column or an index).
        what: what differs, such as `family d ttl`.
        declared: what the model declares; None if it declares nothing.
        live: what the store has; None if it has nothing.
        effect: what `alter` does. `safe`: it applies the declaration. `lossy`: it applies the declaration only with
            `lossy=True`. `left`: it does not change the difference. `refused`: it refuses to change anything.
        why: the reason why the difference is not `safe`; for a safe difference, a remark.
        family: the name of the column family, for a `family`, an `option` or a `column`.
        option: the name of the option; a setting of the family's configuration begins with `configuration.`.
    """

    table: str
    kind: Kind
    what: str
    declared: Any
    live: Any
    effect: Effect = "safe"
    why: str | None = None
    family: str | None = None
    option: str | None = None

    @property
    def undeclared(self) -> bool:
        """Whether the difference is an index or an enumeration's member that the model does not declare."""
        return self.kind in {"index", "member"} and self.declared is None

    @property
    def safe(self) -> bool:
        """Whether `alter` applies the declaration without further options."""
        return self.effect == "safe"

    @property
    def as_json(self) -> dict[str, Any]:
        """The difference as values for JSON, with the declared and the live values as text."""
        return {
            "table": self.table,
            "kind": self.kind,
            "what": self.what,
            "effect": self.effect,
            "why": self.why,
            "family": self.family,
            "option": self.option,
            "text": str(self),
        }

    def __str__(self) -> str:
        if self.live is None and self.kind != "option":
            sign, told = "+" if self.safe else _SIGNS[self.effect], "missing"
        elif self.kind == "column" or (self.declared is None and self.kind == "member"):
            sign, told = _SIGNS[self.effect], str(self.live)
        elif self.kind == "rename":
            sign, told = _SIGNS[self.effect], f"renamed {self.live} -> {self.declared}"
        else:
            sign, told = _SIGNS[self.effect], f"{' -> '.join(reversed(self._values()))}"
        note = "" if self.why is None else f" ({self.why})"
        return f"{sign} {self.table}: {self.what}: {told}{note}"

    def _values(self) -> tuple[str, str]:
        """Returns the declared and the live value as text for people."""
        if self.option == "ttl":
            return _seconds(self.declared), _seconds(self.live)
        if self.kind == "splits":
            return f"{len(self.declared) + 1} regions", f"{len(self.live) + 1} regions"
        if self.option is not None:
            return str(self.declared), str(self.live)
        return differing(self.declared, self.live)


def _seconds(ttl: int | None) -> str:
    return "forever" if ttl is None else f"{ttl} s"


@frozen
class Diff:
    """The differences between live tables and models; falsy if there are none.

    Its text has one line for each difference. The first character shows what `alter` does: `+` means that it creates
    something, `~` that it changes something, `-` that it does so only with `lossy=True`, and `=` that it changes
    nothing. If any line begins with `!`, `alter` refuses to change anything.
    """

    differences: Sequence[Difference]

    def __bool__(self) -> bool:
        return bool(self.differences)

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    def __len__(self) -> int:
        return len(self.differences)

    def __str__(self) -> str:
        return "\n".join(map(str, self.differences))
