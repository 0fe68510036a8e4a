# SPDX-License-Identifier: Apache-2.0

"""A certificate authority that issues for as few seconds as a test wants.

The standard library can't sign certificates; openssl(1) can.
"""

import dataclasses
import datetime
import pathlib
from collections.abc import Sequence

from tests.testbed.waiting import run

_SECONDS = 30.0
#: Certificates are valid from that long before now, for clocks that lag.
_BACKDATED = datetime.timedelta(minutes=5)
_DAY = 86400.0
#: `openssl ca` alone takes the end of validity to the second.
#: By default `openssl req` says nothing of what the authority's key is for.
_CONFIGURATION = """\
[req]
distinguished_name = subject
[subject]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[ca]
default_ca = own
[own]
new_certs_dir = {directory}
database = {directory}/index.txt
certificate = {directory}/ca.crt
private_key = {directory}/ca.key
default_md = sha256
policy = names
unique_subject = no
rand_serial = yes
[names]
organizationName = optional
commonName = supplied
"""
#: What RFC 5280 wants of each certificate that an authority issues. Python's
#: ssl has OpenSSL check that since 3.13 (VERIFY_X509_STRICT).
_ISSUED = """\
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


@dataclasses.dataclass(frozen=True)
class Authority:
    """One authority and its key.

    :param directory: where its files are.
    """

    directory: pathlib.Path

    @property
    def certificate(self) -> pathlib.Path:
        """Return the file that clients and servers trust."""
        return self.directory / "ca.crt"

    def make(self) -> None:
        """Make its key and certificate, unless they are there.

        :raises errors.CommandFailed: when openssl can't.
        """
        if self.certificate.exists():
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        key = self.directory / "ca.key"
        _make_key(key)
        (self.directory / "index.txt").touch()
        self._configuration.write_text(
            _CONFIGURATION.format(directory=self.directory)
        )
        _openssl(
            "req",
            "-x509",
            "-new",
            f"-config={self._configuration}",
            "-extensions=authority",
            f"-key={key}",
            "-days=3650",
            "-subj=/CN=sriov-rt-testbed",
            f"-out={self.certificate}",
        )

    def issue(
        self,
        file: pathlib.Path,
        name: str,
        *,
        organization: str = "",
        alternatives: Sequence[str] = (),
        seconds: float = _DAY,
    ) -> None:
        """Write a new key and its certificate to one file, at once.

        A reader sees the old pair or the new one, never half of each.

        :param file: what is written or replaced.
        :param name: the common name: Kubernetes' user.
        :param organization: Kubernetes' group of the user; none when empty.
        :param alternatives: as in "IP:127.0.0.1", for servers.
        :param seconds: how long the certificate is valid from now on.
        :raises errors.CommandFailed: when openssl can't.
        """
        file.parent.mkdir(parents=True, exist_ok=True)
        key = file.with_suffix(".key.new")
        asked = file.with_suffix(".csr.new")
        signed = file.with_suffix(".crt.new")
        extensions = file.with_suffix(".ext.new")
        _make_key(key)
        group = f"/O={organization}" if organization else ""
        _openssl(
            "req",
            "-new",
            f"-key={key}",
            f"-subj={group}/CN={name}",
            f"-out={asked}",
        )
        extensions.write_text(_extensions(alternatives))
        now = datetime.datetime.now(datetime.UTC)
        end = now + datetime.timedelta(seconds=seconds)
        _openssl(
            "ca",
            "-batch",
            "-notext",
            f"-config={self._configuration}",
            f"-startdate={now - _BACKDATED:%Y%m%d%H%M%SZ}",
            f"-enddate={end:%Y%m%d%H%M%SZ}",
            f"-extfile={extensions}",
            f"-in={asked}",
            f"-out={signed}",
        )
        whole = file.with_suffix(".new")
        whole.touch(mode=0o600)
        whole.write_bytes(signed.read_bytes() + key.read_bytes())
        whole.replace(file)
        for left in (key, asked, signed, extensions):
            left.unlink()

    @property
    def _configuration(self) -> pathlib.Path:
        return self.directory / "ca.conf"


def _make_key(file: pathlib.Path) -> None:
    """Write a new private key for the curve P-256.

    :param file: what is written or replaced.
    :raises errors.CommandFailed: when openssl can't.
    """
    _openssl(
        "genpkey",
        "-algorithm=EC",
        "-pkeyopt=ec_paramgen_curve:prime256v1",
        f"-out={file}",
    )


def _extensions(alternatives: Sequence[str]) -> str:
    if not alternatives:
        return f"{_ISSUED}extendedKeyUsage = clientAuth\n"
    return (
        f"{_ISSUED}extendedKeyUsage = serverAuth\n"
        f"subjectAltName = {','.join(alternatives)}\n"
    )


def _openssl(verb: str, *arguments: str) -> None:
    """Run openssl; arguments are "-option" or "-option=value"."""
    words = [
        word for each in arguments for word in each.split("=", maxsplit=1)
    ]
    run(("openssl", verb, *words), timeout=_SECONDS)
