# SPDX-License-Identifier: Apache-2.0

"""Clusters and nodegroups through Magnum's conductor, by our driver."""

import datetime
import pathlib
import typing

import conductor
import requests
from magnum import objects
from magnum.common import clients
from magnum.common import exception
from magnum.db import api as db_api
from magnum.drivers.common import driver as magnum_driver
from magnum.objects import fields
from magnum.service import periodic
from oslo_utils import timeutils

import sriov_rt.magnum
from sriov_rt.magnum import driver
from sriov_rt.magnum import errors
from sriov_rt.magnum import helm
from sriov_rt.magnum import hosts

Status = fields.ClusterStatus

#: An entry of the chart that capi-helm would have made by itself.
PLAIN = {"name": "default-worker", "machineFlavor": "m1.medium"}


class SelectionTest(conductor.ConductorCase):
    def test_it_is_taken_by_its_name(self):
        self.create()
        self.assertIs(driver.Driver, type(self.driver()))

    def test_it_takes_nobody_elses_clusters(self):
        magnum_driver.Driver.definitions = None
        found = magnum_driver.Driver.get_drivers()
        self.addCleanup(setattr, magnum_driver.Driver, "definitions", None)
        self.assertTrue(found)
        for each in found.values():
            self.assertNotEqual("sriov_rt", each["entry_point_name"])

    def test_nothing_of_ours_is_found_by_a_stack_id(self):
        room = pathlib.Path(sriov_rt.magnum.__file__).parent
        for path in room.glob("*.py"):
            self.assertNotIn("stack_id", path.read_text())


