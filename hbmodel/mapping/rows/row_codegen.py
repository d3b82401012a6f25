"""Generates functions, once per model, that convert valid rows to field values and valid objects to rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import Factory

from hbmodel.encoding.codecs.base import source_of
from hbmodel.encoding.codecs.text import TERMINATOR
from hbmodel.encoding.codegen import Code
from hbmodel.encoding.key_layout import KeyLayout
from hbmodel.encoding.salts import BoundSalt
from hbmodel.mapping.map_columns import Taken, with_map_cells
from hbmodel.mapping.missing_entries import with_known_entries
from hbmodel.mapping.rows.entries_of_row import Entries
from hbmodel.mapping.schema import Field, Index, TableSchema
from hbmodel.store.values import MAX_ROW_LENGTH, Row


def compile_decode(
    schema: TableSchema, fields: Sequence[Field], slow: Callable[[Row], dict[str, Any]], index: Index | None = None
) -> Callable[[Row], dict[str, Any]]:
    """Makes a function that accepts a row or an index entry, and returns the values of the stored fields in the key,
    and of the columns in `fields`.

    Args:
        fields: columns to decode.
        slow: a function that does the same for every row, or raises the exact error. It is called whenever the
            generated code raises an exception.
        index: the index whose entries are decoded, or None.
    """
    code = Code("def decode(row):")
    code.add("cells = row.columns")
    code.add("try:")
    values = _values(code, schema, fields, index)
    code.add(f"return {values}", 2)
    code.add("except Exception:")
    code.add("pass", 2)
    # outside of `except`, so that no error with stored bytes becomes the context of the errors of `slow`
    code.add(f"return {code.name(slow)}(row)")
    return code.build()


def compile_decode_objects(
    schema: TableSchema,
    fields: Sequence[Field],
    exists: Callable[[Code], str],
    slow: Callable[[Row], dict[str, Any]],
) -> Callable[[Iterable[Row]], list[tuple[bytes, dict[str, Any]]]]:
    """Makes a function that accepts rows, leaves out those that are not objects, and returns the key without the salt
    and the values of each object.

    Args:
        fields: columns to decode.
        exists: returns the condition under which the variables `row` and `cells` are those of an object.
        slow: as for `compile_decode`.
    """
    code, width = Code("def decode_objects(rows):"), schema.salt.width
    code.add("found = []")
    code.add("for row in rows:")
    code.add("cells = row.columns", 2)
    code.add(f"if {exists(code)}:", 2)
    code.outer = 2
    code.add("try:")
    values = _values(code, schema, fields, None)
    code.add(f"found.append((data{f'[{width}:]' if width else ''}, {values}))", 2)
    code.add("continue", 2)
    code.add("except Exception:")
    code.add("pass", 2)
    code.add(f"found.append((row.row[{width}:], {code.name(slow)}(row)))")
    code.outer = 0
    code.add("return found")
    return code.build()


def _values(code: Code, schema: TableSchema, fields: Sequence[Field], index: Index | None) -> str:
    """Returns the expression for the values of the variables `row` and `cells`. The lines that the expression needs are
    added to `code`.
    """
    layout, salt = (schema.layout, schema.salt) if index is None else (index.layout, index.salt)
    code.add(f"data, start = row.row, {salt.width}", 2)
    in_key = dict(zip(layout.names, layout.unpack_code(code, 2), strict=True))
    pairs = in_key if index is None else {name: value for name, value in in_key.items() if name not in index.derived}
    for field in fields:
        pairs[field.name] = _cell_value(code, field)
    return "{" + ", ".join(f"{code.name(name)}: {value}" for name, value in pairs.items()) + "}"


def _cell_value(code: Code, field: Field) -> str:
    """Returns the expression for a column's value. The lines that the expression needs are added to `code`."""
    column = code.name(field.column)
    source = source_of(field.codec)
    # If an empty cell counts as missing, codecs that read a number refuse it; other codecs might decode it to a value.
    doubtful = field.empty_is_missing and (source is None or source.word is None)
    nullable = field.nullable and not field.unescaped
    if field.required and not nullable:
        data = f"(cells[{column}].value or {code.name(_nothing)}())" if doubtful else f"cells[{column}].value"
        if field.escaped or (source is not None and source.word is None and source.decode.count("{v}") > 1):
            data = _assigned(code, data)
        return _some_value(code, field, data)
    cell = _assigned(code, f"cells.get({column})" if not field.required else f"cells[{column}]")
    data = f"{cell}.value"
    missing = f"{cell} is None or not {cell}.value" if doubtful else f"{cell} is None"
    if nullable or field.escaped:
        data = _assigned(code, f"{cell} is not None and {data}" if not field.required else data)
    if nullable:
        value = f"(None if not {data} else {_some_value(code, field, data)})"
    else:
        value = f"({_some_value(code, field, data)})"
    return value if field.required else f"({_default(code, field)} if {missing} else {value})"


