# SPDX-License-Identifier: Apache-2.0

"""The wire of rt-1 as the tests of the VIF driver use it.

The VFs of one PF are the host's under test. Those of the other stand in
for the rest of the network: each in a namespace of its own.
"""

import json
import re
from typing import Any
from typing import ClassVar

from tests.testbed import paths
from tests.testbed.rtvm import Result
from tests.testbed.rtvm import RtVm
from tests.vm import base

#: The PF whose VFs are under test, and the one across the wire.
PF = "enp1s0"
FAR = "enp2s0"
_DEVICE = "0000:01:00.0"

#: Where the PFs' mailboxes are served while VFs are used: a CPU that is for
#: guests, and has none. The kernel asks a PF itself, too, from any CPU that
#: programs use (IPv6 on a VF that comes up, igbvf's watchdog), and gets no
#: answer where the mailbox is: the VF's link is down for ten seconds then, at
#: times again and again. See pin_mailbox in the file.
MAILBOX_CPU = 3
_VFS = paths.CHECKOUT / "tests/testbed/rtvm/guest/vfs.sh"
#: Where services.sh has them otherwise: the host is to pass as realtime.
OWN_MAILBOX_CPU = 0

#: Seconds that a neighbour may take to answer: an emulated link comes up
#: two seconds after its driver has been asked to, and a VF that its PF did not
#: answer asks again every ten, at times in vain for more than a minute.
ANSWER = 180

#: An emulated CPU takes 0.1 s to start a program: there are few in these.
_LOOK = r"""
set -e
echo "{\"links\": $(ip -j -d link show)"
echo ", \"namespaces\": $(ip -j netns list | grep . || echo '[]')"
echo ", \"qdiscs\": $(tc -j qdisc show)}"
vfs=/sys/class/net/enp?s0/device/virtfn
echo ---
ls -l --time-style=+ -d ${vfs}*/driver
grep -H "" ${vfs}*/driver_override
"""

#: What says who made something when, and not what it is. A VF's driver
#: makes up another MAC each time that it is bound, and the PF shows that.
_VOLATILE = {
    *("ifindex", "link_index", "link_netnsid", "address", "operstate"),
    *("inet6_addr_gen_mode", "flags", "txqlen", "qdisc"),
}

#: Brings the VFs of rt-1 back to how a test found them.
_TIDY = f"""
for port in $(ip -j netns list | grep -o 'srt-[a-z0-9]*'); do
    ip netns del "$port"
done
for path in /sys/class/net/{{{PF},{FAR}}}/device/virtfn*/net/*; do
    now=${{path##*/}} vf=${{path%/net/*}} pf=${{path#/sys/class/net/}}
    name=${{pf%%/*}}v${{vf##*virtfn}}
    echo "link set $now down"
    [ "$now" = "$name" ] || echo "link set $now name $name"
done | ip -force -batch -
"""


#: igb of Linux 6.1 never frees a filter that a VF has had for a further
#: MAC: it takes the request to clear them, with an address of zeros, for one
#: with an invalid address (igb_set_vf_mac_filter). After about three
#: macvlans the PF's 16 are gone, but for VFs that are made anew.
_REMAKE = f"""
set -e
. "$1"
make_vfs {PF} {_DEVICE} "$(cat /sys/class/net/{PF}/device/sriov_numvfs)" "$2"
"""

_SERVE = f"""
. "$1"
for pf in {PF} {FAR}; do
    pin_mailbox $pf "$2"
done
"""


def remake_vfs(vm: RtVm) -> None:
    """Make the VFs under test anew, with all filters for MACs free.

    :param vm: the machine.
    """
    _script(vm, _REMAKE, str(MAILBOX_CPU))


def serve_mailboxes(vm: RtVm, cpu: int) -> None:
    """Have the interrupts of the PFs' mailboxes on a CPU.

    :param vm: the machine.
    :param cpu: its number.
    """
    _script(vm, _SERVE, str(cpu))


def _script(vm: RtVm, script: str, *arguments: str) -> None:
    command = ("bash", "-c", script, "-", str(_VFS), *arguments)
    vm.run(command, timeout=base.PATIENCE)


def look(vm: RtVm) -> dict[str, Any]:
    """Return what a test has to leave as it was.

    :param vm: the machine.
    :returns: links, the settings of VFs, their drivers, namespaces.
    """
    text = vm.run(("bash", "-c", _LOOK), timeout=base.PATIENCE).text
    told, _, drivers = text.partition("---\n")
    seen = {**json.loads(told), "drivers": drivers.splitlines()}
    links = {each["ifname"]: _lasting(each) for each in seen["links"]}
    qdiscs = sorted(
        (each["dev"], each["kind"])
        for each in seen["qdiscs"]
        if each["kind"] in ("htb", "ingress", "clsact")
    )
    names = sorted(each["name"] for each in seen["namespaces"])
    return {**seen, "links": links, "qdiscs": qdiscs, "namespaces": names}


def _lasting(link: dict[str, Any]) -> dict[str, Any]:
    kept = {key: link[key] for key in link.keys() - _VOLATILE}
    for vf in kept.get("vfinfo_list", ()):
        del vf["address"]
    return kept


