# SPDX-License-Identifier: Apache-2.0

import time
import unittest
from unittest import mock

import requests
import requests_mock
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.identity import v3 as identity

from sriov_rt.placement import resource_provider
from sriov_rt.placement.resource_provider import Provider
from tests.unit.agent import fake_placement

URL = "http://placement.example.org"
UUID = "2ee1a2a4-7f41-4a53-b0b0-9d4f0d1a5a01"
TRAITS = f"{URL}/resource_providers/{UUID}/traits"
REALTIME = "CUSTOM_SRIOV_RT_REALTIME"
PREEMPT_RT = "CUSTOM_SRIOV_RT_PREEMPT_RT"
LOGGER = "sriov_rt.placement.resource_provider"


class PlacementTestCase(unittest.TestCase):
    def setUp(self):
        self.http = requests_mock.Mocker()
        self.http.start()
        self.addCleanup(self.http.stop)
        auth = token_endpoint.Token(URL, "token")
        self.placement = resource_provider.Placement(
            Adapter(
                session.Session(auth=auth, timeout=30),
                service_type="placement",
            )
        )

    def _provider_exists(self):
        self.http.get(
            f"{URL}/resource_providers?name=rt-1",
            json={"resource_providers": [{"uuid": UUID, "generation": 3}]},
        )


class RequestsTest(PlacementTestCase):
    def test_a_provider_is_found_by_its_name(self):
        self._provider_exists()
        self.assertEqual(UUID, self.placement.find("rt-1"))
        asked = self.http.last_request
        self.assertEqual(
            "placement 1.6", asked.headers["OpenStack-API-Version"]
        )
        self.assertEqual("token", asked.headers["X-Auth-Token"])

    def test_no_provider_is_said_so(self):
        self.http.get(
            f"{URL}/resource_providers", json={"resource_providers": []}
        )
        with self.assertRaises(resource_provider.ProviderMissing):
            self.placement.find("rt-1")

    def test_traits_come_with_their_generation(self):
        self.http.get(
            TRAITS, json={"traits": ["A"], "resource_provider_generation": 9}
        )
        self.assertEqual(
            resource_provider.ProviderTraits(frozenset({"A"}), 9),
            self.placement.traits(UUID),
        )

    def test_traits_are_put_with_their_generation(self):
        self.http.put(TRAITS, json={})
        self.placement.set_traits(UUID, {"B", "A"}, 9)
        self.assertEqual(
            {"resource_provider_generation": 9, "traits": ["A", "B"]},
            self.http.last_request.json(),
        )

    def test_a_clock_that_was_put_back_delays_nothing(self):
        self._provider_exists()
        day = 86400
        with (
            mock.patch("time.time", return_value=time.time() - day),
            mock.patch("time.sleep") as sleep,
        ):
            self.placement.find("rt-1")
        sleep.assert_not_called()

    def test_a_trait_that_is_known_already_is_no_error(self):
        for status in (201, 204):
            self.http.put(f"{URL}/traits/{REALTIME}", status_code=status)
            self.placement.create_trait(REALTIME)


class FailuresTest(PlacementTestCase):
    def test_a_conflict_has_its_own_error(self):
        self.http.put(TRAITS, status_code=409, text="generation conflict")
        with self.assertRaises(resource_provider.GenerationConflict):
            self.placement.set_traits(UUID, set(), 9)

    def test_a_refusal_says_status_and_words(self):
        self.http.put(TRAITS, status_code=403, text="policy forbids it")
        with self.assertRaises(resource_provider.PlacementRefused) as raised:
            self.placement.set_traits(UUID, set(), 9)
        self.assertEqual(403, raised.exception.status)
        self.assertIn("policy forbids it", str(raised.exception))
        self.assertIn("admin or service role", str(raised.exception))

    def test_a_refusal_is_the_same_cause_each_time(self):
        said = set()
        for request in ("req-1", "req-2"):
            error = {
                "detail": "Access was denied.\n\n Not allowed.  ",
                "request_id": request,
            }
            self.http.put(TRAITS, status_code=403, json={"errors": [error]})
            with self.assertRaises(
                resource_provider.PlacementRefused
            ) as raised:
                self.placement.set_traits(UUID, set(), 9)
            said.add(str(raised.exception))
        (one,) = said
        self.assertIn("403 (Access was denied. Not allowed.); check", one)

    def test_an_old_password_is_to_be_corrected(self):
        keystone = "http://keystone.example.org/v3"
        self.http.get(keystone, json={"version": {"id": "v3.14"}})
        auth = identity.Password(
            keystone,
            username="sriov_rt",
            password="old",
            user_domain_id="default",
            project_name="service",
            project_domain_id="default",
        )
        placement = resource_provider.Placement(
            Adapter(session.Session(auth=auth), service_type="placement")
        )
        said = set()
        for request in ("req-1", "req-2"):
            self.http.post(
                f"{keystone}/auth/tokens",
                status_code=401,
                headers={"x-openstack-request-id": request},
            )
            with self.assertRaises(
                resource_provider.PlacementUnreachable
            ) as raised:
                placement.find("rt-1")
            said.add(str(raised.exception))
        # One sentence, which the log has once.
        (sentence,) = said
        self.assertIn("correct them in [placement]", sentence)
        self.assertIn("401", sentence)

    def test_server_errors_are_waited_out(self):
        for status in (500, 502, 503, 504):
            self.http.get(TRAITS, status_code=status)
            with self.assertRaises(resource_provider.PlacementUnreachable):
                self.placement.traits(UUID)

    def test_so_are_errors_of_the_network(self):
        for error in (
            requests.exceptions.ConnectTimeout,
            requests.exceptions.ReadTimeout,
            requests.exceptions.ConnectionError,
            requests.exceptions.SSLError,
            requests.exceptions.ChunkedEncodingError,
        ):
            with self.subTest(error.__name__):
                self.http.get(TRAITS, exc=error)
                with self.assertRaises(resource_provider.PlacementUnreachable):
                    self.placement.traits(UUID)

    def test_an_answer_out_of_form_is_no_crash(self):
        for body in ("<html>", "[]", "{}", '{"traits": 1}', '{"traits": []}'):
            with self.subTest(body):
                self.http.get(TRAITS, text=body)
                with self.assertRaises(resource_provider.PlacementUnreachable):
                    self.placement.traits(UUID)

    def test_providers_out_of_form_are_no_crash(self):
        for body in (
            '{"resource_providers": [[]]}',
            '{"resource_providers": {}}',
            '{"resource_providers": [{"uuid": 7}]}',
        ):
            with self.subTest(body):
                self.http.get(f"{URL}/resource_providers", text=body)
                with self.assertRaises(resource_provider.PlacementUnreachable):
                    self.placement.find("rt-1")


