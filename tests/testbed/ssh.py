# SPDX-License-Identifier: Apache-2.0

"""SSH between realtime hosts, by which Nova copies disks of moved servers.

``python -m tests.testbed.ssh`` downloads it.
"""

from tests.testbed import paths
from tests.testbed.compute_host import ComputeHost
from tests.testbed.rtvm.debian import Tree
from tests.testbed.rtvm.debian import Unpacker

#: They are unpacked only in the virtual machines: this machine should not get
#: an SSH server.
_PACKAGES = (
    "openssh-server",
    "openssh-client",
    "openssh-sftp-server",
    "libcbor0.8",
    "libedit2",
    "libfido2-1",
    "libwrap0",
)

#: Lets root of each host that has run it log in to this host. Its arguments:
#: the tree of the packages, the directory with the key that the hosts share.
_SERVE = """\
set -eu
tree=$1 keys=$2
for part in etc lib usr; do
    cp -a "$tree/$part/." "/$part/"
done
mkdir -p "$keys" /run/sshd
new_key() { ssh-keygen -q -t ed25519 -N '' -f "$1"; }
[ -e "$keys/id" ] || new_key "$keys/id"
[ -e /run/sshd/host_key ] || new_key /run/sshd/host_key
install -m 600 "$keys/id" "$keys/id.pub" /run/sshd/
cat > /etc/ssh/ssh_config.d/hosts.conf <<'END'
Host *
    IdentityFile /run/sshd/id
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
END
getent passwd sshd > /dev/null || useradd --system sshd
# A locked account can't log in by a key either, and bash would read what the
# outer machine's root has it do first.
usermod --password '*' --shell /bin/sh root
/usr/sbin/sshd -f /usr/share/openssh/sshd_config -h /run/sshd/host_key \
    -o AuthorizedKeysFile=/run/sshd/id.pub -o PermitRootLogin=yes \
    -o UsePAM=no -o UseDNS=no -o PidFile=/run/sshd/pid
"""

_END = "kill $(cat /run/sshd/pid)"


def download(place: paths.Paths) -> Tree:
    """Return the packages, downloaded unless they are in the cache.

    :param place: directories with the cache.
    :raises errors.TestbedError: when they can't be downloaded.
    """
    return Unpacker(place.cache / "debian").packages(*_PACKAGES)


def serve(host: ComputeHost) -> None:
    """Start a server; root of each host with a server can log in.

    :param host: a realtime host.
    :raises errors.TestbedError: when the packages can't be downloaded, or no
        server starts.
    """
    tree, keys = download(host.place), host.place.data / "ssh"
    host.run("bash", "-c", _SERVE, "bash", str(tree.root), str(keys))


def end(host: ComputeHost) -> None:
    """Stop a server.

    :param host: the host that serves.
    """
    host.run("bash", "-c", _END)


if __name__ == "__main__":
    download(paths.Paths.from_environment())
