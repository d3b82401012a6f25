"""Rows per prefix of a key and its indexes, as `hb.describe` samples them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

import hbmodel as hb
from hbmodel.tables.advice.prefix_counts import prefix_counts
from tests.support.beds import Bed, fresh
from tests.support.examples import examples


@hb.model(table="prefix_visits", family="d", salt=hb.HashSalt(2))
class Visit:
    shop: hb.Key[str] = hb.key()
    day: hb.Key[int] = hb.key(hb.Int32)
    number: hb.Key[int] = hb.key(hb.codecs.UInt8)
    town: hb.Column[str] = hb.column("t")
    by_town = hb.index("town")


def visit(shop: str, day: int, number: int) -> Visit:
    return Visit(shop=shop, day=day, number=number, town="Rome" if number else "Bonn")


def test_the_counts_of_every_store(bed: Bed) -> None:
    session = bed.use(Visit)
    session.add_all(
        visit(f"s{shop}", day, number) for shop in range(4) for day in range(3) for number in range(shop + 1)
    )
    session.commit()
    counts = {(each.path, each.fields): each for each in hb.describe(Visit, sample=bed.store).prefixes}
    shops, days = counts["primary", ("shop",)], counts["primary", ("shop", "day")]
    assert (shops.rows, shops.prefixes, shops.median, shops.percentile, shops.most, shops.cut) == (
        30,
        4,
        6,
        12,
        12,
        False,
    )
    assert shops.hot == (("s3", 0.4), ("s2", 0.3), ("s1", 0.2), ("s0", 0.1))
    assert (days.prefixes, days.median, days.most, days.hot) == (12, 2, 4, ())
    towns = counts["by_town", ("town",)]
    assert (towns.prefixes, towns.median, towns.most, towns.hot) == (2, 12, 18, (("Rome", 0.6), ("Bonn", 0.4)))
    assert "primary shop: 30 rows of 4 prefixes, median 6, 99th percentile 12, most 12; hot: 's3' 40%" in str(
        hb.describe(Visit, sample=session)
    )


def test_a_sample_that_ends_before_the_rows() -> None:
    store = fresh(Visit)
    session = hb.Session(store)
    session.add_all(visit("s", day, 1) for day in range(50))
    session.commit()
    assert all(
        each.cut and each.rows == 20 and "or more" in str(each)
        for each in prefix_counts(hb.schema.schema_of(Visit), store, 20)
    )
    shops = prefix_counts(hb.schema.schema_of(Visit), store, 20)[0]
    assert str(shops).endswith("; hot in the first rows of each region: 's' 100%")
    assert hb.describe(Visit).prefixes == ()
    store.delete_table("prefix_visits.by_town")
    assert {each.path for each in prefix_counts(hb.schema.schema_of(Visit), store)} == {"primary"}


@settings(max_examples=examples(25))
@given(st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 3)), max_size=20))
def test_any_rows(rows: set[tuple[str, int, int]]) -> None:
    store = fresh(Visit)
    session = hb.Session(store)
    session.add_all(visit(*row) for row in rows)
    session.commit()
    for each in prefix_counts(hb.schema.schema_of(Visit), store):
        if each.path == "primary":
            counts = sorted(Counter(row[: len(each.fields)] for row in rows).values())
            assert (each.rows, each.prefixes, each.most) == (len(rows), len(counts), counts[-1])
            assert each.median == counts[(len(counts) - 1) // 2]
