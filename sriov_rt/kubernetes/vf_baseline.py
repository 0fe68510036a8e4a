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

"""Reset of a pod's VF to the baseline, before and after each use.

The CNI plug-in comes first in a network's list: its ADD runs before that of
the plug-in that gives the VF to the pod (sriov-cni, host-device), and its DEL
after that plug-in's DEL.
"""

import dataclasses
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from sriov_rt.exceptions import SriovRtError
from sriov_rt.kubernetes import attachments
from sriov_rt.kubernetes import cni
from sriov_rt.kubernetes.attachments import Attachment
from sriov_rt.kubernetes.attachments import Store
from sriov_rt.kubernetes.cni import CniError
from sriov_rt.kubernetes.cni import Request
from sriov_rt.nic import errors

if TYPE_CHECKING:
    # It takes long to import, and most calls do not need it.
    from sriov_rt.nic.vfs import Vfs

LOG = logging.getLogger(__name__)


class Baseline:
    """Commands of the CNI plug-in.

    :param store: the attachments of this host.
    :param vfs: returns the operations on VFs; called only when they are
        needed.
    """

    def __init__(self, store: Store, vfs: Callable[[], "Vfs"]) -> None:
        self._store = store
        self._vfs = vfs

    def add(self, request: Request) -> None:
        """Reset a VF, read it back, and record its pod.

        :raises CniError: if it is in use, or not clean.
        """
        address = _address(request)
        if not request.is_first:
            raise CniError(
                cni.INVALID_CONFIGURATION,
                f"network {request.network} lists sriov-rt-vf after another "
                "plug-in, which has taken the VF by then; list it first",
            )
        assert request.attachment is not None
        with self._store.locked(address):
            before = self._store.get(address)
            if before is not None and _id(before) != request.attachment:
                self._check_left(before)
            intent = Attachment(
                address,
                request.network,
                request.attachment.container,
                request.attachment.interface,
                request.pod,
                request.namespace,
                self._driver(address, before),
                reason="its reset was interrupted",
            )
            self._store.put(intent)
            problem = self._reset(intent, fresh=before is not None)
            if isinstance(problem, errors.VfBusy) and before is None:
                # Somebody else's, and nothing was done to it.
                self._store.remove(address)
                raise CniError(cni.IN_USE, str(problem)) from problem
            if problem is not None:
                self._quarantine(intent, problem)
                raise CniError(
                    cni.QUARANTINED,
                    f"the VF {address} is not clean and is kept out of use: "
                    f"{problem}",
                )
            self._store.put(dataclasses.replace(intent, reason=""))
        LOG.info("%s: clean, given to its pod", _about(intent))

    def delete(self, request: Request) -> None:
        """Reset the VF of an attachment, if there is one.

        A VF that cannot be reset is quarantined: the pod ends all the same,
        and the next ADD or GC resets it again.

        :raises SriovRtError: if the record cannot be read or written.
        """
        assert request.attachment is not None
        for each in self._store.all():
            if _id(each) == request.attachment:
                self._release(each)

    def check(self, request: Request) -> None:
        """Check that a VF exists and belongs to the pod.

        :raises CniError: if it does not.
        """
        address = _address(request)
        found = self._store.get(address)
        if found is None or _id(found) != request.attachment:
            whose = "nobody" if found is None else _whose(found)
            raise CniError(
                cni.NOT_ATTACHED,
                f"the VF {address} belongs to {whose}, not to this pod; "
                "delete the pod, so that it is made again",
            )
        if found.is_quarantined:
            raise CniError(
                cni.QUARANTINED,
                f"the VF {address} is quarantined: {found.reason}",
            )
        try:
            self._vfs().locate(address)
        except errors.NicError as error:
            raise CniError(cni.NOT_ATTACHED, str(error)) from error

    def collect(self, request: Request) -> None:
        """Reset the VFs of attachments that no longer exist.

        Quarantined VFs of the network are reset again.

        :raises CniError: if one is still not clean, after all were tried.
        """
        problems = []
        for each in self._store.all():
            if each.network != request.network:
                continue
            if _id(each) in request.valid and not each.is_quarantined:
                continue
            if (problem := self._release(each)) is not None:
                problems.append(f"the VF {each.address}: {problem}")
        if problems:
            raise CniError(cni.QUARANTINED, "; ".join(problems))

    def status(self) -> None:
        """Check that ADD could be served.

        :raises CniError: if it could not.
        """
        try:
            self._store.check()
        except attachments.StoreUnusable as error:
            raise CniError(cni.NOT_AVAILABLE, str(error)) from error

    def _check_left(self, before: Attachment) -> None:
        """Check that the previous pod of a VF is gone.

        :raises CniError: if its network namespace still exists.
        """
        if before.is_quarantined or not before.namespace:
            return
        if os.path.exists(before.namespace):  # noqa: PTH110
            raise CniError(
                cni.TRY_AGAIN,
                f"the VF {before.address} still belongs to {_whose(before)}, "
                "which is not gone yet; the runtime tries again",
            )

    def _driver(self, address: str, before: Attachment | None) -> str | None:
        """Return the driver that a VF has outside of sandboxes.

        A VF that a failed sandbox left on vfio-pci goes back to the driver
        in its record.

        :raises CniError: if there is no such VF.
        """
        vfs = self._vfs()
        try:
            now = vfs.observe(vfs.locate(address)).driver
        except errors.NicError as error:
            raise CniError(
                cni.INVALID_CONFIGURATION,
                f"the network's device is not a VF that can be used: {error}",
            ) from error
        return now if before is None else before.driver or now

    def _release(self, found: Attachment) -> SriovRtError | None:
        with self._store.locked(found.address):
            again = self._store.get(found.address)
            if again is None or _id(again) != _id(found):
                # Another call was quicker.
                return None
            problem = self._reset(again, fresh=True)
            if problem is None:
                self._store.remove(again.address)
                LOG.info("%s: clean, taken back", _about(again))
            else:
                self._quarantine(again, problem)
            return problem

    def _reset(
        self, attachment: Attachment, *, fresh: bool
    ) -> SriovRtError | None:
        """Reset a VF; return why it is not clean."""
        try:
            vfs = self._vfs()
            vf = vfs.locate(attachment.address)
            vfs.reset(vf, attachment.driver, fresh=fresh)
        except (errors.NoSuchDevice, errors.NotAVf) as error:
            if _is_gone(attachment.address):
                # Its PF has no VFs now: nothing can be left on it.
                return None
            return error
        except SriovRtError as error:
            return error
        return None

    def _quarantine(self, found: Attachment, problem: SriovRtError) -> None:
        self._store.put(dataclasses.replace(found, reason=str(problem)))
        LOG.error(
            "%s: quarantined: %s; see 'sriov-rt vf show %s'",
            _about(found),
            problem,
            found.address,
        )


def _address(request: Request) -> str:
    if request.device is None:
        raise CniError(
            cni.INVALID_CONFIGURATION,
            f"network {request.network} has no deviceID, so that it is not "
            "known which VF the pod has; name the VFs' resource in the "
            "annotation k8s.v1.cni.cncf.io/resourceName of its "
            "NetworkAttachmentDefinition, and request that resource",
        )
    return request.device


def _id(found: Attachment) -> cni.AttachmentId:
    return cni.AttachmentId(found.container, found.interface)


def _is_gone(address: str) -> bool:
    return not os.path.exists(  # noqa: PTH110
        f"/sys/bus/pci/devices/{address}"
    )


def _whose(found: Attachment) -> str:
    return f"pod {found.pod}" if found.pod else f"container {found.container}"


def _about(found: Attachment) -> str:
    return (
        f"vf={found.address} pod={found.pod or '-'} "
        f"container={found.container[:13]} interface={found.interface}"
    )
