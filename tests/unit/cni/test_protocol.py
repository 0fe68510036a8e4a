# SPDX-License-Identifier: Apache-2.0

"""A plug-in is called by anything; what is none of CNI is refused."""

import json
import unittest

from sriov_rt.cni import protocol

ENVIRONMENT = {
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "c0ffee",
    "CNI_IFNAME": "net1",
    "CNI_NETNS": "/run/netns/p",
    "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=team;K8S_POD_NAME=web-0",
}
CONFIGURATION = {
    "cniVersion": "1.1.0",
    "name": "fast",
    "type": "sriov-rt-vf",
    "deviceID": "0000:01:10.1",
}


def parse(configuration=None, **environment):
    data = CONFIGURATION if configuration is None else configuration
    if not isinstance(data, bytes):
        data = json.dumps(data).encode()
    return protocol.parse({**ENVIRONMENT, **environment}, data)


class ParseTest(unittest.TestCase):
    def refused(self, code, configuration=None, **environment):
        with self.assertRaises(protocol.CniError) as caught:
            parse(configuration, **environment)
        self.assertEqual(code, caught.exception.code)
        return str(caught.exception)

    def test_a_call(self):
        found = parse()
        self.assertEqual(
            protocol.AttachmentId("c0ffee", "net1"), found.attachment
        )
        self.assertEqual("0000:01:10.1", found.device)
        self.assertEqual("team/web-0", found.pod)
        self.assertTrue(found.is_first)

    def test_the_device_of_a_runtime(self):
        plain = {
            "cniVersion": "1.0.0",
            "name": "fast",
            "runtimeConfig": {"deviceID": "01:10.2"},
        }
        self.assertEqual("0000:01:10.2", parse(plain).device)

    def test_a_namespace_that_is_gone_is_taken_for_del_alone(self):
        self.assertEqual("", parse(CNI_COMMAND="DEL", CNI_NETNS="").namespace)
        for command in ("ADD", "CHECK"):
            self.refused(
                protocol.INVALID_ENVIRONMENT, CNI_COMMAND=command, CNI_NETNS=""
            )

    def test_what_is_no_environment(self):
        for name, values in {
            "CNI_COMMAND": ("", "add", "ADD\n"),
            "CNI_CONTAINERID": ("", "../x", "-a", "a" * 300),
            "CNI_IFNAME": ("", "..", "a/b", "a b", "a" * 16),
            "CNI_NETNS": ("run/netns/p",),
        }.items():
            for value in values:
                with self.subTest(name, value=value):
                    said = self.refused(
                        protocol.INVALID_ENVIRONMENT, **{name: value}
                    )
                    self.assertIn(name, said)

    def test_what_is_no_configuration(self):
        for data in (b"", b"\xff", b"[1]", b"[" * 100000, b"x" * 2**21):
            with self.subTest(data[:10]):
                self.refused(protocol.DECODE_FAILURE, data)
        for change in (
            {"name": ""},
            {"name": "../x"},
            {"name": 1},
            {"prevResult": []},
            {"deviceID": 7},
            {"deviceID": "../../x"},
        ):
            with self.subTest(change):
                self.refused(
                    protocol.INVALID_CONFIGURATION, {**CONFIGURATION, **change}
                )

    def test_another_version_of_the_specification(self):
        for version in ("0.2.0", "2.0.0", 1, None, ["1.1.0"]):
            with self.subTest(version):
                said = self.refused(
                    protocol.INCOMPATIBLE_VERSION,
                    {**CONFIGURATION, "cniVersion": version},
                )
                self.assertIn("1.1.0", said)

    def test_gc_without_its_list_would_take_all_for_left_over(self):
        for given in (None, {}, [1], [{"containerID": "a"}]):
            with self.subTest(given):
                self.refused(
                    protocol.INVALID_CONFIGURATION,
                    {**CONFIGURATION, "cni.dev/valid-attachments": given},
                    CNI_COMMAND="GC",
                )
        found = parse(
            {
                **CONFIGURATION,
                "cni.dev/valid-attachments": [
                    {"containerID": "a", "ifname": "net1"}
                ],
            },
            CNI_COMMAND="GC",
        )
        self.assertEqual({protocol.AttachmentId("a", "net1")}, found.valid)

    def test_what_a_pod_calls_itself_reaches_no_log_unless_it_is_a_name(self):
        for text in (
            "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b\nERROR",
            "K8S_POD_NAMESPACE=a",
            "=;=",
        ):
            with self.subTest(text):
                self.assertEqual("", parse(CNI_ARGS=text).pod)
