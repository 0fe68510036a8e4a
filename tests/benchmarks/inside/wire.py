# SPDX-License-Identifier: Apache-2.0

"""Who sends over the wire of a machine, and who hears it.

The VFs of one PF are the host's; one of the other PF is in a namespace of
its own and stands for the rest of the network. A container of plain LXC, as
in seed 000, has two ports of ours; two namespaces have what there is
without SR-IOV. Each has a subnet of its own, so the way is by the address.
"""

import dataclasses
import functools
import json
import pathlib
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence

from tests.testbed import paths

PF, FAR_PF = "enp1s0", "enp2s0"
FAR = "far"
CONTAINER = "sriov-rt-bench"

#: Who sends has the first CPU, who receives the other.
NEAR_CPU, FAR_CPU = "0", "1"

#: Seconds in which each has to get an answer: an emulated link comes up two
#: seconds after its driver has been asked to.
ANSWER = 30

_LXC = pathlib.Path("/srv/lxc")
_ROOT = pathlib.Path("/srv/container")
_CONFIG = pathlib.Path("/etc/sriov_rt/sriov-rt.conf")
_COMMAND = pathlib.Path("/usr/local/bin/sriov-rt")

#: The host's programs are the container's: iperf3 runs inside of it.
_LXC_CONFIG = f"""
lxc.uts.name = {CONTAINER}
lxc.rootfs.path = dir:{_ROOT}
lxc.mount.auto = proc:rw
lxc.mount.entry = /usr usr none bind,ro 0 0
lxc.init.cmd = /usr/bin/sleep infinity
lxc.apparmor.profile = unconfined
"""


@dataclasses.dataclass(frozen=True)
class Sender:
    """One who sends.

    :param name: for people.
    :param interface: that it sends by.
    :param net: the first three numbers of its subnet: it is 1 and the far
        end is 2.
    :param enter: a command in its namespace begins so.
    :param far_net: of the far end, if the host routes.
    :param gateway: the host's interface that routes.
    """

    name: str
    interface: str
    net: str
    enter: tuple[str, ...] = ()
    far_net: str = ""
    gateway: str = ""

    @property
    def address(self) -> str:
        """Its own, with the prefix length."""
        return f"{self.net}.1/24"

    @property
    def peer(self) -> str:
        """The far end's address."""
        return f"{self.far_net or self.net}.2"


_ATTACH = ("lxc-attach", "-P", str(_LXC), "-n", CONTAINER, "--")

BARE = Sender("bare VF", f"{PF}v0", "192.168.1")
VF = Sender("container's VF", "vf-port", "192.168.2", _ATTACH)
MACVLAN = Sender("container's macvlan", "macvlan-port", "192.168.3", _ATTACH)
BRIDGE = Sender(
    *("bridge", "eth0", "192.168.4", ("ip", "netns", "exec", "bridged")),
)
VETH = Sender(
    *("veth", "eth0", "192.168.5", ("ip", "netns", "exec", "routed")),
    far_net="192.168.6",
    gateway="routed",
)

#: The interface of the host that each of ours is made of.
_PARENTS = {VF: f"{PF}v1", MACVLAN: f"{PF}v2"}
_KINDS = {VF: "vf", MACVLAN: "macvlan"}

#: The host routes for the veth over a VF of its own.
_UPLINK = f"{PF}v3"


