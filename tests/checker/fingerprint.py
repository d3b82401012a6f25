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
from collections.abc import Iterable
from functools import cache, partial
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

PLAIN = frozenset({int, str, bytes, float, type(None), type(...)})
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
    """Makes values; an object that comes again is named by its number, so that what is shared stays so."""

    def __init__(self, constant: frozenset[int]) -> None:
        self._constant = constant
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no id is given away meanwhile

    def value(self, of: Any) -> Any:
        kind = type(of)
        if kind in PLAIN:
            return of if kind is not float else (kind, of)
        if kind is bool:
            return (bool, int(of))
        at = id(of)
        if at in self._constant or _is_constant(kind):
            return ("same", at)
        if kind is tuple:
            return (tuple, *map(self.value, of))
        if kind is frozenset:
            return (frozenset, frozenset(map(self.value, of)))
        numbers = self._numbers
        number = numbers.get(at)
        if number is not None:
            return ("again", number)
        numbers[at] = len(numbers)
        self._kept.append(of)
        return (kind, self._contents(of, kind))

    def _contents(self, of: Any, kind: type) -> Any:
        if kind is GeneratorType:
            return self._generator(of)
        if kind is dict:
            return self._pairs(of)
        if kind is list:
            return tuple(map(self.value, of))
        if _is_record(kind):
            return tuple([self.value(getattr(of, name)) for name in _slots(kind)])
        if kind is FunctionType:
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
        if kind is CellType:
            try:
                return self.value(of.cell_contents)
            except ValueError:
                return "empty"
        if kind is MethodType:
            return (self.value(of.__func__), self.value(of.__self__))
        if kind is BuiltinFunctionType:
            return (of.__name__, self.value(of.__self__))
        if kind is partial:
            return (self.value(of.func), self.value(of.args), self._pairs(of.keywords))
        if kind is itertools.count:
            return repr(of)
        if kind in ITERATORS:
            return tuple(map(self.value, of.__reduce__()[1:]))
        if kind in (zip, map, filter, enumerate, reversed) or kind in (itertools.chain, itertools.islice):
            return self._opaque_iterator(of, kind)
        if kind is range:
            return (of.start, of.stop, of.step)
        return self._object(of, kind)

    def _opaque_iterator(self, of: Any, kind: type) -> Any:
        if kind in (zip, map, filter):
            return tuple(self.value(part) for part in gc.get_referents(of) if part is not None)
        if kind is enumerate:
            return tuple(map(self.value, of.__reduce__()[1]))
        raise NotComparable(kind)

    def _object(self, of: Any, kind: type) -> Any:
        if kind in DERIVED:
            return tuple(self.value(getattr(of, a.name)) for a in kind.__attrs_attrs__ if a.init)  # type: ignore[attr-defined]
        parts: list[Any] = []
        if isinstance(of, dict):
            parts.append(self._pairs(of))
        elif isinstance(of, list | tuple):
            parts.append(tuple(map(self.value, of)))
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

    def _pairs(self, of: Any) -> Any:
        value = self.value
        return tuple([(value(key), value(item)) for key, item in dict.items(of)])

    def _generator(self, of: Any) -> Any:
        frame = of.gi_frame
        if frame is None:
            return "over"
        if of.gi_running:
            raise NotComparable(of)
        code, at, local = of.gi_code, frame.f_lasti, dict(frame.f_locals)
        held = _held(of, code, local)
        value = self.value
        return (
            id(code),
            at,
            *[(name, value(local[name])) for name in _read_again(code, at) if name in local],
            *map(value, held),
        )


@cache
def _is_constant(kind: type) -> bool:
    return issubclass(kind, CONSTANT) or kind in DECLARED


@cache
def _is_record(kind: type) -> bool:
    """Whether the objects of a class hold its fields and nothing else: an attrs class with slots."""
    own = [base for base in kind.__mro__ if base is not object]
    fields = [a.name for a in getattr(kind, "__attrs_attrs__", ())]
    return (
        kind not in DERIVED
        and bool(fields)
        and not any("__dict__" in vars(base) or "__slots__" not in vars(base) for base in own)
        and {*_slots(kind)} == {*fields}
    )


@cache
def _is_python(kind: type) -> bool:
    """Whether the objects of a class hold no more than attributes and, of a container, its items."""
    known = {object, dict, list, tuple, set, frozenset}
    own = [base for base in kind.__mro__ if base not in known]
    return all("__slots__" in vars(base) or any("__dict__" in vars(other) for other in base.__mro__) for base in own)


def _held(steps: Any, code: CodeType, local: dict[str, Any]) -> list[Any]:
    """The state of a generator in addition to its local variables: cells, and the values on the stack, in order."""
    found = gc.get_referents(steps)
    begins = [n + 1 for n in range(1, len(found)) if found[n] is code and isinstance(found[n - 1], FunctionType)]
    if len(begins) != 1:
        raise NotComparable(code)
    rest, cells = found[begins[0] :], []
    for name in code.co_varnames:
        if name in code.co_cellvars and rest and isinstance(rest[0], CellType):
            cells.append(rest[0])  # an argument that another function uses too
        elif name not in local:
            continue
        elif not rest or rest[0] is not local[name]:
            raise NotComparable(code)
        rest = rest[1:]
    return [*cells, *rest]


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
