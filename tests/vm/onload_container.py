# SPDX-License-Identifier: Apache-2.0

"""A container with Onload's preload, on a macvlan over a VF of its host.

A library that counts calls of socket() stands in for Onload's own, and a node
with the numbers of /dev/net/tun for its devices: they are none of those that
containers may open anyway.
"""

import pathlib
import shutil
import uuid

from tests.testbed import standin
from tests.testbed.rtvm import RtVm
from tests.vm import base
from tests.vm import network

_NAME = "sriov-rt-onload"

#: The host's library as containers see it: the default of [onload] inside.
LIBRARY = "/opt/sriov-rt/onload/libonload.so"
PROFILE = {"EF_POLL_USEC": "100000", "EF_NAME": "vm-test"}
PRELOADED = {"LD_PRELOAD": LIBRARY, **PROFILE}

_PLACE = "/srv/onload"
_IMAGE = f"{_PLACE}/image"
#: The stand-in for a device of Onload.
NODE = "/dev/onload-stand-in"
_LXC = f"-P /srv/lxc -n {_NAME}"
_LOG = "/root/onload-lxc.log"

_CONFIG = f"""
[vif]
parents = physnet1:pf:{network.PF}
[onload]
profile_directories = {_PLACE}/profiles
profiles = mine
library = {_PLACE}/lib/libonload.so
devices = {NODE}
"""

#: What the container's init, a dynamic dash, does: each program runs until a
#: line is written into its hold.
_WORK = """
for each in dynamic static; do
    read -r line < /$each.hold | /bin/$each > /$each.said 2> /$each.end &
done
read -r line < /never
"""

#: Starts the container as an operator would: with the lines that the project
#: prints, from the files in $1, with the port whose words follow.
_START = f"""
set -e
mkdir -p {_PLACE} /srv/lxc/{_NAME} /var/lib/lxc /run/lxc /etc/sriov_rt
cp -a "$1/." {_PLACE}
shift
mv {_PLACE}/sriov-rt.conf /etc/sriov_rt
mv {_PLACE}/sriov-rt /usr/local/bin
mkfifo {_IMAGE}/dynamic.hold {_IMAGE}/static.hold {_IMAGE}/never
mknod -m 666 {NODE} c 10 200
{{
    echo lxc.include = /usr/share/lxc/config/common.conf
    echo lxc.uts.name = {_NAME}
    echo lxc.rootfs.path = dir:{_IMAGE}
    echo lxc.init.cmd = /sbin/init /work
    echo lxc.apparmor.profile = unconfined
    sriov-rt onload lxc-config {_NAME} --profile mine --rootfs {_IMAGE}
    sriov-rt vif lxc-hook "$@"
}} > /srv/lxc/{_NAME}/config
lxc-start {_LXC} -d -l DEBUG -o {_LOG} || {{
    grep -E 'ERROR|hook' {_LOG} >&2
    exit 1
}}
lxc-info {_LXC} -pH
"""

_CLEAR = f"""
rm -r {_PLACE} {NODE} /srv/lxc/{_NAME}
rm /usr/local/bin/sriov-rt /etc/sriov_rt/sriov-rt.conf
"""

_LISTEN = f"""
pid=$(lxc-info {_LXC} -pH)
until nsenter -n -t "$pid" ss -Hltn 'sport = :5201' | grep -q .; do
    sleep 0.1
done
"""


def make(place: pathlib.Path) -> None:
    """Make what a host gets: an image, the library, a configuration.

    :param place: a directory that hosts see.
    """
    image = place / "image"
    for each in ("bin", "dev", "proc", "sbin", "sys", "tmp"):
        (image / each).mkdir(parents=True)
    for name, linked in (("dynamic", ()), ("static", ("-static",))):
        standin.build(image / "bin", name, standin.PROGRAM, *linked)
    shutil.copy("/bin/dash", image / "sbin/init")
    shutil.copy("/usr/bin/iperf3", image / "bin")
    for each in ("bin/dynamic", "bin/iperf3", "sbin/init"):
        standin.copy_libraries(str(image / each), image)
    (image / "work").write_text(_WORK)
    standin.library(place)
    (place / "profiles").mkdir()
    lines = (f"onload_set {name} {text}\n" for name, text in PROFILE.items())
    (place / "profiles/mine.opf").write_text("".join(lines))
    (place / "sriov-rt.conf").write_text(_CONFIG)
    program = base.product().program("sriov-rt")
    (place / "sriov-rt").symlink_to(program)


def start(vm: RtVm, place: pathlib.Path, address: str) -> str:
    """Start the container of a host.

    :param vm: the host.
    :param place: what make() has filled.
    :param address: of the macvlan, with its prefix length.
    :returns: the number of the container's init, in the host.
    """
    words = (
        *("--port", str(uuid.uuid4()), "--owner", "vm-test"),
        *("--kind", "macvlan", "--mode", "bridge", "--name", "p0"),
        *("--network", "physnet1", "--address", address),
    )
    return _bash(vm, _START, str(place), *words).strip()


def stop(vm: RtVm) -> None:
    """End the container of a host, if it runs.

    Its last hook may run for some time after.

    :param vm: the host.
    """
    _bash(vm, f"lxc-stop {_LXC} -k || true")


def clear(vm: RtVm) -> None:
    """Take away what start() has brought.

    :param vm: the host.
    """
    _bash(vm, _CLEAR)


def shell(script: str) -> tuple[str, ...]:
    """Return the command that runs a script in the container.

    Its environment is that of the container's configuration alone.

    :param script: for dash.
    """
    attach = ("lxc-attach", *_LXC.split(), "--clear-env", "--")
    return (*attach, "/sbin/init", "-c", script)


def listening(vm: RtVm) -> None:
    """Wait until iperf3 listens in the container of a host.

    :param vm: the host.
    """
    _bash(vm, _LISTEN)


def environment(vm: RtVm, name: str) -> set[str]:
    """Return what a program of the container was started with.

    :param vm: the host.
    :param name: "dynamic" or "static".
    """
    said = f"{_IMAGE}/{name}.said"
    script = f"until grep -qx ready {said}; do sleep 0.1; done; cat {said}"
    return set(_bash(vm, script).splitlines())


def end(vm: RtVm, name: str, pid: int) -> str:
    """End a program of the container.

    :param vm: the host.
    :param name: "dynamic" or "static".
    :param pid: its number in the host.
    :returns: what it leaves on standard error.
    """
    # Its parent waits for something else: it stays as a zombie.
    return _bash(
        vm,
        f"echo > {_IMAGE}/{name}.hold\n"
        f"while [ -e /proc/{pid}/exe ]; do sleep 0.1; done\n"
        f"cat {_IMAGE}/{name}.end",
    )


def _bash(vm: RtVm, script: str, *arguments: str) -> str:
    command = ("bash", "-c", script, "-", *arguments)
    return vm.run(command, timeout=base.PATIENCE).text