def _nothing() -> bytes:
    raise LookupError


def _some_value(code: Code, field: Field, data: str) -> str:
    """Returns the expression for a value that is not None. A leading 00 may be an escape, so such a value is left to
    `decode_cell`.
    """
    if not field.escaped:
        return code.decode(field.codec, data)
    return f"{code.name(field.decode_cell)}({data}) if {data}[0] == 0 else {code.decode(field.codec, data)}"


def _default(code: Code, field: Field) -> str:
    if isinstance(field.default, Factory):  # type: ignore[arg-type]
        return f"{code.name(field.default_value)}()"
    return code.name(field.default_value())


def compile_take(schema: TableSchema, slow: Callable[[Any], Taken]) -> Callable[[Any], Taken]:
    """Makes a function that accepts an object, and returns the data to write: field values, row key and cells.

    Args:
        slow: a function that does the same for every object, or raises the exact error. It is called whenever the
            generated code raises an exception, or gets a value whose type is not the expected one.
    """
    code = Code("def take(obj):")
    code.add("try:")
    values = {field.name: _assigned(code, f"obj.{field.name}") for field in schema.fields}
    key_conditions, key = _row_key(code, schema.layout, schema.salt, [values[name] for name in schema.layout.names])
    conditions, cells = list(key_conditions), []
    for field in schema.columns:
        if field.kind == "column":
            condition, cell = _cell(code, field, values[field.name])
            conditions += [] if condition is None else [condition]
            cells.append(f"{code.name(field.column)}: {cell}")
    named = ", ".join(f"{code.name(name)}: {value}" for name, value in values.items())
    code.add(f"if {' and '.join(conditions) or 'True'}:", 2)
    for line in key:
        code.add(line, 3)
    code.add(f"if {_storable(schema)}:", 3)
    code.add(f"return {{{named}}}, row, {{{', '.join(cells)}}}", 4)
    code.add("except Exception:")
    code.add("pass", 2)
    code.add(f"return {code.name(slow)}(obj)")
    return with_known_entries(schema, with_map_cells(schema.maps, schema.table, code.build()))


def compile_rows(schema: TableSchema, slow: Callable[[Any], list[bytes]]) -> Callable[[Any], list[bytes]]:
    """Makes a function that accepts a key, either as a mapping or as the values in key order, and returns the row keys
    under which the object may be stored.

    Args:
        slow: a function that does the same for every key, or raises the exact error. It is called whenever the
            generated code raises an exception, or gets a value or collection whose type is not the expected one.
    """
    code = Code("def rows(key):")
    layout = schema.layout
    names = [code.variable() for _ in layout.names]
    code.add("try:")
    code.add(f"if type(key) is dict and len(key) == {len(names)}:", 2)
    for variable, name in zip(names, layout.names, strict=True):
        code.add(f"{variable} = key[{code.name(name)}]", 3)
    code.add("elif type(key) is tuple or type(key) is list:", 2)
    code.add(f"{', '.join(names)}, = key", 3)
    code.add("else:", 2)
    code.add(f"return {code.name(slow)}(key)", 3)
    _add_rows(code, schema, names)
    code.add("except Exception:")
    code.add("pass", 2)
    code.add(f"return {code.name(slow)}(key)")
    return code.build()


def compile_rows_of_entry(
    schema: TableSchema, index: Index, slow: Callable[[bytes], list[bytes]]
) -> Callable[[bytes], list[bytes]]:
    """Makes a function that accepts the row key of an index entry, and returns a list with the row key of the only row
    to which the entry can belong.

    Args:
        schema: the schema of the model, which has no random salt.
        index: an index of the model.
        slow: a function that does the same for every entry, or raises the exact error. It is called whenever the
            generated code raises an exception.
    """
    code = Code("def rows(data):")
    code.add("try:")
    code.add(f"start = {index.salt.width}", 2)
    values = index.layout.unpack_code(code, 2)
    _add_rows(code, schema, [_assigned(code, values[at]) for at in index.primary_positions])
    code.add("except Exception:")
    code.add("pass", 2)
    # outside of `except`, so that no error with stored bytes becomes the context of the errors of `slow`
    code.add(f"return {code.name(slow)}(data)")
    return code.build()


