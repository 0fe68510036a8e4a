# SPDX-License-Identifier: Apache-2.0

"""The Container Network Interface, version 1.1: requests and answers. Pure.

The specification is containernetworking/cni, SPEC.md.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions
from sriov_rt.parse import link
from sriov_rt.parse import pci
from sriov_rt.parse.errors import ParseError

#: Versions of the specification that configurations may state; the first one
#: introduced lists of plug-ins.
VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")

#: The longest configuration that is accepted, bytes; with the results of ten
#: plug-ins it has some 10 kB.
MAX_CONFIGURATION = 1024 * 1024

#: The most attachments that GC may name; a node has a few hundred pods.
MAX_ATTACHMENTS = 65536

#: Error codes of the specification, section "Error".
INCOMPATIBLE_VERSION = 1
INVALID_ENVIRONMENT = 4
IO_FAILURE = 5
DECODE_FAILURE = 6
INVALID_CONFIGURATION = 7
TRY_AGAIN = 11
NOT_AVAILABLE = 50

#: Our own error codes: plug-ins may use 100 and above.
QUARANTINED = 100
IN_USE = 101
NOT_ATTACHED = 102

#: Commands about one attachment.
_OF_ATTACHMENT = frozenset({"ADD", "DEL", "CHECK"})
COMMANDS = _OF_ATTACHMENT | {"GC", "STATUS", "VERSION"}

# The specification: a container's id starts with an alphanumeric character,
# followed by those and _ . -; a network's name likewise.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}", re.ASCII)

#: Names of pods and namespaces in CNI_ARGS, for the log.
_POD_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


class CniError(exceptions.SriovRtError):
    """Error result of a CNI command, for the runtime.

    :param code: code of the specification, or one of ours.
    :param message: a sentence that says what to do.
    """

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class AttachmentId:
    """An interface of a container, created by ADD.

    :param interface: its name in the container.
    """

    container: str
    interface: str


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One call of a plug-in.

    :param command: such as ``ADD``.
    :param version: version of the specification, for the answer.
    :param attachment: the attachment; None for a command without one.
    :param namespace: path of the container's network namespace; empty if
        the runtime no longer knows it.
    :param device: PCI address of the VF; None if none is given.
    :param is_first: whether this is the first plug-in of the list.
    :param valid: the attachments that still exist, for GC.
    :param pod: NAMESPACE/NAME; empty if it is unknown.
    """

    command: str
    version: str
    network: str = ""
    attachment: AttachmentId | None = None
    namespace: str = ""
    device: str | None = None
    is_first: bool = True
    valid: frozenset[AttachmentId] = frozenset()
    pod: str = ""


def parse(environment: Mapping[str, str], configuration: bytes) -> Request:
    """Return the request of a call.

    :param environment: environment of the process.
    :param configuration: its standard input.
    :raises CniError: if it does not follow the specification.
    """
    command = environment.get("CNI_COMMAND", "")
    if command not in COMMANDS:
        raise _environment(
            "CNI_COMMAND", command, f"one of {', '.join(sorted(COMMANDS))}"
        )
    plain = _object(configuration)
    version = plain.get("cniVersion", VERSIONS[0])
    if command == "VERSION":
        known = version if version in VERSIONS else VERSIONS[-1]
        return Request(command, known)
    if version not in VERSIONS:
        raise CniError(
            INCOMPATIBLE_VERSION,
            f"cniVersion {_short(version)} is not supported; state one of "
            f"{', '.join(VERSIONS)} in the network's configuration",
        )
    if command == "STATUS":
        return Request(command, version)
    return _of_network(command, version, plain, environment)


def _of_network(
    command: str,
    version: str,
    plain: Mapping[str, Any],
    environment: Mapping[str, str],
) -> Request:
    network = plain.get("name")
    if type(network) is not str or not _NAME.fullmatch(network):
        raise _configuration(
            f"name {_short(network)}: a name of A-Z a-z 0-9 . _ - expected"
        )
    previous = plain.get("prevResult")
    if previous is not None and type(previous) is not dict:
        raise _configuration("prevResult is not an object")
    if command == "GC":
        return Request(command, version, network, valid=_valid(plain))
    return Request(
        command,
        version,
        network,
        attachment=_attachment(environment),
        namespace=_namespace(environment, required=command != "DEL"),
        device=_device(plain),
        is_first=previous is None,
        pod=_pod(environment.get("CNI_ARGS", "")),
    )


