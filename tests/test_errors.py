"""The error tree: one root, named details, a code for each class, and no surprises where Python copies, pickles or
inspects an error.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hbmodel import errors
from hbmodel.errors import (
    EncodingError,
    HbmodelError,
    IncompleteKey,
    KeyTooLong,
    RowKeyError,
    StoreUnavailable,
    UnknownField,
)

TREE = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, BaseException)]
PAGE = Path(__file__).parents[1] / "docs" / "errors.md"
CODES = {
    "CapabilityError": "capability-error",
    "CertificateRefused": "certificate-refused",
    "ClockError": "clock-error",
    "ComputedFieldError": "computed-field-error",
    "ConditionFailed": "condition-failed",
    "ConflictError": "conflict-error",
    "CounterOverflow": "counter-overflow",
    "DeclarationError": "declaration-error",
    "DecodingError": "decoding-error",
    "EncodingError": "encoding-error",
    "FamilyExists": "family-exists",
    "FamilyNotFound": "family-not-found",
    "FrozenObject": "frozen-object",
    "FullScanRefused": "full-scan-refused",
    "HbmodelError": "hbmodel-error",
    "IdsExhausted": "ids-exhausted",
    "IncompleteKey": "incomplete-key",
    "IncompleteRow": "incomplete-row",
    "IndexUnavailable": "index-unavailable",
    "InvalidRequest": "invalid-request",
    "KeyTooLong": "key-too-long",
    "LocalHBaseError": "local-hbase-error",
    "MigrationError": "migration-error",
    "MultipleResultsFound": "multiple-results-found",
    "NamespaceExists": "namespace-exists",
    "NamespaceNotFound": "namespace-not-found",
    "NoResultFound": "no-result-found",
    "OrderNotAvailable": "order-not-available",
    "PartialWrite": "partial-write",
    "QueryError": "query-error",
    "RowExists": "row-exists",
    "RowKeyError": "row-key-error",
    "RowMoved": "row-moved",
    "RowNotFound": "row-not-found",
    "SchemaMismatch": "schema-mismatch",
    "SessionClosed": "session-closed",
    "SessionError": "session-error",
    "SessionThreadError": "session-thread-error",
    "StoreClosed": "store-closed",
    "StoreError": "store-error",
    "StoreURLError": "store-url-error",
    "StoreUnavailable": "store-unavailable",
    "TableExists": "table-exists",
    "TableNotFound": "table-not-found",
    "TokenError": "token-error",
    "UniqueViolation": "unique-violation",
    "UnknownField": "unknown-field",
    "UnknownIndex": "unknown-index",
    "UnknownName": "unknown-name",
    "UnknownOutcome": "unknown-outcome",
}
"""The code of each class. Programs compare codes, so a class that gets another name keeps its code."""


def test_every_error_has_its_own_code() -> None:
    assert {kind.__name__: vars(kind).get("code") for kind in TREE} == CODES
    assert len(set(CODES.values())) == len(CODES)
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", code) for code in CODES.values())


def test_the_page_of_errors_has_a_heading_for_each_code() -> None:
    headings = re.findall(r"^### (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(headings) == sorted(CODES.values())


def test_each_code_stands_with_its_class() -> None:
    for code, text in re.findall(r"^### (.*)\n\n(.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        assert [name for name, known in CODES.items() if known == code] == re.findall(r"^`(\w+)`", text), code


def drawn(kind: type[HbmodelError]) -> Iterator[str]:
    """The lines of a class and of those below it, each with the classes of Python that it also belongs to."""
    python = [base.__name__ for base in kind.__bases__ if not issubclass(base, HbmodelError) and base is not Exception]
    yield f"{kind.__name__} ({', '.join(python)})" if python else kind.__name__
    below = [other for other in kind.__subclasses__() if other.__module__ == errors.__name__]
    for other in below:
        first, rest = ("└── ", "    ") if other is below[-1] else ("├── ", "│   ")
        head, *lines = drawn(other)
        yield first + head
        yield from (rest + line for line in lines)


def test_the_module_and_the_page_show_the_tree() -> None:
    tree = "\n".join(drawn(HbmodelError))
    assert f"\n\n{tree}\n\n" in re.sub("^ {4}", "", inspect.getdoc(errors) or "", flags=re.MULTILINE)
    assert f"```text\n{tree}\n```" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", TREE)
def test_every_error_has_one_root_and_says_what_it_means(kind: type[HbmodelError]) -> None:
    assert issubclass(kind, HbmodelError)
    assert kind.__doc__
    assert kind.__name__[0].isupper()


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (EncodingError, ValueError),
        (errors.DecodingError, ValueError),
        (errors.DeclarationError, TypeError),
        (IncompleteKey, TypeError),
        (KeyTooLong, ValueError),
        (UnknownField, AttributeError),
        (errors.RowNotFound, LookupError),
        (StoreUnavailable, ConnectionError),
        (errors.UnknownOutcome, ConnectionError),
        (errors.TableNotFound, LookupError),
    ],
)
def test_errors_are_also_what_python_calls_them(kind: type[HbmodelError], builtin: type[Exception]) -> None:
    with pytest.raises(builtin):
        raise kind("A sentence.")


def test_key_errors_have_a_common_base() -> None:
    assert issubclass(IncompleteKey, RowKeyError)
    assert issubclass(KeyTooLong, RowKeyError)


def test_details_are_shown_and_read_as_attributes() -> None:
    error = EncodingError("It does not fit.", field="name", low=0, table=None)
    assert str(error) == "It does not fit. [field='name', low=0]"
    assert error.message == "It does not fit."
    assert error.field == "name"
    assert error.low == 0
    assert dict(error.details) == {"field": "name", "low": 0}


def test_an_error_without_details_is_its_sentence() -> None:
    assert str(EncodingError("It does not fit.")) == "It does not fit."
    assert repr(EncodingError("It does not fit.")) == "EncodingError('It does not fit.')"


def test_the_representation_shows_the_details_in_one_line() -> None:
    error = EncodingError("It does not fit.", field="name", low=0, table=None)
    assert repr(error) == "EncodingError('It does not fit.', field='name', low=0)"
    assert repr([error]) == "[EncodingError('It does not fit.', field='name', low=0)]"
    refused = errors.CapabilityError("Run the lines.", table="t", shell="create 'a', 'd'\ncreate 'b', 'd'")
    assert (
        repr(refused) == """CapabilityError('Run the lines.', table='t', shell="create 'a', 'd'\\ncreate 'b', 'd'")"""
    )
    mismatch = errors.SchemaMismatch("It would lose data.", differences=["- a: ttl", "- b: ttl"])
    assert repr(mismatch) == "SchemaMismatch('It would lose data.', differences=['- a: ttl', '- b: ttl'])"


class Lines:
    def __repr__(self) -> str:
        return "one\ntwo"


@pytest.mark.parametrize("kind", TREE)
def test_every_representation_is_one_line_with_the_name_of_the_class(kind: type[HbmodelError]) -> None:
    shown = repr(kind("A sentence.", table="t", found=Lines()))
    assert shown == f"{kind.__name__}('A sentence.', table='t', found=one two)"


def test_row_values_are_in_no_representation() -> None:
    taken = errors.UniqueViolation(
        "It is taken.", table="t", index="by_mail", fields=("mail",), value="secret", owner=b"1"
    )
    assert repr(taken) == "UniqueViolation('It is taken.', table='t', index='by_mail', fields=('mail',), owner=b'1')"
    conflict = errors.ConflictError("It has changed.", table="t", expected=1, found=2, failures=["secret", "secret"])
    assert repr(conflict) == "ConflictError('It has changed.', table='t', expected=1, found=2, failures=2)"
    partly = errors.PartialWrite(
        "It stopped.", applied=["secret"], pending=["secret"], failures=[], key=b"1", reason="It broke.\nSoon."
    )
    assert (
        repr(partly)
        == r"PartialWrite('It stopped.', applied=1, pending=1, failures=0, key=b'1', reason='It broke.\nSoon.')"
    )
    assert str(partly) == "It stopped. [applied=1, pending=1, failures=0, key=b'1']\nreason: It broke.\nSoon."


def test_an_absent_detail_is_none_and_special_names_fail_as_always() -> None:
    error = EncodingError("It does not fit.")
    assert error.field is None
    with pytest.raises(AttributeError):
        _ = error.__wrapped__
    with pytest.raises(AttributeError):
        _ = error._private


@pytest.mark.parametrize("kind", TREE)
def test_errors_survive_copying_and_pickling(kind: type[HbmodelError]) -> None:
    error = kind("A sentence.", table="t", missing=("a", "b"))
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert again.code == CODES[kind.__name__]
        assert str(again) == str(error)
        assert again.missing == ("a", "b")


def test_lines_for_people_and_for_the_shell_are_shown_as_lines() -> None:
    refused = errors.CapabilityError("Run the lines.", table="t", shell="create 'a', 'd'\ncreate 'b', 'd'")
    assert str(refused) == "Run the lines. [table='t']\ncreate 'a', 'd'\ncreate 'b', 'd'"
    assert refused.shell == "create 'a', 'd'\ncreate 'b', 'd'"
    mismatch = errors.SchemaMismatch("It would lose data.", differences=["- a: ttl", "- b: ttl"])
    assert str(mismatch) == "It would lose data.\n- a: ttl\n- b: ttl"
