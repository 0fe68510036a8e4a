# SPDX-License-Identifier: Apache-2.0

"""Helm client with errors that name the next action."""

import json
from collections.abc import Mapping
from typing import Any

from magnum_capi_helm import helm
from oslo_concurrency import processutils
from oslo_log import log as logging
from oslo_utils import timeutils

from sriov_rt.magnum import errors

LOG = logging.getLogger(__name__)

#: Seconds after which no Helm process can still be running:
#: magnum-capi-helm's timeout is five minutes.
DEAD_S = 600.0

#: Helm's message for a release with a pending operation.
_BUSY = "another operation"

_TRY_AGAIN = "repeat the operation when that is corrected"


class Client(helm.Client):  # type: ignore[misc]
    """Client of magnum-capi-helm that also reads values back."""

    def __init__(self) -> None:
        super().__init__()
        #: Values merged over those of each upgrade.
        self.overlay: Mapping[str, Any] = {}

    def install_or_upgrade(
        self, release_name: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Install or upgrade a release.

        A release with a pending operation of a killed Helm is rolled back.

        :raises HelmFailed: if Helm fails, or prints no JSON.
        """
        try:
            return self._upgrade(release_name, *args, **kwargs)
        except errors.HelmFailed as error:
            if not _is_busy(error):
                raise
            self._recover(release_name, kwargs["namespace"])
        return self._upgrade(release_name, *args, **kwargs)

    def _upgrade(self, release_name: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().install_or_upgrade(
                release_name, *args, self.overlay, **kwargs
            )
        except (processutils.ProcessExecutionError, OSError) as error:
            raise failure(error, release_name) from error
        except ValueError as error:
            raise errors.HelmFailed(
                f"helm upgrade of {release_name} printed no JSON", _TRY_AGAIN
            ) from error

    def _recover(self, release_name: str, namespace: str) -> None:
        """Roll back a release whose Helm process was killed.

        Helm ends by itself after its timeout, so an older operation no longer
        has a process. A release that was never installed can only be deleted,
        with its cluster.

        :raises HelmFailed: if Helm may still be running, or fails.
        """
        words = [release_name, "--namespace", namespace]
        try:
            found = json.loads(
                self._run(["history", *words, "--output", "json"])
            )
            newest = found[-1]
            began = timeutils.normalize_time(
                timeutils.parse_isotime(newest["updated"])
            )
            age = (timeutils.utcnow() - began).total_seconds()
            if age < DEAD_S:
                raise errors.HelmFailed(
                    f"Helm has been at work on release {release_name} for "
                    f"{age:.0f} s",
                    f"repeat the operation in {DEAD_S - age:.0f} s",
                )
            if len(found) == 1:
                raise errors.HelmFailed(
                    f"release {release_name} was never installed: Helm was "
                    "killed",
                    "delete the cluster and create it again",
                )
            LOG.warning(
                "Rolling back release %s: Helm was killed %d s ago",
                release_name,
                age,
            )
            self._run(["rollback", *words])
        except (processutils.ProcessExecutionError, OSError) as error:
            raise failure(error, release_name) from error
        except (LookupError, TypeError, ValueError) as error:
            raise errors.HelmFailed(
                f"helm history of {release_name} printed no history",
                _TRY_AGAIN,
            ) from error

    def uninstall_release(self, release_name: str, namespace: str) -> None:
        """Uninstall a release, if it exists.

        :raises HelmFailed: if Helm fails.
        """
        try:
            super().uninstall_release(release_name, namespace)
        except (processutils.ProcessExecutionError, OSError) as error:
            raise failure(error, release_name) from error

    def nodegroups(
        self, release_name: str, namespace: str
    ) -> Mapping[str, Mapping[str, Any]] | None:
        """Return the nodegroups of a release by name; None without one.

        :raises HelmFailed: if Helm fails, or prints no values.
        """
        try:
            command = ["get", "values", release_name, "--output", "json"]
            found = json.loads(self._run([*command, "--namespace", namespace]))
            # A release without values of its own prints null.
            groups = (found or {}).get("nodeGroups") or []
            return {each["name"]: each for each in groups}
        except (processutils.ProcessExecutionError, OSError) as error:
            if "release: not found" in (getattr(error, "stderr", "") or ""):
                return None
            raise failure(error, release_name) from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise errors.HelmFailed(
                f"helm get values of {release_name} printed no values",
                _TRY_AGAIN,
            ) from error


def _is_busy(error: errors.HelmFailed) -> bool:
    return _BUSY in error.problem


def failure(error: Exception, release: str) -> errors.HelmFailed:
    """Translate an error of the program to a HelmFailed.

    :param error: a ProcessExecutionError or OSError.
    """
    if isinstance(error, FileNotFoundError):
        return errors.HelmFailed(
            "magnum-conductor finds no program helm",
            "install Helm 3 on its hosts, and repeat the operation",
        )
    if isinstance(error, OSError):
        return errors.HelmFailed(f"helm cannot be run ({error})", _TRY_AGAIN)
    output = str(getattr(error, "stderr", "") or error).strip()
    lines = output.splitlines() or ["no output"]
    # Advice on flags may follow the error.
    said = next((each for each in lines if "Error:" in each), lines[-1])
    return errors.HelmFailed(
        f"helm failed for release {release} ({said})", _TRY_AGAIN
    )
