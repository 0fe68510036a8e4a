# SPDX-License-Identifier: Apache-2.0

"""A worker as a machine of QEMU's own, on a bridge with the API server."""

import json
import pathlib
import shutil
import subprocess

from tests.testbed.isolation import sh
from tests.testbed.kube.worker.image import WorkerImage

#: Of the bridge's end that the API server listens on, and of the node.
GATEWAY, ADDRESS = "10.88.0.1", "10.88.0.20"
_BRIDGE, _TAP = "kube0", "kube0-tap"
_MAC = "52:54:00:00:00:20"
_NO_SCRIPTS = "script=no,downscript=no"
_UUID = "83679162-1378-4288-a2d4-70e13ec132aa"

#: As the cloud's guests have it; see seed.
ARGUMENTS = (
    "console=ttyS0 no_timer_check mitigations=off cryptomgr.notests "
    "hpet=disable"
)


def lay_network() -> None:
    """Make the bridge and the node's tap, in namespaces of this process."""
    sh("mount", "--make-rprivate", "/")
    sh("ip", "link", "set", "lo", "up")
    lay_bridge(_TAP)


def lay_bridge(tap: str) -> None:
    """Make the bridge that the API server listens on, with a tap in it."""
    sh(*("ip", "link", "add", _BRIDGE, "type", "bridge"), "forward_delay", "0")
    sh("ip", "address", "add", f"{GATEWAY}/24", "dev", _BRIDGE)
    sh("ip", "link", "set", _BRIDGE, "up")
    sh("ip", "tuntap", "add", "dev", tap, "mode", "tap")
    sh("ip", "link", "set", tap, "master", _BRIDGE, "up")


def remove_bridge(tap: str) -> None:
    """Remove what lay_bridge() made."""
    for each in (tap, _BRIDGE):
        sh("ip", "link", "delete", each)


class Machine:
    """One machine, with a config drive like Nova's.

    :param image: what it boots.
    :param directory: for its files.
    :param name: of its host.
    """

    def __init__(
        self, image: WorkerImage, directory: pathlib.Path, name: str
    ) -> None:
        self._image = image
        self._directory = directory
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def console(self) -> str:
        """What it has printed on its serial console."""
        file = self._directory / "console.log"
        return file.read_text(errors="replace")

    def start(self, user_data: str, mib: int, parameters: str) -> None:
        """Boot it, with two CPUs.

        :param user_data: for cloud-init.
        :param mib: its memory.
        :param parameters: of the kernel, beside those of each guest.
        """
        disk = self._directory / "disk.raw"
        # It is sparse, and stays so.
        sh("cp", "--sparse=always", str(self._image.disk), str(disk))
        arguments = f"{ARGUMENTS} {parameters}"
        drive = f"file={self._config_drive(user_data)},format=raw,if=virtio"
        with (self._directory / "console.log").open("wb") as console:
            self._process = subprocess.Popen(
                (
                    *("qemu-system-x86_64", "-machine", "q35", "-nodefaults"),
                    *("-accel", "tcg,thread=multi", "-smp", "2"),
                    *("-m", str(mib), "-nographic", "-serial", "stdio"),
                    *("-kernel", str(self._image.kernel)),
                    *("-initrd", str(self._image.ramdisk)),
                    *("-append", arguments, "-drive"),
                    f"file={disk},format=raw,if=virtio,cache=unsafe",
                    *("-drive", f"{drive},readonly=on"),
                    *("-netdev", f"tap,id=net,ifname={_TAP},{_NO_SCRIPTS}"),
                    *("-device", f"virtio-net-pci,netdev=net,mac={_MAC}"),
                ),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _config_drive(self, user_data: str) -> pathlib.Path:
        tree = self._directory / "config-drive"
        shutil.rmtree(tree, ignore_errors=True)
        latest = tree / "openstack" / "latest"
        latest.mkdir(parents=True)
        link = {"id": "tap0", "type": "tap", "mtu": 1500, "vif_id": "port"}
        network = {
            "id": "network0",
            "link": "tap0",
            "network_id": "network",
            "type": "ipv4",
            "ip_address": ADDRESS,
            "netmask": "255.255.255.0",
            "routes": [
                {
                    "network": "0.0.0.0",
                    "netmask": "0.0.0.0",
                    "gateway": GATEWAY,
                }
            ],
        }
        name = {"hostname": self._name, "name": self._name}
        for file, content in (
            ("user_data", user_data),
            ("meta_data.json", json.dumps({"uuid": _UUID, **name})),
            (
                "network_data.json",
                json.dumps(
                    {
                        "links": [{**link, "ethernet_mac_address": _MAC}],
                        "networks": [network],
                        "services": [],
                    }
                ),
            ),
        ):
            (latest / file).write_text(content)
        drive = self._directory / "config-drive.iso"
        label = ("-quiet", "-J", "-r", "-V", "config-2")
        sh("genisoimage", *label, "-o", str(drive), str(tree))
        return drive
