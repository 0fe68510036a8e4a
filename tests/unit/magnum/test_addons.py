# SPDX-License-Identifier: Apache-2.0

"""Add-ons: their index, their files, and which a cluster gets."""

import hashlib
import pathlib
import re
import shutil
import tempfile
import tomllib
import unittest

import yaml

from sriov_rt.magnum import addons
from sriov_rt.parse import selector

TOP = pathlib.Path(__file__).parents[3]
SHIPPED = TOP / "etc/kubernetes/addons"

ONLOAD = {"sriov-rt.openstack.org/onload-host": "true"}
FAST = {"sriov-rt.openstack.org/fast-ports": "macvlan"}


class ShippedTest(unittest.TestCase):
    """What is in the repository, and so in the wheel."""

    def setUp(self):
        self.addons = addons.load(SHIPPED)

    def test_the_index_has_each_file_with_its_checksum(self):
        index = yaml.safe_load((SHIPPED / addons.INDEX).read_text())
        found = {
            (path.parent.name, path.name): hashlib.sha256(
                path.read_bytes()
            ).hexdigest()
            for path in SHIPPED.glob("*/*")
        }
        named = {
            (name, file): checksum
            for name, each in index["addons"].items()
            for file, checksum in each["files"].items()
        }
        self.assertEqual(found, named)

    def test_the_wheel_has_each(self):
        project = tomllib.loads((TOP / "pyproject.toml").read_text())
        data = project["tool"]["setuptools"]["data-files"]
        packed = {
            path.relative_to(SHIPPED)
            for patterns in data.values()
            for pattern in patterns
            for path in TOP.glob(pattern)
            if path.is_relative_to(SHIPPED)
        }
        shipped = {
            path.relative_to(SHIPPED)
            for path in SHIPPED.rglob("*")
            if path.is_file()
        }
        self.assertEqual(shipped, packed)
        for target, patterns in data.items():
            for pattern in patterns:
                for path in TOP.glob(pattern):
                    # A folder among files would break the build.
                    self.assertTrue(path.is_file(), f"{target}: {path}")

    def test_names_that_the_chart_does_not_cut(self):
        for each in self.addons:
            self.assertRegex(each.name, r"\A[a-z][a-z0-9-]*[a-z0-9]\Z")
            self.assertLessEqual(len(each.name), addons.MAX_NAME)

    def test_each_document_is_an_object_that_an_api_server_takes(self):
        for addon in self.addons:
            for file, text in addon.rendered({}).items():
                for each in yaml.safe_load_all(text):
                    with self.subTest(addon=addon.name, file=file):
                        self.assertTrue(each["apiVersion"])
                        self.assertTrue(each["kind"])
                        self.assertTrue(each["metadata"]["name"])

    def test_nothing_that_jinja_or_helm_would_take_for_a_template(self):
        # The chart wraps each file in {% raw %}; the provider packs it as a
        # chart of Helm.
        for addon in self.addons:
            for text in addon.manifests.values():
                for begin in ("{{", "{%", "{#"):
                    self.assertNotIn(begin, text)

    def test_each_image_is_pinned_and_an_option(self):
        for addon in self.addons:
            named = {
                found
                for text in addon.manifests.values()
                for found in re.findall(r"image: (\S+)", text)
            }
            with self.subTest(addon.name):
                self.assertEqual(named, set(addon.images.values()))
                for each in named:
                    self.assertRegex(each, r"\A[^@:\s]+:[^:\s]+\Z")
                    self.assertFalse(each.endswith(":latest"))

    def test_pods_of_ours_run_on_tainted_nodes(self):
        for addon in self.addons:
            for text in addon.manifests.values():
                for each in yaml.safe_load_all(text):
                    if each["kind"] == "DaemonSet":
                        spec = each["spec"]["template"]["spec"]
                        self.assertEqual(
                            [{"operator": "Exists"}], spec["tolerations"]
                        )

    def test_an_image_from_another_registry(self):
        (multus,) = addons.select(self.addons, ["multus"])
        text = multus.rendered({"multus-cni": "registry:5000/multus:1"})
        found = set(re.findall(r"image: (\S+)", text["multus.yaml"]))
        self.assertEqual({"registry:5000/multus:1"}, found)
        with self.assertRaisesRegex(addons.AddonUnknown, "'multsu'"):
            addons.check_images(self.addons, {"multsu": "x"})
        addons.check_images(self.addons, {"multus-cni": "x"})


