# SPDX-License-Identifier: Apache-2.0

"""One-time-use devices of a real Nova in a real Placement, in one process.

The devices are those of Nova's fake libvirt, in a sysfs of files.
"""

import pathlib
import sys
import tempfile
from unittest import mock

from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import test_pci_in_placement

from sriov_rt.devices.cleaning import Cleaning
from sriov_rt.devices.cleaning import State
from sriov_rt.devices.providers import DeviceProviders
from sriov_rt.devices.sysfs import Devices
from sriov_rt.host import container
from tests.unit.devices import fakes
from tests.unit.host import trees

HOST = "compute1"
ADDRESS = "0000:81:00.0"
DEVICE = f"sys/bus/pci/devices/{ADDRESS}"
PROVIDER = f"{HOST}_{ADDRESS}"
IDS = {
    "vendor_id": fakelibvirt.PCI_VEND_ID,
    "product_id": fakelibvirt.PCI_PROD_ID,
}
CLASS = f"CUSTOM_PCI_{fakelibvirt.PCI_VEND_ID}_{fakelibvirt.PCI_PROD_ID}"


class OneTimeUseTest(test_pci_in_placement.PlacementPCIReportingTests):
    """A host with one device, which Nova has tagged one_time_use."""

    def setUp(self):
        super().setUp()
        self.flags(group="filter_scheduler", pci_in_placement=True)
        spec = {**IDS, "one_time_use": "true"}
        self.flags(group="pci", device_spec=self._to_list_of_json_str([spec]))
        alias = {**IDS, "name": "once"}
        self.flags(group="pci", alias=self._to_list_of_json_str([alias]))
        self.start_compute(
            hostname=HOST,
            pci_info=fakelibvirt.HostPCIDevicesInfo(
                num_pci=1, num_pfs=0, num_vfs=0
            ),
        )
        self.flavor = self._create_flavor(
            extra_spec={"pci_passthrough:alias": "once:1"}
        )
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.tree = trees.Tree(place.name)
        product = int(fakelibvirt.PCI_PROD_ID, 16)
        fakes.put_device(self.tree, ADDRESS, product=product)
        patch = mock.patch.object(
            container, "sees_host_processes", lambda proc: True
        )
        patch.start()
        self.addCleanup(patch.stop)
        fixture = self.placement.fixture
        auth = token_endpoint.Token(fixture.endpoint, fixture.token)
        client = Adapter(session.Session(auth=auth), service_type="placement")
        self.devices = Devices(self.tree.root)
        self.placement_client = DeviceProviders(client)
        self.cleaning = Cleaning(
            self.placement_client,
            self.devices,
            HOST,
            lambda address: True,
            lambda text: None,
        )

    def _setup_services(self):
        paste = pathlib.Path(sys.prefix, "etc", "nova", "api-paste.ini")
        self.flags(api_paste_config=str(paste), group="wsgi")
        super()._setup_services()

    def clean(self):
        (found,) = self.cleaning.run()
        self.assertEqual(ADDRESS, found.name)
        return found

    def reserved(self):
        uuid = self._get_provider_uuid_by_name(PROVIDER)
        return self._get_provider_inventory(uuid)[CLASS]["reserved"]

    def was_reset(self):
        return (self.tree.path / DEVICE / "reset").read_text() == "1\n"

    def boot(self, state="ACTIVE"):
        return self._create_server(
            flavor_id=self.flavor, networks=[], expected_state=state
        )

    def while_reset(self, act):
        """Have something happen before a device is reset."""
        reset = self.devices.reset

        def meddled(address):
            act()
            return reset(address)

        return mock.patch.object(self.devices, "reset", meddled)

    def test_a_device_serves_the_next_instance_once_it_is_clean(self):
        self.assertEqual(State.AVAILABLE, self.clean().state)
        server = self.boot()
        self.assertEqual(1, self.reserved())
        self.assertEqual(State.ALLOCATED, self.clean().state)
        self._delete_server(server)
        self._run_periodics()
        self.assertEqual(1, self.reserved())

        self.tree.link("proc/5151/fd/9", "/dev/vfio/41")
        self.assertEqual("device_held", self.clean().reason.code)
        self.assertFalse(self.was_reset())
        self.assertEqual(1, self.reserved())
        self.tree.remove("proc/5151")

        # No instance gets it while it is cleaned.
        def claim():
            self._delete_server(self.boot("ERROR"))

        with self.while_reset(claim):
            self.assertEqual(State.CLEANED, self.clean().state)
        self.assertTrue(self.was_reset())
        self.assertEqual(0, self.reserved())
        # nova-compute has another generation of the provider in its cache.
        self._run_periodics()
        self._run_periodics()
        self.assertEqual(0, self.reserved())
        self.boot()
        self.assertEqual(1, self.reserved())
        self.assertEqual(State.ALLOCATED, self.clean().state)

    def test_placement_refuses_what_was_read_before_a_change(self):
        self._reserve_placement_resource(PROVIDER, CLASS, 1)

        def reserve_again():
            self._reserve_placement_resource(PROVIDER, CLASS, 1)

        with self.while_reset(reserve_again):
            found = self.clean()
        self.assertEqual("device_provider_changed", found.reason.code)
        # As well if only the generation says so, at the last moment.
        holding = self.placement_client.holding
        reads = []

        def read(uuid):
            found = holding(uuid)
            reads.append(uuid)
            if len(reads) == 2:
                reserve_again()
            return found

        with mock.patch.object(self.placement_client, "holding", read):
            found = self.clean()
        self.assertEqual("device_provider_changed", found.reason.code)
        self.assertEqual(1, self.reserved())
        self.assertEqual(State.CLEANED, self.clean().state)
