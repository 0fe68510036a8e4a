# SPDX-License-Identifier: Apache-2.0

"""Debian's daemons that OpenStack needs."""

import pathlib
from collections.abc import Mapping

from tests.testbed import network
from tests.testbed import paths
from tests.testbed.service import Service
from tests.testbed.waiting import run_logged

_QEMU_CONF = """\
user = "root"
group = "root"
security_driver = "none"
remember_owner = 0
# Realtime group scheduling gives no slice to groups that nobody configured:
# vCPU threads couldn't become SCHED_FIFO in a cpu group.
cgroup_controllers = [ "cpuset", "memory", "devices", "blkio", "cpuacct" ]
"""


def configure(place: paths.Paths) -> None:
    """Write the configuration of RabbitMQ and libvirt.

    :param place: the directories of the cloud.
    """
    configure_rabbitmq(place)
    configure_libvirt(
        place.data / "libvirt" / "etc", place.log / "libvirtd.log"
    )


def configure_rabbitmq(place: paths.Paths, memory_mb: int = 512) -> None:
    """Write the configuration of RabbitMQ.

    :param place: the directories of the cloud.
    :param memory_mb: memory that it may use before it blocks publishers.
    """
    rabbit = place.etc / "rabbitmq"
    rabbit.mkdir(parents=True, exist_ok=True)
    (rabbit / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = {network.CONTROLLER_ADDRESS}"
        f":{network.PORTS['rabbitmq']}\n"
        "loopback_users = none\n"
        f"vm_memory_high_watermark.absolute = {memory_mb}MB\n"
    )
    (rabbit / "enabled_plugins").write_text("[].\n")


def configure_libvirt(directory: pathlib.Path, log: pathlib.Path) -> None:
    """Write the configuration of a libvirtd.

    :param directory: what is mounted at /etc/libvirt for it.
    :param log: its log file.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "qemu.conf").write_text(_QEMU_CONF)
    (directory / "libvirtd.conf").write_text(
        'auth_unix_ro = "none"\n'
        'auth_unix_rw = "none"\n'
        f'log_outputs = "3:file:{log}"\n'
    )


def mariadb(place: paths.Paths, environment: Mapping[str, str]) -> Service:
    """Return the database server.

    :param place: the directories of the cloud.
    :param environment: what it runs with.
    """
    return Service(
        name="mariadb",
        command=(
            "mariadbd",
            "--no-defaults",
            "--user=root",
            f"--datadir={place.data / 'mariadb'}",
            f"--socket={place.run / 'mariadb.sock'}",
            f"--pid-file={place.run / 'mariadb.pid'}",
            f"--bind-address={network.CONTROLLER_ADDRESS}",
            f"--port={network.PORTS['mariadb']}",
            "--max-connections=500",
            "--character-set-server=utf8mb3",
            "--innodb-buffer-pool-size=128M",
            "--innodb-log-file-size=16M",
            # No data here has to survive a power cut.
            "--innodb-flush-log-at-trx-commit=0",
            "--skip-log-bin",
        ),
        environment=environment,
        ready=lambda: network.listens("mariadb"),
    )


def install_mariadb(place: paths.Paths) -> None:
    """Make the data directory of an empty database server.

    :param place: the directories of the cloud.
    :raises errors.CommandFailed: when it can't be made.
    """
    run_logged(
        (
            "mariadb-install-db",
            "--no-defaults",
            "--user=root",
            f"--datadir={place.data / 'mariadb'}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--innodb-log-file-size=16M",
        ),
        timeout=120,
        log=place.log / "mariadb-install.log",
    )


def rabbitmq(place: paths.Paths, environment: Mapping[str, str]) -> Service:
    """Return the message broker.

    :param place: the directories of the cloud.
    :param environment: what it runs with.
    """
    etc = place.etc / "rabbitmq"
    own = {
        "RABBITMQ_NODENAME": "testbed@localhost",
        "RABBITMQ_MNESIA_BASE": str(place.data / "rabbitmq"),
        "RABBITMQ_LOG_BASE": str(place.log),
        "RABBITMQ_CONFIG_FILE": str(etc / "rabbitmq"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(etc / "enabled_plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none",
        # Unbound, since tests pin guests to this machine's CPUs.
        "RABBITMQ_SCHEDULER_BIND_TYPE": "u",
    }
    return Service(
        name="rabbitmq",
        # Debian's wrapper in /usr/sbin insists on the user rabbitmq.
        command=("/usr/lib/rabbitmq/bin/rabbitmq-server",),
        environment={**environment, **own},
        ready=lambda: network.listens("rabbitmq"),
    )


def virtlogd(environment: Mapping[str, str]) -> Service:
    """Return the daemon that keeps the consoles of libvirt's guests.

    :param environment: what it runs with.
    """
    return Service(
        name="virtlogd",
        command=("virtlogd",),
        environment=environment,
        ready=lambda: pathlib.Path("/run/libvirt/virtlogd-sock").is_socket(),
    )


def libvirtd(environment: Mapping[str, str]) -> Service:
    """Return libvirt's daemon.

    :param environment: what it runs with.
    """
    return Service(
        name="libvirtd",
        command=("libvirtd",),
        environment=environment,
        ready=lambda: pathlib.Path("/run/libvirt/libvirt-sock").is_socket(),
    )
