"""The state of a paused generator, as a value: two generators with the same state do the same from there on, whatever
their history.

A generator goes on by its code, the instruction where it stands, its local variables, what lies on its stack (such as
the iterator of a loop) and the generator that it waits for. All of it is compared by value, with the objects that can
be reached from there; which of those are one object, and can so be changed together, is part of the value. Local
variables that no instruction reads again are left out (liveness analysis, Aho et al., *Compilers*, 9.2.5). What is not
known to be comparable makes the generator unlike any other.
"""

from __future__ import annotations

import dis
import enum
import gc
import itertools
from collections.abc import Callable, Iterable
from functools import cache, partial
from operator import attrgetter
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

from hbmodel.mapping.declare.fields import FieldSpec, FlagSpec
from hbmodel.mapping.rows.mapper import KeyMapper, RowDecoder
from hbmodel.mapping.schema import Index, TableSchema

PLAIN = frozenset({int, str, bytes, type(None), type(...)})
"""Objects of these classes are their own values. Not those of `bool` and `float`, which equal integers."""

CONSTANT = (type, ModuleType, CodeType, enum.Enum, GetSetDescriptorType, MemberDescriptorType)
ITERATORS = frozenset(
    map(
        type,
        (
            iter(()),
            iter([]),
            iter({}),
            iter({}.values()),
            iter({}.items()),
            iter(range(0)),
            iter(b""),
            iter(""),
            iter(set()),
        ),
    )
)
ENDS = frozenset(
    {
        "RETURN_VALUE",
        "RETURN_CONST",
        "RAISE_VARARGS",
        "RERAISE",
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
    }
)
"""Instructions that the next one does not follow."""


class NotComparable(Exception):
    """Something that is reached has a state that cannot be seen."""


DECLARED = (TableSchema, Index, FieldSpec, FlagSpec)
"""Objects of these classes are there once, from the declaration of a model."""

DERIVED = frozenset({KeyMapper, RowDecoder})
"""Objects of these classes are what they were made of; all else that they keep follows from it."""


def fingerprint(steps: Any, constant: frozenset[int] = frozenset()) -> Any:
    """The value of a paused generator, or None where it cannot be said.

    Args:
        steps: the generator.
        constant: ids of objects that every run of it has in common, and that none changes.
    """
    try:
        return _Reader(constant).value(steps)
    except NotComparable:
        return None