class CreateTest(conductor.ConductorCase):
    def test_an_ordinary_cluster_is_what_capi_helm_makes(self):
        cluster = self.create()
        self.assertIsNone(self.failure)
        self.assertEqual(
            {"default-worker": {**PLAIN, "machineCount": 2}}, self.entries()
        )
        self.settle()
        self.assertEqual(Status.CREATE_COMPLETE, self.cluster().status)
        self.assertIsNone(cluster.status_reason)
        self.assertFalse(
            [
                each.url
                for each in self.http.request_history
                if "placement" in each.url
            ]
        )

    def test_a_realtime_cluster(self):
        self.create(flavor="rt.large", labels={"sriov_rt_networks": "fast0"})
        self.assertIsNone(self.failure)
        entry = self.entries()["default-worker"]
        self.assertEqual("rt.large", entry["machineFlavor"])
        self.assertEqual(
            [
                {},
                {
                    "network": {"id": "id-of-fast0"},
                    "vnicType": "direct",
                    "disablePortSecurity": True,
                },
            ],
            entry["machineNetworking"]["ports"],
        )
        spec = entry["kubeadmConfigSpec"]
        self.assertEqual(
            "0-1",
            spec["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"][
                "reserved-cpus"
            ],
        )
        self.settle()
        self.assertEqual(Status.CREATE_COMPLETE, self.cluster().status)

    def test_extra_networks_keep_their_ports(self):
        self.create(
            flavor="rt.large",
            labels={
                "sriov_rt_networks": "fast0",
                "extra_network_names": "storage backup",
            },
        )
        ports = self.entries()["default-worker"]["machineNetworking"]["ports"]
        self.assertEqual(
            [{"name": "storage"}, {"name": "backup"}, {"id": "id-of-fast0"}],
            [each["network"] for each in ports[1:]],
        )

    def test_a_refused_one_leaves_nothing_and_says_how_to_go_on(self):
        cluster = self.create(flavor="rt.broken")
        self.assertEqual(Status.CREATE_FAILED, cluster.status)
        for word in ("'default-worker'", "hw:cpu_policy=mixed", "delete the"):
            self.assertIn(word, cluster.status_reason)
        self.assertEqual([], self.helm.calls)
        self.assertFalse(
            [e for e in self.http.request_history if e.method == "PATCH"]
        )

    def test_the_health_poll_of_a_refused_one_survives(self):
        cluster = self.create(flavor="rt.broken")
        job = periodic.ClusterHealthUpdateJob(self.context, cluster)
        job._update_health_status()
        cluster = self.cluster()
        self.assertEqual("UNHEALTHY", cluster.health_status)
        self.assertIn("Delete it", cluster.health_status_reason["cluster"])

    def test_a_refused_one_can_be_deleted(self):
        self.create(flavor="rt.broken")
        self.delete()
        self.assertIsNone(self.failure)
        self.assertEqual(Status.DELETE_COMPLETE, self.poll().status)
        self.assertEqual([], self.helm.calls)

    def test_a_master_flavor_that_cannot_be(self):
        self.flavors[1] = {**conductor.BROKEN, "name": "m1.medium"}
        cluster = self.create(flavor="rt.large")
        self.assertIn("'master'", cluster.status_reason)

    def test_no_host_has_the_traits(self):
        self.hosts = []
        cluster = self.create(flavor="rt.large")
        self.assertEqual(Status.CREATE_FAILED, cluster.status)
        self.assertIn("CUSTOM_SRIOV_RT_REALTIME", cluster.status_reason)

    def test_no_host_has_the_traits_and_the_operator_wants_a_warning(self):
        self._override("unfit_flavor", "warn", "sriov_rt_magnum")
        self.hosts = []
        self.create(flavor="rt.large")
        self.assertIsNone(self.failure)
        reason = self.nodegroup("default-worker").status_reason
        self.assertIn("may not start", reason)
        self.assertIn("default-worker", self.entries())

    def test_no_host_takes_it_by_its_facts(self):
        self._override("host_check", "facts", "sriov_rt_magnum")
        said = []
        self._patch(
            hosts.Hosts, "why_none", lambda *_: said[0] if said else None
        )
        self.create(flavor="rt.large")
        self.assertIsNone(self.failure)
        self.settle()
        said.append("no host takes it (rt-1: KSM is on)")
        self.add("fast")
        reason = self.nodegroup("fast").status_reason
        self.assertIn("flavor 'rt.large': no host takes it (rt-1", reason)
        # An ordinary flavor is none of our business.
        self.add("plain", "m1.medium")
        self.assertIsNone(self.failure)
        self._override("unfit_flavor", "warn", "sriov_rt_magnum")
        self.resize("fast", 1)
        self.assertIsNone(self.failure)
        self.assertIn("may not start", self.nodegroup("fast").status_reason)

    def test_a_conductor_that_is_killed_before_helm_ran(self):
        self.helm.fail(code=137, err="Killed")
        cluster = self.create()
        self.assertIn("Killed", cluster.status_reason)
        cluster.status, cluster.status_reason = Status.CREATE_IN_PROGRESS, None
        cluster.save()
        self.helm.fail()
        self.assertEqual(Status.CREATE_IN_PROGRESS, self.poll().status)
        self.delete()
        self.assertIsNone(self.failure)
        self.assertEqual("uninstall", self.helm.calls[-1][0])
        self.assertEqual(Status.DELETE_COMPLETE, self.poll().status)

    def test_the_labels_own_error_by_name(self):
        for text in ("tap", "%s", "%(x)s", "100%", "\U0001f4a5", "{{ x }}"):
            cluster = self.create(labels={"sriov_rt_vif": text})
            with self.subTest(text):
                self.assertEqual(Status.CREATE_FAILED, cluster.status)
                self.assertIn("sriov_rt_vif", cluster.status_reason)
                self.assertIn("macvlan", cluster.status_reason)
                self.assertTrue(cluster.status_reason.isascii())
                if "%" in text:
                    self.assertIn(repr(text), cluster.status_reason)
            for each in cluster.nodegroups:
                each.destroy()
            cluster.destroy()

    def test_a_cloud_without_cinder(self):
        self.create()
        (values,) = self.helm.releases.values()
        self.assertEqual(
            {"enabled": False}, values["addons"]["openstack"]["csiCinder"]
        )

    def test_a_cinder_without_volume_types(self):
        self.catalog.without.clear()

        class Empty:
            class volume_types:
                @staticmethod
                def list():
                    return []

        self._patch(clients.OpenStackClients, "cinder", lambda _: Empty())
        self.create()
        self.assertIsNone(self.failure)
        (values,) = self.helm.releases.values()
        self.assertEqual(
            {"enabled": False}, values["addons"]["openstack"]["csiCinder"]
        )


