# SPDX-License-Identifier: Apache-2.0

"""Magnum's conductor with its database, and stand-ins for what it calls.

Nova and Placement answer over HTTP, so does the management cluster's API, and
Helm is a program. Each keeps to what the driver can see of the real one.
"""

import json
import os
import pathlib
import stat
import sys
import textwrap
import types
from unittest import mock

import fixtures
import requests_mock
from keystoneauth1 import plugin
from keystoneauth1 import session
from magnum import objects
from magnum.common import clients
from magnum.common import keystone
from magnum.common import neutron
from magnum.conductor.handlers import cluster_conductor
from magnum.conductor.handlers import nodegroup_conductor
from magnum.conductor.handlers.common import cert_manager
from magnum.drivers.common import driver as magnum_driver
from magnum.tests.unit.db import base
from magnum.tests.unit.objects import utils as obj_utils
from magnum_capi_helm import conf
from magnum_capi_helm import driver as capi_driver
from magnum_capi_helm.common import app_creds
from magnum_capi_helm.common import ca_certificates

from sriov_rt.magnum import options

try:
    from magnum.conductor.handlers.common import trust_manager
except ImportError:
    # Until Magnum 22 each cluster has a trustee.
    trust_manager = None

CONF = conf.CONF

CLOUD = "http://cloud"
MANAGEMENT = "https://management"

REALTIME = {
    "id": "f-rt",
    "name": "rt.large",
    "vcpus": 4,
    "ram": 8192,
    "extra_specs": {
        "hw:cpu_policy": "dedicated",
        "hw:cpu_realtime": "yes",
        "hw:cpu_realtime_mask": "^0-1",
        "sriov_rt:realtime": "required",
        "sriov_rt:vif": "vf",
    },
}
ORDINARY = {
    "id": "f-m1",
    "name": "m1.medium",
    "vcpus": 2,
    "ram": 4096,
    "extra_specs": {},
}
BROKEN = {
    **REALTIME,
    "id": "f-broken",
    "name": "rt.broken",
    "extra_specs": {
        "sriov_rt:realtime": "required",
        "hw:cpu_policy": "mixed",
    },
}

NETWORKS = ("fast0", "fast1")

#: As in a checkout.
ADDONS = pathlib.Path(__file__).parents[3] / "etc/kubernetes/addons"

#: Helm as the driver sees it: releases with their values, in a file.
_HELM = """\
import json
import pathlib
import sys

here = pathlib.Path(__file__).parent
words = sys.argv[1:]
with (here / "calls").open("a") as stream:
    stream.write(json.dumps(words) + "\\n")
fault = here / "fault"
if fault.exists():
    says = json.loads(fault.read_text())
    if words[:2] == ["get", "values"] and not says.get("get"):
        says = None
    elif words[0] == "history":
        print(json.dumps(says["history"]))
        sys.exit()
    elif words[0] == "rollback":
        fault.unlink()
        sys.exit()
    if says:
        sys.stdout.write(says.get("out", ""))
        sys.stderr.write(says.get("err", ""))
        sys.exit(says.get("code", 0))
path = here / "releases.json"
releases = json.loads(path.read_text()) if path.exists() else {}
if words[0] == "upgrade":
    releases[words[1]] = json.load(sys.stdin)
    print(json.dumps({"name": words[1]}))
else:
    name = words[2] if words[0] == "get" else words[1]
    if name not in releases:
        sys.exit("Error: release: not found")
    if words[0] == "get":
        print(json.dumps(releases[name]))
    else:
        del releases[name]
path.write_text(json.dumps(releases))
"""


class Helm:
    """The program on PATH.

    :param home: a directory of its own.
    """

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        self.program = home / "helm"
        self.program.write_text(f"#!{sys.executable} -IS\n{_HELM}")
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    @property
    def calls(self):
        """The arguments of each call."""
        path = self.home / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(each) for each in lines]

    @property
    def releases(self):
        """Name to values of each release."""
        path = self.home / "releases.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def fail(self, **says):
        """Let it end with an exit code and output; without any, work."""
        path = self.home / "fault"
        path.unlink(missing_ok=True)
        if says:
            path.write_text(json.dumps(says))


class Catalog(plugin.BaseAuthPlugin):
    """A token and a catalogue with whatever service is queried.

    :param without: service types that it does not have.
    """

    def __init__(self, without=()):
        super().__init__()
        self.without = set(without)

    def get_token(self, session, **kwargs):
        """Return a token."""
        return "token"

    def get_endpoint(self, session, service_type=None, **kwargs):
        """Return the endpoint of a service type."""
        if service_type in self.without:
            return None
        return f"{CLOUD}/{service_type}"


