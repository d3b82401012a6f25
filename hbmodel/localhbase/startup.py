"""Starts the processes of a local HBase in parallel, waits until they answer, and reports why a process does not."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from hbmodel.errors import LocalHBaseError
from hbmodel.localhbase import hbase_configuration, processes
from hbmodel.localhbase.directory import State, log_file, output_file, read_state, write_state, writing
from hbmodel.localhbase.hbase_configuration import ROLES, SERVER
from hbmodel.localhbase.jars import class_path
from hbmodel.localhbase.java import Java, find_java
from hbmodel.localhbase.locks import POLL_INTERVAL
from hbmodel.localhbase.ports import choose_ports
from hbmodel.localhbase.processes import Process
from hbmodel.localhbase.readiness import gateway_answers, last_trouble, port_was_taken, server_is_ready

WATCHDOG = "watchdog"

_PORT_ATTEMPTS = 4
_ANSWER_TIMEOUT = 5.0  # seconds for one probing call to a gateway


class PortTaken(LocalHBaseError):
    """Raised if another program already uses a port of a process."""


@frozen
class _Started:
    """A process that is starting."""

    role: str
    process: Process
    port: int
    properties: Mapping[str, str]


@frozen
class Launcher:
    """Starts processes in a directory. The caller must hold the directory's lock.

    Attributes:
        class_path: HBase's class path, without the configuration directory.
        timeout: seconds within which all processes of one start must answer.
    """

    directory: Path
    java: Java
    class_path: str
    timeout: float

    def start_anew(self, state: State, *, given: Mapping[str, int], before: Mapping[str, int]) -> None:
        """Chooses ports and starts everything. If another program starts to use a chosen port, chooses again.

        Args:
            state: the settings and the owner; the ports and processes in it are set here.
            given: the ports that the user has chosen.
            before: the ports of an earlier run.

        Raises:
            LocalHBaseError: HBase did not start; nothing is left running.
        """
        names = state.settings.port_names
        if unknown := sorted(set(given) - set(names)):
            raise LocalHBaseError(
                "There is no such port: name one of the known ports.", found=unknown, known=list(names)
            )
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            state = evolve(state, ports=choose_ports(names, given=given, before=before), processes={})
            try:
                if state.owner:
                    state = state.with_process(WATCHDOG, self._start_watchdog(state.owner, temporary=state.temporary))
                self.start_roles(state, state.settings.roles)
                return
            except BaseException as error:
                self._clear()
                if not (isinstance(error, PortTaken) and attempt < _PORT_ATTEMPTS):
                    raise
                before = {}

    def start_roles(self, state: State, roles: Sequence[str]) -> None:
        """Starts processes in parallel, records each of them, and waits until all answer.

        Raises:
            LocalHBaseError: a process did not start. The other processes that were started here are ended, too.
        """
        write_state(self.directory, state)
        started: list[_Started] = []
        try:
            for role in roles:
                started.append(self._launch(state, role))
                state = state.with_process(role, started[-1].process)
                write_state(self.directory, state)
            self._await(started)
        except BaseException:
            processes.end([each.process for each in started], grace=0)
            raise

    def _start_watchdog(self, owner: Process, *, temporary: bool) -> Process:
        """Starts the process that stops this HBase when the owner has ended. It must run before the HBase starts."""
        module = [sys.executable, "-W", "ignore", "-m", "hbmodel.localhbase.watchdog"]
        arguments = [str(self.directory), str(owner.pid), repr(owner.created), *(["--temporary"] if temporary else [])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        return processes.spawn(
            [*module, *arguments], environment=environment, output=output_file(self.directory, WATCHDOG)
        )

    def _launch(self, state: State, role: str) -> _Started:
        properties = hbase_configuration.site_properties(role, self.directory, state.settings, state.ports)
        conf = self.directory / "conf" / ("server" if role == SERVER else "gateways")
        log = log_file(self.directory, role)
        with writing(self.directory):
            (conf / "hbase-site.xml").write_text(hbase_configuration.site_xml(properties), "utf-8")
            (conf / "log4j.properties").write_text(hbase_configuration.LOG4J_PROPERTIES, "utf-8")
            (conf / "log4j2.properties").write_text(hbase_configuration.LOG4J2_PROPERTIES, "utf-8")
            (conf / "hadoop-metrics2-hbase.properties").write_text(hbase_configuration.METRICS_PROPERTIES, "utf-8")
            # The log must contain only this run, because it shows whether the server is ready.
            if log.exists():
                log.replace(log.with_name(f"{log.name}.1"))
        process = processes.spawn(
            hbase_configuration.command(role, self.directory, state.settings, state.ports, self.java),
            environment={**os.environ, "CLASSPATH": f"{conf}{os.pathsep}{self.class_path}"},
            output=output_file(self.directory, role),
        )
        return _Started(role, process, state.ports[hbase_configuration.ports_of(role)[0]], properties)

    def _await(self, started: Sequence[_Started]) -> None:
        deadline = time.monotonic() + self.timeout
        # Waits for the server first. A gateway that is called before the server is ready answers late, because it makes
        # longer and longer pauses between its attempts to reach the server.
        for awaited in sorted(started, key=lambda each: ROLES.index(each.role)):
            while not self._is_ready(awaited):
                for each in started:
                    if not processes.is_alive(each.process):
                        self._explain(each.role)
                if time.monotonic() >= deadline:
                    raise LocalHBaseError(
                        "HBase did not answer in time; look at its log, or allow a longer timeout.",
                        process=awaited.role,
                        timeout=self.timeout,
                        log=str(log_file(self.directory, awaited.role)),
                        last_error=last_trouble(self.directory, awaited.role),
                    )
                time.sleep(POLL_INTERVAL)

    def _is_ready(self, started: _Started) -> bool:
        if started.role == SERVER:
            return server_is_ready(self.directory)
        # First checks that this process listens on the port, because another program may use it.
        return processes.listens(started.process, started.port) and gateway_answers(
            started.role, started.port, started.properties, timeout=_ANSWER_TIMEOUT
        )

    def _explain(self, role: str) -> None:
        """Raises an error for a process that exited while it was starting, with the reason from its log."""
        log = log_file(self.directory, role)
        shown = log if log.exists() else output_file(self.directory, role)
        details = {"process": role, "log": str(shown), "last_error": last_trouble(self.directory, role)}
        if port_was_taken(self.directory, role):
            raise PortTaken(
                "Another program took a port of HBase while HBase was starting; start HBase again, or name free ports.",
                **details,
            )
        raise LocalHBaseError("HBase exited during its start; its log says why.", **details)

    def _clear(self) -> None:
        """Ends all processes that a failed start has left running."""
        if state := read_state(self.directory):
            processes.end(
                [*state.processes.values(), *processes.marked(hbase_configuration.mark(self.directory))], grace=0
            )
            write_state(self.directory, evolve(state, processes={}, owner=None))


def launcher(directory: Path, version: str | None, *, timeout: float, progress: bool) -> Launcher:
    """Returns a launcher with the Java runtime and the jars of this machine. Missing jars are downloaded first.

    Args:
        version: see `jars.class_path`.

    Raises:
        LocalHBaseError: there is no suitable Java, or the download failed.
    """
    return Launcher(directory, find_java(), class_path(version, progress=progress), timeout)