class NodegroupTest(conductor.ConductorCase):
    def setUp(self):
        super().setUp()
        self.create()
        self.settle()

    def _refused(self, name, *words, kind=Status.CREATE_FAILED):
        group, cluster = self.nodegroup(name), self.cluster()
        self.assertIsInstance(self.failure, exception.MagnumException)
        self.assertEqual(kind, group.status)
        self.assertEqual(Status.UPDATE_FAILED, cluster.status)
        for word in words:
            self.assertIn(word, group.status_reason)
            self.assertIn(word, cluster.status_reason)

    def test_one_is_added(self):
        self.add("fast", labels={"sriov_rt_networks": "fast0"})
        self.assertIsNone(self.failure)
        self.assertEqual({"default-worker", "fast"}, set(self.entries()))
        taints = self.entries()["fast"]["kubeadmConfigSpec"][
            "joinConfiguration"
        ]["nodeRegistration"]["taints"]
        self.assertEqual("sriov-rt.openstack.org/realtime", taints[0]["key"])
        self.settle()
        self.assertEqual(Status.CREATE_COMPLETE, self.nodegroup("fast").status)
        self.assertEqual(Status.UPDATE_COMPLETE, self.cluster().status)

    def test_magnums_node_labels_and_taints_arrive(self):
        if "node_labels" not in self.nodegroup("default-worker").fields:
            # Magnum 21 and 22 have neither, and nothing to ignore.
            self.assertFalse(
                hasattr(self.nodegroup("default-worker"), "node_taints")
            )
            return
        self.add(
            "plain",
            "m1.medium",
            node_labels={"tier": "web"},
            node_taints=[{"key": "a", "value": "b", "effect": "NoExecute"}],
        )
        entry = self.entries()["plain"]
        self.assertEqual({"tier": "web"}, entry["nodeLabels"])
        self.assertEqual(
            [{"key": "a", "value": "b", "effect": "NoExecute"}],
            entry["kubeadmConfigSpec"]["joinConfiguration"][
                "nodeRegistration"
            ]["taints"],
        )
        self.settle()
        self.change("plain", node_labels={"tier": "db"}, node_taints=[])
        self.assertEqual({"tier": "db"}, self.entries()["plain"]["nodeLabels"])
        self.change("plain", node_labels={"a,b": "c"})
        self._refused("plain", "a,b", kind=Status.UPDATE_FAILED)

    def test_a_refused_one_is_not_built_by_the_next_operation(self):
        self.add("broken", "rt.broken")
        self._refused(
            "broken",
            "hw:cpu_policy=mixed",
            "openstack coe nodegroup delete",
            "openstack coe cluster resize",
        )
        # Its flavor is corrected, and yet it is another one's operation.
        self.flavors[2] = {**conductor.REALTIME, "name": "rt.broken"}
        self.add("fast")
        self.assertIsNone(self.failure)
        self.assertEqual({"default-worker", "fast"}, set(self.entries()))
        self.resize("default-worker", 3)
        self.settle()
        self.upgrade()
        self.assertIsNone(self.failure)
        self.assertEqual({"default-worker", "fast"}, set(self.entries()))
        self.settle()
        self.assertEqual(Status.UPDATE_COMPLETE, self.cluster().status)
        self.assertIsNone(self.cluster().status_reason)
        broken = self.nodegroup("broken")
        self.assertEqual(Status.CREATE_FAILED, broken.status)
        # A resize is an operation on it.
        self.resize("broken", 1)
        self.assertIsNone(self.failure)
        self.settle()
        self.assertIn("broken", self.entries())
        self.assertEqual(
            Status.UPDATE_COMPLETE, self.nodegroup("broken").status
        )
        self.assertIsNone(self.nodegroup("broken").status_reason)

    def test_a_refused_one_is_deleted(self):
        self.add("broken", "rt.broken")
        self.remove("broken")
        self.assertIsNone(self.failure)
        self.settle()
        self.assertEqual(Status.UPDATE_COMPLETE, self.cluster().status)
        self.assertEqual(
            {"default-master", "default-worker"},
            {each.name for each in self.cluster().nodegroups},
        )

    def test_a_long_label_does_not_cut_off_how_to_go_on(self):
        self.add("odd", labels={"sriov_rt_" + "x" * 5000: "y"})
        self._refused("odd", "sriov_rt_xxx", "openstack coe nodegroup delete")

    def test_a_deleted_one_is_not_built_by_the_next_operation(self):
        self.add("fast")
        self.settle()
        self.remove("fast")
        # Its machines are still going.
        self.assertEqual(
            Status.DELETE_IN_PROGRESS, self.nodegroup("fast").status
        )
        self.add("next")
        self.assertIsNone(self.failure)
        self.assertEqual({"default-worker", "next"}, set(self.entries()))

    def test_a_deletion_that_failed_is_finished_by_the_next_operation(self):
        self.add("fast")
        self.settle()
        self.helm.fail(code=1, err="Error: timed out waiting")
        self.remove("fast")
        self._refused("fast", "timed out", kind=Status.DELETE_FAILED)
        self.helm.fail()
        self.resize("default-worker", 3)
        self.settle()
        self.assertEqual(Status.UPDATE_COMPLETE, self.cluster().status)
        self.assertEqual(
            {"default-master", "default-worker"},
            {each.name for each in self.cluster().nodegroups},
        )

    def test_names_are_refused_before_helm_does(self):
        before = len(self.helm.calls)
        for name in ("ab", "1st", "x" * 60):
            self.add(name, "m1.medium")
            self._refused(name, "name")
        self.assertNotIn(
            "upgrade", [each[0] for each in self.helm.calls[before:]]
        )

    def test_a_second_one_of_a_name_in_the_chart(self):
        self.add("fast-1")
        self.add("Fast_1")
        self._refused("Fast_1", "'fast-1'")
        self.assertEqual({"default-worker", "fast-1"}, set(self.entries()))
        # Nor does it become what the first one is.
        self.resize("fast-1", 2)
        self.settle()
        self.assertEqual(Status.CREATE_FAILED, self.nodegroup("Fast_1").status)
        self.remove("Fast_1")
        self.settle()
        self.assertEqual(2, self.entries()["fast-1"]["machineCount"])
        self.assertEqual(Status.UPDATE_COMPLETE, self.cluster().status)
        self.assertEqual(
            {"default-master", "default-worker", "fast-1"},
            {each.name for each in self.cluster().nodegroups},
        )

    def test_a_second_one_does_not_take_the_place_of_the_first(self):
        self.add("fast-1")
        self.add("Fast_1", "m1.medium")
        self.settle()
        self.remove("fast-1")
        self.assertIsNone(self.failure)
        self.assertEqual({"default-worker"}, set(self.entries()))

    def test_growth_is_judged_and_shrinking_is_not(self):
        self.add("fast")
        self.hosts = []
        self.resize("fast", 3)
        self._refused(
            "fast", "CUSTOM_SRIOV_RT_REALTIME", kind=Status.UPDATE_FAILED
        )
        self.assertEqual(1, self.nodegroup("fast").node_count)
        self.assertEqual(1, self.entries()["fast"]["machineCount"])
        self.hosts = [{"uuid": "rt-1"}]
        self.resize("fast", 3)
        self.assertIsNone(self.failure)
        self.assertEqual(3, self.entries()["fast"]["machineCount"])
        self.hosts = []
        self.resize("fast", 2)
        self.assertIsNone(self.failure)
        self.assertEqual(2, self.entries()["fast"]["machineCount"])

    def test_a_flavor_that_vanishes_takes_no_nodes_with_it(self):
        self.add("fast", labels={"sriov_rt_networks": "fast0"})
        built = self.entries()["fast"]
        del self.flavors[0]
        self.resize("default-worker", 3)
        self.assertIsNone(self.failure)
        self.assertEqual(built, self.entries()["fast"])
        self.resize("fast", 2)
        self._refused("fast", "no flavor", kind=Status.UPDATE_FAILED)
        self.assertEqual(built, self.entries()["fast"])
        self.remove("fast")
        self.assertIsNone(self.failure)
        self.assertNotIn("fast", self.entries())

    def test_a_flavor_that_was_broken_stops_an_upgrade(self):
        self.add("fast")
        self.settle()
        self.flavors[0] = {**conductor.BROKEN, "name": "rt.large"}
        self.upgrade()
        self.assertEqual(Status.UPDATE_FAILED, self.cluster().status)
        self.assertIn("'fast'", self.cluster().status_reason)

    def test_a_cluster_that_is_deleted_leaves_nothing(self):
        self.add("fast")
        self.flavors.clear()
        self.delete()
        self.assertIsNone(self.failure)
        self.management = {}
        self.assertEqual(Status.DELETE_COMPLETE, self.poll().status)
        self.assertEqual({}, self.helm.releases)


