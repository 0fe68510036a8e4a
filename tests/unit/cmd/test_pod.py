# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt pod explain``: its inputs, and what it says beside the table."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

import yaml

from sriov_rt.cmd import main
from sriov_rt.pods import cluster
from sriov_rt.pods import feasible_nodes
from tests.unit.pods import test_feasible_nodes as objects

WAITS = {
    "type": "PodScheduled",
    "status": "False",
    "message": "0/1 nodes are available: 1 Insufficient cpu.",
}


class ExplainTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        place = self.enterContext(tempfile.TemporaryDirectory())
        self.place = pathlib.Path(place)
        self.cluster = self.write("cluster.json", json.dumps(objects.node()))

    def write(self, name, text):
        path = self.place / name
        path.write_text(text)
        return str(path)

    def explain(self, *words):
        """Return the exit code, standard output and standard error."""
        printed, told = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(told),
        ):
            code = main.main(["pod", "explain", *words])
        return code, printed.getvalue(), told.getvalue()

    def of_file(self, text, *words, expected=0):
        file = self.write("pod", text)
        code, printed, told = self.explain(
            file, "--cluster", self.cluster, *words
        )
        self.assertEqual(expected, code, told)
        return printed or told

    def test_yaml_and_json_are_one(self):
        given = objects.pod(nodeSelector={"rack": "7"})
        texts = (
            json.dumps(given),
            yaml.safe_dump(given),
            "# rendered\n---\n" + yaml.safe_dump(given) + "---\n",
            yaml.safe_dump_all([objects.network(), given]),
        )
        found = {self.of_file(text, "--json", expected=1) for text in texts}
        self.assertEqual(1, len(found))
        self.assertIn("pod_label_missing", found.pop())

    def test_a_time_in_yaml_is_text(self):
        there = objects.node(labels={objects.CARD: "true"})
        there["metadata"]["managedFields"] = [
            {
                "time": "2026-09-21T14:13:00Z",
                "fieldsV1": {
                    "f:metadata": {"f:labels": {f"f:{objects.CARD}": {}}}
                },
            }
        ]
        text = yaml.safe_dump(there).replace("'2026-09", "2026-09")
        self.cluster = self.write("c.yaml", text.replace("00Z'", "00Z"))
        given = objects.pod(nodeSelector={objects.CARD: "true"})
        (found,) = json.loads(self.of_file(json.dumps(given), "--json"))
        self.assertIsNotNone(found["label_age_s"])

    def test_documents_one_after_the_other(self):
        """As the page's loop over kinds prints them."""
        lists = [
            {"kind": "List", "items": [objects.node("n2")]},
            objects.node(),
        ]
        text = "\n".join(json.dumps(each, indent=1) for each in lists) + "\n"
        self.cluster = self.write("cluster.json", text)
        found = json.loads(self.of_file(json.dumps(objects.pod()), "--json"))
        self.assertEqual(["n1", "n2"], [each["node"] for each in found])

    def test_what_is_no_manifest(self):
        pod = yaml.safe_dump(objects.pod())
        for text, said in (
            ("", "not JSON"),
            ("{", "not JSON"),
            ("{} x", "not JSON"),
            ('{"spec": NaN}', "NaN is no JSON number"),
            ("a: [", "not JSON or YAML"),
            ("- 1", "is no object"),
            ("a: .nan", "not JSON or YAML"),
            ("a: !!python/object:os.system {}", "not JSON or YAML"),
            ("a: &a [x]\nb: [*a, *a]", "an alias"),
            (f"{pod}---\n{pod}", "2 documents"),
        ):
            with self.subTest(text[:40]):
                found = self.of_file(text, expected=2)
                self.assertIn(said, " ".join(found.split()))

    def test_a_file_says_what_was_not_judged(self):
        text = json.dumps(objects.pod())
        self.assertIn("Not judged", self.of_file(text))
        (found,) = json.loads(self.of_file(text, "--json"))
        self.assertEqual(list(feasible_nodes.NOT_JUDGED), found["not_judged"])
        self.assertIsNone(found["said"])

    def test_of_a_pod_that_waits_the_scheduler_is_quoted(self):
        status = {"phase": "Pending", "conditions": [WAITS]}
        answers = {
            "/api/v1/nodes": {"items": [objects.node()]},
            "/api/v1/namespaces/default/pods/p": {
                **objects.pod(),
                "status": status,
            },
        }
        said = f"kube-scheduler: {WAITS['message']}"

        def get(path, **query):
            return answers.get(path)

        with mock.patch.object(cluster, "connect", return_value=get):
            code, printed, told = self.explain("p")
            self.assertEqual(1, code, told)
            self.assertEqual(said, printed.splitlines()[0])
            self.assertNotIn("Not judged", printed)
            _, printed, _ = self.explain("p", "--json")
            (found,) = json.loads(printed)
            self.assertEqual((True, said), (found["passes"], found["said"]))
            status["conditions"] = [{**WAITS, "status": "True"}]
            self.assertEqual(0, self.explain("p")[0])
