# SPDX-License-Identifier: Apache-2.0

"""Base classes and helpers of all tests of the plugin."""

import contextlib
import json
import shlex
import subprocess
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tempest import config
from tempest import exceptions
from tempest.api.compute import base
from tempest.common import tempest_fixtures
from tempest.common import waiters
from tempest.lib import exceptions as lib_exc
from tempest.lib.common.utils import data_utils
from tempest.lib.common.utils import test_utils

CONF = config.CONF

#: The trait of hosts that can have realtime servers.
REALTIME_TRAIT = "CUSTOM_SRIOV_RT_REALTIME"
#: The trait of hosts with a PREEMPT_RT kernel.
KERNEL_TRAIT = "CUSTOM_SRIOV_RT_PREEMPT_RT"
#: The trait of hosts with Onload.
ONLOAD_TRAIT = "CUSTOM_SRIOV_RT_ONLOAD"
#: Nova's fault for a server that no host can take.
NO_VALID_HOST = "No valid host"
#: Seconds between two polls.
_INTERVAL = 2.0

_NO_SPECS: Mapping[str, str] = {}


class SriovRtTest(base.BaseV2ComputeAdminTest):
    """A test of a cloud that runs sriov-rt."""

    credentials = ("primary", "admin")
    # Nova validates extra specs from 2.86 on.
    min_microversion = "2.86"
    # It has the traits of a resource provider from 1.6 on.
    placement_min_microversion = "1.6"

    @classmethod
    def skip_checks(cls) -> None:
        """Skip without sriov-rt, or without what the tests need."""
        # Checked first, so that this is the reason that is reported.
        if not CONF.service_available.sriov_rt:
            raise cls.skipException(
                "sriov-rt is not available: [service_available] sriov_rt"
            )
        super().skip_checks()

    @classmethod
    def setup_clients(cls) -> None:
        """Name the clients that the tests use."""
        super().setup_clients()
        cls.admin_hypervisors = cls.os_admin.hypervisor_client
        cls.providers = cls.os_admin.resource_providers_client

    def flavor(
        self, specs: Mapping[str, str] = _NO_SPECS, **size: int
    ) -> dict[str, Any]:
        """Make a flavor that is deleted after the test.

        :param specs: its extra specs.
        :param size: differences from [compute] flavor_ref, such as ram=256.
        """
        like = self.admin_flavors_client.show_flavor(CONF.compute.flavor_ref)
        fields = {
            "ram": CONF.sriov_rt.server_ram or like["flavor"]["ram"],
            "vcpus": 1,
            "disk": like["flavor"]["disk"],
        }
        made: dict[str, Any] = self.create_flavor(**{**fields, **size})
        if specs:
            self.admin_flavors_client.set_flavor_extra_spec(
                made["id"], **specs
            )
        return made

    def hosts(self) -> dict[str, frozenset[str]]:
        """Return the traits of each compute host that is up and enabled."""
        listed = self.admin_hypervisors.list_hypervisors(detail=True)
        return {
            each["service"]["host"]: self._traits(each["id"])
            for each in listed["hypervisors"]
            if (each["state"], each["status"]) == ("up", "enabled")
        }

    def realtime_hosts(self) -> set[str]:
        """Return the hosts that can have realtime servers."""
        if CONF.sriov_rt.realtime_hosts:
            return set(CONF.sriov_rt.realtime_hosts)
        found = self.realtime_hosts_or_none()
        self.assertNotEqual(
            set(),
            found,
            f"no compute host has the trait {REALTIME_TRAIT}; run 'sriov-rt "
            "host check' on those that ought to have it",
        )
        return found

    def realtime_hosts_or_none(self) -> set[str]:
        """Return the hosts with the realtime trait, which may be none."""
        return {h for h, t in self.hosts().items() if REALTIME_TRAIT in t}

    def realtime_flavor(self) -> dict[str, Any]:
        """Make a realtime flavor."""
        return self.flavor(realtime_specs())

    def _traits(self, provider: str) -> frozenset[str]:
        found = self.providers.list_resource_provider_traits(provider)
        return frozenset(found["traits"])

    def wait_until(
        self, what: str, probe: Callable[[], object], timeout: float
    ) -> None:
        """Wait until a function returns something true.

        :param what: description of what to wait for.
        :param probe: the function.
        :param timeout: seconds.
        :raises TimeoutException: if it doesn't in time.
        """
        end = time.monotonic() + timeout
        while not probe():
            if time.monotonic() > end:
                raise lib_exc.TimeoutException(
                    f"{what}: not within {timeout} s"
                )
            time.sleep(_INTERVAL)


