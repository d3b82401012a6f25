"""Proposes a model for a table that other programs write, from a sample of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from attrs import evolve, frozen

from hbmodel.errors import DeclarationError, TableNotFound
from hbmodel.store.port import Store, check_store
from hbmodel.tables.adoption.codec_guess import ENOUGH, CodecGuess, Confidence, literal
from hbmodel.tables.adoption.findings import SHOWN
from hbmodel.tables.adoption.inferred_families import Chosen, ColumnFound, SampledColumns
from hbmodel.tables.adoption.inferred_key import InferredKey, infer_key
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


@frozen
class InferredModel:
    """A model that hbmodel proposes for a table.

    Its text is the source of the model.

    Attributes:
        table: the name of the table.
        rows: how many rows were read.
        guesses: the fields of the key in their order, then the columns.
        salt: the salt, as source text, or None.
        exists: the `family:qualifier` of the cell that shows that a row exists, or None.
        source: a Python module that declares the model.
    """

    table: str
    rows: int
    guesses: Sequence[InferredField]
    salt: str | None
    exists: bytes | None
    source: str

    def __str__(self) -> str:
        return self.source


def infer(store: Store, table: str, *, sample: int = ROWS) -> InferredModel:
    """Proposes a model for a table that other programs write.

    Rows from the start, the middle and the end of every region are read, with at most 1,000 cells each. Each guess is
    marked as `likely` or `unsure`, with the reason. Every codec and salt fits all sampled rows, but may still be wrong.
    So correct the model, and check it with `adopt`. Nothing is registered or written.

    Args:
        store: the store that holds the table.
        table: the name of the table.
        sample: about how many rows are read, at least 1.

    Returns:
        The source of the model, and the guesses one by one.

    Raises:
        DeclarationError: the table is empty, none of its columns can be declared, or the sample is not a whole number
            from 1 on.
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
    if not chosen.columns and chosen.flag is None:
        raise DeclarationError(
            "No column of the sampled rows can be declared in an external model. If hbmodel wrote the table, use the "
            "model that declares it.",
            table=table,
        )
    return _model(table, keys, chosen)


def _model(table: str, keys: Sequence[bytes], chosen: Chosen) -> InferredModel:
    key, names = infer_key(keys), FieldNames()
    parts = [
        InferredField(
            names.name(name), None, guess.annotation, guess.text, _confidence(guess), guess.reason, example[:SHOWN]
        )
        for name, guess, example in key.parts
    ]
    columns = [_column(names, found, len(keys)) for found in chosen.columns]
    flag = chosen.flag
    exists = None if flag is None else flag.family + b":" + flag.qualifier
    model = InferredModel(table, len(keys), [*parts, *columns], key.salt, exists, "")
    return evolve(model, source="\n".join(_source(model, key, chosen)) + "\n")


def _confidence(guess: CodecGuess) -> Confidence:
    return "likely" if guess.likely else "unsure"


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


def _source(model: InferredModel, key: InferredKey, chosen: Chosen) -> Iterator[str]:
    """The lines of the module. They contain bytes of the table only as literals."""
    flag = chosen.flag
    family = (chosen.columns[0] if flag is None else flag).family
    options = [f"table={literal(model.table)}", f"family={literal(family.decode())}", "external=True"]
    if key.salt is not None:
        options.append(f"salt={key.salt}")
    if flag is not None:
        alias = _alias(flag.family, flag.qualifier)
        options.append(f"exists=hb.flag({alias}, {literal(flag.profile.first)})")
    yield f"# A proposal from {model.rows} rows: correct it, then check it with hb.tables.adopt."
    codecs = [each.codec for each in model.guesses]
    if any("Any" in codec for codec in codecs):
        yield "from typing import Any"
        yield ""
    yield "import hbmodel as hb"
    if any(codec.startswith("java.") for codec in codecs):
        yield "from hbmodel.codecs import java"
    yield ""
    yield ""
    if flag is not None:
        yield f"# {'likely' if model.rows >= ENOUGH else 'unsure'}: every sampled row has the cell of exists="
    if key.salt is not None:
        yield f"# likely: {key.note}"
    yield f"@hb.model({', '.join(options)})"
    yield f"class {class_name(model.table)}:"
    if key.salt is None and key.note is not None:
        yield f"    # unsure: {key.note}"
    for each, found in zip(model.guesses, [*[None] * len(key.parts), *chosen.columns], strict=True):
        yield f"    # {each.confidence}: {each.reason}; such as {each.example!r}"
        if found is None:
            yield f"    {each.name}: hb.Key[{each.annotation}] = hb.key({each.codec})"
            continue
        arguments = [_alias(found.family, found.qualifier), each.codec]
        if not found.everywhere:
            arguments.append("default=None")
        if found.family != family:
            arguments.append(f"family={literal(found.family.decode())}")
        yield f"    {each.name}: hb.Column[{each.annotation}] = hb.column({', '.join(arguments)})"
    for note in chosen.notes:
        yield f"    # {note}"


def _alias(family: bytes, qualifier: bytes) -> str:
    """A qualifier as the literal that declares it."""
    try:
        text = qualifier.decode()
    except UnicodeDecodeError:
        return literal(qualifier)
    return literal(text if text.isprintable() and not qualifier.startswith(family + b":") else qualifier)
