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

"""Programs of Helm and of Cluster API, from their Go modules.

Neither module has replace directives, so `go install` takes them as they are,
and Go checks them and what they require against its checksum database.
"""

import contextlib
import fcntl
import hashlib
import pathlib
import shutil
from collections.abc import Iterator

from tests.testbed import paths
from tests.testbed.kube import toolchain
from tests.testbed.progress import Progress
from tests.testbed.waiting import run_logged

#: The newest of July 2026; its k8s.io/client-go wants Go 1.26.
HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
GO_FOR_HELM = "go1.26.8"

#: The last minor release that stores v1beta1, as the chart writes it: later
#: ones need a conversion webhook.
CLUSTER_API = "sigs.k8s.io/cluster-api@v1.10.4"
KUBEADM_BOOTSTRAP = "sigs.k8s.io/cluster-api/bootstrap/kubeadm@v1.10.4"

#: A small chart with capi-helm's names.
CHART = pathlib.Path(__file__).parent / "chart"

_CRDS = (
    "config/crd/bases",
    "bootstrap/kubeadm/config/crd/bases",
    "controlplane/kubeadm/config/crd/bases",
)
_BUILD_SECONDS = 3600.0


def _in_cache(cache: pathlib.Path, name: str, *recipe: str) -> pathlib.Path:
    """Name a directory after all that decides what is in it."""
    key = hashlib.sha256("\0".join(recipe).encode()).hexdigest()
    return cache / f"{name}-{key[:12]}"


def helm(place: paths.Paths, progress: Progress) -> pathlib.Path:
    """Return the directory of the program helm, built if need be.

    :raises errors.TestbedError: when it can't be had.
    """
    found = _in_cache(place.cache, "helm", HELM, GO_FOR_HELM)
    with _locked(found):
        if not found.is_dir():
            with progress.step("Helm"):
                _install(found, place, GO_FOR_HELM, HELM)
    return found


def controllers(place: paths.Paths, progress: Progress) -> pathlib.Path:
    """Return the directory of Cluster API's controllers, built if need be.

    :returns: cluster-api (Clusters, Machines, ClusterResourceSets) and
        kubeadm (bootstrap data) are in it.
    :raises errors.TestbedError: when they can't be had.
    """
    recipe = (CLUSTER_API, KUBEADM_BOOTSTRAP, toolchain.RELEASE)
    found = _in_cache(place.cache, "cluster-api", *recipe)
    with _locked(found):
        if not found.is_dir():
            with progress.step("Cluster API"):
                _install(found, place, toolchain.RELEASE, *recipe[:2])
    return found


def crds(place: paths.Paths) -> pathlib.Path:
    """Return the directory of Cluster API's CRDs, downloaded if need be.

    :raises errors.TestbedError: when they can't be had.
    """
    found = _in_cache(place.cache, "cluster-api-crds", CLUSTER_API)
    with _locked(found):
        if found.is_dir():
            return found
        work = found.with_suffix(".work")
        work.mkdir(exist_ok=True)
        variables = toolchain.environment(work)
        go = toolchain.installed() or "go"
        run_logged(
            ("env", f"--chdir={work}", go, "mod", "download", CLUSTER_API),
            timeout=_BUILD_SECONDS,
            environment=variables,
            log=place.log / "cluster-api.log",
        )
        source = pathlib.Path(variables["GOMODCACHE"], CLUSTER_API)
        result = work / "result"
        result.mkdir(exist_ok=True)
        for part in _CRDS:
            for path in (source / part).glob("*.yaml"):
                shutil.copy(path, result)
        result.rename(found)
        shutil.rmtree(work)
    return found


def _install(
    directory: pathlib.Path, place: paths.Paths, release: str, *packages: str
) -> None:
    """Build programs, each in its own module."""
    work = directory.with_suffix(".work")
    work.mkdir(exist_ok=True)
    log = place.log / f"{directory.name}.log"
    result = work / "result"
    variables = {
        **toolchain.environment(work),
        "GOBIN": str(result),
    }
    go = toolchain.fetch(work, variables, log, release)
    for package in packages:
        run_logged(
            (
                *("env", f"--chdir={work}"),
                *("nice", "-n15", str(go), "install", "-trimpath"),
                *("-ldflags=-s -w", package),
            ),
            timeout=_BUILD_SECONDS,
            environment=variables,
            log=log,
        )
    result.rename(directory)
    shutil.rmtree(work)


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    """Let one process at a time in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
