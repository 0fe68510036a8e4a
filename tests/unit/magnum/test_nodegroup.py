# SPDX-License-Identifier: Apache-2.0

"""What a nodegroup's Request means for the chart."""

import json
import pathlib
import unittest

import yaml

from sriov_rt.magnum import errors
from sriov_rt.magnum import node
from sriov_rt.magnum import nodegroup
from sriov_rt.magnum.nodegroup import Settings
from sriov_rt.placement import host_traits
from sriov_rt.pods import feasible_nodes
from tests.unit.magnum import shapes
from tests.unit.magnum.test_labels import ODD

GOLDEN = pathlib.Path(__file__).parent / "values"

SETTINGS = Settings()

NETWORKS = {"sriov_rt_networks": "fast0 fast1"}

POD_NETWORKS = {
    **NETWORKS,
    "sriov_rt_pod_vif": "macvlan",
    "sriov_rt_pod_subnets": "172.20.0.0/16 172.21.0.0/16",
}


class GoldenTest(unittest.TestCase):
    """The values of three flavors, as Helm gets them."""

    maxDiff = None

    def _check(self, name, group, flavor, settings=SETTINGS):
        rendered = nodegroup.render(group, flavor, settings, shapes.networks)
        expected = yaml.safe_load((GOLDEN / f"{name}.yaml").read_text())
        found = {
            "traits": sorted(rendered.traits),
            "values": json.loads(json.dumps(rendered.values)),
        }
        self.assertEqual(expected, found, yaml.safe_dump(found))

    def test_its_label_is_the_one_that_pod_explain_reads(self):
        rendered = nodegroup.render(
            shapes.nodegroup(), shapes.REALTIME_VF, SETTINGS, shapes.networks
        )
        self.assertIn(
            feasible_nodes.REALTIME_CPUS, rendered.values["nodeLabels"]
        )

    def test_realtime_with_vfs(self):
        group = shapes.nodegroup(
            labels={
                **NETWORKS,
                "sriov_rt_huge_pages": "1G:4",
                "sriov_rt_runtimes": "kata-rt",
                "sriov_rt_realtime": "required",
            },
            node_labels={"rack": "7"},
            node_taints=[{"key": "rack", "effect": "NoExecute"}],
        )
        self._check("realtime-vf", group, shapes.REALTIME_VF)

    def test_macvlan_with_onload(self):
        group = shapes.nodegroup(labels=NETWORKS)
        self._check(
            "macvlan-onload",
            group,
            shapes.MACVLAN_ONLOAD,
            Settings(extra_networks=("storage",)),
        )

    def test_an_ordinary_flavor_adds_nothing(self):
        group = shapes.nodegroup(labels={"kube_tag": "v1.34.4"})
        self._check("ordinary", group, shapes.ORDINARY)