class _Reader:
    """Makes values; an object that comes again is named by its number, so that what is shared stays so.

    Half of the objects are plain ones, which are their own values. The callers of `value` recognize these themselves,
    which saves a call for each.
    """

    def __init__(self, constant: frozenset[int]) -> None:
        self._constant = constant
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no id is given away meanwhile

    def value(self, of: Any) -> Any:
        kind = type(of)
        if kind in PLAIN:
            return of
        if kind is bool or kind is float:
            return (kind, float(of))
        at = id(of)
        if at in self._constant or _is_constant(kind):
            return ("same", at)
        if kind is tuple:
            return (tuple, self._items(of))
        if kind is frozenset:
            return (frozenset, frozenset(map(self.value, of)))
        numbers = self._numbers
        number = numbers.get(at)
        if number is not None:
            return ("again", number)
        numbers[at] = len(numbers)
        self._kept.append(of)
        contents = CONTENTS.get(kind)
        if contents is not None:
            return (kind, contents(self, of))
        fields = _fields(kind)
        return (kind, self._object(of, kind) if fields is None else self._items(fields(of)))

    def _items(self, of: Iterable[Any]) -> tuple[Any, ...]:
        value, plain = self.value, PLAIN
        return tuple([one if type(one) in plain else value(one) for one in of])

    def _pairs(self, of: Any) -> Any:
        value, plain = self.value, PLAIN
        return tuple(
            [
                (key if type(key) in plain else value(key), item if type(item) in plain else value(item))
                for key, item in dict.items(of)
            ]
        )

    def _generator(self, of: Any) -> Any:
        frame = of.gi_frame
        if frame is None:
            return "over"
        if of.gi_running:
            raise NotComparable(of)
        code, at, local = of.gi_code, frame.f_lasti, frame.f_locals
        held = _held(of, code, local)
        names = [name for name in _read_again(code, at) if name in local]
        return (id(code), at, tuple(names), self._items([local[name] for name in names]), self._items(held))

    def _function(self, of: Any) -> Any:
        if (
            of.__closure__ is None
            and of.__defaults__ is None
            and of.__kwdefaults__ is None
            and "<locals>" not in of.__qualname__
        ):
            return ("same", id(of))
        return (
            of.__code__,
            id(of.__globals__),
            *map(self.value, (of.__closure__, of.__defaults__)),
            self._pairs(of.__kwdefaults__ or {}),
        )

    def _cell(self, of: Any) -> Any:
        try:
            return self.value(of.cell_contents)
        except ValueError:
            return "empty"

    def _method(self, of: Any) -> Any:
        return (self.value(of.__func__), self.value(of.__self__))

    def _built_in_function(self, of: Any) -> Any:
        return (of.__name__, self.value(of.__self__))

    def _partial(self, of: Any) -> Any:
        return (self.value(of.func), self.value(of.args), self._pairs(of.keywords))

    def _count(self, of: Any) -> Any:
        return repr(of)

    def _range(self, of: Any) -> Any:
        return (of.start, of.stop, of.step)

    def _iterator(self, of: Any) -> Any:
        return self._items(of.__reduce__()[1:])

    def _enumerate(self, of: Any) -> Any:
        return self._items(of.__reduce__()[1])

    def _of_several(self, of: Any) -> Any:
        return tuple(self.value(part) for part in gc.get_referents(of) if part is not None)

    def _opaque(self, of: Any) -> Any:
        raise NotComparable(type(of))

    def _object(self, of: Any, kind: type) -> Any:
        if kind in DERIVED:
            return tuple(self.value(getattr(of, a.name)) for a in kind.__attrs_attrs__ if a.init)  # type: ignore[attr-defined]
        parts: list[Any] = []
        if isinstance(of, dict):
            parts.append(self._pairs(of))
        elif isinstance(of, list | tuple):
            parts.append(self._items(of))
        elif isinstance(of, set | frozenset):
            parts.append(frozenset(map(self.value, of)))
        if not _is_python(kind):
            raise NotComparable(kind)
        slots = [name for name in _slots(kind) if hasattr(of, name)]
        parts += [(name, self.value(getattr(of, name))) for name in slots]
        # a tuple's value is its items; what else it keeps was made of them
        if not isinstance(of, tuple) and hasattr(of, "__dict__"):
            parts.append(self._pairs(of.__dict__))
        return tuple(parts)


CONTENTS: dict[type, Callable[[_Reader, Any], Any]] = {
    GeneratorType: _Reader._generator,
    dict: _Reader._pairs,
    list: _Reader._items,
    FunctionType: _Reader._function,
    CellType: _Reader._cell,
    MethodType: _Reader._method,
    BuiltinFunctionType: _Reader._built_in_function,
    partial: _Reader._partial,
    range: _Reader._range,
    itertools.count: _Reader._count,
    **dict.fromkeys(ITERATORS, _Reader._iterator),
    enumerate: _Reader._enumerate,
    **dict.fromkeys((zip, map, filter), _Reader._of_several),
    **dict.fromkeys((reversed, itertools.chain, itertools.islice), _Reader._opaque),
}
"""What is read of the objects of a class."""


@cache
def _is_constant(kind: type) -> bool:
    return issubclass(kind, CONSTANT) or kind in DECLARED


