# SPDX-License-Identifier: Apache-2.0

"""Flavors and hosts, from answers as they come and as they do not."""

import unittest

import requests_mock
from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint

from sriov_rt.magnum import cloud
from sriov_rt.magnum import errors

URL = "http://cloud"

FLAVOR = {
    "id": "1",
    "name": "rt",
    "vcpus": 4,
    "ram": 8192,
    "extra_specs": {"sriov_rt:realtime": "required"},
}

#: Whatever a proxy or a broken service says.
NONSENSE = (
    {"status_code": 500, "text": "Traceback"},
    {"status_code": 200, "text": "<html>"},
    {"status_code": 200, "json": []},
    {"status_code": 200, "json": None},
    {"status_code": 200, "json": {}},
    {"status_code": 200, "json": {"flavors": 1, "resource_providers": 1}},
    {"status_code": 403, "json": {"forbidden": "no"}},
    {"status_code": 302, "headers": {"Location": "http://[broken"}},
)


class CloudTest(unittest.TestCase):
    def setUp(self):
        self.http = requests_mock.Mocker()
        self.http.start()
        self.addCleanup(self.http.stop)
        self.client = adapter.Adapter(
            session.Session(auth=token_endpoint.Token(URL, "t")),
            service_type="compute",
        )

    def test_flavors_by_id_and_name(self):
        other = {**FLAVOR, "id": "rt", "name": "other"}
        self.http.get(
            f"{URL}/flavors/detail", json={"flavors": [FLAVOR, other]}
        )
        found = cloud.flavors(self.client)
        self.assertEqual({"1", "rt", "other"}, set(found))
        # What an id names is not what another one's name is.
        self.assertEqual("other", found["rt"].name)
        self.assertEqual(FLAVOR["extra_specs"], found["1"].extra_specs)
        sent = self.http.last_request.headers["OpenStack-API-Version"]
        self.assertEqual("compute 2.61", sent)

    def test_hidden_extra_specs_are_not_none(self):
        hidden = {k: v for k, v in FLAVOR.items() if k != "extra_specs"}
        self.http.get(f"{URL}/flavors/detail", json={"flavors": [hidden]})
        self.assertIsNone(cloud.flavors(self.client)["1"].extra_specs)

    def test_pages(self):
        link = [{"rel": "next", "href": "x"}]
        pages = [
            {"flavors": [FLAVOR], "flavors_links": link},
            {"flavors": [{**FLAVOR, "id": "2", "name": "b"}]},
        ]
        self.http.get(
            f"{URL}/flavors/detail", [{"json": each} for each in pages]
        )
        self.assertEqual(
            {"1", "rt", "2", "b"}, set(cloud.flavors(self.client))
        )
        self.assertEqual(["1"], self.http.last_request.qs["marker"])

    def test_pages_without_an_end(self):
        link = [{"rel": "next", "href": "x"}]
        self.http.get(
            f"{URL}/flavors/detail",
            json={"flavors": [FLAVOR], "flavors_links": link},
        )
        with self.assertRaisesRegex(errors.CloudUnusable, "no end"):
            cloud.flavors(self.client)

    def test_something_that_is_no_flavor(self):
        for key, value in (
            ("id", None),
            ("vcpus", "many"),
            ("ram", None),
            ("extra_specs", []),
        ):
            found = {**FLAVOR, key: value}
            if key == "id":
                del found["id"]
            self.http.get(f"{URL}/flavors/detail", json={"flavors": [found]})
            with (
                self.subTest(key),
                self.assertRaises(errors.CloudUnusable),
            ):
                cloud.flavors(self.client)
        self.http.get(f"{URL}/flavors/detail", json={"flavors": [1, None]})
        with self.assertRaises(errors.CloudUnusable):
            cloud.flavors(self.client)

    def test_networks_by_id_and_name(self):
        every = [
            {"id": "1", "name": "fast"},
            {"id": "2", "name": "fast"},
            # Somebody named a network like another one's id.
            {"id": "3", "name": "1"},
        ]
        pages = [
            {"networks": every[:2], "networks_links": [{"rel": "next"}]},
            {"networks": every[2:]},
        ]
        self.http.get(
            f"{URL}/v2.0/networks", [{"json": each} for each in pages]
        )
        self.assertEqual(
            {"fast": ["1", "2"], "1": ["1"], "2": ["2"], "3": ["3"]},
            cloud.networks(self.client),
        )
        self.assertEqual(["2"], self.http.last_request.qs["marker"])

    def test_networks_that_are_none(self):
        for answer in ({"networks": [1]}, {"networks": [{"id": "1"}]}, {}):
            self.http.get(f"{URL}/v2.0/networks", json=answer)
            with (
                self.subTest(answer),
                self.assertRaisesRegex(errors.CloudUnusable, "Neutron"),
            ):
                cloud.networks(self.client)

    def test_hosts(self):
        for providers, found in (([], False), ([{"uuid": "a"}], True)):
            self.http.get(
                f"{URL}/resource_providers",
                json={"resource_providers": providers},
            )
            self.assertIs(found, cloud.has_host(self.client, {"B", "A"}))
        self.assertEqual(["a,b"], self.http.last_request.qs["required"])

    def test_a_trait_that_no_host_ever_had(self):
        self.http.get(
            f"{URL}/resource_providers",
            status_code=400,
            json={"errors": [{"detail": "No such trait(s): CUSTOM_X."}]},
        )
        self.assertIs(False, cloud.has_host(self.client, {"CUSTOM_X"}))

    def test_nonsense(self):
        for answer in NONSENSE:
            self.http.get(f"{URL}/flavors/detail", **answer)
            self.http.get(f"{URL}/resource_providers", **answer)
            with self.subTest(answer):
                with self.assertRaisesRegex(errors.CloudUnusable, "Nova"):
                    cloud.flavors(self.client)
                with self.assertRaisesRegex(errors.CloudUnusable, "Placement"):
                    cloud.has_host(self.client, {"A"})
