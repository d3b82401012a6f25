"""What HBase answers while region servers fail and regions are split, on a gateway of our own."""

from __future__ import annotations

from typing import Any

import pytest

import hbmodel as hb
from hbmodel.errors import UnknownOutcome
from hbmodel.session.connect import connect
from hbmodel.store.thrift2 import service as thrift2
from hbmodel.store.thrift2.service import ResultCell, ResultRow
from hbmodel.store.thrift2.store import Thrift2Store
from tests.support.own_gateway import own_gateway

# --- increments -------------------------------------------------------------------------------------------------------


def counted(value: int | None) -> ResultRow:
    """The answer to an increment, with the value or without any cell."""
    return ResultRow(b"k", [] if value is None else [ResultCell(b"d", b"n", value.to_bytes(8, signed=True), 5)])


def test_an_increment_whose_answer_has_no_value_is_in_doubt() -> None:
    """HBase answers so to the gateway's second attempt, where the first was carried out by a server that failed then."""
    asked: list[str] = []

    def increment(table: bytes, increment: Any) -> ResultRow:
        asked.append("increment")
        return counted(None)

    with own_gateway(thrift2.SERVICE, increment=increment) as port, Thrift2Store("127.0.0.1", port) as store:
        with pytest.raises(UnknownOutcome, match="may or may not have been applied") as caught:
            store.increment("t", b"k", b"d:n", 1)
        assert (caught.value.table, caught.value.key) == ("t", b"k")
        assert "without the counter's value" in (caught.value.reason or "")
    assert asked == ["increment"]  # and is not sent again


def test_an_increment_whose_answer_has_a_value_is_not() -> None:
    with own_gateway(thrift2.SERVICE, increment=lambda table, increment: counted(-7)) as port, Thrift2Store("127.0.0.1", port) as store:
        assert store.increment("t", b"k", b"d:n", 1) == -7


def test_a_sequence_takes_the_next_block_if_the_answer_has_no_value() -> None:
    """Its ids are given once: those of the lost block to nobody."""
    values = [None, 20]

    def increment(table: bytes, increment: Any) -> ResultRow:
        return counted(values.pop(0))

    with (
        own_gateway(thrift2.SERVICE, increment=increment) as port,
        connect(f"hbase+thrift2://127.0.0.1:{port}") as store,
    ):
        ids = hb.Sequence("orders", block=10).on(store)
        assert ids.take(10) == list(range(11, 21))
