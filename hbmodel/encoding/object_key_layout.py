"""The layout of object keys: the row key fields, escaped and terminated together, followed by the column fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn

from attrs import Factory, field, frozen

from hbmodel.encoding.bounds import Bounds
from hbmodel.encoding.codecs import JSON
from hbmodel.encoding.codecs.text import ESCAPED_ZERO, TERMINATOR, escape, terminated, unescape_part
from hbmodel.encoding.codecs.times import microseconds
from hbmodel.encoding.codegen import Code
from hbmodel.encoding.key_field import CompiledKeyField
from hbmodel.encoding.key_layout import KeyLayout, compile_pack
from hbmodel.encoding.split_field import SplitField
from hbmodel.errors import DecodingError
from hbmodel.store.ranges import KeyRange

ESCAPE_CODE = f".replace({TERMINATOR[:1]!r}, {ESCAPED_ZERO!r})"


def _unread(data: bytes, start: int) -> NoReturn:
    raise AssertionError("The fields of an object key are not read one by one.")


@frozen
class RowSlot(CompiledKeyField):
    """A field of the row key at its place in an object key. The field is escaped, and terminated if it is the last one
    in the row key.

    Attributes:
        last: whether the field is the last one in the row key.
    """

    inner: CompiledKeyField
    last: bool

    @classmethod
    def wrap(cls, inner: CompiledKeyField, last: bool) -> RowSlot:
        """Adapts a field of the row key."""
        encode, close = inner.encode, terminated if last else escape
        return cls(inner.of, False, inner.order, lambda value: close(encode(value)), _unread, encode, inner, last)

    @property
    def word(self) -> str | None:
        return None

    @property
    def inline(self) -> bool:
        return self.inner.inline

    def packed(self, code: Code, value: str) -> str:
        return f"({self.inner.packed(code, value)}){ESCAPE_CODE}" + (f" + {TERMINATOR!r}" if self.last else "")

    def range(self, prefix: bytes, bounds: Bounds) -> KeyRange:
        # Escaping keeps the order: an object key is at or above an escaped bound if and only if its row is at or above
        # the bound.
        inner_range = self.inner.range(prefix.replace(ESCAPED_ZERO, TERMINATOR[:1]), bounds)
        return KeyRange(escape(inner_range.start), None if inner_range.stop is None else escape(inner_range.stop))


@frozen
class SplitSlot(CompiledKeyField):
    """A split field at its place in an object key: the bucket ends the row key, the offset begins the column part."""

    bucket: CompiledKeyField
    offset: CompiledKeyField

    @classmethod
    def join(cls, split_field: SplitField, bucket: CompiledKeyField, offset: CompiledKeyField) -> SplitSlot:
        """Makes the field from its two parts."""
        first, second = bucket.encode, offset.encode
        return cls(
            split_field.of,
            False,
            bucket.order,
            lambda value: first(value) + second(value),
            _unread,
            first,
            bucket,
            offset,
        )

    @property
    def word(self) -> str | None:
        return None

    @property
    def inline(self) -> bool:
        return self.bucket.inline and self.offset.inline

    def packed(self, code: Code, value: str) -> str:
        return f"{self.bucket.packed(code, value)} + {self.offset.packed(code, value)}"


def _split(layout: ObjectKeyLayout) -> SplitField | None:
    return None if layout.split is None else SplitField.build(layout.fields[layout.rows - 1], layout.split)


def _row(layout: ObjectKeyLayout) -> KeyLayout | None:
    if not layout.rows:
        return None
    fields = layout.fields[: layout.rows]
    return KeyLayout(fields if layout.halves is None else (*fields[:-1], layout.halves.bucket))


def _columns(layout: ObjectKeyLayout) -> KeyLayout | None:
    fields = layout.fields[layout.rows :]
    if layout.halves is not None:
        fields = (layout.halves.offset, *fields)
    return KeyLayout(fields, closed=not layout.raw) if fields else None


def _slots(layout: ObjectKeyLayout) -> tuple[CompiledKeyField, ...]:
    row = () if layout.row is None else layout.row.slots
    slots: list[CompiledKeyField] = [RowSlot.wrap(slot, at == len(row) - 1) for at, slot in enumerate(row)]
    columns = [] if layout.columns is None else [*layout.columns.slots]
    if layout.halves is not None:
        slots[-1] = SplitSlot.join(layout.halves, slots[-1], columns.pop(0))
    return (*slots, *columns)


def _compile_unpack(layout: ObjectKeyLayout) -> Callable[[bytes, int], tuple[Any, ...]]:
    code = Code("def unpack(data, start):")
    values = layout.unpack_code(code, 1)
    code.add(f"return ({', '.join(values)},)")
    return code.build()


@frozen
class ObjectKeyLayout(KeyLayout):
    """The fields of the object keys of a wide model; see `ObjectKeyForm`. Salts come before the fields.

    It is used like a `KeyLayout`: each object has one logical key, whose byte order is the declared order.

    Attributes:
        rows: the number of fields in the row key, which are the first fields; 0 if the row is constant.
        split: the length of the buckets of the last field in the row key, if that field is split; otherwise None.
        raw: whether nothing follows the last column field in qualifiers. If that field ascends, it then ends with the
            key and needs no terminator.
        halves: the two parts of the split field, or None if no field is split.
        row: the layout of the row key, or None if the row is constant.
        columns: the layout of the column part, or None if there is no column part.
    """

    rows: int = 0
    split: timedelta | None = None
    raw: bool = False
    halves: SplitField | None = field(init=False, eq=False, repr=False, default=Factory(_split, takes_self=True))
    row: KeyLayout | None = field(init=False, eq=False, repr=False, default=Factory(_row, takes_self=True))
    columns: KeyLayout | None = field(init=False, eq=False, repr=False, default=Factory(_columns, takes_self=True))
    _slots: tuple[CompiledKeyField, ...] = field(
        init=False, eq=False, repr=False, default=Factory(_slots, takes_self=True)
    )
    _pack: Callable[[Sequence[object]], list[bytes]] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: compile_pack(self._slots), takes_self=True)
    )
    _unpack: Callable[[bytes, int], tuple[Any, ...]] = field(
        init=False, eq=False, repr=False, default=Factory(_compile_unpack, takes_self=True)
    )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fields, self.tail, self.closed, self.rows, self.split, self.raw)

    @property
    def spec(self) -> dict[str, JSON]:
        places: dict[str, JSON] = {"raw": True} if self.raw else {}
        return {**super().spec, "fields": self.field_specs, "row": self.rows, **places}

    @property
    def field_specs(self) -> list[JSON]:
        specs: list[dict[str, JSON]] = [f.spec for f in self.fields]
        if self.split is not None:
            specs[self.rows - 1]["split"] = microseconds(self.split)
        for spec in specs[self.rows :]:
            spec["part"] = "column"
        return [*specs]

    def parts_of(self, values: Sequence[object]) -> tuple[Sequence[object], Sequence[object]]:
        """Returns the values of the row key and of the column part; the value of a split field is in both."""
        return values[: self.rows], values[self.rows - (self.split is not None) :]

    def _slowly(self, data: bytes, start: int) -> tuple[Any, ...]:
        first: tuple[Any, ...] = ()
        behind: tuple[Any, ...] = ()
        if self.row is not None:
            row, start = unescape_part(data, start)
            first = self.row.unpack(row)
        if self.columns is not None:
            behind = self.columns.unpack(data, start)
        elif start != len(data):
            raise DecodingError("A stored key continues after its last field.", expected=start, found=len(data))
        if self.halves is not None:
            return (*first[:-1], self.halves.joined(first[-1], behind[0]), *behind[1:])
        return first + behind

    def unpack_code(self, code: Code, depth: int) -> list[str]:
        first: list[str] = []
        behind: list[str] = []
        if self.row is not None:
            place, end = code.variable(), code.variable()
            self._row_code(code, depth, place, end)
            first = self.row.unpack_code(code, depth)
            code.add(f"data, start = {place}, {end}", depth)
        if self.columns is not None:
            behind = self.columns.unpack_code(code, depth)
        else:
            code.add("if start != len(data): raise LookupError", depth)  # plain code raises the exact error
        if self.halves is not None:
            return [*first[:-1], f"{code.name(self.halves.joined)}({first[-1]}, {behind[0]})", *behind[1:]]
        return first + behind

    def _row_code(self, code: Code, depth: int, place: str, end: str) -> None:
        """Adds the lines that set `data` to the row key, the variable `place` to the object key, and the variable `end`
        to the position at which the column part begins.

        The generated code remembers the row key that it unescaped last, since the objects of a row follow each other.
        """
        known, last = code.variable(), f"{code.name([((), b'', 0)])}[0]"  # startswith(()) is always False
        code.add(f"{place} = data", depth)
        code.add(f"{known}, data, {end} = {last}", depth)
        code.add(f"if {place}.startswith({known}, start):", depth)
        code.add(f"{end} += start", depth + 1)
        code.add("else:", depth)
        code.add(f"data, {end} = {code.name(unescape_part)}({place}, start)", depth + 1)
        code.add(f"{last} = {place}[start:{end}], data, {end} - start", depth + 1)  # in one step: other threads read it
        code.add("start = 0", depth)

    def join_code(self, code: Code, names: Sequence[str]) -> tuple[list[str], str]:
        first, behind = self.parts_of(names)
        conditions: list[str] = []
        joined: list[str] = []
        if self.row is not None:
            conditions, row = self.row.join_code(code, [str(name) for name in first])
            joined.append(f"({row}){ESCAPE_CODE} + {TERMINATOR!r}")
        if self.columns is not None:
            more, columns = self.columns.join_code(code, [str(name) for name in behind])
            conditions, joined = [*conditions, *more], [*joined, columns]
        return conditions, " + ".join(joined)


def unescaped(parts: bytes) -> bytes:
    """Returns the bytes that fields have in the row key, given the bytes that they have in an object key. Bytes after
    the row key are cut off.
    """
    return parts.partition(TERMINATOR)[0].replace(ESCAPED_ZERO, TERMINATOR[:1])
