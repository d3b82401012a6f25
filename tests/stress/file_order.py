"""A plugin of pytest that puts the files of the tests in a random order; the tests of each file keep theirs."""

from __future__ import annotations

import random

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--file-order", type=int, metavar="SEED", help="put the files in a random order, the same for the same seed"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.file_order is None:
        return
    files = sorted({item.path for item in items})  # so that every worker of pytest-xdist comes to the same order
    random.Random(config.option.file_order).shuffle(files)
    places = {path: place for place, path in enumerate(files)}
    items.sort(key=lambda item: places[item.path])
