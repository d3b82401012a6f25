"""TLS connections to gateways, which always check host names and certificates."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hbmodel.errors import CertificateRefused, InvalidRequest, StoreUnavailable

logger = logging.getLogger("hbmodel")

T = TypeVar("T")

# The alerts of a server about a client certificate that is missing or not accepted, by their names in OpenSSL.
_OF_CLIENT_CERTIFICATES = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REVOKED",
    "UNSUPPORTED_CERTIFICATE",
    "UNKNOWN_CA",
    "ACCESS_DENIED",
)


class Tls:
    """The trusted authorities, and the client's certificate.

    The files are read at once, so that mistakes are reported early. They are read again when they have changed, because
    client certificates may be replaced while a program runs.

    Args:
        ca_file: a PEM file with the certificates of trusted authorities; with None, the system's authorities are
            trusted.
        cert_file: a PEM file with the client's certificate and the certificates up to its authority; with None, no
            certificate is sent.
        key_file: a PEM file with the private key of the client's certificate; None if `cert_file` contains the key.
        key_password: the password of the private key.

    Raises:
        InvalidRequest: a file cannot be read or contains something else; `option` is the name of its option.
    """

    def __init__(
        self,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        key_password: str | None = None,
    ) -> None:
        if cert_file is None and (key_file is not None or key_password is not None):
            raise InvalidRequest("A client key needs the client's certificate.", option="cert_file")
        self._ca_file = ca_file
        self._cert_file = cert_file
        self._key_file = key_file
        self._key_password = key_password
        self._files = [file for file in (ca_file, cert_file, key_file) if file is not None]
        self._state = self._file_state()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """Returns the context for the next connection."""
        state = self._file_state()
        if state != self._state:
            try:
                self._context = self._read()
                self._state = state
            except InvalidRequest as error:  # the file may be only partly written; the next connection reads it again
                logger.warning("TLS files have changed and cannot be read; those read before are still used: %s", error)
        return self._context

    def _file_state(self) -> list[tuple[int, int] | None]:
        return [_state(Path(file)) for file in self._files]

    def _read(self) -> ssl.SSLContext:
        context = _read(lambda: ssl.create_default_context(cafile=self._ca_file), "ca_file")
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        cert_file = self._cert_file
        if cert_file is not None:
            # Without a password OpenSSL would ask for one on the terminal.
            password = self._key_password or ""
            _read(lambda: context.load_cert_chain(cert_file, self._key_file, lambda: password), "cert_file")
        return context


def _state(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _read(read: Callable[[], T], option: str) -> T:
    try:
        return read()
    except ssl.SSLError as error:
        raise InvalidRequest(
            "A certificate or key cannot be read: it is not PEM, the key belongs to another certificate, or its "
            "password is wrong.",
            option=option,
            reason=error.reason,
        ) from None
    except (OSError, ValueError) as error:
        raise InvalidRequest(
            "A certificate or key file cannot be read: check its path and permissions.",
            option=option,
            reason=getattr(error, "strerror", None),
        ) from None


def secured(opened: socket.socket, context: ssl.SSLContext, host: str, gateway: str) -> ssl.SSLSocket:
    """Starts TLS on an open connection, and closes the connection if this fails.

    Args:
        opened: the connection; its timeout applies to the handshake.
        context: the TLS context.
        host: the host name that the certificate must have.
        gateway: the gateway's address, for errors.

    Raises:
        CertificateRefused: one side does not accept the other side's certificate.
        StoreUnavailable: the handshake failed for another reason.
    """
    try:
        return context.wrap_socket(opened, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        opened.close()
        raise CertificateRefused(
            "The HBase gateway's certificate is not accepted: see `reason`, and check ca_file and the host name.",
            gateway=gateway,
            reason=error.verify_message or error.reason,
        ) from error
    except (OSError, ValueError) as error:
        opened.close()
        if (refusal := refused_certificate(error, gateway)) is not None:
            raise refusal from error
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise StoreUnavailable(
            "The TLS handshake with the HBase gateway failed: see `reason`, and check that the port uses TLS.",
            gateway=gateway,
            reason=f"TLS handshake: {reason}",
        ) from error
    except BaseException:
        opened.close()
        raise


def refused_certificate(error: BaseException, gateway: str) -> CertificateRefused | None:
    """Returns the error to raise if the other side rejected this side's certificate, or None if TLS ended for any other
    reason.

    The other side's alert may arrive after this side has completed the handshake. Even then, the other side has read no
    request.
    """
    reason = error.reason or "" if isinstance(error, ssl.SSLError) else ""
    if "ALERT" not in reason or not any(name in reason for name in _OF_CLIENT_CERTIFICATES):
        return None
    return CertificateRefused(
        "The HBase gateway does not accept the client's certificate, or requires one: check cert_file and key_file.",
        gateway=gateway,
        reason=reason,
    )