class AddonTest(conductor.ConductorCase):
    FAST: typing.ClassVar = {"sriov_rt_networks": "fast0"}

    def test_an_ordinary_cluster_gets_none(self):
        self._override("addons_directory", "/nonexistent", "sriov_rt_magnum")
        self.create()
        self.assertIsNone(self.failure)
        self.assertEqual({}, self.addons())

    def test_they_come_and_go_with_the_nodegroups_that_need_them(self):
        names = ["multus", "onload-plugin"]
        self._override("addons", names, "sriov_rt_magnum")
        self.create()
        self.settle()
        self.add("fast", labels=self.FAST)
        self.assertIsNone(self.failure)
        self.assertEqual({"multus"}, set(self.addons()))
        multus = self.addons()["multus"]
        self.assertEqual("Manifests", multus["kind"])
        text = multus["spec"]["manifests"]["multus.yaml"]
        self.assertIn("NetworkAttachmentDefinition", text)
        self.remove("fast")
        self.assertEqual({}, self.addons())

    def test_networks_of_pods_and_the_device_plugin(self):
        labels = {
            **self.FAST,
            "sriov_rt_pod_vif": "vf",
            "sriov_rt_pod_subnets": "172.20.0.0/16",
        }
        self.create(flavor="rt.large", labels=labels)
        self.assertIsNone(self.failure)
        self.assertLessEqual(
            {"multus", "sriov-device-plugin", "pod-networks"},
            set(self.addons()),
        )
        text = self.addons()["pod-networks"]["spec"]["manifests"]
        self.assertIn("name: fast0-vf", text["networks.yaml"])

    def test_one_is_left_out(self):
        self._override("addons", [], "sriov_rt_magnum")
        self.create(flavor="rt.large", labels=self.FAST)
        self.assertIsNone(self.failure)
        self.assertEqual({}, self.addons())

    def test_an_image_of_the_operators(self):
        images = {"multus-cni": "registry.example.com/multus:1"}
        self._override("addon_images", images, "sriov_rt_magnum")
        self.create(flavor="rt.large", labels=self.FAST)
        text = self.addons()["multus"]["spec"]["manifests"]["multus.yaml"]
        self.assertIn("image: registry.example.com/multus:1\n", text)

    def test_what_cannot_be_read_fails_before_helm(self):
        self.create()
        self.settle()
        good = dict(conductor.CONF.sriov_rt_magnum)
        for name, value, word in (
            ("addons_directory", "/nonexistent", "addons_directory"),
            ("addons", ["multsu"], "'multsu'"),
            ("addon_images", {"multsu": "x"}, "'multsu'"),
        ):
            self._override(name, value, "sriov_rt_magnum")
            self.add("fast", labels=self.FAST)
            with self.subTest(name):
                self.assertIn(word, self.nodegroup("fast").status_reason)
                self.assertEqual({"default-worker"}, set(self.entries()))
            self._override(name, good[name], "sriov_rt_magnum")
            self.resize("fast", 1)
            self.assertIsNone(self.failure)
            self.settle()
            self.remove("fast")
            self.settle()

    def _sent(self, method):
        """Return what the management cluster was sent, by path."""
        return {
            each.path: each.json() if each.text else {}
            for each in self.http.request_history
            if each.method == method
            and each.url.startswith(conductor.MANAGEMENT)
        }

    def test_by_a_cluster_resource_set(self):
        self._override("addons", ["multus"], "sriov_rt_magnum")
        carrier = "cluster_resource_set"
        self._override("addon_carrier", carrier, "sriov_rt_magnum")
        self.create(flavor="rt.large", labels=self.FAST)
        self.assertIsNone(self.failure)
        self.assertEqual({}, self.addons())
        (release,) = self.helm.releases
        sent = self._sent("PATCH")
        (path,) = (each for each in sent if "clusterresourcesets/" in each)
        self.assertEqual(
            {
                "clusterSelector": {
                    "matchLabels": {"capi.stackhpc.com/cluster": release}
                },
                "strategy": "Reconcile",
                "resources": [
                    {"kind": "Secret", "name": f"{release}-multus-addon"}
                ],
            },
            sent[path]["spec"],
        )
        (secret,) = (v for k, v in sent.items() if k.endswith("multus-addon"))
        self.assertEqual(
            "addons.cluster.x-k8s.io/resource-set", secret["type"]
        )
        self.assertIn("multus.yaml", secret["stringData"])
        self.delete()
        self.management = {}
        self.assertEqual(Status.DELETE_COMPLETE, self.poll().status)
        gone = self._sent("DELETE")
        self.assertEqual(
            {"clusterresourcesets", "secrets"},
            {each.rsplit("/", 1)[1] for each in gone},
        )

    def _deleted_in_spite_of(self, status):
        self.create()
        self.http.delete(
            conductor.requests_mock.ANY,
            additional_matcher=lambda each: "clusterresourcesets" in each.path,
            status_code=status,
        )
        self.delete()
        self.assertEqual(Status.DELETE_COMPLETE, self.poll().status)

    def test_a_management_cluster_without_the_kind(self):
        self._deleted_in_spite_of(404)

    def test_a_management_cluster_that_does_not_let_magnum_use_the_kind(self):
        self._deleted_in_spite_of(403)