@cache
def _fields(kind: type) -> Callable[[Any], tuple[Any, ...]] | None:
    """Gives the fields of an object, if those of its class hold these and nothing else: an attrs class with slots."""
    own = [base for base in kind.__mro__ if base is not object]
    fields, slots = [a.name for a in getattr(kind, "__attrs_attrs__", ())], _slots(kind)
    if (
        kind in DERIVED
        or not fields
        or any("__dict__" in vars(base) or "__slots__" not in vars(base) for base in own)
        or {*slots} != {*fields}
    ):
        return None
    found = attrgetter(*slots)
    return found if len(slots) > 1 else lambda of: (found(of),)


@cache
def _is_python(kind: type) -> bool:
    """Whether the objects of a class hold no more than attributes and, of a container, its items."""
    known = {object, dict, list, tuple, set, frozenset}
    own = [base for base in kind.__mro__ if base not in known]
    return all("__slots__" in vars(base) or any("__dict__" in vars(other) for other in base.__mro__) for base in own)


def _held(steps: Any, code: CodeType, local: dict[str, Any]) -> list[Any]:
    """The state of a generator in addition to its local variables: cells, and the values on the stack, in order."""
    found = gc.get_referents(steps)
    begins = [n + 1 for n, of in enumerate(found) if of is code and n > 1 and isinstance(found[n - 1], FunctionType)]
    if len(begins) != 1:
        raise NotComparable(code)
    at, ends, cells = begins[0], len(found), []
    for name, used_inside in _variables(code):
        if used_inside and at < ends and isinstance(found[at], CellType):
            cells.append(found[at])  # an argument that another function uses too
        elif name not in local:
            continue
        elif at == ends or found[at] is not local[name]:
            raise NotComparable(code)
        at += 1
    return [*cells, *found[at:]]


@cache
def _variables(code: CodeType) -> tuple[tuple[str, bool], ...]:
    """The local variables of a function, each with whether a function inside uses it."""
    return tuple((name, name in code.co_cellvars) for name in code.co_varnames)


@cache
def _slots(kind: type) -> tuple[str, ...]:
    names: Iterable[str] = itertools.chain.from_iterable(
        (slots,) if isinstance(slots := base.__dict__.get("__slots__", ()), str) else slots for base in kind.__mro__
    )
    return tuple(name for name in dict.fromkeys(names) if name not in {"__dict__", "__weakref__"})


@cache
def _live(code: CodeType) -> dict[int, frozenset[str]]:
    """By the offset of an instruction, the local variables that may be read after it before they are set again."""
    instructions = list(dis.get_instructions(code))
    entries: Any = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
    following = {one.offset: other.offset for one, other in itertools.pairwise(instructions)}
    jumps = {*dis.hasjrel, *dis.hasjabs}
    next_of: dict[int, list[int]] = {}
    for one in instructions:
        after = [] if one.opname in ENDS or one.offset not in following else [following[one.offset]]
        if one.opcode in jumps:
            after.append(one.argval)
        next_of[one.offset] = after + [entry.target for entry in entries if entry.start <= one.offset < entry.end]
    before: dict[int, frozenset[str]] = {one.offset: frozenset() for one in instructions}
    after_: dict[int, frozenset[str]] = dict(before)
    changed = True
    while changed:
        changed = False
        for one in reversed(instructions):
            out = frozenset().union(*(before[offset] for offset in next_of[one.offset]))
            into = _read_before(one, out)
            if out != after_[one.offset] or into != before[one.offset]:
                after_[one.offset], before[one.offset] = out, into
                changed = True
    return after_


@cache
def _read_again(code: CodeType, at: int) -> tuple[str, ...]:
    """The local variables that no cell holds and that may be read after an instruction before they are set again."""
    return tuple(sorted(_live(code)[at] & ({*code.co_varnames} - {*code.co_cellvars})))


def _read_before(one: dis.Instruction, out: frozenset[str]) -> frozenset[str]:
    if "FAST" not in one.opname:
        return out
    names = one.argval if isinstance(one.argval, tuple) else (one.argval,)
    return (
        out.difference(names)
        if one.opname == "STORE_FAST"
        else out.union(name for name in names if isinstance(name, str))
    )