class ConflictTest(PlacementTestCase):
    def test_after_a_conflict_the_newer_traits_are_kept(self):
        self._provider_exists()
        self.http.get(
            TRAITS,
            [
                {"json": _traits(3, "COMPUTE_NODE")},
                {"json": _traits(4, "COMPUTE_NODE", "CUSTOM_GOLD")},
            ],
        )
        self.http.put(f"{URL}/traits/{REALTIME}", status_code=201)
        self.http.put(TRAITS, [{"status_code": 409}, {"json": {}}])
        with self.assertLogs("sriov_rt.placement.resource_provider", "INFO"):
            Provider(self.placement, "rt-1", "rt-1").set_traits(
                frozenset({REALTIME})
            )
        self.assertEqual(
            {
                "resource_provider_generation": 4,
                "traits": ["COMPUTE_NODE", "CUSTOM_GOLD", REALTIME],
            },
            self.http.last_request.json(),
        )


def _traits(generation, *names):
    return {
        "traits": list(names),
        "resource_provider_generation": generation,
    }


class ProviderTest(unittest.TestCase):
    def setUp(self):
        self.placement = fake_placement.FakePlacement("rt-1", "COMPUTE_NODE")
        self.provider = resource_provider.Provider(
            self.placement, "rt-1", "rt-1"
        )

    def test_traits_are_made_known_and_set(self):
        with self.assertLogs(LOGGER, "INFO") as logs:
            self.provider.set_traits(frozenset({REALTIME, PREEMPT_RT}))
        self.assertEqual(
            {"COMPUTE_NODE", REALTIME, PREEMPT_RT}, self.placement.provider
        )
        self.assertIn("host=rt-1 node=rt-1", logs.output[0])
        self.assertIn(f"added={PREEMPT_RT},{REALTIME}", logs.output[0])

    def test_nothing_is_written_when_nothing_differs(self):
        self.provider.set_traits(frozenset())
        self.assertEqual(0, self.placement.writes)

    def test_they_are_withdrawn(self):
        self.placement.provider.add(REALTIME)
        self.placement.known.add(REALTIME)
        with self.assertLogs(LOGGER, "INFO"):
            self.provider.set_traits(frozenset())
        self.assertEqual({"COMPUTE_NODE"}, self.placement.provider)

    def test_what_others_set_meanwhile_is_kept(self):
        def meddle():
            self.placement.meddle = lambda: None
            self.placement.provider.add("CUSTOM_GOLD")
            self.placement.known.add("CUSTOM_GOLD")
            self.placement.generation += 1

        self.placement.meddle = meddle
        with self.assertLogs(LOGGER, "INFO"):
            self.provider.set_traits(frozenset({REALTIME}))
        self.assertEqual(
            {"COMPUTE_NODE", "CUSTOM_GOLD", REALTIME}, self.placement.provider
        )

    def test_it_gives_up_on_a_provider_that_keeps_changing(self):
        attempts = []

        def meddle():
            attempts.append(1)
            self.placement.generation += 1

        self.placement.meddle = meddle
        with self.assertRaises(resource_provider.GenerationConflict):
            self.provider.set_traits(frozenset({REALTIME}))
        self.assertEqual(resource_provider.ATTEMPTS, len(attempts))

    def test_a_provider_that_is_not_there_yet_is_waited_for(self):
        self.placement.provider = None
        with self.assertRaises(resource_provider.ProviderMissing) as raised:
            self.provider.set_traits(frozenset({REALTIME}))
        self.assertEqual("rt-1", raised.exception.node)
        self.assertIn("start nova-compute", str(raised.exception))

    def test_a_provider_that_is_not_there_has_nothing_to_withdraw(self):
        self.placement.provider = None
        self.provider.set_traits(frozenset())
        self.assertEqual(0, self.placement.writes)