class FaultTest(conductor.ConductorCase):
    """What is down, slow or answers nonsense, and how to go on."""

    def setUp(self):
        super().setUp()
        self.create()
        self.settle()

    def _failed(self, *words):
        cluster = self.cluster()
        self.assertEqual(Status.UPDATE_FAILED, cluster.status)
        for word in (*words, "openstack coe cluster resize"):
            self.assertIn(word, cluster.status_reason)

    def _repaired(self):
        """Let a resize bring everything back."""
        self.resize("default-worker", 4)
        self.assertIsNone(self.failure)
        self.settle()
        self.assertEqual(Status.UPDATE_COMPLETE, self.cluster().status)
        self.assertIsNone(self.cluster().status_reason)
        for each in self.cluster().nodegroups:
            self.assertTrue(each.status.endswith("_COMPLETE"), each.name)

    def test_helm_is_missing(self):
        hidden = self.helm.program.rename(self.helm.home / "hidden")
        self.resize("default-worker", 3)
        self._failed("install Helm 3")
        hidden.rename(self.helm.program)
        self._repaired()

    def test_helm_fails_times_out_or_prints_nonsense(self):
        for word, says in (
            ("timed out", {"code": 1, "err": "Error: timed out waiting"}),
            (
                "Node group name must be",
                {
                    "code": 1,
                    "err": "Error: execution error: Node group name must be "
                    "longer\n\nUse --debug flag to render out invalid YAML",
                },
            ),
            ("no output", {"code": 137, "err": " "}),
            ("no JSON", {"out": "<html>"}),
            ("no values", {"out": "<html>", "get": True}),
            ("no values", {"out": "[1]", "get": True}),
            ("no values", {"out": '{"nodeGroups": [{}]}', "get": True}),
        ):
            self.helm.fail(**says)
            self.resize("default-worker", 3)
            with self.subTest(word):
                self._failed(word)
            self.helm.fail()
            self._repaired()
            self.resize("default-worker", 1)
            self.settle()

    def _left_busy(self, age_s, revisions=2):
        """Let a release be as a Helm leaves it that is killed."""
        updated = timeutils.utcnow() - datetime.timedelta(seconds=age_s)
        history = [{"updated": updated.isoformat() + "Z"}] * revisions
        self.helm.fail(
            code=1,
            err="Error: UPGRADE FAILED: another operation (install/upgrade/"
            "rollback) is in progress",
            history=history,
        )
        self.resize("default-worker", 3)

    def test_a_release_that_a_killed_helm_left_is_rolled_back(self):
        self._left_busy(601)
        self.assertIsNone(self.failure)
        words = [each[0] for each in self.helm.calls[-4:]]
        self.assertEqual(["upgrade", "history", "rollback", "upgrade"], words)
        self.assertEqual(3, self.entries()["default-worker"]["machineCount"])
        self._repaired()

    def test_a_helm_that_may_be_at_work_is_left_alone(self):
        self._left_busy(30)
        self._failed("at work", "repeat the operation in")
        self.assertNotIn("rollback", [each[0] for each in self.helm.calls])

    def test_a_first_installation_that_was_killed(self):
        self._left_busy(601, revisions=1)
        self._failed("never installed", "delete the cluster")

    def test_a_history_that_is_nonsense(self):
        for history in ([], [{}], [{"updated": "x"}], {}, [1]):
            self.helm.fail(code=1, err="another operation", history=history)
            self.resize("default-worker", 3)
            with self.subTest(history):
                self._failed("no history")

    def test_nova_is_down(self):
        self.http.get(
            f"{conductor.CLOUD}/compute/flavors/detail",
            exc=requests.exceptions.ConnectTimeout,
        )
        self.resize("default-worker", 3)
        self._failed("Nova")
        self._cloud()
        self._repaired()

    def test_placement_is_down(self):
        self.add("fast")
        self.settle()
        self.http.get(
            f"{conductor.CLOUD}/placement/resource_providers", status_code=503
        )
        self.resize("fast", 3)
        self._failed("Placement", "503")
        # Nobody else is harmed.
        self.resize("default-worker", 3)
        self.assertIsNone(self.failure)
        self._cloud()
        self.resize("fast", 3)
        self._repaired()

    def test_the_management_cluster_answers_nonsense(self):
        self.resize("default-worker", 3)
        for answer in (
            {"text": "<html>"},
            {"json": []},
            {"json": None},
            {"json": {"spec": None}},
            {"json": {"status": {"conditions": [{}]}, "spec": {}}},
            {"status_code": 500},
            {"exc": requests.exceptions.ConnectTimeout},
        ):
            self.http.get(
                conductor.requests_mock.ANY,
                additional_matcher=lambda found: found.url.startswith(
                    conductor.MANAGEMENT
                ),
                **answer,
            )
            with self.subTest(answer):
                cluster = self.poll()
                self.assertEqual(Status.UPDATE_IN_PROGRESS, cluster.status)
                if cluster.status_reason:
                    self.assertIn(
                        errors.NO_MANAGEMENT, self.cluster().status_reason
                    )
                self.assertIn("UN", self._health())
        self.assertIn("ConnectTimeout", self.cluster().status_reason)
        self.assertEqual("UNKNOWN", self._health())
        self._cloud()
        self.settle()
        self.assertEqual(Status.UPDATE_COMPLETE, self.cluster().status)
        self.assertIsNone(self.cluster().status_reason)

    def _health(self):
        job = periodic.ClusterHealthUpdateJob(self.context, self.cluster())
        job._update_health_status()
        return self.cluster().health_status

    def test_a_kubeconfig_that_is_missing(self):
        self._override("kubeconfig_file", "/nonexistent", "capi_helm")
        self.resize("default-worker", 3)
        self.poll()
        self.assertIn("kubeconfig_file", self.cluster().status_reason)

    def test_a_conductor_that_is_killed_while_one_is_added(self):
        # What is in the database then, and not with Helm.
        self.helm.fail(code=137, err="Killed")
        self.add("fast")
        fast = self.nodegroup("fast")
        fast.status, fast.status_reason = Status.CREATE_IN_PROGRESS, None
        fast.save()
        self.helm.fail()
        self._repaired()
        self.assertIn("fast", self.entries())