class ServerTest(SriovRtTest):
    """A test that boots servers."""

    def boot(self, flavor: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        """Boot a server, wait for ACTIVE, and delete it after the test.

        :param flavor: a flavor from flavor().
        :param fields: further fields of the request.
        :returns: the server, as an administrator sees it.
        """
        server = self.try_to_boot(flavor, **fields)
        self.assertEqual("ACTIVE", server["status"], server.get("fault"))
        return server

    def try_to_boot(
        self, flavor: Mapping[str, Any], **fields: Any
    ) -> dict[str, Any]:
        """Boot a server that ends ACTIVE or in ERROR.

        :param flavor: a flavor from flavor().
        :param fields: further fields of the request; no network and
            [compute] image_ref by default. host= needs an administrator.
        :returns: the server, as an administrator sees it.
        """
        client = self.servers_client
        if "host" in fields:
            client = self.admin_servers_client
        request = {
            "name": data_utils.rand_name(
                prefix=CONF.resource_name_prefix, name=type(self).__name__
            ),
            "flavorRef": flavor["id"],
            "imageRef": CONF.compute.image_ref,
            "networks": "none",
            **fields,
        }
        server = client.create_server(**request)["server"]["id"]
        self.addCleanup(self.delete, server)
        return self.wait_for_server(server)

    def wait_for_server(self, server: str) -> dict[str, Any]:
        """Wait until a server is ACTIVE or in ERROR, and return it.

        :param server: its id.
        """
        with contextlib.suppress(exceptions.BuildErrorException):
            waiters.wait_for_server_status(
                self.admin_servers_client, server, "ACTIVE"
            )
        return self.show(server)

    def show(self, server: str) -> dict[str, Any]:
        """Return a server as an administrator sees it.

        :param server: its id.
        """
        found: dict[str, Any] = self.admin_servers_client.show_server(server)[
            "server"
        ]
        return found

    def delete(self, server: str) -> None:
        """Delete a server if it exists, and wait until it's gone.

        :param server: its id.
        """
        client = self.admin_servers_client
        test_utils.call_and_ignore_notfound_exc(client.delete_server, server)
        waiters.wait_for_server_termination(client, server, ignore_error=True)

    def assert_refused(self, server: Mapping[str, Any]) -> str:
        """Check that a server is in ERROR and on no host.

        :param server: a server from try_to_boot().
        :returns: the message of its fault.
        """
        self.assertEqual(
            ("ERROR", None),
            (server["status"], server["OS-EXT-SRV-ATTR:host"]),
        )
        return str(server["fault"]["message"])


class ExclusiveTest(ServerTest):
    """A test that needs the hosts of sriov-rt to itself.

    Such hosts have few dedicated CPUs, so only one worker at a time has
    realtime servers or degrades a host.
    """

    def setUp(self) -> None:
        """Wait until no other such test runs."""
        super().setUp()
        self.useFixture(tempest_fixtures.LockFixture("sriov_rt"))


class RealtimeTest(ExclusiveTest):
    """A test that needs a realtime host."""

    @classmethod
    def skip_checks(cls) -> None:
        """Skip if the cloud has none."""
        super().skip_checks()
        if not CONF.sriov_rt_feature_enabled.realtime:
            raise cls.skipException(
                "[sriov_rt-feature-enabled] realtime is off"
            )

    def setUp(self) -> None:
        """Wait until there is one."""
        super().setUp()
        self.wait_until(
            "there are realtime hosts",
            self.realtime_hosts_or_none,
            CONF.sriov_rt.facts_timeout,
        )


def realtime_specs() -> dict[str, str]:
    """Return the extra specs of a realtime flavor."""
    nova = (each.partition("=") for each in CONF.sriov_rt.realtime_extra_specs)
    return {
        **{key.strip(): value.strip() for key, _, value in nova},
        "sriov_rt:realtime": "required",
        "sriov_rt:guest": "lean",
    }


def run(option: str, stdin: str = "", **names: str) -> str:
    """Run a command that the operator has configured.

    :param option: the option of [sriov_rt] with the command.
    :param stdin: its standard input.
    :param names: values to fill in.
    :returns: its output.
    :raises lib_exc.TempestException: with its error output.
    """
    command = words(getattr(CONF.sriov_rt, option), names)
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=CONF.sriov_rt.command_timeout,
            check=False,
        )
    except OSError as error:
        raise lib_exc.TempestException(
            f"[sriov_rt] {option}: {error}"
        ) from error
    # explain exits with 1 if no host satisfies the flavor.
    if done.returncode not in ((0, 1) if option == _EXPLAIN else (0,)):
        raise lib_exc.TempestException(
            f"[sriov_rt] {option} ended with {done.returncode}: "
            f"{shlex.join(command)}: {done.stderr.strip()}"
        )
    return done.stdout


_EXPLAIN = "explain_command"


def run_json(option: str, **names: str) -> Any:
    """Run a command that prints JSON.

    :param option: the option of [sriov_rt] with the command.
    :param names: values to fill in.
    """
    return json.loads(run(option, **names))


def words(template: str, names: Mapping[str, str]) -> Sequence[str]:
    """Return the words of a command.

    :param template: the command as it is configured.
    :param names: values for {NAME}, each within one word; other braces stay.
    """
    found = shlex.split(template)
    for name, value in names.items():
        found = [each.replace(f"{{{name}}}", value) for each in found]
    return found
