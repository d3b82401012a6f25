"""The options of column families that several models share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import hbmodel as hb


def kinds_of(**families: Any) -> list[Any]:
    """Models that share a table, one for each kind, with their families."""

    def model(kind: str, family: Any) -> Any:
        fields = {"owner": hb.key(), "number": hb.key(in_qualifier=True), "text": hb.column("t")}
        hints = {"owner": hb.Key[str], "number": hb.Key[int], "text": hb.Column[str]}
        made = type(kind.upper(), (), {**fields, "__annotations__": hints})
        return hb.model(table="planned_kinds", family=family, kind=kind.encode())(made)

    return [model(kind, family) for kind, family in families.items()]


HOUR = timedelta(hours=1)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("one", "other", "option"),
    [
        ({"ttl": HOUR}, {}, "ttl"),
        ({"ttl": HOUR}, {"ttl": 2 * HOUR}, "ttl"),
        ({"compression": "GZ"}, {"compression": "NONE"}, "compression"),
        ({"in_memory": True}, {"in_memory": False}, "in_memory"),
        ({"block_size": 1024}, {"block_size": 4096}, "block_size"),
        ({"configuration": {"k": "1"}}, {"configuration": {"k": "2"}}, "k"),
    ],
)
def test_models_that_share_a_family_agree_on_its_options(one: Any, other: Any, option: str, turned: bool) -> None:
    models = kinds_of(a=hb.family("d", **one), b=hb.family("d", **other))
    with hb.connect("memory:") as store:
        with pytest.raises(hb.SchemaMismatch, match="must agree on its options") as caught:
            hb.create_tables(store, *(models[::-1] if turned else models))
        assert (caught.value.family, caught.value.option) == ("d", option)
        assert store.tables() == []


def test_an_option_that_only_one_model_gives_is_that_of_the_family() -> None:
    full = hb.family("d", ttl=HOUR, compression="GZ", max_versions=3)
    other = hb.family("d", ttl=HOUR, bloom_filter="ROWCOL", max_versions=5)
    for families in ({"a": full, "b": other}, {"a": other, "b": full}):
        with hb.connect("memory:") as store:
            hb.create_tables(store, *kinds_of(**families))
            (family,) = store.families("planned_kinds")
            assert (family.ttl, family.compression, family.bloom_filter) == (3600, "GZ", "ROWCOL")
            assert family.max_versions == 5