class ConductorCase(base.DbTestCase):
    """A conductor, and the template of a cluster with this driver."""

    #: Whether requests leave the process that no stand-in answers.
    REAL_HTTP = False

    def setUp(self):
        super().setUp()
        home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.helm = Helm(home)
        path = f"{home}{os.pathsep}{os.environ['PATH']}"
        self.useFixture(fixtures.EnvironmentVariable("PATH", path))
        options.register(CONF)
        kubeconfig = home / "kubeconfig"
        kubeconfig.write_text(
            textwrap.dedent(
                f"""\
                current-context: c
                contexts: [{{name: c, context: {{cluster: k, user: u}}}}]
                clusters: [{{name: k, cluster: {{server: {MANAGEMENT}}}}}]
                users: [{{name: u, user: {{token: t}}}}]
                """
            )
        )
        self._override("kubeconfig_file", str(kubeconfig), "capi_helm")
        self._override("addons_directory", str(ADDONS), options.GROUP)
        for service in ("nova", "cinder", "glance", "neutron", "octavia"):
            self._override("region_name", "RegionOne", f"{service}_client")
        self.http = self.useFixture(HttpFixture(self.REAL_HTTP)).http
        self.flavors = [REALTIME, ORDINARY, BROKEN]
        self.hosts = [{"uuid": "rt-1"}]
        self.management = {}
        self._cloud()
        self._stand_ins()
        self.template = obj_utils.create_test_cluster_template(
            self.context,
            driver="sriov_rt",
            labels={},
            flavor_id="m1.medium",
            master_flavor_id="m1.medium",
            network_driver="calico",
        )

    def _override(self, name, value, group):
        CONF.set_override(name, value, group)
        self.addCleanup(CONF.clear_override, name, group)

    def _cloud(self):
        self.catalog = Catalog(without=["block-storage"])
        self._patch(
            keystone.KeystoneClientV3,
            "_get_auth",
            lambda client: self.catalog,
        )
        self._patch(
            keystone.KeystoneClientV3,
            "session",
            property(lambda client: session.Session(auth=self.catalog)),
        )
        self.http.get(
            f"{CLOUD}/compute/flavors/detail",
            json=lambda *_: {"flavors": self.flavors},
        )
        self.http.get(
            f"{CLOUD}/network/v2.0/networks",
            json=lambda *_: {
                "networks": [{"id": f"id-of-{n}", "name": n} for n in NETWORKS]
            },
        )
        self.http.get(
            f"{CLOUD}/placement/resource_providers",
            json=lambda *_: {"resource_providers": self.hosts},
        )
        self.http.register_uri(
            requests_mock.ANY,
            requests_mock.ANY,
            additional_matcher=lambda found: found.url.startswith(MANAGEMENT),
            json=self._managed,
        )

    def _managed(self, request, answer):
        """Answer as the management cluster's API."""
        if request.method != "GET":
            return {}
        for ending, found in self.management.items():
            if request.path.endswith(ending):
                return found
        if "labelselector" in request.qs:
            return {"items": [], "metadata": {"continue": ""}}
        answer.status_code = 404
        return {}

    def _patch(self, *args, **kwargs):
        return self.useFixture(fixtures.MockPatchObject(*args, **kwargs)).mock

    def _stand_ins(self):
        self._patch(
            clients.OpenStackClients,
            "nova",
            lambda _: types.SimpleNamespace(
                flavors=mock.Mock(
                    list=lambda **_: [
                        types.SimpleNamespace(
                            id=each["id"],
                            name=each["name"],
                            vcpus=each["vcpus"],
                        )
                        for each in self.flavors
                    ]
                )
            ),
        )
        self._patch(
            capi_driver.Driver,
            "_get_image_details",
            lambda *_: ("image", "1.34.4", "ubuntu"),
        )
        for name in (
            "get_external_network_id",
            "get_fixed_subnet_id",
            "get_network",
        ):
            self._patch(neutron, name, lambda *_, **__: "net")
        for module, name, value in (
            (app_creds, "create_app_cred", types.SimpleNamespace(id="a")),
            (app_creds, "get_app_cred_string_data", {}),
            (ca_certificates, "get_certificate_string_data", {"ca": {}}),
            (cert_manager, "generate_certificates_to_cluster", None),
        ):
            self._patch(module, name, lambda *_, v=value, **__: v)
        if trust_manager is not None:
            for name in (
                "create_trustee_and_trust",
                "delete_trustee_and_trust",
            ):
                self._patch(trust_manager, name, lambda *_, **__: None)

    # What magnum-api calls over RPC.

    def create(self, *, labels=None, flavor="m1.medium", nodes=2):
        """Create a cluster; return it, also if that failed."""
        cluster = objects.Cluster(
            self.context,
            uuid="5d12f6fd-a196-4bf0-ae4c-1f639a523a52",
            name="kube",
            project_id="fake_project",
            user_id="fake_user",
            cluster_template_id=self.template.uuid,
            labels=labels or {},
            flavor_id=flavor,
            master_flavor_id="m1.medium",
            fixed_network="net",
            fixed_subnet="net",
            keypair="k",
        )
        self.failure = None
        try:
            cluster_conductor.Handler().cluster_create(
                self.context, cluster, 1, nodes, 60
            )
        except Exception as error:  # noqa: BLE001
            self.failure = error
        return self.cluster()

    def cluster(self):
        """Return the cluster as the database has it."""
        return objects.Cluster.get_by_name(self.context, "kube")

    def nodegroup(self, name):
        """Return a nodegroup as the database has it."""
        return objects.NodeGroup.get_by_name(
            self.context, self.cluster().uuid, name
        )

    def entries(self):
        """Return the nodegroups that Helm has, by name."""
        releases = list(self.helm.releases.values())
        groups = releases[0]["nodeGroups"] if releases else []
        return {each["name"]: each for each in groups}

    def addons(self):
        """Return the add-ons that Helm has, by name."""
        (values,) = self.helm.releases.values()
        return values["addons"].get("custom", {})

    def add(self, name, flavor="rt.large", *, labels=None, **kwargs):
        """Create a nodegroup."""
        cluster = self.cluster()
        found = objects.NodeGroup(
            self.context,
            name=name,
            cluster_id=cluster.uuid,
            project_id=cluster.project_id,
            flavor_id=flavor,
            image_id="image",
            labels=labels or {},
            node_count=1,
            min_node_count=1,
            role="worker",
            is_default=False,
            **kwargs,
        )
        self._nodegroup("nodegroup_create", cluster, found)

    def remove(self, name):
        """Delete a nodegroup."""
        self._nodegroup(
            "nodegroup_delete", self.cluster(), self.nodegroup(name)
        )

    def change(self, name, **fields):
        """Update a nodegroup."""
        found = self.nodegroup(name)
        for field, value in fields.items():
            setattr(found, field, value)
        self._nodegroup("nodegroup_update", self.cluster(), found)

    def resize(self, name, count):
        """Resize a nodegroup."""
        self._call(
            cluster_conductor.Handler().cluster_resize,
            self.cluster(),
            count,
            None,
            self.nodegroup(name),
        )

    def upgrade(self):
        """Upgrade the cluster to its own template."""
        self._call(
            cluster_conductor.Handler().cluster_upgrade,
            self.cluster(),
            self.template,
            1,
            self.nodegroup("default-worker"),
        )

    def delete(self):
        """Delete the cluster."""
        self._call(
            cluster_conductor.Handler().cluster_delete, self.cluster().uuid
        )

    def poll(self):
        """Let the periodic task look at the cluster, as it does."""
        cluster = self.cluster()
        self.driver().update_cluster_status(self.context, cluster)
        return cluster

    def driver(self):
        """Return the driver as Magnum finds it, by the template's name."""
        return magnum_driver.Driver.get_driver_for_cluster(
            self.context, self.cluster()
        )

    def settle(self):
        """Let Cluster API be done with everything that Helm has."""
        ready = [
            {"type": each, "status": "True"}
            for each in (
                "InfrastructureReady",
                "ControlPlaneReady",
                "Ready",
                "MachinesReady",
                "EtcdClusterHealthyCondition",
                "ControlPlaneComponentsHealthyCondition",
                "EtcdClusterHealthy",
                "ControlPlaneComponentsHealthy",
                "Available",
                "CertificatesAvailable",
            )
        ]
        counts = dict.fromkeys(
            ("replicas", "updatedReplicas", "readyReplicas"), 1
        )
        self.management = {
            "/manifests": {"items": [], "metadata": {"continue": ""}}
        }
        for name in self.helm.releases:
            self.management[f"/clusters/{name}"] = {
                "spec": {"controlPlaneEndpoint": {"host": "h", "port": 1}},
                "status": {"conditions": ready},
            }
            self.management[f"/{name}-control-plane"] = {
                "spec": {"replicas": 1, "version": "v1.34.4"},
                "status": {"conditions": ready, **counts},
            }
            for group in self.entries():
                self.management[f"/{name}-{group}"] = {
                    "status": {"phase": "Running"}
                }
        self.poll()

    def _nodegroup(self, method, cluster, found):
        self._call(
            getattr(nodegroup_conductor.Handler(), method), cluster, found
        )

    def _call(self, method, *args):
        self.failure = None
        try:
            method(self.context, *args)
        except Exception as error:  # noqa: BLE001
            self.failure = error


class HttpFixture(fixtures.Fixture):
    """No request leaves the process, unless it is to.

    :param real: whether those leave it that nobody here answers.
    """

    def __init__(self, real=False):
        super().__init__()
        self.real = real

    def _setUp(self):
        self.http = requests_mock.Mocker(real_http=self.real)
        self.http.start()
        self.addCleanup(self.http.stop)
