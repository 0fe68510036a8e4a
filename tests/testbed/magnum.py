# SPDX-License-Identifier: Apache-2.0

"""Magnum beside the cloud: magnum-api and magnum-conductor, with Helm.

They have their own Python environment, as if operators had installed each
service separately. The management cluster is a control plane in the cloud's
namespaces. ``python -m tests.testbed.magnum`` installs and builds everything,
since nothing can be downloaded inside the cloud.
"""

import dataclasses
import pathlib
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.testbed import errors
from tests.testbed import ini
from tests.testbed import network
from tests.testbed import packages
from tests.testbed import paths
from tests.testbed import programs
from tests.testbed import python_env
from tests.testbed import settings
from tests.testbed.kube import cluster_api_programs
from tests.testbed.kube import programs as kube_programs
from tests.testbed.progress import Progress
from tests.testbed.service import Service
from tests.testbed.waiting import run
from tests.testbed.waiting import run_logged

if TYPE_CHECKING:
    # It is only in the cloud's Python environment, not where that is made.
    from openstack.connection import Connection

#: Packages of the environment; the extra ``magnum`` brings the rest.
PACKAGES = ("PyMySQL", "python-openstackclient", "python-magnumclient==5.0.0")
EXTRA = "magnum"

#: Nova makes config drives with it.
DEBIAN = ("genisoimage",)

API, CONDUCTOR = "magnum-api", "magnum-conductor"

_SYNC_SECONDS = 300.0

#: Runs Helm; an upgrade waits as long as a file exists.
_HELM = """\
#!/bin/sh
if [ "$1" = upgrade ]; then
    : >'{reached}'
    while [ -e '{hold}' ]; do sleep 0.2; done
fi
exec '{helm}' "$@"
"""


def environment(cache: pathlib.Path) -> python_env.PythonEnv:
    """Return the environment of Magnum's services and clients.

    :param cache: the cache directory.
    """
    return python_env.PythonEnv.in_cache(cache, PACKAGES, EXTRA)


def prepare(place: paths.Paths, progress: Progress) -> None:
    """Install and build what Magnum needs, and its management cluster.

    :param place: the directories of the cloud.
    :param progress: shows progress.
    :raises errors.TestbedError: when something can't be installed.
    """
    packages.install(DEBIAN, place.log / "apt.log")
    env = environment(place.cache)
    log = place.log / "pip-magnum.log"
    with progress.step(f"Magnum (log: {log})"):
        env.create(log)
        env.build_pure(log)
        env.install_project(log)
    kube_programs.Programs.in_cache(place.cache).prepare(place.log, progress)
    cluster_api_programs.helm(place, progress)
    cluster_api_programs.crds(place, progress)
    cluster_api_programs.controllers(place, progress)