def _object(configuration: bytes) -> dict[str, Any]:
    if len(configuration) > MAX_CONFIGURATION:
        raise CniError(
            DECODE_FAILURE,
            f"the configuration is longer than {MAX_CONFIGURATION} bytes",
        )
    try:
        plain = json.loads(configuration.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CniError(
            DECODE_FAILURE,
            f"the configuration is not JSON ({str(error)[:80]}); correct "
            "spec.config of the NetworkAttachmentDefinition",
        ) from None
    if type(plain) is not dict:
        raise CniError(
            DECODE_FAILURE, "the configuration is not a JSON object"
        )
    return plain


def _attachment(environment: Mapping[str, str]) -> AttachmentId:
    found = []
    for name, is_valid in (
        ("CNI_CONTAINERID", _NAME.fullmatch),
        ("CNI_IFNAME", link.is_interface),
    ):
        text = environment.get(name, "")
        if not is_valid(text):
            raise _environment(name, text, "a name")
        found.append(text)
    return AttachmentId(*found)


def _namespace(environment: Mapping[str, str], *, required: bool) -> str:
    text = environment.get("CNI_NETNS", "")
    if (text and not text.startswith("/")) or (required and not text):
        raise _environment("CNI_NETNS", text, "an absolute path")
    return text


def _device(plain: Mapping[str, Any]) -> str | None:
    """Return the PCI address that Multus or a runtime has added."""
    runtime = plain.get("runtimeConfig")
    given = plain.get("deviceID")
    if given is None and type(runtime) is dict:
        given = runtime.get("deviceID")
    if given is None or given == "":
        return None
    if type(given) is not str:
        raise _configuration("deviceID is not a text")
    try:
        return str(pci.PciAddress.parse(given))
    except ParseError as error:
        raise _configuration(f"deviceID: {error}") from None


def _valid(plain: Mapping[str, Any]) -> frozenset[AttachmentId]:
    given = plain.get("cni.dev/valid-attachments")
    # Without the list, GC would take every attachment for a stale one.
    if type(given) is not list or len(given) > MAX_ATTACHMENTS:
        raise _configuration("cni.dev/valid-attachments is not a list")
    found = set()
    for each in given:
        plain = each if type(each) is dict else {}
        container, interface = plain.get("containerID"), plain.get("ifname")
        if type(container) is not str or type(interface) is not str:
            raise _configuration(
                "cni.dev/valid-attachments has an entry without containerID "
                "and ifname"
            )
        found.add(AttachmentId(container, interface))
    return frozenset(found)


def _pod(text: str) -> str:
    """Return NAMESPACE/NAME from CNI_ARGS, used only for the log."""
    named = dict(
        each.split("=", 1) for each in text[:4096].split(";") if "=" in each
    )
    found = [
        named.get(f"K8S_POD_{each}", "") for each in ("NAMESPACE", "NAME")
    ]
    return "/".join(found) if all(map(_POD_NAME.fullmatch, found)) else ""


def result(request: Request) -> dict[str, Any]:
    """Return the answer to ADD of a plug-in that creates no interface."""
    return {"cniVersion": request.version, "interfaces": [], "ips": []}


def versions(request: Request) -> dict[str, Any]:
    """Return the answer to VERSION."""
    return {
        "cniVersion": request.version,
        "supportedVersions": list(VERSIONS),
    }


def failure(version: str, error: CniError) -> dict[str, Any]:
    """Return the answer to a command that failed."""
    return {"cniVersion": version, "code": error.code, "msg": str(error)}


def _environment(name: str, value: str, expected: str) -> CniError:
    return CniError(
        INVALID_ENVIRONMENT, f"{name}={_short(value)}: {expected} expected"
    )


def _configuration(problem: str) -> CniError:
    return CniError(
        INVALID_CONFIGURATION,
        f"{problem}; correct spec.config of the NetworkAttachmentDefinition",
    )


def _short(value: Any) -> str:
    return repr(value)[:80]
