# SPDX-License-Identifier: Apache-2.0

"""Add-ons of a cluster: manifests for its API server, as data.

A directory holds one folder for each add-on, and ``index.yaml`` with the
version of each, the nodes that need it, and the checksum of each file.
"""

import dataclasses
import hashlib
import pathlib
import re
import sysconfig
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import yaml

from sriov_rt.magnum import errors
from sriov_rt.parse import selector

INDEX = "index.yaml"

#: Schema that :func:`load` reads.
SCHEMA = 1

#: Largest file in bytes; a Secret holds 1 MiB in all.
MAX_FILE = 256 * 1024

#: The chart truncates RELEASE-NAME at 63, and a release has up to 43.
MAX_NAME = 19


#: The first release of Kubernetes with v1 of MutatingAdmissionPolicy. 1.34
#: and 1.35 have v1beta1, behind a feature gate.
MUTATING_V1 = (1, 36)

_MUTATING = re.compile(
    r"^(apiVersion: admissionregistration\.k8s\.io/v1)"
    r"(\nkind: MutatingAdmissionPolicy)",
    re.MULTILINE,
)
_RELEASE = re.compile(r"v?(\d{1,3})\.(\d{1,4})", re.ASCII)


class AddonsUnusable(errors.MagnumError):
    """A file of the add-ons' directory differs from the index.

    :param problem: a clause.
    """

    def __init__(self, directory: pathlib.Path, problem: str) -> None:
        self.directory = directory
        self.problem = problem
        super().__init__(
            f"add-ons in {directory}: {problem}; install sriov-rt again on "
            "magnum-conductor's hosts, or set [sriov_rt_magnum] "
            "addons_directory"
        )


class AddonUnknown(errors.MagnumError):
    """An option names add-ons or images that do not exist."""

    def __init__(
        self, option: str, names: Iterable[str], known: Iterable[str]
    ) -> None:
        self.names = tuple(sorted(names))
        super().__init__(
            f"[sriov_rt_magnum] {option} in magnum.conf names "
            f"{', '.join(map(repr, self.names))}; correct it to some of "
            f"{', '.join(sorted(known)) or 'none'}"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Addon:
    """Manifests that a cluster gets if one of its nodegroups needs them.

    :param namespace: namespace of objects that do not state one.
    :param nodes: labels of the nodes that need it.
    :param images: name to the reference in the manifests.
    :param manifests: name of a file to its text.
    """

    name: str
    version: int
    namespace: str
    nodes: selector.Selector
    images: Mapping[str, str] = dataclasses.field(default_factory=dict)
    manifests: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def mutates(self) -> bool:
        """Whether it has a MutatingAdmissionPolicy."""
        return any(map(_MUTATING.search, self.manifests.values()))

    def rendered(
        self, images: Mapping[str, str], kubernetes: str | None = None
    ) -> dict[str, str]:
        """Return the manifests by file, with images replaced.

        :param images: name to a new reference; other images are unchanged.
        :param kubernetes: the cluster's release; by default one that serves
            all API versions in the files.
        """
        found = {}
        for file, text in self.manifests.items():
            for name, published in self.images.items():
                text = text.replace(published, images.get(name, published))
            text = for_kubernetes(text, kubernetes)
            head = f"# sriov-rt: add-on {self.name}, version {self.version}\n"
            found[file] = head + text
        return found


def for_kubernetes(text: str, release: str | None) -> str:
    """Return manifests with the API versions of a Kubernetes release.

    :param text: manifests with the versions of the newest release.
    :param release: such as 1.35.2; the newest by default.
    """
    found = _RELEASE.match(release or "")
    if found is None or (int(found[1]), int(found[2])) >= MUTATING_V1:
        return text
    return _MUTATING.sub(r"\1beta1\2", text)


def default_directory() -> str:
    """Return where the package's data files are installed."""
    return str(
        pathlib.Path(
            sysconfig.get_path("data"), "share/sriov-rt/kubernetes/addons"
        )
    )


def load(directory: pathlib.Path) -> tuple[Addon, ...]:
    """Return the add-ons of a directory, in the order of its index.

    :raises AddonsUnusable: if a file is missing, or has another checksum
        than in the index.
    """
    try:
        index = yaml.safe_load((directory / INDEX).read_text())
        if index["schema"] != SCHEMA:
            raise AddonsUnusable(
                directory, f"{INDEX} has another schema than {SCHEMA}"
            )
        return tuple(
            _addon(directory, name, found)
            for name, found in index["addons"].items()
        )
    except OSError as error:
        raise AddonsUnusable(directory, str(error)) from error
    except (
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        yaml.YAMLError,
    ) as error:
        raise AddonsUnusable(
            directory, f"{INDEX} cannot be read ({type(error).__name__})"
        ) from error


def _addon(directory: pathlib.Path, name: str, found: Any) -> Addon:
    return Addon(
        name=name,
        version=int(found["version"]),
        namespace=str(found["namespace"]),
        nodes=selector.parse_selector(found["nodes"]),
        images=dict(found.get("images") or {}),
        manifests={
            file: _text(directory, f"{name}/{file}", checksum)
            for file, checksum in found["files"].items()
        },
    )


def _text(directory: pathlib.Path, path: str, checksum: str) -> str:
    with (directory / path).open("rb") as stream:
        data = stream.read(MAX_FILE + 1)
    actual = hashlib.sha256(data).hexdigest()
    if actual != checksum:
        raise AddonsUnusable(
            directory, f"{path} has SHA-256 {actual} and not {checksum}"
        )
    return data.decode()


def select(
    addons: Sequence[Addon], names: Sequence[str] | None
) -> tuple[Addon, ...]:
    """Return the add-ons that the operator has enabled.

    :param names: names of add-ons; None for all.
    :raises AddonUnknown: if there is no add-on of a name.
    """
    if names is None:
        return tuple(addons)
    known = {each.name for each in addons}
    if unknown := set(names) - known:
        raise AddonUnknown("addons", unknown, known)
    return tuple(each for each in addons if each.name in names)


def check_images(addons: Sequence[Addon], images: Mapping[str, str]) -> None:
    """Check that each image belongs to an add-on.

    :raises AddonUnknown: if one does not.
    """
    known = {name for each in addons for name in each.images}
    if unknown := set(images) - known:
        raise AddonUnknown("addon_images", unknown, known)


def needed(
    addons: Iterable[Addon], nodes: Sequence[Mapping[str, str]]
) -> tuple[Addon, ...]:
    """Return the add-ons that a cluster's nodes need.

    :param nodes: the labels of each kind of node.
    """
    return tuple(
        each
        for each in addons
        if any(each.nodes.matches(labels) for labels in nodes)
    )


def custom(
    addons: Iterable[Addon],
    images: Mapping[str, str],
    kubernetes: str | None = None,
) -> dict[str, Any]:
    """Return the add-ons as values of the chart's addons.custom.

    :param kubernetes: the cluster's release.
    """
    found = {
        each.name: {
            "kind": "Manifests",
            "spec": {
                "namespace": each.namespace,
                "manifests": each.rendered(images, kubernetes),
            },
        }
        for each in addons
    }
    return {"addons": {"custom": found}} if found else {}
