# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Apply the manifests that operators apply, without a YAML parser.

The API server parses YAML itself; what it needs from us is the path, and
kind, name and namespace stand where everybody writes them.
"""

import dataclasses
import re
import urllib.parse

from tests.testbed import errors
from tests.testbed.kube.api import APPLY
from tests.testbed.kube.api import Api

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
#: kind: where its objects are, {} being "" or "/namespaces/NAME".
_COLLECTIONS = {
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "CustomResourceDefinition": (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    ),
    "Namespace": "/api/v1/namespaces",
    "NodeFeatureRule": "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules",
    "Role": f"{_RBAC}/namespaces/{{}}/roles",
    "RoleBinding": f"{_RBAC}/namespaces/{{}}/rolebindings",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
}
_KIND = re.compile(r"^kind: *(\w+) *$", re.MULTILINE)
_METADATA = re.compile(r"^metadata:\n((?:[ #].*\n|\n)+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Manifest:
    """One object, as YAML.

    :param text: the YAML.
    :param kind: as in "ClusterRole".
    :param name: its name.
    :param namespace: its namespace; "default" when it names none.
    """

    text: str
    kind: str
    name: str
    namespace: str

    @property
    def path(self) -> str:
        """Return where it is on the API server.

        :raises errors.TestbedError: when its kind isn't known here.
        """
        try:
            collection = _COLLECTIONS[self.kind]
        except KeyError as error:
            raise errors.TestbedError(
                f"manifests.py doesn't know where a {self.kind} is"
            ) from error
        name = urllib.parse.quote(self.name, safe="")
        return f"{collection.format(self.namespace)}/{name}"


def parse(text: str) -> tuple[Manifest, ...]:
    """Split YAML into its objects.

    :param text: objects between lines of "---", indented by two blanks.
    :raises errors.TestbedError: when an object has no name.
    """
    found = []
    for part in re.split(r"^---.*$", text, flags=re.MULTILINE):
        kind = _KIND.search(part)
        if kind is None:
            continue
        metadata = _METADATA.search(part + "\n")
        name = _field("name", metadata[1]) if metadata else ""
        if metadata is None or not name:
            raise errors.TestbedError(f"this has no name:\n{part}")
        namespace = _field("namespace", metadata[1]) or "default"
        found.append(Manifest(part, kind[1], name, namespace))
    return tuple(found)


def apply(api: Api, text: str) -> None:
    """Create or change all objects of a text.

    :param api: a client that may.
    :param text: see parse().
    :raises errors.HttpError: when the server refuses.
    :raises OSError: when it doesn't answer.
    """
    for manifest in parse(text):
        api.call(
            "PATCH",
            f"{manifest.path}?fieldManager=testbed&force=true",
            manifest.text.encode(),
            APPLY,
        )


def _field(name: str, metadata: str) -> str:
    found = re.search(rf"^  {name}: *(\S+)", metadata, re.MULTILINE)
    return found[1].strip("\"'") if found else ""
