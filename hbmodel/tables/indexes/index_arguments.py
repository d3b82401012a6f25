"""Checks the arguments of operations on indexes, before anything is done."""

from __future__ import annotations

from typing import Any

from hbmodel.errors import DeclarationError
from hbmodel.store.checks.numbers import is_finite, whole_number


def check_speeds(**given: Any) -> None:
    """Raises `DeclarationError` for a rate that is neither None nor a positive number."""
    for name, value in given.items():
        if value is not None and not _is_positive(value):
            raise DeclarationError(
                "A speed must be a positive number, or None for no limit.", option=name, found=repr(value)
            )


def check_choices(**given: Any) -> None:
    """Raises `DeclarationError` for a value that is neither True nor False, such as the name of an index for
    `drop=`.
    """
    for name, value in given.items():
        if not isinstance(value, bool):
            raise DeclarationError("This must be True or False.", option=name, found=repr(value))


def check_work(
    *, batch_size: Any = 1, sample: Any = None, claim_life: Any = 1, progress: Any = None, least: int = 1
) -> None:
    """Raises `DeclarationError` for an argument that cannot be used.

    Args:
        least: the smallest sample that is allowed.
    """
    if (whole_number(batch_size) or 0) < 1:
        raise DeclarationError(
            "A batch must be a positive number of rows.", option="batch_size", found=repr(batch_size)
        )
    rows = whole_number(sample)
    if sample is not None and (rows is None or rows < least):
        raise DeclarationError("A sample must be a positive number of rows.", option="sample", found=repr(sample))
    if not _is_positive(claim_life):
        raise DeclarationError(
            "The lifetime of a claim must be a positive number of seconds.", option="claim_life", found=repr(claim_life)
        )
    if progress is not None and not callable(progress):
        raise DeclarationError("progress must be a function.", option="progress", found=repr(progress))


def _is_positive(value: Any) -> bool:
    return is_finite(value) and value > 0