class ChoiceTest(unittest.TestCase):
    def setUp(self):
        self.addons = (
            addons.Addon(
                "a", 1, "ns", selector.parse_selector("sriov-rt/x"), {}, {}
            ),
            addons.Addon(
                "b", 2, "ns", selector.parse_selector("y=1"), {}, {"f": "t\n"}
            ),
        )

    def _needed(self, *nodes):
        return [each.name for each in addons.needed(self.addons, nodes)]

    def test_a_cluster_gets_what_its_nodes_need(self):
        self.assertEqual([], self._needed())
        self.assertEqual([], self._needed({}, {"y": "2"}))
        self.assertEqual(["b"], self._needed({}, {"y": "1"}))
        self.assertEqual(
            ["a", "b"], self._needed({"y": "1"}, {"sriov-rt/x": ""})
        )

    def test_an_ordinary_cluster_gets_no_values(self):
        self.assertEqual({}, addons.custom((), {}))

    def test_as_the_chart_takes_them(self):
        self.assertEqual(
            {
                "addons": {
                    "custom": {
                        "b": {
                            "kind": "Manifests",
                            "spec": {
                                "namespace": "ns",
                                "manifests": {
                                    "f": "# sriov-rt: add-on b, version 2\nt\n"
                                },
                            },
                        }
                    }
                }
            },
            addons.custom(self.addons[1:], {}),
        )

    def test_a_policy_is_of_the_version_that_the_cluster_serves(self):
        (policy,) = (x for x in addons.load(SHIPPED) if x.mutates)
        self.assertEqual("onload-pods", policy.name)
        for release, expected in (
            ("1.34.4", "v1beta1"),
            ("1.35", "v1beta1"),
            ("1.36.0", "v1"),
            ("v1.40.1", "v1"),
            (None, "v1"),
        ):
            (text,) = policy.rendered({}, release).values()
            found = {each["apiVersion"] for each in yaml.safe_load_all(text)}
            self.assertEqual(
                {f"admissionregistration.k8s.io/{expected}"}, found, release
            )

    def test_what_is_served_in_one_version_stays(self):
        for each in addons.load(SHIPPED):
            if not each.mutates:
                self.assertEqual(each.rendered({}), each.rendered({}, "1.34"))

    def test_each_can_be_left_out(self):
        self.assertEqual(self.addons, addons.select(self.addons, None))
        self.assertEqual((), addons.select(self.addons, []))
        self.assertEqual(self.addons[:1], addons.select(self.addons, ["a"]))
        with self.assertRaisesRegex(addons.AddonUnknown, "'c'.* a, b"):
            addons.select(self.addons, ["a", "c"])


class DamageTest(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.directory = pathlib.Path(made.name, "addons")
        shutil.copytree(SHIPPED, self.directory)

    def _unusable(self, pattern):
        with self.assertRaisesRegex(addons.AddonsUnusable, pattern) as caught:
            addons.load(self.directory)
        self.assertIn("install sriov-rt again", str(caught.exception))

    def test_a_file_that_was_changed(self):
        with (self.directory / "multus/multus.yaml").open("a") as stream:
            stream.write("\n")
        self._unusable("multus/multus.yaml has SHA-256")

    def test_a_file_that_is_missing(self):
        (self.directory / "multus/multus.yaml").unlink()
        self._unusable("multus.yaml")

    def test_no_directory(self):
        shutil.rmtree(self.directory)
        self._unusable("No such file")

    def test_an_index_that_is_nonsense(self):
        for text in (
            "", "[]", "{", "schema: 2", "schema: 1", "\0",
            "{schema: 1, addons: []}", "{schema: 1, addons: {a: 1}}",
            "{schema: 1, addons: {a: {version: x}}}",
            "{schema: 1, addons: {a: {version: 1, namespace: n, nodes: '=',"
            " files: {}}}}",
        ):  # fmt: skip
            (self.directory / addons.INDEX).write_text(text)
            with self.subTest(text):
                self._unusable("index.yaml")

    def test_a_file_beyond_the_bound(self):
        path = self.directory / "multus/multus.yaml"
        path.write_bytes(b"#" * (addons.MAX_FILE + 1))
        self._unusable("SHA-256")
