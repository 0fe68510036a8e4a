# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""The element of a domain that gives a container an interface."""

from typing import Any

from lxml import etree
from nova.virt.libvirt import config


class HostInterface(
    config.LibvirtConfigGuestHostdev  # type: ignore[misc]
):
    """An interface of the host that libvirt moves into a container.

    ``<hostdev mode='capabilities' type='net'>``: Nova has no class for it.
    libvirt sets nothing of the interface, nor brings it up inside; with the
    container's namespace a subinterface ends, and a VF's comes back.

    :param name: of the interface, on the host and in the container.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mode = "capabilities"
        self.type = "net"
        self.name = name

    def format_dom(self) -> Any:
        """Return the element."""
        element = super().format_dom()
        # libvirt has it for PCI devices alone.
        element.attrib.pop("managed", None)
        source = etree.SubElement(element, "source")
        etree.SubElement(source, "interface").text = self.name
        return element
