"""Runs a soak on a real HBase of its own: `python -m tests.soak MINUTES`; prints counts as JSON, exit status 1 if
anything is wrong.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import hbmodel as hb
from hbmodel.localhbase import LocalHBase
from tests.soak.programs import MODELS, TIMES, WRITERS, Account, Item, fixed_rows, journal_of, open_session, patiently
from tests.support.tested_version import TESTED

ROLES = (
    *(f"writer {model.__name__} {own}" for model, writers in WRITERS.items() for own in range(writers)),
    *(f"reader {model.__name__} {index}" for model in MODELS for index in ("by_tag", "by_note")),
    "repairer 0",
    "repairer 1",
    "builder",
)
"""Of the programs, with their arguments."""

PROPERTIES = {"hbase.client.operation.timeout": "6000", "hbase.rpc.timeout": "5000", "hbase.client.pause": "50"}
"""Of the gateways: no call lives longer than the programs are told."""

LONGEST_PAUSE = 3.0
"""Seconds between two kills of programs, at most."""

GATEWAY_EVERY, SERVER_EVERY = 15.0, 50.0
"""Seconds between two kills of a gateway, and of the server."""


class Programs:
    """The processes, each begun again when it is killed."""

    def __init__(self, urls: list[str], directory: Path) -> None:
        self._urls, self._directory = urls, directory
        self._running = [self._begin(role) for role in ROLES]
        self.kills = 0

    def _begin(self, role: str) -> subprocess.Popen[bytes]:
        # An index is built by the registry, whichever gateway; every program takes one at random that does what it
        # needs.
        urls = self._urls[1:] if role.startswith(f"writer {Account.__name__}") else self._urls
        arguments = [role, random.choice(urls), str(self._directory), str(random.randrange(10**9))]
        with (self._directory / f"{role}.log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", "tests.soak.programs", *arguments], stderr=log, stdout=log)

    def kill(self, at: int | None = None) -> None:
        """Kills one at random, and begins it again."""
        at = random.randrange(len(ROLES)) if at is None else at
        self._running[at].kill()
        self._running[at].wait()
        self.kills += 1
        self._running[at] = self._begin(ROLES[at])

    def died(self) -> list[str]:
        """Those that have ended by themselves, which none does; begun again."""
        ended = [at for at, process in enumerate(self._running) if process.poll() is not None]
        for at in ended:
            self._running[at] = self._begin(ROLES[at])
        return [ROLES[at] for at in ended]

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


def soak(minutes: float, *, server: bool = True) -> dict[str, Any]:
    """Runs everything for a number of minutes, and counts the errors at the end."""
    with tempfile.TemporaryDirectory() as temporary, LocalHBase(gateway_properties=PROPERTIES, version=TESTED) as hbase:
        directory = Path(temporary)
        urls = [f"{hbase.url}?timeout=7", f"{hbase.thrift2_url}?timeout=7"]
        with hb.connect(urls[1]) as store:
            hb.create_tables(store, *MODELS)
            with open_session(store) as session:
                for model in MODELS:
                    session.add_all(fixed_rows(model))
        programs = Programs(urls, directory)
        hbase_kills, died = _disturb(hbase, programs, time.monotonic() + 60 * minutes, server)
        programs.end()
        with hb.connect(urls[1]) as store:
            found = _counted(store, directory)
        found |= {"kills": programs.kills, "hbase_kills": hbase_kills, "died": died}
        if died:
            found["logs"] = {
                path.name: path.read_text()[-2000:] for path in directory.glob("*.log") if path.stat().st_size
            }
        return found


def _disturb(hbase: LocalHBase, programs: Programs, end: float, server: bool) -> tuple[int, list[str]]:
    kills, died = 0, []
    gateway_at, server_at = time.monotonic() + GATEWAY_EVERY, time.monotonic() + SERVER_EVERY
    restart: threading.Thread | None = None
    while time.monotonic() < end:
        time.sleep(random.uniform(0.5, LONGEST_PAUSE))
        died += programs.died()
        programs.kill()
        if restart is not None and restart.is_alive():
            continue
        if server and time.monotonic() > server_at:
            hbase.kill_server()
            restart, server_at = threading.Thread(target=hbase.restart_server), time.monotonic() + SERVER_EVERY
        elif time.monotonic() > gateway_at:
            role = random.choice(["thrift1", "thrift2"])
            hbase.kill_gateway(role)
            restart, gateway_at = (
                threading.Thread(target=hbase.restart_gateway, args=(role,)),
                time.monotonic() + GATEWAY_EVERY,
            )
        else:
            continue
        kills += 1
        restart.start()
    if restart is not None:
        restart.join()
    return kills, died


def _counted(store: hb.Store, directory: Path) -> dict[str, Any]:
    """The state once no program writes any more."""
    time.sleep(TIMES.longest_call)  # the last call of a dropper that was killed may still land
    patiently(lambda: _whole(store))
    built = hb.indexes.build_index(store, Item, "by_note", times=TIMES, claim_life=3)
    time.sleep(TIMES.grace + 1)
    found: dict[str, Any] = {"state": built.state, "lost": {}, "shared": []}
    found |= dict.fromkeys(("rows", "acknowledged", "refused", "missing", "orphans", "stale"), 0)
    for model in MODELS:
        _count(store, directory, model, found)
    lines = [json.loads(line) for line in (directory / "found.jsonl").read_text().splitlines() if line.endswith("}")]
    found["reads"] = sum("unavailable" not in line for line in lines)
    found["reads_of_notes"] = sum("read_notes" in line for line in lines)
    found["unavailable"] = sum("unavailable" in line for line in lines)
    for what in ("wrong", "missing", "doubled"):
        found[f"read_{what}"] = [line[what] for line in lines if line.get(what)]
    return found


def _count(store: hb.Store, directory: Path, model: Any, found: dict[str, Any]) -> None:
    """Adds the state of one model's rows and indexes."""
    rows = {item.number: (item.tag, item.note) for item in open_session(store).query(model).allow_full_scan()}
    found["rows"] += len(rows)
    for own in range(WRITERS[model]):
        journal = journal_of(directory, model, own)
        journal.close()
        found["acknowledged"] += journal.acknowledged
        found["refused"] += journal.refused
        lost = {n: [rows.get(n), sorted(map(repr, p))] for n, p in journal.possible.items() if rows.get(n) not in p}
        found["lost"] |= {f"{model.__name__} {n}": what for n, what in lost.items()}
    if model is Account:
        notes = Counter(note for _, note in rows.values() if note is not None)
        found["shared"] += [note for note, owners in notes.items() if owners > 1]
    for index in ("by_tag", "by_note"):
        report = hb.indexes.verify_index(store, model, index, times=TIMES)
        found["missing"] += report.missing + report.refused + report.unclaimed
        found["orphans"] += report.stale + report.pending + report.unheld
        hb.indexes.repair_index(store, model, index, times=TIMES)
        report = hb.indexes.verify_index(store, model, index, times=TIMES)
        found["stale"] += report.stale + report.unheld + report.unverified


def _whole(store: hb.Store) -> None:
    """A build that a dropper left half-way is ended first."""
    try:
        hb.indexes.build_index(store, Item, "by_note", times=TIMES, claim_life=3)
    except hb.errors.IndexUnavailable:
        hb.indexes.drop_index(store, Item, "by_note", times=TIMES)
        raise hb.StoreUnavailable("Once more.") from None


def failures(found: dict[str, Any]) -> list[str]:
    """The counts that should be nothing."""
    wrong = [
        name
        for name in ("lost", "shared", "missing", "stale", "read_wrong", "read_missing", "read_doubled", "died")
        if found[name]
    ]
    return wrong + (["state"] if found["state"] != "readable" else [])


def main() -> None:
    found = soak(float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    print(json.dumps(found, indent=2))
    sys.exit(1 if failures(found) else 0)


if __name__ == "__main__":
    main()
