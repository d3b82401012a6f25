"""A TCP proxy in front of a Thrift gateway that delays all bytes, as a network does.

`python -m tests.support.distant_proxy URL SECONDS` runs a proxy until its input ends, and prints its URL.
"""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.proxy import Link, Proxy


class DistantProxy(Proxy):
    """Forwards requests and replies after a delay. Several may be on their way at the same time.

    Args:
        url: the URL of the gateway.
        delay: how much later each byte arrives, in seconds; a round trip takes twice as long.
    """

    def __init__(self, url: str, delay: float) -> None:
        self.delay = delay
        super().__init__(url)

    def _link(self, client: socket.socket, gateway: socket.socket) -> Link:
        return _DistantLink(self, client, gateway, self.delay)


class _DistantLink(Link):
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, gateway: socket.socket, delay: float) -> None:
        super().__init__(proxy, client, gateway)
        self._delay = delay

    def run(self) -> None:
        ways = ((self._client, self._gateway), (self._gateway, self._client))
        threads = [threading.Thread(target=self._forward, args=way, daemon=True) for way in ways]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._client.close()
        self._gateway.close()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        under_way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        delivering = threading.Thread(target=self._deliver, args=(under_way, target), daemon=True)
        delivering.start()
        data = b"-"
        while data:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            under_way.put((time.perf_counter() + self._delay, data))
        delivering.join()

    def _deliver(self, under_way: queue.SimpleQueue[tuple[float, bytes]], target: socket.socket) -> None:
        with suppress(OSError):
            while True:
                due, data = under_way.get()
                time.sleep(max(0.0, due - time.perf_counter()))
                if not data:
                    break
                target.sendall(data)
        self.close()


@contextmanager
def distant(url: str, delay: float) -> Iterator[str]:
    """Runs a `DistantProxy` in a separate process, whose threads do not compete with the threads of this process.
    Yields its URL.
    """
    command = [sys.executable, "-m", "tests.support.distant_proxy", url, str(delay)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "it has a pipe"
        yield process.stdout.readline().strip()


if __name__ == "__main__":
    with DistantProxy(sys.argv[1], float(sys.argv[2])) as proxy:
        print(proxy.url, flush=True)
        sys.stdin.read()
