# SPDX-License-Identifier: Apache-2.0

"""Refusals as Nova's exceptions, which decide whether it tries another host.

``_build_and_run_instance`` and ``_do_rebuild_instance`` of
nova/compute/manager.py go on to another host, or back, after
ComputeResourcesUnavailable; BuildAbortException ends the operation.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

import nova.conf
from nova import exception
from nova.compute import task_states
from nova.compute import utils as compute_utils
from oslo_log import log as logging

from sriov_rt import deadline
from sriov_rt import exceptions
from sriov_rt import request as requests
from sriov_rt.guest import engine
from sriov_rt.guest import plugins
from sriov_rt.onload import errors as onload_errors
from sriov_rt.reason import Fault
from sriov_rt.reason import Reason
from sriov_rt.reason import reason
from sriov_rt.vif import privsep

LOG = logging.getLogger(__name__)

#: The event of an instance's action that records a host's refusal.
EVENT = "compute_sriov_rt"


class GuestRefused(exception.BuildAbortException):  # type: ignore[misc]
    """The flavor or image requests what no host can give the instance.

    A BuildAbortException, so that Nova cleans up and tries no other host.
    Its message is the sentence alone: Nova truncates a fault to 255 bytes.
    """

    msg_fmt = "%(reason)s"


class HostRefused(
    exception.ComputeResourcesUnavailable  # type: ignore[misc]
):
    """This host can't run the instance; Nova tries another one."""

    msg_fmt = "%(reason)s"


REFUSED = (GuestRefused, HostRefused)


def refused(
    instance: Any, error: exceptions.SriovRtError
) -> GuestRefused | HostRefused:
    """Return Nova's exception for an error, and log it."""
    sentence = str(error)
    if isinstance(error, requests.RequestError):
        sentence = reason("request_invalid", problems=sentence).message
    elif isinstance(error, engine.Refused):
        reasons = error.reasons
        if instance.launched_at is not None:
            reasons = tuple(_of_a_server(each, instance) for each in reasons)
        sentence = str(engine.Refused(reasons))
    return _logged(instance, sentence, _fault(error))


def unfit(
    instance: Any, reasons: Iterable[Reason]
) -> GuestRefused | HostRefused:
    """Return Nova's exception for Reasons against this host, and log them."""
    error = engine.Refused(tuple(reasons))
    return _logged(instance, str(error), _fault(error))


@contextlib.contextmanager
def recorded(context: Any, instance: Any) -> Iterator[None]:
    """Record this host's refusal where Nova's next attempt does not hide it.

    Nova shows only the last fault: after a build is tried elsewhere that is
    the conductor's ("Exhausted all hosts"). An event of the action stays, and
    'openstack server event show' shows it.
    """
    try:
        yield
    except HostRefused:
        kind, error, trace = sys.exc_info()
        reporter = compute_utils.EventReporter(
            context, EVENT, nova.conf.CONF.host, instance.uuid
        )
        try:
            reporter.__enter__()
            reporter.__exit__(kind, error, trace)
        except exception.NovaException as problem:
            # Only a user's request has an action.
            LOG.debug(
                "Refusal not recorded as an event: %s",
                problem,
                instance=instance,
            )
        raise


@contextlib.contextmanager
def checking(instance: Any, *, asks: bool = True) -> Iterator[None]:
    """Turn any error in a check of ours into a refusal.

    For a refusal Nova tries another host, or leaves the instance as it is.
    For any other exception it sets the instance to ERROR, although the move
    has not even begun.

    :param asks: whether the flavor requests anything of ours; if not, another
        host may serve it, whatever is wrong here.
    :raises HostRefused: if another host may serve the instance.
    :raises GuestRefused: if no host can.
    """
    try:
        yield
    except REFUSED:
        raise
    except exceptions.SriovRtError as error:
        found = refused(instance, error)
        if not asks:
            found = HostRefused(reason=found.format_message())
        raise found from error
    except Exception as error:
        LOG.exception("A check by sriov-rt has failed", instance=instance)
        raise HostRefused(
            reason="sriov-rt cannot check this host "
            f"({type(error).__name__}: {exceptions.plain(error)}); see the "
            "log of its nova-compute"
        ) from error


@contextlib.contextmanager
def rolled_back() -> Iterator[None]:
    """Turn a refusal into one after which Nova leaves the instance as it is.

    _error_out_instance_on_exception of nova/compute/manager.py keeps the
    instance's state and records the sentence as its fault.

    :raises InstanceFaultRollback: with the refusal.
    """
    try:
        yield
    except REFUSED as error:
        raise exception.InstanceFaultRollback(error) from error


@contextlib.contextmanager
def before_migration() -> Iterator[None]:
    """Turn a refusal into one after which Nova tries another destination.

    :raises MigrationPreCheckError: with the sentence.
    """
    try:
        yield
    except REFUSED as error:
        raise exception.MigrationPreCheckError(
            reason=error.format_message()
        ) from error


def _logged(
    instance: Any, sentence: str, fault: Fault
) -> GuestRefused | HostRefused:
    LOG.error("Guest refused by sriov-rt: %s", sentence, instance=instance)
    if fault is Fault.HOST:
        return HostRefused(reason=sentence)
    return GuestRefused(instance_uuid=instance.uuid, reason=sentence)


def _fault(error: exceptions.SriovRtError) -> Fault:
    if isinstance(error, engine.Refused):
        faults = {each.fault for each in error.reasons}
        return Fault.REQUEST if Fault.REQUEST in faults else Fault.HOST
    if isinstance(
        error,
        plugins.HookUnusable
        | onload_errors.OnloadError
        | privsep.HostRefused
        | deadline.Expired,
    ):
        return Fault.HOST
    return Fault.REQUEST


def _of_a_server(found: Reason, instance: Any) -> Reason:
    """Return a Reason with the remedy that suits an existing server.

    In a rescue the rescue image decides.

    The image is not read again: Nova uses the properties that it recorded
    when it first started the server, its own defaults included, and the bus
    that it wrote into the block device mapping then.
    """
    what, _, _ = found.message.partition(";")
    if instance.task_state == task_states.RESCUING:
        if found.code not in ("nic_on_virtio", "disk_on_virtio"):
            return found
        prop = found.fields.get("prop", "hw_vif_model=e1000e")
        what = f"with the rescue image, {what}"
        remedy = f"rescue the server with an image that has {prop}"
    elif found.code == "nic_on_virtio":
        remedy = (
            "stop the server and run 'nova-manage image_property set "
            f"{instance.uuid} --property hw_vif_model=e1000e'"
        )
    elif found.code == "disk_on_virtio":
        remedy = (
            "a server keeps the bus of its disks: create a new one from an "
            f"image with {found.fields['prop']}"
        )
    else:
        return found
    return dataclasses.replace(found, message=f"{what}; {remedy}")
