"""A program that accepts HBase's Java commands and imitates its processes, so that tests are quick and need no Java.

The server logs that it is ready. A gateway listens and answers Thrift calls. Environment variables change this:

    FAKE_SERVER, FAKE_THRIFT1, FAKE_THRIFT2: `die` (log an error and end), `mute` (never be ready), `stubborn` (ignore
        SIGTERM).
    FAKE_TAKEN: the path of a file; while it exists, the role that it names removes it and finds its port taken.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from hbmodel.localhbase import start_and_stop, startup
from hbmodel.localhbase.java import Java


def install(monkeypatch: pytest.MonkeyPatch, directory: Path) -> Path:
    """Makes local HBases run this file instead of Java."""
    java = directory / "java"
    java.write_text(
        f"#!{sys.executable} -IS\n"
        + Path(__file__).read_text().replace("\nimport pytest\n", "\n").replace("\nfrom hbmodel", "\n#")
    )
    java.chmod(0o755)
    for module in (startup, start_and_stop):
        monkeypatch.setattr(module, "find_java", lambda: Java(java, 21))
        monkeypatch.setattr(module, "class_path", lambda version=None, *, progress=True: f"fake-{version}.jar")
    return java


def main() -> None:
    options = dict(argument[2:].partition("=")[::2] for argument in sys.argv if argument.startswith("-D"))
    role = options["hbmodel.role"]
    mode = os.environ.get(f"FAKE_{role.upper()}", "")
    with open(options["hbmodel.log"], "a", buffering=1) as log:
        taken = Path(os.environ.get("FAKE_TAKEN", "/nonexistent"))
        if taken.exists() and taken.read_text() == role:
            taken.unlink()
            log.write("ERROR [main] Failed\nCaused by: java.net.BindException: Address already in use\n")
            sys.exit(1)
        if mode == "die":
            log.write(
                "INFO fine\nERROR [main] Failed\nCaused by: java.lang.IllegalStateException: no luck today\n"
                "\tat a.b.C\n"
            )
            sys.exit(1)
        if mode == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if mode != "mute" and role == "server":
            log.write("INFO Master has completed initialization 1.0sec\n")
        elif mode != "mute":
            answer(int(sys.argv[sys.argv.index("--port") + 1]))
        time.sleep(3600)


def answer(port: int) -> None:
    """Answers every Thrift call with an empty list."""
    server = socket.create_server(("127.0.0.1", port))
    while True:
        connection, _ = server.accept()
        with connection:
            call = connection.recv(1000)
            if call.startswith(b"\x80\x01\x00\x01"):
                connection.sendall(b"\x80\x01\x00\x02" + call[4:-1] + b"\x0f\x00\x00\x0b\x00\x00\x00\x00\x00")


if __name__ == "__main__":
    main()
