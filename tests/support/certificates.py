"""Certificates for tests: a private authority, and the certificates that it signs for servers and clients."""

from __future__ import annotations

import datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


class Authority:
    """Signs certificates and writes them into a directory.

    Args:
        directory: the directory of the files.
        name: the name of the authority and of its file.
    """

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self.directory = directory
        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(name))
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, *hosts: str, ends: datetime.timedelta = DAY, password: str | None = None) -> Signed:
        """Returns a key and its certificate.

        Args:
            name: the name of the holder and of the files.
            *hosts: the host names and addresses for which the certificate is valid.
            ends: the time until the certificate expires.
            password: the password of the private key in PEM.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        alternatives: list[x509.GeneralName] = [
            x509.IPAddress(ip_address(host)) if host[0].isdigit() or ":" in host else x509.DNSName(host)
            for host in hosts
        ]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 30 * DAY)
            .not_valid_after(now + ends)
            .add_extension(
                x509.SubjectAlternativeName(alternatives or [x509.DNSName("client.invalid")]), critical=False
            )
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Signed(self.directory, name, key, certificate, self._certificate, password)


class Signed:
    """A certificate and its key, in PEM files, and together as PKCS #12 for Java on request."""

    def __init__(
        self,
        directory: Path,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        certificate: x509.Certificate,
        issuer: x509.Certificate,
        password: str | None,
    ) -> None:
        self._directory, self._name, self._key, self._certificate, self._issuer = (
            directory,
            name,
            key,
            certificate,
            issuer,
        )
        self.cert_file = directory / f"{name}.crt"
        self.key_file = directory / f"{name}.key"
        self.cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        encryption = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        self.key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )

    def keystore(self, password: str) -> Path:
        """Returns a PKCS #12 file for Java."""
        file = self._directory / f"{self._name}.p12"
        encryption = serialization.BestAvailableEncryption(password.encode())
        file.write_bytes(
            pkcs12.serialize_key_and_certificates(
                self._name.encode(), self._key, self._certificate, [self._issuer], encryption
            )
        )
        return file
