"""A client of HBase's Thrift gateways, with its options, connections and calls."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Self
from weakref import WeakSet

from hbmodel.errors import InvalidRequest, StoreURLError
from hbmodel.store.checks.tables import check_table_name
from hbmodel.store.closing import ClosingStore, Ending
from hbmodel.store.gateway.gateway_options import OPTIONS, SECRETS
from hbmodel.store.gateway.pool import MAX_IDLE, Pool
from hbmodel.store.gateway.retry import Backoff, Idempotence, RetryingCaller
from hbmodel.store.gateway.scanning.scan_calls import Request, ScanCalls
from hbmodel.store.gateway.table_names import name_in_store
from hbmodel.store.gateway.wire import http
from hbmodel.store.gateway.wire.call_sizes import CALL_SIZES, CallSizes
from hbmodel.store.gateway.wire.connection import Protocol, ThriftConnection, Transport, Wire
from hbmodel.store.gateway.wire.gateways import Gateway, gateways
from hbmodel.store.gateway.wire.http import Http
from hbmodel.store.gateway.wire.tls import Tls
from hbmodel.store.parse_url import environment_options, parse_store_url

NAMES_KEPT = 1000
"""The maximum number of table names that are remembered after they were checked and got their prefix."""


class GatewayClient(ClosingStore):
    """A client with connections to the gateways of one HBase.

    Args:
        host: the address of the gateway: a name, an address, `host:port` or `[IPv6]:port`; or several gateways of one
            HBase, in a list or separated by commas. Calls are sent to gateways that can be reached.
        port: the TCP port for addresses without a port; None for the default port of the gateway.
        timeout: the maximum number of seconds that a request waits without receiving data from the gateway.
        connect_timeout: the maximum number of seconds for opening a connection; the TLS handshake may take as long
            again.
        pool: how many calls may be in progress at once; the connections of scans are counted separately.
        max_age: the age in seconds from which a connection is replaced as soon as it is not in use; it is shortened by
            up to a fifth at random. So a gateway that was down for a while is used again.
        retry_for: the time in seconds, from the first failure, during which a call that may be repeated is retried, and
            a scan that receives no row is resumed. At least five tries are made, even if they take longer. If no
            gateway has ever answered, there are at most five tries, and all but the first two must begin within this
            time.
        attempts: the maximum number of tries of a call that may be repeated; with 1 it is never repeated.
        transport: `"buffered"`, `"framed"` for a gateway started with `-framed`, `-hsha` or `-nonblocking`, or `"http"`
            for a gateway that is an HTTP server (`hbase.regionserver.thrift.http`).
        protocol: `"binary"`, or `"compact"` for a gateway started with `-compact`; the compact protocol is decoded in
            Python, so it is much slower.
        path: the path of the gateway on its HTTP server.
        user: the user for basic authentication, if an HTTP server requests it; this needs TLS.
        password: the password of that user.
        tls: whether connections are encrypted. If so, the gateway's certificate and host name are always checked.
        ca_file: a PEM file with the certificates of trusted authorities; with None, the system's authorities are
            trusted.
        cert_file: a PEM file with the client's certificate, for gateways that request one.
        key_file: a PEM file with the private key of the client's certificate; None if the key is in `cert_file`.
        key_password: the password of the private key.
        table_prefix: a prefix that is put before every table name, with the separator; tables without it are not
            listed. In a table name with a namespace, it follows the namespace (`ns:prefix_name`). A prefix that
            contains a namespace (`ns:prefix`) is for table names without a namespace.
        table_prefix_separator: `_`, as in happybase.
        sizes: the sizes of calls; the defaults suit all gateways.
        sleep: the function that waits for a number of seconds between two tries of a call.

    Raises:
        InvalidRequest: an argument is out of range, conflicts with another, or names a file that cannot be read.
    """

    SCHEME: ClassVar[str]
    """The scheme of the store's URLs."""

    DEFAULT_PORT: ClassVar[int]
    """The port on which the gateway listens by default."""

    SERVICE: ClassVar[Any]
    """The Thrift service."""

    SCAN_CALLS: ClassVar[ScanCalls]
    """The calls that read ranges of rows."""

    token_key: bytes | str | None = None
    """The key with which sessions encrypt continuation tokens. The store only keeps it for the sessions."""

    def __init__(
        self,
        host: str | Iterable[str] = "127.0.0.1",
        port: int | None = None,
        *,
        timeout: float = 30.0,
        connect_timeout: float = 5.0,
        pool: int = 4,
        max_age: float = 600.0,
        retry_for: float = 30.0,
        attempts: int | None = None,
        transport: Transport = "buffered",
        protocol: Protocol = "binary",
        path: str = "/",
        user: str | None = None,
        password: str | None = None,
        tls: bool = False,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        key_password: str | None = None,
        table_prefix: str | None = None,
        table_prefix_separator: str = "_",
        sizes: CallSizes = CALL_SIZES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if pool < 1 or (attempts is not None and attempts < 1) or retry_for < 0:
            raise InvalidRequest("Pool size and attempts must be positive, and retry_for not negative.")
        if not tls and not (ca_file is cert_file is key_file is key_password is None):
            raise InvalidRequest("Certificates and keys need tls=true.", option="tls")
        self._gateways = gateways(host, self.DEFAULT_PORT if port is None else port)
        self._wire = Wire(
            timeout,
            connect_timeout,
            transport,
            protocol,
            Tls(ca_file, cert_file, key_file, key_password) if tls else None,
            Http(path, user, password),
            max_age,
        )
        self._prefix = "" if table_prefix is None else table_prefix + table_prefix_separator
        self._backoff = Backoff(attempts, retry_for=retry_for, sleep=sleep)
        self._sizes = sizes
        self._failures = self.SCAN_CALLS.failures
        self._pool: Pool[ThriftConnection] = Pool(
            partial(self._gateways.connect, self._connected),
            pool,
            # while the gateway is down, every call lasts long, and waiting threads must not get the error that the pool
            # is too small
            max(timeout, retry_for),
            http.MAX_IDLE if transport == "http" else MAX_IDLE,
            lambda: self._gateways.answered,
        )
        self._caller = RetryingCaller(self._pool, self._backoff, self._failures, self._prefix)
        self._names: dict[str, bytes] = {}
        self.before_close: WeakSet[Ending] = WeakSet()
        """The objects whose `end` is called before the connections are closed."""
        self._add_shared_state()

    def _add_shared_state(self) -> None:
        """Adds the state that a kind of store shares with its views."""

    @classmethod
    def from_url(cls, url: str, *, sizes: CallSizes = CALL_SIZES, sleep: Callable[[float], None] = time.sleep) -> Self:
        """Returns a store from
        `<scheme>://host:port,host:port?timeout=30&pool=4&transport=framed&protocol=compact&table_prefix=...`.

        The options are the arguments of the constructor. Options that the URL does not specify are read from the
        environment, for example `timeout` from `HBMODEL_TIMEOUT`. No connection is opened yet.

        Args:
            url: the URL.
            sizes: as for the constructor.
            sleep: as for the constructor.

        Raises:
            StoreURLError: the URL cannot be understood; `option` is the name of an option that is unknown or has a bad
                value.
        """
        arguments = cls.arguments_of(url)
        try:
            return cls(**arguments, sizes=sizes, sleep=sleep)
        except InvalidRequest as error:
            raise StoreURLError(error.message, **error.details) from None

    @classmethod
    def arguments_of(cls, url: str) -> dict[str, Any]:
        """Returns the arguments of the constructor that a URL and the environment specify.

        Raises:
            StoreURLError: as for `from_url`.
        """
        return environment_options(os.environ, OPTIONS, SECRETS) | parse_store_url(url, cls.SCHEME, OPTIONS, SECRETS)

    def on_retry(self, repeated: Callable[[], None]) -> Self:
        """Returns a view of the store, with the same connections, that calls `repeated` each time it retries a request;
        see `RepeatingStore`.
        """
        view = object.__new__(type(self))
        vars(view).update(vars(self), _shared_caches=self.shared_caches)
        view._caller = self._caller.on_retry(repeated)
        return view

    def close(self) -> None:
        for each in [*self.before_close]:
            each.end()
        self._pool.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._gateways)!r})"

    def _connected(self, gateway: Gateway) -> ThriftConnection:
        return ThriftConnection(gateway, self._wire, self.SERVICE, self._failures)

    def _name(self, table: str) -> bytes:
        known = self._names.get(table)
        if known is None:
            name = name_in_store(self._prefix, table)
            check_table_name(name if table else "")
            if len(self._names) >= NAMES_KEPT:
                self._names.clear()
            known = self._names[table] = name.encode()
        return known

    def _call(self, idempotence: Idempotence, request: Request, **details: object) -> Any:
        api, arguments = request
        return self._caller.run(idempotence, lambda connection: connection.call(api, **arguments), **details)
