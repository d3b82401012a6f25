"""Proposes a model for a table that other programs write, from a sample of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from attrs import evolve, frozen

from hbmodel.errors import DeclarationError, TableNotFound
from hbmodel.store.port import Store, check_store
from hbmodel.tables.adoption.adopt_findings import SHOWN
from hbmodel.tables.adoption.codec_guess import ENOUGH, CodecGuess, Confidence, literal
from hbmodel.tables.adoption.inferred_families import CellObjects, Chosen, ColumnFound, SampledColumns
from hbmodel.tables.adoption.inferred_key import InferredKey, infer_fields, infer_key
from hbmodel.tables.adoption.inferred_names import FieldNames, class_name
from hbmodel.tables.adoption.table_sample import sampled_rows

ROWS: Final = 1_000
"""About how many rows `infer` reads."""


@frozen
class InferredField:
    """A field of a proposed model, and the evidence for it.

    Attributes:
        name: the name of the attribute.
        column: `family:qualifier`; None for a field of the row key.
        annotation: the type of its values, as source text.
        codec: the codec, as source text, such as `java.Long`.
        in_qualifier: whether the field is a key field that is stored in the qualifier.
        confidence: `likely` or `unsure`.
        reason: the evidence for the guess, in a few words.
        example: the bytes of the first value that was read, at most 64 of them.
    """

    name: str
    column: bytes | None
    annotation: str
    codec: str
    confidence: Confidence
    reason: str
    example: bytes
    in_qualifier: bool = False


@frozen
class InferredModel:
    """A model that hbmodel proposes for a table.

    Its text is the source of this model and of `others`.

    Attributes:
        table: the name of the table.
        rows: how many rows were read.
        guesses: the key fields in their order, then the columns.
        salt: the salt, as source text, or None.
        exists: the `family:qualifier` of the cell that shows that a row exists, or None.
        source: the source of a Python module that declares this model and `others`.
        others: further models of the table, one for each family whose qualifiers may be data.
    """

    table: str
    rows: int
    guesses: Sequence[InferredField]
    salt: str | None
    exists: bytes | None
    source: str
    others: Sequence[InferredModel] = ()

    def __str__(self) -> str:
        return self.source


def infer(store: Store, table: str, *, sample: int = ROWS) -> InferredModel:
    """Proposes a model for a table that other programs write.

    Rows from the start, the middle and the end of every region are read, with at most 1,000 cells each. Each guess is
    marked as `likely` or `unsure`, with the reason. Every codec and salt fits all sampled rows, but may still be wrong.
    So correct the model, and check it with `adopt`. If a family has many qualifiers, and none of them is in most rows,
    a separate model, whose objects are the cells, is proposed for the family. Nothing is registered or written.

    Args:
        store: the store that holds the table.
        table: the name of the table.
        sample: about how many rows are read, at least 1.

    Returns:
        The source of the models, and the guesses one by one.

    Raises:
        DeclarationError: the table is empty, none of its columns can be declared, or the sample is not a whole number
            of at least 1.
        TableNotFound: the table does not exist.
    """
    check_store(store)
    if type(sample) is not int or sample < 1:
        raise DeclarationError("sample must be a whole number of at least 1: the number of rows.", found=repr(sample))
    if table not in store.tables():
        raise TableNotFound("There is no such table to read: correct the name of the table.", table=table)
    keys: list[bytes] = []
    columns = SampledColumns()
    for row in sampled_rows(store, table, sample):
        keys.append(row.row)
        columns.add(row)
    if not keys:
        raise DeclarationError(
            "A model is proposed from the rows of a table, and this table has none: let the other program write some "
            "rows first.",
            table=table,
        )
    chosen = columns.chosen()
    if not chosen.columns and chosen.flag is None and not chosen.objects:
        raise DeclarationError(
            "No column of the sampled rows can be declared in an external model. If hbmodel wrote the table, use the "
            "model that declares it.",
            table=table,
        )
    return _model(table, keys, chosen)


@frozen
class _Written:
    """A model whose `source` is not set yet, and the source lines of its class. The lines contain bytes of the table
    only as literals.
    """

    model: InferredModel
    lines: Sequence[str]


def _model(table: str, keys: Sequence[bytes], chosen: Chosen) -> InferredModel:
    key, classes = infer_key(keys), FieldNames()
    written: list[_Written] = []
    if chosen.columns or chosen.flag is not None:
        written.append(_of_columns(classes.name(class_name(table)), table, len(keys), key, chosen))
    for objects in chosen.objects:
        name = class_name(table) + (class_name(objects.family.decode()) if written else "")
        written.append(_of_cells(classes.name(name), table, len(keys), key, objects))
    written[0] = evolve(written[0], lines=[*written[0].lines, *(f"    # {note}" for note in chosen.notes)])
    first, *others = [evolve(each.model, source=_module([each])) for each in written]
    return evolve(first, source=_module(written), others=others)


def _of_columns(name: str, table: str, rows: int, key: InferredKey, chosen: Chosen) -> _Written:
    """Returns the model that declares columns."""
    names, flag = FieldNames(), chosen.flag
    parts = _key_fields(names, key)
    columns = [_column(names, found, rows) for found in chosen.columns]
    family = (chosen.columns[0] if flag is None else flag).family
    options, comments = [], []
    if flag is not None:
        options.append(f"exists=hb.flag({_alias(flag.family, flag.qualifier)}, {literal(flag.profile.first)})")
        comments.append(f"# {'likely' if rows >= ENOUGH else 'unsure'}: every sampled row has the cell of exists=")
    lines = [*comments, *_head(name, table, family, key, options)]
    for part in parts:
        lines += _key_lines(part)
    for each, found in zip(columns, chosen.columns, strict=True):
        arguments = [_alias(found.family, found.qualifier), each.codec]
        if not found.everywhere:
            arguments.append("default=None")
        if found.family != family:
            arguments.append(f"family={literal(found.family.decode())}")
        lines += _column_lines(each, arguments)
    exists = None if flag is None else flag.family + b":" + flag.qualifier
    return _Written(InferredModel(table, rows, [*parts, *columns], key.salt, exists, ""), lines)


def _of_cells(name: str, table: str, rows: int, key: InferredKey, objects: CellObjects) -> _Written:
    """Returns the model of a family in which each cell is an object."""
    names, profile = FieldNames(), objects.profile
    parts = _key_fields(names, key)
    inner = [
        evolve(_key_field(names, _of_qualifier(part), guess, example), in_qualifier=True)
        for part, guess, example in infer_fields(objects.qualifiers)
    ]
    guess = profile.guess()
    value = InferredField(
        names.name("value"),
        objects.family + b":",
        guess.annotation,
        guess.text,
        _confidence(guess),
        f"{guess.reason}; in all {profile.count} cells",
        profile.first[:SHOWN],
    )
    number = f"{'more than ' if objects.more else ''}{len(objects.qualifiers)}"
    lines = [
        f"# unsure: the qualifiers of the family may be data: it has {number}, and none of them is in more than half "
        "of the rows",
        *_head(name, table, objects.family, key, []),
    ]
    for part in [*parts, *inner]:
        lines += _key_lines(part)
    lines += _column_lines(value, ['""', value.codec])
    return _Written(InferredModel(table, rows, [*parts, *inner, value], key.salt, None, ""), lines)


def _of_qualifier(part: str) -> str:
    """Returns the name of a field in the qualifier, made from the name that it would have in a row key: `qualifier1`
    from `part1`.
    """
    return f"qualifier{part.removeprefix('key').removeprefix('part')}"


def _confidence(guess: CodecGuess) -> Confidence:
    return "likely" if guess.likely else "unsure"


def _key_fields(names: FieldNames, key: InferredKey) -> Sequence[InferredField]:
    return [_key_field(names, name, guess, example) for name, guess, example in key.parts]


def _key_field(names: FieldNames, name: str, guess: CodecGuess, example: bytes) -> InferredField:
    return InferredField(
        names.name(name), None, guess.annotation, guess.text, _confidence(guess), guess.reason, example[:SHOWN]
    )


def _column(names: FieldNames, found: ColumnFound, rows: int) -> InferredField:
    guess = found.profile.guess()
    where = f"in all {rows} rows" if found.everywhere else f"in {found.profile.count} of {rows} rows"
    return InferredField(
        names.of_column(found.qualifier),
        found.family + b":" + found.qualifier,
        guess.annotation if found.everywhere else f"{guess.annotation} | None",
        guess.text,
        "likely" if guess.likely and rows >= ENOUGH else "unsure",
        f"{guess.reason}; {where}",
        found.profile.first[:SHOWN],
    )


# --- source text ------------------------------------------------------------------------------------------------------


def _module(written: Sequence[_Written]) -> str:
    """Returns the source of a module that declares the models."""
    rows, codecs = written[0].model.rows, [guess.codec for each in written for guess in each.model.guesses]
    lines = [f"# A proposal from {rows} rows: correct it, then check it with hb.tables.adopt."]
    if any("Any" in codec for codec in codecs):
        lines += ["from typing import Any", ""]
    lines.append("import hbmodel as hb")
    if any(codec.startswith("java.") for codec in codecs):
        lines.append("from hbmodel.codecs import java")
    for each in written:
        lines += ["", "", *each.lines]
    return "\n".join(lines) + "\n"


def _head(name: str, table: str, family: bytes, key: InferredKey, more: Sequence[str]) -> Iterator[str]:
    """Yields the first lines of a class."""
    options = [f"table={literal(table)}", f"family={literal(family.decode())}", "external=True"]
    if key.salt is not None:
        options.append(f"salt={key.salt}")
        yield f"# likely: {key.note}"
    yield f"@hb.model({', '.join([*options, *more])})"
    yield f"class {name}:"
    if key.salt is None and key.note is not None:
        yield f"    # unsure: {key.note}"


def _key_lines(field: InferredField) -> Iterator[str]:
    yield _comment(field)
    place = ", in_qualifier=True" if field.in_qualifier else ""
    yield f"    {field.name}: hb.Key[{field.annotation}] = hb.key({field.codec}{place})"


def _column_lines(field: InferredField, arguments: Sequence[str]) -> Iterator[str]:
    yield _comment(field)
    yield f"    {field.name}: hb.Column[{field.annotation}] = hb.column({', '.join(arguments)})"


def _comment(field: InferredField) -> str:
    return f"    # {field.confidence}: {field.reason}; such as {field.example!r}"


def _alias(family: bytes, qualifier: bytes) -> str:
    """Returns the source literal that declares a qualifier."""
    try:
        text = qualifier.decode()
    except UnicodeDecodeError:
        return literal(qualifier)
    return literal(text if text.isprintable() and not qualifier.startswith(family + b":") else qualifier)
