# SPDX-License-Identifier: Apache-2.0

"""Nova's API accepts our extra specs if they are valid, and no others."""

from tempest.lib import decorators
from tempest.lib import exceptions as lib_exc

from sriov_rt_tempest_plugin.tests import base


class ExtraSpecsTest(base.SriovRtTest):
    """Each key of the namespace, with valid and invalid values."""

    def assert_accepted(self, key: str, *values: str) -> None:
        """Check that values of an extra spec are kept as they are.

        :param key: the key without the namespace.
        """
        flavor, name = self.flavor()["id"], f"sriov_rt:{key}"
        client = self.admin_flavors_client
        for value in values:
            client.set_flavor_extra_spec(flavor, **{name: value})
            kept = client.show_flavor_extra_spec(flavor, name)
            self.assertEqual({name: value}, dict(kept))

    def assert_refused(self, key: str, sentence: str, *values: str) -> None:
        """Check that values of an extra spec are refused, and why.

        :param key: the key without the namespace.
        :param sentence: a part of the error message.
        """
        flavor, name = self.flavor()["id"], f"sriov_rt:{key}"
        client = self.admin_flavors_client
        for value in values:
            refused = self.assertRaises(
                lib_exc.BadRequest,
                client.set_flavor_extra_spec,
                flavor,
                **{name: value},
            )
            message = refused.resp_body["message"]
            self.assertIn(f"{name}: ", message)
            self.assertIn(sentence, message)
        self.assertEqual(
            {}, client.list_flavor_extra_specs(flavor)["extra_specs"]
        )

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("c5c83677-ca8f-44b0-8fca-05fa77ac3539")
    def test_realtime(self) -> None:
        self.assert_accepted("realtime", "required")
        self.assert_refused("realtime", "required", "yes", "Required", "")

    @decorators.idempotent_id("0d215b9a-d18e-4a69-9672-f95fbd87de94")
    def test_kernel(self) -> None:
        self.assert_accepted("kernel", "preempt_rt", "any")
        self.assert_refused("kernel", "preempt_rt", "rt", "preempt_rt ")

    @decorators.idempotent_id("c219e244-b5db-463d-8095-13b1c2800361")
    def test_node_selector(self) -> None:
        self.assert_accepted(
            "node_selector",
            "pci-1924.present=true",
            "example.org/zone in (a,b),!drained,cpus>4",
        )
        self.assert_refused("node_selector", "", "zone in (a", "a in b", ",")

    @decorators.idempotent_id("9e3dac54-5e57-4729-ab46-b7c5623cf496")
    def test_nic(self) -> None:
        self.assert_accepted(
            "nic", "any", "solarflare", "intel", "8086", "8086:10ca"
        )
        self.assert_refused("nic", "solarflare", "mellanox?", "8086:", "80861")

    @decorators.idempotent_id("4f902c55-1411-4a7b-a8d2-dacce2dd6986")
    def test_vif(self) -> None:
        self.assert_accepted(
            "vif", "vf", "macvlan", "macvlan:bridge", "ipvlan", "ipvlan:l2"
        )
        self.assert_refused("vif", "", "tap", "vf:bridge", "macvlan:l2")

    @decorators.idempotent_id("42ff351d-b20c-41f5-98db-a99c52f55b9f")
    def test_onload(self) -> None:
        self.assert_accepted("onload", "required", "off")
        self.assert_refused("onload", "required", "on", "1")

    @decorators.idempotent_id("8c52c4cb-43ee-47d9-bd6b-a1eada97a16f")
    def test_onload_profile(self) -> None:
        self.assert_accepted("onload_profile", "latency", "a.b_c-1")
        self.assert_refused(
            "onload_profile", "letter or digit", "../latency", "-x", "a" * 65
        )

    @decorators.idempotent_id("e4e289ae-cae9-40c3-aec7-cab3b22383b3")
    def test_guest(self) -> None:
        self.assert_accepted("guest", "standard", "lean", "bare")
        self.assert_refused("guest", "lean", "slim", "lean,bare")

    @decorators.idempotent_id("28e090b9-30e6-45ad-aae1-2aa97744d71a")
    def test_keep(self) -> None:
        self.assert_accepted("keep", "rng", "rng,watchdog")
        self.assert_refused("keep", "rng", "rng;watchdog", "disk")

    @decorators.idempotent_id("deeeacec-b443-412b-9e67-c9a7d0cd5770")
    def test_scheduling(self) -> None:
        for key in ("vcpu_sched", "iothread_sched", "emulator_sched"):
            self.assert_accepted(key, "fifo:1", "rr:99")
            self.assert_refused(key, "", "fifo", "fifo:0", "rr:100", "other:1")

    @decorators.idempotent_id("2d9a19e1-32f8-47d7-b2ce-8309a2b71da0")
    def test_max_latency_us(self) -> None:
        self.assert_accepted("max_latency_us", "1", "20", "1000000")
        self.assert_refused(
            "max_latency_us", "", "-1", "0", "20us", "1e3", "1000001"
        )

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("cd57bcd5-3065-4677-a85d-196a442a4801")
    def test_a_key_that_does_not_exist(self) -> None:
        # The message names the keys that exist.
        self.assert_refused("kernal", "max_latency_us", "preempt_rt")

    @decorators.idempotent_id("c5dc4509-5bed-44a3-85b6-7917b098b3cc")
    def test_a_change_is_checked_as_well(self) -> None:
        flavor = self.flavor({"sriov_rt:kernel": "any"})["id"]
        client, name = self.admin_flavors_client, "sriov_rt:kernel"
        self.assertRaises(
            lib_exc.BadRequest,
            client.update_flavor_extra_spec,
            flavor,
            name,
            **{name: "rt"},
        )
        kept = client.show_flavor_extra_spec(flavor, name)
        self.assertEqual({name: "any"}, dict(kept))
        client.update_flavor_extra_spec(flavor, name, **{name: "preempt_rt"})
        client.unset_flavor_extra_spec(flavor, name)
        self.assertEqual(
            {}, client.list_flavor_extra_specs(flavor)["extra_specs"]
        )

    @decorators.idempotent_id("6fc62bb1-0426-448c-89b8-45d9ff3da5fb")
    def test_a_user_may_set_none(self) -> None:
        self.assertRaises(
            lib_exc.Forbidden,
            self.os_primary.flavors_client.set_flavor_extra_spec,
            self.flavor()["id"],
            **{"sriov_rt:realtime": "required"},
        )