def sh(script: str) -> str:
    """Return what a shell script prints that has to succeed."""
    done = subprocess.run(
        ("bash", "-ec", script), check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def prepare() -> None:
    """Put the far end and the container on the wire."""
    # Several interfaces of one namespace are on the same wire.
    sh("echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore")
    far = f"{FAR_PF}v0"
    subnets = [each.net for each in (BARE, VF, MACVLAN, BRIDGE)]
    addresses = [f"{net}.2/24" for net in (*subnets, VETH.far_net)]
    sh(
        f"ip netns add {FAR}; ip link set {far} netns {FAR}\n"
        + "".join(f"ip -n {FAR} addr add {a} dev {far}\n" for a in addresses)
        + f"ip -n {FAR} addr add {VETH.peer} dev lo\n"
        f"ip -n {FAR} link set lo up; ip -n {FAR} link set {far} up\n"
        f"ip -n {FAR} route add {VETH.net}.0/24 via {VETH.far_net}.1\n"
        f"ip addr add {BARE.address} dev {BARE.interface}\n"
        f"ip link set {BARE.interface} up\n"
        "shopt -s nullglob\n"
        f"for irq in /proc/irq/*/{far}*; do\n"
        f'    echo {FAR_CPU} > "${{irq%/*}}/smp_affinity_list"\n'
        "done"
    )
    start_container()
    sh(
        f"{shlex.join(_ATTACH)} "
        "sh -c 'echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore'"
    )
    for sender in (BARE, VF, MACVLAN):
        await_answer(sender)


def prepare_others() -> None:
    """Add what there is without SR-IOV: veths, bridged and routed.

    The bridge has the PF, as a VF has no room for others' MACs. QEMU's igb
    has no unicast promiscuity beside VFs, so what comes back does not pass
    the bridge; pktgen needs nothing back.
    """
    sh(
        "modprobe pktgen\n"
        "ip link add br0 type bridge; ip link set br0 up\n"
        f"ip link set {PF} master br0\n"
        "for name in bridged routed; do\n"
        "    ip netns add $name\n"
        "    ip link add $name type veth peer name eth0 netns $name\n"
        "    ip link set $name up; ip -n $name link set eth0 up\n"
        "done\n"
        "ip link set bridged master br0\n"
        f"ip -n bridged addr add {BRIDGE.address} dev eth0\n"
        f"ip -n routed addr add {VETH.address} dev eth0\n"
        f"ip -n routed route add default via {VETH.net}.254\n"
        f"ip addr add {VETH.net}.254/24 dev routed\n"
        f"ip addr add {VETH.far_net}.1/24 dev {_UPLINK}\n"
        f"ip link set {_UPLINK} up\n"
        "echo 1 > /proc/sys/net/ipv4/ip_forward"
    )
    await_answer(VETH)


def start_container() -> None:
    """Start the container, by the lines that ``vif lxc-hook`` prints."""
    for name in ("dev", "proc", "sys", "tmp", "usr"):
        (_ROOT / name).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (_ROOT / name).symlink_to(f"usr/{name}")
    sh("mkdir -p /var/lib/lxc /run/lxc")
    python = shlex.join(
        ("env", f"PYTHONPATH={paths.CHECKOUT}", sys.executable)
    )
    _COMMAND.write_text(
        f'#!/bin/sh\nexec {python} -m sriov_rt.cmd.main "$@"\n'
    )
    _COMMAND.chmod(0o755)
    pools = ",".join(f"physnet1:{each}" for each in _PARENTS.values())
    _CONFIG.parent.mkdir(parents=True, exist_ok=True)
    _CONFIG.write_text(f"[vif]\nparents = {pools}\n")
    config = _LXC_CONFIG.splitlines()
    for sender, parent in _PARENTS.items():
        config += _hook(sender, parent)
    directory = _LXC / CONTAINER
    directory.mkdir(parents=True)
    (directory / "config").write_text("\n".join([*config, ""]))
    log = "/root/lxc.log"
    sh(
        f"lxc-start -P {_LXC} -n {CONTAINER} -d -l INFO -o {log} || "
        f"{{ grep -E 'ERROR|hook' {log} >&2; exit 1; }}"
    )


def _hook(sender: Sender, parent: str) -> list[str]:
    printed = subprocess.run(
        (
            *(str(_COMMAND), "vif", "lxc-hook", "--json"),
            *("--port", str(uuid.uuid4()), "--owner", CONTAINER),
            *("--kind", _KINDS[sender], "--network", "physnet1"),
            *("--parent", parent, "--name", sender.interface),
            *("--address", sender.address),
        ),
        check=True,
        stdout=subprocess.PIPE,
    )
    return list(json.loads(printed.stdout))


def await_answer(sender: Sender) -> None:
    """Wait until the far end answers a sender.

    :raises subprocess.CalledProcessError: if it does not in ANSWER.
    """
    subprocess.run(
        (
            *(*sender.enter, "ping", "-q", "-c", "2", "-i", "0.2"),
            *("-w", str(ANSWER), sender.peer),
        ),
        check=True,
        stdout=subprocess.DEVNULL,
    )


def await_listener() -> None:
    """Wait until iperf3 listens at the far end.

    :raises subprocess.CalledProcessError: if it does not in ANSWER.
    """
    sh(
        f"timeout {ANSWER} bash -c 'until ip netns exec {FAR} "
        "ss -Hltn sport = :5201 | grep -q .; do sleep 0.1; done'"
    )


def far(*command: str) -> Sequence[str]:
    """Return a command at the far end, on its CPU."""
    return ("taskset", "-c", FAR_CPU, "ip", "netns", "exec", FAR, *command)


def say(text: str, began: float = time.monotonic()) -> None:
    """Tell on standard error what is done, with the seconds so far."""
    print(f"{time.monotonic() - began:5.1f} s: {text}", file=sys.stderr)


def received() -> int:
    """Return how many packets the far end has had by now."""
    shown = sh(f"ip -n {FAR} -j -s link show {FAR_PF}v0")
    (link,) = json.loads(shown)
    return int(link["stats64"]["rx"]["packets"])


@functools.cache
def next_hop(sender: Sender) -> str:
    """Return the MAC that a sender's packets to the far end go to."""
    where = sender.gateway or f"-n {FAR} {FAR_PF}v0"
    option, _, name = where.rpartition(" ")
    (link,) = json.loads(sh(f"ip {option} -j link show {name}"))
    return str(link["address"])
