"""A store with HBase's rules for versions, tombstones, TTLs and compactions in the simplest form, for comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import asdict, define, evolve, field, frozen

from hbmodel.errors import InvalidRequest
from hbmodel.store import FOREVER, ConditionalChange, Delete, Family, Get, Put, Scan


@frozen
class Version:
    value: bytes
    timestamp: int
    ttl: int | None
    arrival: int


@frozen
class FoundRow:
    row: bytes
    columns: dict[bytes, Version]


@define
class ReferenceStore:
    """One table of a store. Every cell that was ever put is kept, and each read examines all cells, so it is slow. It
    has no filters.
    """

    families: Sequence[Family]
    now: int = 0
    cells: dict[tuple[bytes, bytes], list[Version]] = field(factory=dict)
    tombstones: list[tuple[bytes, bytes, int]] = field(factory=list)
    arrivals: int = 0

    def family(self, column: bytes) -> Family:
        return next(family for family in self.families if family.name == column.split(b":")[0])

    # --- reading ------------------------------------------------------------------------------------------------------

    def hidden(self, row: bytes, column: bytes, version: Version) -> bool:
        return any(
            row == tombstone_row and target in (column, column.split(b":")[0]) and version.timestamp <= timestamp
            for tombstone_row, target, timestamp in self.tombstones
        )

    def dead(self, column: bytes, version: Version) -> bool:
        family = self.family(column)
        if family.ttl is not None and version.timestamp < self.now - family.ttl * 1000:
            return True
        return version.ttl is not None and version.timestamp + version.ttl < self.now

    def alive(self, row: bytes, column: bytes) -> list[Version]:
        """Returns the versions of a cell that can be read, newest first."""
        versions = sorted(
            self.cells.get((row, column), ()), key=lambda version: (version.timestamp, version.arrival), reverse=True
        )
        return [
            version for version in versions if not self.hidden(row, column, version) and not self.dead(column, version)
        ]

    def read(self, row: bytes, wanted: Sequence[bytes], before: int | None = None) -> FoundRow | None:
        found = {}
        for cell_row, column in sorted(self.cells):
            versions = self.alive(row, column) if cell_row == row else []
            versions = [version for version in versions if before is None or version.timestamp < before]
            if versions and (not wanted or column in wanted or column.split(b":")[0] in wanted):
                found[column] = versions[0]
        return FoundRow(row, found) if found else None

    def get(self, table: str, rows: Sequence[bytes], columns: Sequence[bytes] = ()) -> list[FoundRow | None]:
        return [self.read(row, columns) for row in rows]

    def get_each(self, table: str, gets: Sequence[Get]) -> list[FoundRow | None]:
        def read(get: Get) -> FoundRow | None:
            row = self.read(get.row, get.columns, get.before)
            found = (
                {}
                if row is None
                else {c: v for c, v in row.columns.items() if c.partition(b":")[2].startswith(get.prefix)}
            )
            return FoundRow(get.row, found) if found else None

        return [read(get) for get in gets]

    def versions(self, table: str, row: bytes, columns: Sequence[bytes], most: int) -> list[list[Version]]:
        def distinct(column: bytes) -> list[Version]:
            newest: dict[int, Version] = {}
            for version in self.alive(row, column):
                newest.setdefault(version.timestamp, version)
            return list(newest.values())[: min(most, self.family(column).max_versions or 1)]

        return [distinct(column) for column in columns]

    def scan(self, table: str, scans: Sequence[Scan]) -> list[Iterator[Sequence[FoundRow]]]:
        def batches(scan: Scan) -> Iterator[Sequence[FoundRow]]:
            assert scan.filter is None
            rows = sorted({row for row, _ in self.cells if row in scan.range}, reverse=scan.reversed)
            found = [row for row in (self.read(row, scan.columns, scan.before) for row in rows) if row is not None]
            yield found if scan.limit is None else found[: scan.limit]

        return [batches(scan) for scan in scans]

    # --- writing ------------------------------------------------------------------------------------------------------

    def mutate(self, mutation: Put | Delete, put_time: int) -> None:
        if isinstance(mutation, Put):
            timestamp = put_time if mutation.timestamp is None else mutation.timestamp
            for column, value in mutation.cells.items():
                self.arrivals += 1
                self.cells.setdefault((mutation.row, column), []).append(
                    Version(value, timestamp, mutation.ttl, self.arrivals)
                )
            return
        targets = [*mutation.families, *mutation.columns] or [family.name for family in self.families]
        timestamp = self.now if mutation.timestamp is None else mutation.timestamp
        self.tombstones += [(mutation.row, target, timestamp) for target in targets]

    def put(self, table: str, puts: Sequence[Put]) -> None:
        for put in puts:
            self.mutate(put, self.now)

    def delete(self, table: str, deletes: Sequence[Delete]) -> None:
        for delete in deletes:
            self.mutate(delete, self.now)

    def mutate_row(self, table: str, mutations: Sequence[Put | Delete]) -> None:
        self.change(mutations, self.now)

    def change(self, mutations: Sequence[Put | Delete], put_time: int) -> None:
        """Applies mutations atomically. A cell that is put twice at the same time is stored once."""
        before = self.arrivals
        for mutation in mutations:
            self.mutate(mutation, put_time)
        for versions in self.cells.values():
            last = {version.timestamp: version.arrival for version in versions}
            versions[:] = [
                version
                for version in versions
                if version.arrival <= before or version.arrival == last[version.timestamp]
            ]

    def check_and_mutate(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: Sequence[Put | Delete]
    ) -> bool:
        versions = self.alive(row, column)
        if (versions[0].value if versions else b"") != (expected or b""):
            return False
        self.change(mutations, max([self.now, *(version.timestamp for version in versions)]))
        return True

    def check_and_mutate_many(self, table: str, changes: Sequence[ConditionalChange]) -> list[bool]:
        return [
            self.check_and_mutate(table, change.row, change.column, change.expected, change.mutations)
            for change in changes
        ]

    def check_and_put(self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Put) -> bool:
        return self.check_and_mutate(table, row, column, expected, [put])

    def increment(self, table: str, row: bytes, column: bytes, amount: int) -> int:
        versions = self.alive(row, column)
        value, timestamp, ttl = amount, self.now, None
        if versions:
            if len(versions[0].value) != 8:
                raise InvalidRequest("Not a counter.")
            value += int.from_bytes(versions[0].value, "big", signed=True)
            timestamp, ttl = max(self.now, versions[0].timestamp + 1), versions[0].ttl
        self.mutate(Put(row, {column: value.to_bytes(8, "big", signed=True)}, timestamp, ttl), self.now)
        return value

    def modify_family(self, table: str, family: Family) -> None:
        """Changes a family. Cells that were invisible because of the old options may become visible with the new
        ones.
        """
        changed = {
            name: value for name, value in asdict(family).items() if value is not None and name != "configuration"
        }
        if changed.get("ttl") == FOREVER:
            changed["ttl"] = None
        self.families = [evolve(each, **changed) if each.name == family.name else each for each in self.families]

    def compact(self) -> None:
        """Runs a major compaction, by the rules of `MajorCompactionScanQueryMatcher` and
        `ScanWildcardColumnTracker`.
        """
        for row, column in list(self.cells):
            kept: list[Version] = []
            for version in self.alive(row, column):
                if len(kept) == (self.family(column).max_versions or 1):
                    break
                if not kept or version.timestamp != kept[-1].timestamp:
                    kept.append(version)
            self.cells[row, column] = kept
        self.tombstones.clear()
