"""Every rule of the protocols broken on purpose, by name: the checker must find each, and nothing in the shipped
code in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from attrs import evolve, frozen

from tests.checker import protocol_counters as counted
from tests.checker import protocol_covering as held
from tests.checker import protocol_covering_mutants as held_mutants
from tests.checker import protocol_facts as unchanging
from tests.checker import protocol_ids as ids
from tests.checker import protocol_insert_builds as insert_builds
from tests.checker import protocol_joint_mutants as joint
from tests.checker import protocol_joint_unique as joint_unique
from tests.checker import protocol_kinds as several
from tests.checker import protocol_lives as expiring
from tests.checker import protocol_map_mutants as mapped
from tests.checker import protocol_migration as migration
from tests.checker import protocol_mutants as rows
from tests.checker import protocol_plain as plain
from tests.checker import protocol_plain_mutants as plain_mutants
from tests.checker import (
    protocol_prepend,
    protocol_prepend_mutants,
    protocol_rekey,
    protocol_unindexed,
    protocol_versions,
)
from tests.checker import protocol_put_builds as put_builds
from tests.checker import protocol_rekey_builds as rekey_builds
from tests.checker import protocol_rekey_mutants as rekey_mutants
from tests.checker import protocol_roll_sweeps as roll
from tests.checker import protocol_row_mutants as bare
from tests.checker import protocol_row_states as states
from tests.checker import protocol_sealing as sealing
from tests.checker import protocol_sealing_mutants as sealing_mutants
from tests.checker import protocol_shared_mutants as shared
from tests.checker import protocol_shared_unique as shared_unique
from tests.checker import protocol_unique as unique
from tests.checker import protocol_unique_build as unique_build
from tests.checker import protocol_unique_versions as unique_versions
from tests.checker import protocol_version_mutants as versions
from tests.checker import protocol_wide as wide
from tests.checker.protocol_joint import SHIPPED as JOINT
from tests.checker.protocol_processes import SHIPPED, Rules
from tests.checker.protocol_shared import SHIPPED as SHARED
from tests.checker.protocol_versions import SHIPPED as VERSIONED
from tests.checker.whole_sweeps import Sweep


@frozen
class Broken:
    """A rule that is broken.

    Attributes:
        mutant: configurations that run the changed code.
        shipped: the same with the shipped code.
        violation: how the checker's message begins.
    """

    mutant: Sweep
    shipped: Sweep
    violation: str


def _broken(mutants: Mapping[str, Any], shipped: Callable[[Any], Any]) -> Iterator[tuple[str, Broken]]:
    for name, mutant in mutants.items():
        yield name, Broken(_of(mutant.where, mutant.rules), _of(mutant.where, shipped(mutant.rules)), mutant.violation)


def _of(where: Callable[[Any], Iterable[Any]], rules: Any) -> Sweep:
    return lambda: where(rules)


def _rows(rules: Rules) -> Rules:
    """If a mutant's repair relies only on its clock, the shipped repair does too, because the mutant breaks the
    writers' own check.
    """
    return Rules(grace="clock", checks=True) if rules.grace == "clock" else Rules()


def _versioned(rules: protocol_versions.Rules) -> protocol_versions.Rules:
    return evolve(protocol_versions.SHIPPED, repair=_rows(rules.repair))


def _shared(rules: protocol_versions.Rules) -> protocol_versions.Rules:
    return evolve(SHARED, repair=_rows(rules.repair))


def _sealing(rules: sealing.Rules) -> sealing.Rules:
    """Phases that are left out are left out of the model."""
    return sealing.SHIPPED


BROKEN: Mapping[str, Broken] = dict(
    chain(
        _broken({**rows.MUTANTS, **expiring.MUTANTS, **unchanging.MUTANTS, **several.MUTANTS}, _rows),
        _broken(versions.MUTANTS, _versioned),
        _broken(unique.MUTANTS, lambda rules: protocol_versions.SHIPPED),
        _broken(
            {
                f"no index: {name}": mutant
                for name, mutant in {**bare.MUTANTS, **counted.MUTANTS, **states.MUTANTS}.items()
            },
            lambda rules: protocol_unindexed.SHIPPED,
        ),
        _broken({f"one row: {name}": mutant for name, mutant in wide.MUTANTS.items()}, lambda rules: SHIPPED),
        _broken(
            {f"row versions: {name}": mutant for name, mutant in {**shared.MUTANTS, **shared_unique.MUTANTS}.items()},
            _shared,
        ),
        _broken({f"maps: {name}": mutant for name, mutant in mapped.MUTANTS.items()}, lambda rules: SHIPPED),
        _broken(
            {f"maps: {name}": mutant for name, mutant in mapped.VERSION_MUTANTS["tall"].items()},
            lambda rules: VERSIONED,
        ),
        _broken(
            {f"maps: {name}": mutant for name, mutant in mapped.VERSION_MUTANTS["wide"].items()}, lambda rules: SHARED
        ),
        _broken({f"maps: {name}": mutant for name, mutant in mapped.COVERED_MUTANTS.items()}, lambda rules: VERSIONED),
        _broken(
            {f"unique: {name}": mutant for name, mutant in unique_versions.MUTANTS.items()}, lambda rules: VERSIONED
        ),
        _broken(
            {f"several kinds: {name}": mutant for name, mutant in {**joint.MUTANTS, **joint_unique.MUTANTS}.items()},
            lambda rules: JOINT,
        ),
        _broken(
            {f"covering: {name}": mutant for name, mutant in held_mutants.MUTANTS.items()}, lambda rules: held.SHIPPED
        ),
        _broken(
            {f"unique build: {name}": mutant for name, mutant in unique_build.MUTANTS.items()},
            lambda rules: unique_build.SOUND,
        ),
        _broken({f"ids: {name}": mutant for name, mutant in ids.MUTANTS.items()}, lambda rules: ids.SHIPPED),
        _broken(
            {f"migration: {name}": mutant for name, mutant in migration.MUTANTS.items()},
            lambda rules: migration.SHIPPED,
        ),
        _broken({f"sealing: {name}": mutant for name, mutant in sealing_mutants.MUTANTS.items()}, _sealing),
        _broken(
            {f"a table of others: {name}": mutant for name, mutant in plain_mutants.MUTANTS.items()},
            lambda rules: plain.Rules(by_clock=rules.by_clock),
        ),
        _broken(
            {f"prepend: {name}": mutant for name, mutant in protocol_prepend_mutants.MUTANTS.items()},
            lambda rules: protocol_prepend.SHIPPED,
        ),
        _broken(
            {f"rekey: {name}": mutant for name, mutant in rekey_mutants.MUTANTS.items()},
            lambda rules: protocol_rekey.SHIPPED,
        ),
        _broken(
            {f"insert, a build: {name}": mutant for name, mutant in insert_builds.MUTANTS.items()},
            lambda rules: insert_builds.SOUND,
        ),
        _broken({f"put, a build: {name}": mutant for name, mutant in put_builds.MUTANTS.items()}, put_builds.sound),
        _broken(
            {f"rekey: {name}": mutant for name, mutant in rekey_builds.MUTANTS.items()},
            lambda rules: rekey_builds.SOUND,
        ),
        _broken(
            {f"writers' roll: {name}": mutant for name, mutant in roll.MUTANTS.items()}, lambda rules: roll.SHIPPED
        ),
    )
)
"""Every mutant. A module with further rules adds its own here."""
