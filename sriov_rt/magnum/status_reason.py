# SPDX-License-Identifier: Apache-2.0

"""The status_reason of clusters and nodegroups."""

import contextlib
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from magnum.common import exception

from sriov_rt import exceptions
from sriov_rt.magnum import errors
from sriov_rt.magnum import monitor
from sriov_rt.magnum.objects import Object

AFTER_NODEGROUP = (
    "delete the nodegroup with 'openstack coe nodegroup delete', or correct "
    "it and use 'openstack coe cluster resize --nodegroup'; both bring the "
    "cluster back to UPDATE_COMPLETE"
)

AFTER_UPDATE = (
    "correct it and use 'openstack coe cluster resize', which brings the "
    "cluster back to UPDATE_COMPLETE"
)

AFTER_CREATE = "delete the cluster, correct it and create it again"

AFTER_DELETE = "delete the cluster again"


class Refused(exception.MagnumException):  # type: ignore[misc]
    """An operation that was refused or failed, with its sentence."""

    def __init__(self, text: str, remedy: str) -> None:
        # Magnum formats every message.
        message = errors.sentence(text, remedy).replace("%", "%%")
        super().__init__(message)


def note(groups: Iterable[Object], warnings: Mapping[str, str]) -> None:
    """Save the warnings of nodegroups, or clear earlier ones."""
    for each in groups:
        text = warnings.get(each.uuid)
        if each.status_reason != text:
            each.status_reason = text
            each.save()


@contextlib.contextmanager
def sentences(cluster: Object, remedy: str) -> Iterator[None]:
    """Set the cluster's status_reason to the failure and its remedy.

    The conductor saves the cluster when an operation fails, but sets the
    reason only for some operations.
    """
    try:
        yield
    except exceptions.SriovRtError as error:
        failed = Refused(str(error), remedy)
        cluster.status_reason = failed.message
        raise failed from error
    except OSError as error:
        # Reading the kubeconfig or a request to its API server failed.
        failed = Refused(str(monitor.unusable(error)), remedy)
        cluster.status_reason = failed.message
        raise failed from error
    except Exception as error:
        cluster.status_reason = errors.sentence(str(error), remedy)
        raise
    if cluster.status_reason:
        cluster.status_reason = None
        cluster.save()