class RenderTest(unittest.TestCase):
    def _render(self, flavor=shapes.REALTIME_VF, settings=SETTINGS, **kwargs):
        return nodegroup.render(
            shapes.nodegroup(**kwargs), flavor, settings, shapes.networks
        )

    def _refused(self, *words, **kwargs):
        with self.assertRaises(errors.NodegroupRefused) as caught:
            self._render(**kwargs)
        for word in words:
            self.assertIn(word, str(caught.exception))
        # What Magnum's database and API take, whatever is quoted.
        text = errors.sentence(str(caught.exception))
        self.assertTrue(text.isascii() and text.isprintable())
        self.assertLessEqual(len(text), errors.MAX_SENTENCE)

    def test_port_security_stays_where_a_label_says_so(self):
        for text, expected in (("on", None), ("off", True), (None, True)):
            labels = dict(NETWORKS)
            if text:
                labels["sriov_rt_port_security"] = text
            _, *ports = self._ports(labels=labels)
            for each in ports:
                with self.subTest(label=text):
                    self.assertEqual(expected, each.get("disablePortSecurity"))
                    # An empty list is the cluster's own to the provider.
                    self.assertNotIn("securityGroups", each)

    def test_a_vf_that_macvlans_of_pods_are_on_is_trusted(self):
        trusted = {"trustedVF": True}
        switch = "sriov_rt_trusted_vf"
        for flavor, labels, expected in (
            (shapes.REALTIME_VF, POD_NETWORKS, trusted),
            (shapes.REALTIME_VF, NETWORKS, None),
            (
                shapes.REALTIME_VF,
                POD_NETWORKS | {"sriov_rt_pod_vif": "ipvlan"},
                None,
            ),
            (shapes.REALTIME_VF, POD_NETWORKS | {switch: "off"}, None),
            (shapes.REALTIME_VF, NETWORKS | {switch: "on"}, trusted),
            # Of a port of type normal Neutron's mechanism driver makes that.
            (shapes.MACVLAN_ONLOAD, POD_NETWORKS, None),
        ):
            with self.subTest(labels=labels, flavor=flavor.name):
                _, *ports = self._ports(flavor=flavor, labels=labels)
                for each in ports:
                    self.assertEqual(expected, each.get("profile"))

    def _ports(self, **kwargs):
        return self._render(**kwargs).values["machineNetworking"]["ports"]

    def test_the_name_of_the_charts_control_plane_is_refused(self):
        with self.assertRaises(errors.NodegroupRefused) as caught:
            nodegroup.render(
                shapes.nodegroup("control-plane"),
                shapes.ORDINARY,
                SETTINGS,
                shapes.networks,
            )
        self.assertIn("choose another name", str(caught.exception))

    def test_the_default_nodegroup_has_no_taint_of_ours(self):
        values = self._render(default=True).values
        registration = values["kubeadmConfigSpec"]["joinConfiguration"]
        self.assertNotIn("taints", registration["nodeRegistration"])

    def test_no_taint_where_the_operator_wants_none(self):
        values = self._render(settings=Settings(taint_realtime=False)).values
        registration = values["kubeadmConfigSpec"]["joinConfiguration"]
        self.assertNotIn("taints", registration["nodeRegistration"])

    def test_labels_and_taints_of_an_ordinary_nodegroup_arrive(self):
        values = self._render(
            flavor=shapes.ORDINARY,
            node_labels={"tier": "web"},
            node_taints=[{"key": "a/b", "value": "c", "effect": "NoSchedule"}],
        ).values
        self.assertEqual(
            {
                "nodeLabels": {"tier": "web"},
                "kubeadmConfigSpec": {
                    "joinConfiguration": {
                        "nodeRegistration": {
                            "taints": [
                                {
                                    "key": "a/b",
                                    "value": "c",
                                    "effect": "NoSchedule",
                                }
                            ]
                        }
                    }
                },
            },
            values,
        )

    def test_names_that_the_chart_does_not_take(self):
        for name in ("", "a", "ab", "1st-group", "-ab", "ab-", "a_b", "Abc"):
            with self.subTest(name):
                self._refused("name", name=name)
        self._render(name="abc")

    def test_a_name_that_the_chart_would_cut(self):
        settings = Settings(release="c" * 43)
        self._render(name="n" * 19, settings=settings)
        self._refused("19 characters", name="n" * 20, settings=settings)

    def test_node_labels_that_break_the_kubelets_argument(self):
        for text in {*ODD, "a,b=c"} - {"", ".."}:
            with self.subTest(text):
                self._refused("node label", node_labels={"a": f"b{text}c"})
                self._refused("node label", node_labels={f"b{text}": "c"})

    def test_a_node_label_that_is_ours(self):
        key = nodegroup.REALTIME
        self._refused("for labels of sriov-rt", node_labels={key: "no"})
        key = "network.sriov-rt.openstack.org/fast0"
        self._refused("for labels of sriov-rt", node_labels={key: "vf"})

    def test_taints_that_the_kubelet_refuses(self):
        for taint in (
            {},
            {"key": "a b", "effect": "NoSchedule"},
            {"key": "a", "value": "b c", "effect": "NoSchedule"},
            {"key": "a", "effect": "Never"},
            {"key": None, "value": None, "effect": None},
        ):
            with self.subTest(taint):
                self._refused("node taint", node_taints=[taint])

    def test_networks_that_do_not_exist_or_exist_twice(self):
        self._refused(
            "'nope'", "network list", labels={"sriov_rt_networks": "nope"}
        )
        self._refused(
            "2 networks", "UUID", labels={"sriov_rt_networks": "twice"}
        )

    def test_networks_are_read_only_where_labels_name_one(self):
        def fail():
            raise AssertionError("networks were read")

        nodegroup.render(
            shapes.nodegroup(), shapes.REALTIME_VF, SETTINGS, fail
        )

    def test_nodes_whose_pods_are_patched_for_onload(self):
        label = "sriov-rt.openstack.org/onload-admission"
        for flavor, admission, there in (
            (shapes.MACVLAN_ONLOAD, True, True),
            (shapes.MACVLAN_ONLOAD, False, False),
            (shapes.REALTIME_VF, True, False),
        ):
            settings = Settings(onload_admission=admission)
            found = self._render(flavor=flavor, settings=settings).values
            self.assertIs(there, label in found["nodeLabels"])

    def test_networks_of_pods(self):
        values = self._render(labels=POD_NETWORKS).values
        self.assertLessEqual(
            {
                "sriov-rt.openstack.org/pod-networks": "macvlan",
                "network.sriov-rt.openstack.org/fast0": "macvlan",
                "network.sriov-rt.openstack.org/fast1": "macvlan",
            }.items(),
            values["nodeLabels"].items(),
        )
        spec = values["kubeadmConfigSpec"]
        paths = [each["path"] for each in spec["files"]]
        self.assertIn(node.NETWORK_CONFIG, paths)
        # The parameters may reboot the node, and so are first.
        self.assertEqual(
            [
                f"{each} || exit 1"
                for each in (node.KERNEL_SCRIPT, node.NETWORK_SCRIPT)
            ],
            spec["preKubeadmCommands"],
        )

    def test_networks_of_pods_that_cannot_be(self):
        for word, changes in (
            ("sriov_rt_networks", {"sriov_rt_networks": None}),
            ("sriov_rt_pod_vif", {"sriov_rt_pod_vif": None}),
            ("one subnet for each", {"sriov_rt_pod_subnets": "10.0.0.0/16"}),
            ("overlap", {"sriov_rt_pod_subnets": "10.0.0.0/8 10.1.0.0/16"}),
            (
                "no 110 addresses",
                {"sriov_rt_pod_subnets": "10.0.0.0/25 10.1.0.0/16"},
            ),
            ("UUID", {"sriov_rt_networks": "Fast fast1"}),
        ):
            labels = {**POD_NETWORKS, **changes}
            labels = {k: v for k, v in labels.items() if v is not None}
            with self.subTest(changes):
                self._refused(word, labels=labels)
        self._refused(
            "gives VFs to pods",
            flavor=shapes.MACVLAN_ONLOAD,
            labels={**POD_NETWORKS, "sriov_rt_pod_vif": "vf"},
        )

    def test_a_label_that_the_flavor_does_not_meet(self):
        self._refused(
            "sriov_rt_vif",
            "'rt.large'",
            "remove the label",
            labels={"sriov_rt_vif": "macvlan"},
        )
        self._refused(
            "sriov_rt_realtime",
            flavor=shapes.ORDINARY,
            labels={"sriov_rt_realtime": "required"},
        )

    def test_labels_that_the_flavor_more_than_meets(self):
        flavor = shapes.with_extra_specs(
            shapes.REALTIME_VF,
            sriov_rt__max_latency_us="20",
            sriov_rt__keep="rng,panic",
        )
        labels = {"sriov_rt_max_latency_us": "30", "sriov_rt_keep": "rng"}
        self._render(flavor=flavor, labels=labels)
        labels["sriov_rt_max_latency_us"] = "10"
        self._refused("sriov_rt_max_latency_us", flavor=flavor, labels=labels)

    def test_a_flavor_that_cannot_be(self):
        for key, value, word in (
            ("sriov_rt__realtime", "maybe", "sriov_rt:realtime"),
            ("sriov_rt__onlaod", "required", "sriov_rt:onlaod"),
            ("hw__cpu_policy", "mixed", "hw:cpu_policy=mixed"),
            ("hw__cpu_policy", None, "hw:cpu_policy=dedicated"),
            ("hw__cpu_realtime_mask", None, "hw:cpu_realtime_mask"),
            ("hw__cpu_realtime_mask", "0-3", "no vCPU to the node"),
            ("hw__cpu_realtime_mask", "^0-3", "no realtime vCPU"),
            ("hw__cpu_realtime_mask", "2-4", "beyond 3"),
            ("hw__cpu_realtime_mask", "^x", "cpu list"),
        ):
            flavor = shapes.with_extra_specs(
                shapes.REALTIME_VF, **{key: value}
            )
            with self.subTest(key=key, value=value):
                self._refused(word, flavor=flavor)

    def test_masks_as_nova_reads_them(self):
        for mask, reserved in (("^0", "0"), ("1-3", "0"), ("^3", "3")):
            flavor = shapes.with_extra_specs(
                shapes.REALTIME_VF, hw__cpu_realtime_mask=mask
            )
            spec = self._render(flavor=flavor).values["kubeadmConfigSpec"]
            found = spec["joinConfiguration"]["nodeRegistration"]
            with self.subTest(mask):
                self.assertEqual(
                    reserved, found["kubeletExtraArgs"]["reserved-cpus"]
                )

    def test_a_flavor_whose_extra_specs_are_hidden(self):
        flavor = nodegroup.Flavor("x", 2, 2048, None)
        self._refused("os-flavor-extra-specs", flavor=flavor)

    def test_realtime_of_nova_alone_is_left_to_nova(self):
        flavor = shapes.with_extra_specs(
            shapes.ORDINARY, hw__cpu_realtime="yes", hw__cpu_policy="dedicated"
        )
        self.assertEqual({}, self._render(flavor=flavor).values)

    def test_huge_pages_leave_memory_to_the_node(self):
        self._render(labels={"sriov_rt_huge_pages": "1G:6"})
        self._refused("6556 MiB", labels={"sriov_rt_huge_pages": "1G:7"})

    def test_onload_and_kata_together(self):
        self._refused(
            "Kata",
            flavor=shapes.MACVLAN_ONLOAD,
            labels={"sriov_rt_runtimes": "kata-rt"},
        )

    def test_every_trait_of_the_agent_is_implied_by_some_flavor(self):
        flavor = shapes.with_extra_specs(
            shapes.REALTIME_VF,
            sriov_rt__onload="required",
            sriov_rt__max_latency_us="50",
        )
        self.assertEqual(
            set(host_traits.TRAITS) | {"CUSTOM_RACK_7"},
            self._render(flavor=flavor).traits,
        )

    def test_many_problems_in_one_sentence(self):
        labels = {f"sriov_rt_{n}": "x" * 200 for n in range(2000)}
        self._refused("and 1992 more", labels=labels)

    def test_what_cloud_init_would_take_for_a_template(self):
        # CAPI's user data begins with '## template: jinja'.
        values = self._render(
            labels={
                "sriov_rt_huge_pages": "2M:4",
                "sriov_rt_runtimes": "kata-rt",
            }
        ).values
        text = json.dumps(values)
        for begin in ("{{", "{%", "{#"):
            self.assertNotIn(begin, text)