@dataclasses.dataclass(frozen=True)
class Magnum:
    """Magnum's services in a cloud that is up.

    :param place: the directories of the cloud.
    :param kubeconfig: kubeconfig of the management cluster's administrator.
    """

    place: paths.Paths
    kubeconfig: pathlib.Path

    @property
    def env(self) -> python_env.PythonEnv:
        """The environment of the services and of the clients."""
        return environment(self.place.cache)

    def configure(self, api: "Connection") -> None:
        """Register Magnum at Keystone, make its database and configuration.

        :param api: the cloud.
        :raises errors.TestbedError: when the database can't be made.
        :raises openstack.exceptions.HttpException: when Keystone refuses.
        """
        _register(api)
        self._etc.mkdir(parents=True, exist_ok=True)
        ini.write(self._etc / "magnum.conf", self._sections())
        self._write_paste()
        self._write_helm()
        run(
            (
                "mariadb",
                "--no-defaults",
                "--user=root",
                f"--socket={_socket(self.place)}",
            ),
            timeout=30,
            stdin=(
                b"drop database if exists magnum;"
                b"create database magnum character set utf8mb3;"
            ),
        )
        run_logged(
            (self.env.program("magnum-db-manage"), self._config, "upgrade"),
            timeout=_SYNC_SECONDS,
            environment=self._environment,
            log=self.place.log / "magnum-db-manage.log",
        )

    def start(self) -> None:
        """Start both services, and wait until the API answers.

        :raises errors.TestbedError: when one doesn't come up.
        """
        self.stop()
        for each in self._services:
            each.start(self.place)
        for each in self._services:
            each.wait(self.place)

    def stop(self) -> None:
        """End both services.

        :raises errors.TestbedError: when one can't be ended.
        """
        for each in reversed(self._services):
            each.stop(self.place)

    def kill_conductor(self) -> None:
        """End magnum-conductor, with the Helm that it runs, by SIGKILL."""
        conductor = self._services[0]
        conductor.stop(self.place, signal.SIGKILL)

    @property
    def hold(self) -> pathlib.Path:
        """A file; an upgrade by Helm waits as long as it exists."""
        return self._etc / "hold"

    @property
    def reached(self) -> pathlib.Path:
        """A file that exists once an upgrade by Helm has begun."""
        return self._etc / "reached"

    @property
    def _etc(self) -> pathlib.Path:
        return self.place.etc / "magnum"

    @property
    def _config(self) -> str:
        return f"--config-file={self._etc / 'magnum.conf'}"

    @property
    def _environment(self) -> dict[str, str]:
        found = programs.environment(self.place, self.env)
        found["PATH"] = f"{self._etc / 'bin'}:{found['PATH']}"
        return found

    @property
    def _services(self) -> tuple[Service, ...]:
        return (
            self._service(CONDUCTOR, lambda: True),
            self._service(API, lambda: network.answers("magnum", "/")),
        )

    def _service(self, name: str, ready: Callable[[], object]) -> Service:
        log = self.place.log / f"{name}.log"
        return Service(
            name,
            (self.env.program(name), self._config, f"--log-file={log}"),
            self._environment,
            ready,
        )

    def _sections(self) -> dict[str, ini.Section]:
        region: ini.Section = {"region_name": settings.REGION}
        credentials = settings.credentials("magnum")
        return {
            "DEFAULT": {
                "host": network.CONTROLLER,
                "transport_url": settings.TRANSPORT_URL,
                "state_path": self.place.data / "magnum",
                "periodic_interval_max": 5,
            },
            "api": {
                "host": network.CONTROLLER_ADDRESS,
                "port": network.PORTS["magnum"],
                "workers": 2,
                "api_paste_config": self._etc / "api-paste.ini",
            },
            "conductor": {"workers": 1},
            "database": settings.database("magnum"),
            "certificates": {"cert_manager_type": "x509keypair"},
            "keystone_authtoken": credentials,
            "keystone_auth": credentials,
            **{
                f"{each}_client": region
                for each in ("cinder", "glance", "neutron", "nova", "octavia")
            },
            # The cloud's flavors have no disk, as if servers booted from
            # volumes.
            "cinder": {"default_boot_volume_size": 1},
            "oslo_concurrency": {
                "lock_path": self.place.data / "magnum" / "lock"
            },
            "capi_helm": {
                "kubeconfig_file": self.kubeconfig,
                "helm_chart_repo": "",
                "helm_chart_name": cluster_api_programs.CHART,
                # Servers here are emulated, and run no Kubernetes.
                "minimum_flavor_ram": 64,
                "minimum_flavor_vcpus": 1,
            },
            "sriov_rt_magnum": {"host_check": "facts"},
            "sriov_rt": {"transport_url": settings.TRANSPORT_URL},
        }

    def _write_paste(self) -> None:
        """Put our filter behind authtoken, as the operator's guide says."""
        text = (self.env.etc / "magnum" / "api-paste.ini").read_text()
        (self._etc / "api-paste.ini").write_text(
            text.replace("authtoken api_v1", "authtoken sriov_rt api_v1")
            + "\n[filter:sriov_rt]\n"
            "paste.filter_factory = sriov_rt.magnum.api_filter:factory\n"
        )

    def _write_helm(self) -> None:
        program = self._etc / "bin" / "helm"
        program.parent.mkdir(exist_ok=True)
        helm = cluster_api_programs.helm(self.place, Progress()) / "helm"
        program.write_text(
            _HELM.format(reached=self.reached, hold=self.hold, helm=helm)
        )
        program.chmod(0o755)


def _socket(place: paths.Paths) -> pathlib.Path:
    return place.run / "mariadb.sock"


def _register(api: "Connection") -> None:
    identity = api.identity
    if identity.find_user("magnum") is not None:
        return
    user = identity.create_user(
        name="magnum", password=settings.PASSWORD, domain_id="default"
    )
    project = identity.find_project("service", ignore_missing=False)
    for name in ("admin", "service"):
        role = identity.find_role(name, ignore_missing=False)
        identity.assign_project_role_to_user(project, user, role)
    made = identity.create_service(name="magnum", type="container-infra")
    for interface in ("public", "internal"):
        identity.create_endpoint(
            service_id=made.id,
            interface=interface,
            url=network.url("magnum") + "/v1",
            region_id=settings.REGION,
        )
    # A token has the catalogue from the time when it was issued.
    api.session.invalidate()


def main() -> int:
    """Install and build everything, and return the exit status."""
    place = paths.Paths.from_environment()
    place.make()
    try:
        prepare(place, Progress())
    except errors.TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
