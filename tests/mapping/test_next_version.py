"""The version of a copy whose update is not carried out yet."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from hbmodel.errors import EncodingError
from hbmodel.mapping.next_version import NextVersion, waiting
from hbmodel.mapping.version_cell import VersionCodec


def test_it_is_the_next_number_while_it_waits() -> None:
    version = NextVersion(7)
    assert (version, repr(version), json.dumps(version), hash(version)) == (8, "8", "8", hash(8))
    assert (version.required, version.stored) == (8, 7)
    assert waiting(version) is version
    assert waiting(8) is None
    assert VersionCodec().encode(version) == VersionCodec().encode(8)


@pytest.mark.parametrize(("written", "counts"), [(True, 8), (False, 7)])
def test_all_copies_learn_the_outcome(written: bool, counts: int) -> None:
    version = NextVersion(7)
    copies = [copy.copy(version), copy.deepcopy([version])[0]]
    version.settle(written=written)
    for each in copies:
        assert (each.required, each.stored, waiting(each)) == (counts, counts, None)
        assert VersionCodec().encode(each) == VersionCodec().encode(counts)
        assert pickle.loads(pickle.dumps(each)) == counts


def test_another_process_gets_the_version_of_the_row() -> None:
    found = pickle.loads(pickle.dumps(NextVersion(7)))
    assert (found, type(found)) == (7, int)


def test_versions_that_build_on_each_other() -> None:
    """Any number: each is settled after those before."""
    chain = [NextVersion(7)]
    for _ in range(20_000):
        chain.append(NextVersion(chain[-1]))
    assert (chain[-1], chain[-1].required, chain[-1].stored) == (20_008, 20_008, 7)
    chain[0].settle(written=True)
    chain[1].settle(written=False)
    assert [version.stored for version in chain[:4]] == [8, 8, 8, 8]
    assert [version.required for version in chain[:4]] == [8, 8, 10, 11]


def test_a_version_that_is_too_high_is_refused() -> None:
    with pytest.raises(EncodingError):
        VersionCodec().encode(NextVersion(2**63 - 1))