def vf_settings(vm: RtVm, index: int, pf: str = PF) -> dict[str, Any]:
    """Return what the kernel says of a VF, by iproute2.

    :param vm: the machine.
    :param index: of the VF.
    :param pf: its PF.
    """
    shown = vm.run(("ip", "-d", "-j", "link", "show", pf)).text
    (link,) = json.loads(shown)
    (found,) = [vf for vf in link["vfinfo_list"] if vf["vf"] == index]
    return dict(found)


def link(vm: RtVm, name: str, namespace: str = "") -> dict[str, Any] | None:
    """Return what the kernel says of an interface, None if it isn't there.

    :param vm: the machine.
    :param name: of the interface.
    :param namespace: empty for the machine's own.
    """
    where = ("-n", namespace) if namespace else ()
    command = ("ip", *where, "-d", "-j", "link", "show", name)
    shown = vm.run(command, check=False)
    if shown.status != 0:
        return None
    (found,) = json.loads(shown.text)
    return dict(found)


class WireTestCase(base.VmTestCase):
    """A test on the VFs of rt-1, which leaves them as they were.

    :cvar NEIGHBOURS: namespace to what add_neighbour() takes.
    """

    NEIGHBOURS: ClassVar[dict[str, tuple[int, str, int]]] = {}
    _before: ClassVar[dict[str, Any]]

    @classmethod
    def setUpClass(cls) -> None:
        """Look at the machine, and put neighbours on the wire."""
        super().setUpClass()
        cls.addClassCleanup(serve_mailboxes, cls.vm, OWN_MAILBOX_CPU)
        serve_mailboxes(cls.vm, MAILBOX_CPU)
        # A VF that a guest had comes back by the kernel's name for it.
        cls._tidy()
        cls._before = look(cls.vm)
        cls.addClassCleanup(cls._check_left)
        cls.addClassCleanup(cls._tidy)
        for namespace, (index, address, vlan) in cls.NEIGHBOURS.items():
            cls.addClassCleanup(remove_neighbour, cls.vm, namespace, index)
            add_neighbour(cls.vm, namespace, index, address, vlan)

    @classmethod
    def _tidy(cls) -> None:
        cls.vm.run(("bash", "-c", _TIDY), timeout=base.PATIENCE)

    @classmethod
    def _check_left(cls) -> None:
        after = look(cls.vm)
        for part, before in cls._before.items():
            if after[part] != before:
                raise AssertionError(
                    f"{part} were {before} and are {after[part]} now"
                )

    def done(self, *arguments: str) -> Any:
        """Return what a command says in JSON that has to succeed.

        :param arguments: of sriov-rt.
        """
        result = self.command(*arguments, "--json")
        self.assertEqual(result.status, 0, result.complaint)
        return json.loads(result.stdout)

    def refused(self, *arguments: str) -> str:
        """Return the sentence of a command that has to be refused.

        :param arguments: of sriov-rt.
        """
        result: Result = self.command(*arguments)
        self.assertEqual(result.status, 2, result.text)
        (sentence,) = (
            line
            for line in result.complaint.splitlines()
            if line.startswith("sriov-rt: error: ")
        )
        return sentence


def add_neighbour(
    vm: RtVm, namespace: str, index: int, address: str, vlan: int = 0
) -> None:
    """Put a VF of the far PF into a namespace of its own.

    :param vm: the machine.
    :param namespace: its name.
    :param index: of the VF.
    :param address: with its prefix length.
    :param vlan: what the PF tags and untags for it; 0 is none.
    """
    name = f"{FAR}v{index}"
    vm.run(
        (
            "bash",
            "-c",
            f"set -e; ip netns add {namespace}\n"
            "ip -batch - <<END\n"
            f"link set {FAR} vf {index} vlan {vlan}\n"
            f"link set {name} netns {namespace}\n"
            "END\n"
            f"ip -n {namespace} -batch - <<END\n"
            f"address add {address} dev {name}\n"
            "link set lo up\n"
            f"link set {name} up\n"
            "END\n",
        ),
        timeout=base.PATIENCE,
    )


def remove_neighbour(vm: RtVm, namespace: str, index: int) -> None:
    """Undo add_neighbour().

    :param vm: the machine.
    :param namespace: its name.
    :param index: of the VF.
    """
    vm.run(
        (
            "bash",
            "-c",
            f"ip -n {namespace} link set {FAR}v{index} netns 1\n"
            f"ip netns del {namespace}; ip link set {FAR} vf {index} vlan 0",
        ),
        timeout=base.PATIENCE,
        check=False,
    )


def ping(
    vm: RtVm, namespace: str, address: str, seconds: int = ANSWER
) -> bool:
    """Tell whether two answers come from an address.

    :param vm: the machine.
    :param namespace: to ask from; ``pid:N`` for a process's.
    :param address: to ask.
    :param seconds: to wait at most.
    """
    enter: tuple[str, ...] = ("ip", "netns", "exec", namespace)
    if namespace.startswith("pid:"):
        enter = ("nsenter", "-n", "-t", namespace.removeprefix("pid:"))
    command = ("ping", "-c", "2", "-i", "0.3", "-w", str(seconds), address)
    done = vm.run((*enter, *command), timeout=base.PATIENCE, check=False)
    received = re.search(r"(\d+) received", done.text)
    return received is not None and int(received[1]) >= 2
