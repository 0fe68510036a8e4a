# SPDX-License-Identifier: Apache-2.0

"""The databases of OpenStack: made once, kept in the cache, then copied."""

import concurrent.futures
import hashlib
import pathlib
import shutil
from collections.abc import Mapping

from tests.testbed import api
from tests.testbed import infrastructure
from tests.testbed import network
from tests.testbed import openstack_services
from tests.testbed import paths
from tests.testbed import python_env
from tests.testbed import seed
from tests.testbed import settings
from tests.testbed.progress import Progress
from tests.testbed.waiting import run
from tests.testbed.waiting import run_logged

DATABASES = (
    "keystone",
    "placement",
    "glance",
    "neutron",
    "nova_api",
    "nova_cell0",
    "nova_cell1",
)
_SYNC_SECONDS = 600.0
_CELL0 = settings.database_url("nova_cell0")


def restore(
    place: paths.Paths,
    env: python_env.PythonEnv,
    environment: Mapping[str, str],
    progress: Progress,
) -> None:
    """Put fresh databases and Keystone's keys into the data directory.

    :param place: the directories of the cloud.
    :param env: the environment with OpenStack.
    :param environment: environment of the services.
    :param progress: shows progress.
    :raises errors.TestbedError: when they can't be made.
    """
    lanes = _lanes(place)
    # The databases' content doesn't depend on our directories.
    anywhere = _lanes(paths.Paths(pathlib.Path(), pathlib.Path()))
    recipe = repr((env.root.name, anywhere, seed.USERS)).encode()
    key = hashlib.sha256(recipe).hexdigest()
    snapshot = place.cache / f"databases-{key[:12]}"
    if not snapshot.exists():
        with progress.step("databases made"):
            _make(place, environment, lanes)
            draft = snapshot.with_suffix(".new")
            shutil.rmtree(draft, ignore_errors=True)
            for part in ("mariadb", "keystone"):
                shutil.copytree(place.data / part, draft / part)
            draft.rename(snapshot)
        return
    for part in ("mariadb", "keystone"):
        shutil.copytree(snapshot / part, place.data / part)


def _make(
    place: paths.Paths,
    environment: Mapping[str, str],
    lanes: tuple[tuple[tuple[str, ...], ...], ...],
) -> None:
    """Fill the data directory, and leave nothing running."""
    infrastructure.install_mariadb(place)
    for name in ("fernet-keys", "credential-keys"):
        (place.data / "keystone" / name).mkdir(mode=0o700, parents=True)
    server = infrastructure.mariadb(place, environment)
    server.start(place)
    try:
        server.wait(place)
        _create_databases(place)
        with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
            for future in [
                pool.submit(_run_lane, lane, place, environment)
                for lane in lanes
            ]:
                future.result()
        keystone, *_ = openstack_services.interfaces(environment)
        keystone.start(place)
        try:
            keystone.wait(place)
            seed.users(api.connect())
        finally:
            keystone.stop(place)
    finally:
        server.stop(place)


def _create_databases(place: paths.Paths) -> None:
    statements = [
        "create user if not exists root@'%';"
        "grant all on *.* to root@'%' with grant option;"
    ]
    statements += (
        f"create database {name} character set utf8mb3;" for name in DATABASES
    )
    run(
        (
            "mariadb",
            "--no-defaults",
            "--user=root",
            f"--socket={place.run / 'mariadb.sock'}",
        ),
        timeout=30,
        stdin="\n".join(statements).encode(),
    )


def _run_lane(
    lane: tuple[tuple[str, ...], ...],
    place: paths.Paths,
    environment: Mapping[str, str],
) -> None:
    for command in lane:
        log = place.log / f"{pathlib.Path(command[0]).name}.log"
        run_logged(
            command,
            timeout=_SYNC_SECONDS,
            environment=environment,
            log=log,
        )


def _lanes(place: paths.Paths) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Return the commands that fill the databases, as two equal halves."""
    etc = place.etc
    keystone = (
        "keystone-manage",
        f"--config-file={etc / 'keystone' / 'keystone.conf'}",
    )
    owner = ("--keystone-user", "root", "--keystone-group", "root")
    nova = ("nova-manage", f"--config-file={etc / 'nova' / 'nova.conf'}")
    first = (
        (*keystone, "db_sync"),
        (*keystone, "fernet_setup", *owner),
        (*keystone, "credential_setup", *owner),
        (*keystone, "bootstrap", *_bootstrap_options()),
        (
            "placement-manage",
            f"--config-file={etc / 'placement' / 'placement.conf'}",
            "db",
            "sync",
        ),
        (
            "glance-manage",
            f"--config-file={etc / 'glance' / 'glance-api.conf'}",
            "db_sync",
        ),
    )
    second = (
        (*nova, "api_db", "sync"),
        (*nova, "cell_v2", "map_cell0", f"--database_connection={_CELL0}"),
        (*nova, "cell_v2", "create_cell", "--name=cell1"),
        (*nova, "db", "sync"),
        (
            "neutron-db-manage",
            f"--config-file={etc / 'neutron' / 'neutron.conf'}",
            f"--config-file={etc / 'neutron' / 'ml2_conf.ini'}",
            "upgrade",
            "heads",
        ),
    )
    return first, second


def _bootstrap_options() -> tuple[str, ...]:
    url = network.url("keystone") + "/v3"
    return (
        f"--bootstrap-password={settings.PASSWORD}",
        f"--bootstrap-admin-url={url}",
        f"--bootstrap-public-url={url}",
        f"--bootstrap-internal-url={url}",
        f"--bootstrap-region-id={settings.REGION}",
    )
