# SPDX-License-Identifier: Apache-2.0

"""Reset of a pod's VF to the baseline, before and after each use.

The CNI plug-in comes first in a network's list: its ADD runs before the ADD
of the plug-in that gives the VF to the pod (sriov-cni, host-device), and its
DEL after the DEL of that plug-in.
"""

import dataclasses
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from sriov_rt.cni import protocol
from sriov_rt.cni.protocol import CniError
from sriov_rt.cni.protocol import Request
from sriov_rt.exceptions import SriovRtError
from sriov_rt.nic import errors
from sriov_rt.nic.tenancy import MANAGERS
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import Reset
from sriov_rt.nic.tenancy import State
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.nic.use import Act

if TYPE_CHECKING:
    # They take long to import, and most calls do not need them.
    from sriov_rt.nic.model import VfState
    from sriov_rt.nic.vfs import Vfs

LOG = logging.getLogger(__name__)

_POD = MANAGERS[Kind.POD]


class Baseline:
    """Commands of the CNI plug-in.

    :param tenancies: records of the owners of this host's VFs.
    :param vfs: returns the operations on VFs; called only when needed.
    """

    def __init__(self, tenancies: Tenancies, vfs: Callable[[], "Vfs"]) -> None:
        self._tenancies = tenancies
        self._vfs = vfs

    def add(self, request: Request) -> None:
        """Reset a VF, read it back, and record its pod.

        :raises CniError: if it is in use, or not clean.
        """
        address = _address(request)
        if not request.is_first:
            raise CniError(
                protocol.INVALID_CONFIGURATION,
                f"network {request.network} lists sriov-rt-vf after another "
                "plug-in, which has taken the VF by then; list it first",
            )
        with self._tenancies.locked(address):
            before = self._tenancies.get(address).of(Kind.POD)
            if before is not None and before.id != _id(request):
                self._check_left(address, before)
            now = self._checked(address, before)
            driver = now.driver
            if before is not None:
                # Rebind a VF that a failed sandbox left on vfio-pci.
                driver = before.driver or driver
            holder = Holder(
                Kind.POD,
                _id(request),
                request.pod,
                driver=driver,
                network=request.network,
                namespace=request.namespace,
            )
            self._tenancies.assign(address, holder)
            problem = self._reset(address, holder, _POD.before)
            if problem is not None:
                self._quarantine(address, holder, problem)
                raise CniError(
                    protocol.QUARANTINED,
                    f"the VF {address} is not clean and is kept out of use: "
                    f"{problem}",
                )
            self._tenancies.assign(
                address, dataclasses.replace(holder, state=State.IN_USE)
            )
        LOG.info("%s: reset and assigned to its pod", _about(address, holder))

    def delete(self, request: Request) -> None:
        """Reset the VF of an attachment, if there is one.

        A VF that cannot be reset is quarantined: the pod ends all the same,
        and the next ADD or GC resets it again.

        :raises SriovRtError: if the record cannot be read or written.
        """
        mine = _id(request)
        for address, each in self._tenancies.of_kind(Kind.POD):
            if each.id == mine:
                self._release(address, lambda it: it.id == mine)

    def check(self, request: Request) -> None:
        """Check that a VF exists and belongs to the pod.

        :raises CniError: if it does not.
        """
        address = _address(request)
        found = self._tenancies.get(address).of(Kind.POD)
        if found is None or found.id != _id(request):
            whose = "nobody" if found is None else str(found)
            raise CniError(
                protocol.NOT_ATTACHED,
                f"the VF {address} belongs to {whose}, not to this pod; "
                "delete the pod, so that it is made again",
            )
        if found.is_quarantined:
            raise CniError(
                protocol.QUARANTINED,
                f"the VF {address} is quarantined: {found.reason}",
            )
        try:
            self._vfs().locate(address)
        except errors.NicError as error:
            raise CniError(protocol.NOT_ATTACHED, str(error)) from error

    def collect(self, request: Request) -> None:
        """Reset the VFs of attachments that no longer exist.

        Quarantined VFs of the network, and those of an ADD that was killed,
        are reset again.

        :raises CniError: after trying all, if one is still not clean.
        """

        def is_left(each: Holder) -> bool:
            return each.network == request.network and (
                _attachment(each) not in request.valid
                or each.state is not State.IN_USE
            )

        problems = []
        for address, each in self._tenancies.of_kind(Kind.POD):
            if not is_left(each):
                continue
            problem: SriovRtError | None
            try:
                problem = self._release(address, is_left)
            except errors.Locked as error:
                problem = error
            if problem is not None:
                problems.append(f"the VF {address}: {problem}")
        if problems:
            raise CniError(protocol.QUARANTINED, "; ".join(problems))

    def status(self) -> None:
        """Check that an ADD can be served.

        :raises CniError: if it cannot.
        """
        try:
            self._tenancies.check()
        except errors.NotRecorded as error:
            raise CniError(protocol.NOT_AVAILABLE, str(error)) from error

    def _check_left(self, address: str, before: Holder) -> None:
        """Check that the previous pod of a VF is gone.

        :raises CniError: if its network namespace still exists.
        """
        if before.state is not State.IN_USE or not before.namespace:
            return
        if os.path.exists(before.namespace):  # noqa: PTH110
            raise CniError(
                protocol.TRY_AGAIN,
                f"the VF {address} still belongs to {before}, which is not "
                "gone yet; the runtime tries again",
            )

    def _checked(self, address: str, before: Holder | None) -> "VfState":
        """Return the state of a VF that may be given to a pod.

        :raises CniError: if there is no such VF, or it has another owner.
        """
        vfs = self._vfs()
        try:
            vf = vfs.locate(address)
            return vfs.check(vf, Act.HAND_OUT)
        except errors.VfBusy as error:
            if before is None:
                # It has another owner, and was not changed.
                raise CniError(protocol.IN_USE, str(error)) from error
            self._quarantine(address, before, error)
            raise CniError(
                protocol.QUARANTINED,
                f"the VF {address} is kept out of use: {error}",
            ) from error
        except errors.NicError as error:
            raise CniError(
                protocol.INVALID_CONFIGURATION,
                f"the network's device is not a VF that can be used: {error}",
            ) from error

    def _release(
        self, address: str, is_left: Callable[[Holder], bool]
    ) -> SriovRtError | None:
        """Reset a VF that its pod has left; return why it is not clean.

        :param is_left: whether its pod has left it, checked again once the VF
            is locked.
        """
        with self._tenancies.locked(address):
            again = self._tenancies.get(address).of(Kind.POD)
            if again is None or not is_left(again):
                # Another call was faster, or its PF's VFs were recreated.
                return None
            problem = self._reset(address, again, _POD.after)
            if self._tenancies.get(address).of(Kind.POD) is None:
                return None  # the VF was removed meanwhile
            if problem is None:
                self._tenancies.release(address, Kind.POD)
                LOG.info("%s: reset and released", _about(address, again))
            else:
                self._quarantine(address, again, problem)
            return problem

    def _reset(
        self, address: str, holder: Holder, depth: Reset
    ) -> SriovRtError | None:
        """Reset a VF; return why it is not clean."""
        try:
            vfs = self._vfs()
            vfs.reset(vfs.locate(address), holder.driver, depth)
        except SriovRtError as error:
            return error
        return None

    def _quarantine(
        self, address: str, found: Holder, problem: SriovRtError
    ) -> None:
        self._tenancies.assign(address, found.quarantined(str(problem)))
        LOG.error(
            "%s: quarantined: %s; see 'sriov-rt vf show %s'",
            _about(address, found),
            problem,
            address,
        )


def _address(request: Request) -> str:
    if request.device is None:
        raise CniError(
            protocol.INVALID_CONFIGURATION,
            f"network {request.network} has no deviceID, so that it is not "
            "known which VF the pod has; name the VFs' resource in the "
            "annotation k8s.v1.cni.cncf.io/resourceName of its "
            "NetworkAttachmentDefinition, and request that resource",
        )
    return request.device


def _id(request: Request) -> str:
    assert request.attachment is not None
    return f"{request.attachment.container}/{request.attachment.interface}"


def _attachment(found: Holder) -> protocol.AttachmentId:
    container, _, interface = found.id.partition("/")
    return protocol.AttachmentId(container, interface)


def _about(address: str, found: Holder) -> str:
    attachment = _attachment(found)
    return (
        f"vf={address} pod={found.name or '-'} "
        f"container={attachment.container[:13]} "
        f"interface={attachment.interface}"
    )