class ManyTest(conductor.ConductorCase):
    def test_two_thousand_nodegroups(self):
        self.create()
        self.settle()
        cluster = self.cluster()
        database = db_api.get_instance()
        for number in range(2000):
            database.create_nodegroup(
                {
                    "name": f"group-{number}",
                    "cluster_id": cluster.uuid,
                    "project_id": cluster.project_id,
                    "flavor_id": ("rt.large", "rt.broken")[number % 2],
                    "labels": {"sriov_rt_networks": "fast0"},
                    "node_count": 1,
                    "role": "worker",
                    "is_default": False,
                    "status": Status.UPDATE_IN_PROGRESS,
                }
            )
        before = self.http.call_count
        self.resize("default-worker", 3)
        self.assertIsNone(self.failure)
        self.assertEqual(1001, len(self.entries()))
        # A list of flavors and one of networks, however many there are.
        self.assertEqual(2, self.http.call_count - before)
        upgrades = [each for each in self.helm.calls if each[0] != "upgrade"]
        self.assertEqual(1, len(upgrades))


class Killed(BaseException):
    """The end of a process: nothing after it runs."""


class KillTest(conductor.ConductorCase):
    """A conductor that is killed before or after each thing that it does.

    What it does is to send a request, run Helm, or save a row.
    """

    def setUp(self):
        super().setUp()
        self.left = None
        for owner, name in (
            (requests.Session, "request"),
            (helm.Client, "_run"),
            (objects.Cluster, "save"),
            (objects.NodeGroup, "save"),
        ):
            self._killing(owner, name)

    def _killing(self, owner, name):
        real = getattr(owner, name)

        def step(*args, **kwargs):
            self._count()
            found = real(*args, **kwargs)
            self._count()
            return found

        self._patch(owner, name, step)

    def _count(self):
        if self.left is not None:
            if self.left == 0:
                raise Killed
            self.left -= 1

    def _each_step(self, before, operation, after):
        """Kill an operation at each of its steps; return how many it has."""
        for step in range(200):
            before()
            self.left = step
            try:
                operation()
                return step
            except Killed:
                pass
            finally:
                self.left = None
            with self.subTest(step=step):
                after()
            self._forget()
        raise AssertionError("it has no end")

    def _forget(self):
        for each in objects.Cluster.list(self.context):
            for group in each.nodegroups:
                group.destroy()
            each.destroy()
        (self.helm.home / "releases.json").unlink(missing_ok=True)
        self.management = {}

    def _ready(self):
        self.create()
        self.settle()

    def _repaired(self):
        """Let a resize bring all back, as an administrator does."""
        cluster = self.cluster()
        if cluster.status.endswith("_IN_PROGRESS"):
            # The API takes no update meanwhile; the poll ends it first.
            self.settle()
        self.resize("default-worker", 4)
        self.assertIsNone(self.failure)
        self.settle()
        self.assertEqual(Status.UPDATE_COMPLETE, self.cluster().status)
        self.assertIsNone(self.cluster().status_reason)
        self.assertEqual(4, self.entries()["default-worker"]["machineCount"])
        for each in self.cluster().nodegroups:
            self.assertTrue(each.status.endswith("_COMPLETE"), each.name)

    def _deleted(self):
        """Delete the cluster; nothing may be left."""
        self.delete()
        self.assertIsNone(self.failure)
        self.management = {}
        self.assertEqual(Status.DELETE_COMPLETE, self.poll().status)
        self.assertEqual({}, self.helm.releases)

    def test_a_cluster_that_is_created(self):
        def after():
            if objects.Cluster.list(self.context):
                self._deleted()

        steps = self._each_step(
            lambda: None, lambda: self.create(flavor="rt.large"), after
        )
        self.assertGreater(steps, 10)

    def test_a_nodegroup_that_is_added(self):
        def after():
            names = {each.name for each in self.cluster().nodegroups}
            self._repaired()
            if "fast" in names:
                self.assertIn("fast", self.entries())

        steps = self._each_step(self._ready, lambda: self.add("fast"), after)
        self.assertGreater(steps, 6)

    def test_a_nodegroup_that_is_removed(self):
        def before():
            self._ready()
            self.add("fast")
            self.settle()

        def after():
            self._repaired()

        steps = self._each_step(before, lambda: self.remove("fast"), after)
        self.assertGreater(steps, 6)

    def test_a_nodegroup_that_grows(self):
        steps = self._each_step(
            self._ready,
            lambda: self.resize("default-worker", 3),
            self._repaired,
        )
        self.assertGreater(steps, 6)

    def test_an_upgrade(self):
        steps = self._each_step(self._ready, self.upgrade, self._repaired)
        self.assertGreater(steps, 6)

    def test_a_cluster_that_is_deleted(self):
        steps = self._each_step(self._ready, self.delete, self._deleted)
        self.assertGreater(steps, 4)

    def test_a_deletion_that_is_being_polled(self):
        def before():
            self._ready()
            self.delete()
            self.management = {}

        def after():
            self.assertEqual(Status.DELETE_COMPLETE, self.poll().status)

        steps = self._each_step(before, self.poll, after)
        self.assertGreater(steps, 2)