def _add_rows(code: Code, schema: TableSchema, names: Sequence[str]) -> None:
    """Adds the lines that return all row keys of a key, if its fields are valid. The arguments `names` are the
    variables that contain the fields.
    """
    layout, salt = schema.layout, schema.salt
    if salt.random:
        conditions, joined = layout.join_code(code, names)
        lines, within = [f"row = {joined}"], f"len(row) <= {MAX_ROW_LENGTH - salt.width}"
        expression = f"[prefix + row for prefix in {code.name(salt.prefixes)}]"
    else:
        conditions, lines = _row_key(code, layout, salt, names)
        within, expression = _storable(schema), "[row]"
    code.add(f"if {' and '.join(conditions) or 'True'}:", 2)
    for line in lines:
        code.add(line, 3)
    code.add(f"if {within}:", 3)
    code.add(f"return {expression}", 4)


def _storable(schema: TableSchema) -> str:
    """Returns a condition under which HBase can store the key in the variable `row`. Object keys that do not satisfy
    this condition are left to the slow function.
    """
    condition, wide = f"0 < len(row) <= {MAX_ROW_LENGTH}", schema.wide
    if wide is None or wide.form.row is not None:
        return condition
    if not schema.salt.width:  # the row key might be empty
        condition += f" and row[:2] != {TERMINATOR!r}"
    if wide.qualifiers.raw and not wide.kind:  # the qualifier might be empty
        condition += f" and row[-2:] != {TERMINATOR!r}"
    return condition


def compile_entry(index: Index, slow: Entries) -> Entries:
    """Makes a function that accepts the values of an entry's fields and the row key of the entry's row, and returns the
    row key of the entry in an index.

    Args:
        index: an index of the model. If the model has a random salt, entries end with the bucket, which is the first
            byte of the row key.
        slow: a function that does the same for all values, or raises the exact error.
    """
    code = Code("def entry(values, primary):")
    code.add("try:")
    names = [_assigned(code, f"values[{code.name(name)}]") for name in index.layout.names]
    conditions, key = _row_key(code, index.layout, index.salt, names)
    code.add(f"if {' and '.join(conditions) or 'True'}:", 2)
    for line in key:
        code.add(line, 3)
    if index.layout.tail:
        code.add("row += primary[:1]", 3)
    code.add(f"if 0 < len(row) <= {MAX_ROW_LENGTH}:", 3)
    code.add("return (row,)", 4)
    code.add("except Exception:")
    code.add("pass", 2)
    code.add(f"return {code.name(slow)}(values, primary)")
    return code.build()


def compile_entries(
    functions: Mapping[str, Entries],
) -> Callable[[Mapping[str, Any], bytes], dict[str, tuple[bytes, ...]]]:
    """Makes a function that calls each of these functions and returns their results by the same names."""
    code = Code("def entries(values, primary):")
    items = ", ".join(
        f"{code.name(name)}: {code.name(function)}(values, primary)" for name, function in functions.items()
    )
    code.add(f"return {{{items}}}")
    return code.build()


def _row_key(code: Code, layout: KeyLayout, salt: BoundSalt, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the conditions under which the values in the variables `names` are valid, and the lines that make `row`
    from these values.
    """
    if salt.width and not salt.random and salt.by != layout.names:  # the salt depends on some of the parts only
        conditions, parts = layout.pack_code(code, names)
        names = [code.variable() for _ in parts]
        by = [name for name, field_name in zip(names, layout.names, strict=True) if field_name in salt.by]
        lines = [f"{name} = {part}" for name, part in zip(names, parts, strict=True)]
        bucket = f"{code.name(salt.salt.bucket)}(b''.join(({', '.join(by)},)))"
        return conditions, [*lines, f"row = {code.name(salt.prefixes)}[{bucket}] + b''.join(({', '.join(names)},))"]
    conditions, joined = layout.join_code(code, names)
    lines = [f"row = {joined}"]
    if salt.width:
        bucket = f"{code.name(salt.draw)}()" if salt.random else f"{code.name(salt.salt.bucket)}(row)"
        lines.append(f"row = {code.name(salt.prefixes)}[{bucket}] + row")
    return conditions, lines


def _cell(code: Code, field: Field, value: str) -> tuple[str | None, str]:
    """Returns the condition under which a column's value is valid, and the expression for its cell. The condition is
    None if every value is valid.
    """
    condition = code.accepts(field.codec, value)
    if not field.nullable:
        return condition or f"{value} is not None", _some_cell(code, field, value)
    return (
        condition and f"({value} is None or {condition})",
        f"{code.name(field.cell_of_none)} if {value} is None else {_some_cell(code, field, value)}",
    )


def _some_cell(code: Code, field: Field, value: str) -> str:
    """Returns the expression for the cell of a value that is not None. If the field is escaped, bytes that are empty or
    begin with 00 are escaped.
    """
    if not field.escaped:
        return code.encode(field.codec, value)
    data = code.variable()
    return f"({data} if ({data} := {code.encode(field.codec, value)}) and {data}[0] else b'\\x00' + {data})"


def _assigned(code: Code, expression: str) -> str:
    name = code.variable()
    code.add(f"{name} = {expression}", 2)
    return name
