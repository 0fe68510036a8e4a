# SPDX-License-Identifier: Apache-2.0

"""The node hook: ExecuteNodeHook, called by virt-handler on the node.

Before a guest starts, its VFs are reset to the baseline and then set as their
network requires; after it stops, they are reset again. Each change is read
back. KubeVirt may call a hook several times for one event, and while the
guest runs, so a VF that a guest is using is never touched.
"""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt import decide
from sriov_rt import exceptions
from sriov_rt.codec import Unknown
from sriov_rt.decide import View
from sriov_rt.facts import HostFacts
from sriov_rt.facts import decisive
from sriov_rt.guest.sentences import KUBEVIRT
from sriov_rt.guest.sentences import in_terms_of
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kubevirt import contract
from sriov_rt.kubevirt import vmi as vmis
from sriov_rt.kubevirt.domain import vmi_of
from sriov_rt.kubevirt.domain_hook import parse
from sriov_rt.kubevirt.errors import CallRejected
from sriov_rt.kubevirt.errors import HookRefused
from sriov_rt.kubevirt.pod_resources import Pod
from sriov_rt.kubevirt.vmi import Identity
from sriov_rt.kubevirt.vmi import Vmi
from sriov_rt.nic import mapping
from sriov_rt.nic import waiting
from sriov_rt.nic.errors import NoSuchDevice
from sriov_rt.nic.errors import NotAVf
from sriov_rt.nic.errors import VfBusy
from sriov_rt.nic.tenancy import MANAGERS
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import State
from sriov_rt.nic.use import Act
from sriov_rt.nic.vfs import VfId
from sriov_rt.nic.vfs import Vfs
from sriov_rt.request import Request
from sriov_rt.request.words import Guest

LOG = logging.getLogger(__name__)

#: KubeVirt's hook points at which there is nothing to do.
_IDLE = frozenset(
    {
        "PostVMStart",
        "PreVMStop",
        "PreMigrationSource",
        "PostMigrationTarget",
    }
)
#: Those that the Plugin permits.
START = frozenset({"PreVMStart", "PreMigrationTarget"})
STOP = "PostVMStop"

_VMI = MANAGERS[Kind.VMI]

#: Seconds for QEMU to close its VFs after the domain has ended.
CLOSE_S = 10.0


class NodeHook:
    """Cleans the VFs of VMIs, and refuses VMIs that this node cannot run.

    :param vfs: operations on VFs, which refuse VFs in use.
    :param pods: returns the pods of this node with their devices.
    :param network: returns the settings that a VF's network requires.
    :param observe: returns the facts of the node.
    :param owners: returns a lookup of the process that uses a VF.
    :param clock: clock for bounded waits.
    """

    def __init__(
        self,
        vfs: Vfs,
        pods: Callable[[], Sequence[Pod]],
        network: Callable[[str], VfSettings],
        observe: Callable[[], HostFacts],
        owners: Callable[[], mapping.Owners],
        clock: waiting.Clock | None = None,
    ) -> None:
        self._vfs = vfs
        self._tenancies = vfs.tenancies
        self._pods = pods
        self._network = network
        self._observe = observe
        self._owners = owners
        self._clock = waiting.real() if clock is None else clock
        self._lock = threading.Lock()

    def execute(self, data: bytes) -> bytes:
        """Answer an ExecuteNodeHookRequest with an empty response.

        :raises CallRejected: if it is malformed, or the point is unknown.
        :raises SriovRtError: if the VMI cannot start, or its VFs cannot be
            cleaned.
        """
        call = parse("ExecuteNodeHookRequest", data)
        point: str = call.hookPoint
        who = vmis.identity(call.vmi)
        try:
            with self._lock:
                self._at(point, call.vmi, who)
        except exceptions.SriovRtError as error:
            LOG.error("vmi=%s refused at %s: %s", who, point, error)
            raise
        answer = contract.message("ExecuteNodeHookResponse")
        answered: bytes = answer().SerializeToString()
        return answered

    def _at(self, point: str, document: bytes, who: Identity) -> None:
        if point == STOP:
            # By what was recorded: its annotations may have changed since.
            self._stop(who)
        elif point not in _IDLE and (vmi := vmi_of(document)) is not None:
            if point not in START:
                raise CallRejected(
                    f"the node hook point {point[:64]!r} is unknown; take it "
                    "out of permittedHooks of the Plugin"
                )
            self._start(vmi)

    def sweep(self) -> None:
        """Clean the VFs of VMIs that ended without a call of the hook.

        This happens on the source of a migration, and while this server is
        down.
        """
        with self._lock:
            found = self._tenancies.of_kind(Kind.VMI)
            owners = _owners(self._pods()) if found else {}
            for address, holder in found:
                if address in owners:
                    continue
                try:
                    if not self._is_busy(address):
                        self._clean(address, holder, wait_s=0.0)
                except exceptions.SriovRtError as error:
                    if str(error) != holder.reason:
                        LOG.error(
                            "vf=%s vmi=%s %s", address, holder.name, error
                        )

    def _start(self, vmi: Vmi) -> None:
        self._judge(vmi.request)
        if not vmi.has_devices:
            return
        addresses = {
            vf
            for pod in self._pods()
            if pod.is_launcher(vmi.namespace, vmi.name)
            for vf in pod.devices
        }
        found = [
            vf for each in sorted(addresses) if (vf := self._located(each))
        ]
        needed = len(vmi.interfaces)
        if len(found) < needed:
            raise HookRefused(
                f"{vmi} has {needed} sriov interfaces and kubelet names "
                f"{len(found)} VFs of its pod; check that the SR-IOV device "
                "plugin names its devices by PCI address"
            )
        for vf in found:
            self._prepare(vf, vmi)

    def _judge(self, request: Request) -> None:
        """Refuse a request that this node cannot satisfy."""
        of_host = dataclasses.replace(
            request, guest=Guest.STANDARD, keep=frozenset()
        )
        if of_host == Request():
            return
        view = View(now=time.time(), placed_by_nova=False)
        why = decide.why_not(request, decisive(self._observe()), view)
        if why:
            texts = [in_terms_of(KUBEVIRT, each).message for each in why]
            raise HookRefused("; ".join(texts))

    def _located(self, address: str) -> VfId | None:
        """Return the VF with an address; None for any other device."""
        try:
            return self._vfs.locate(address)
        except (NotAVf, NoSuchDevice):
            return None

    def _prepare(self, vf: VfId, vmi: Vmi) -> None:
        """Prepare a VF for a VMI, unless its guest uses it already."""
        owner = self._owner(vf)
        if owner is not None and owner.endswith(f" guest={vmi.domain}"):
            LOG.info("vf=%s vmi=%s in use by its guest", vf.address, vmi)
            return
        settings = self._network(vf.address) if vmi.interfaces else None
        with self._tenancies.locked(vf.address):
            self._prepare_alone(vf, vmi, owner, settings)

    def _prepare_alone(
        self,
        vf: VfId,
        vmi: Vmi,
        owner: str | None,
        settings: VfSettings | None,
    ) -> None:
        tenancy = self._tenancies.get(vf.address)
        pod = tenancy.of(Kind.POD)
        if pod is not None and not _is_launcher(pod, vmi):
            raise HookRefused(f"{vf.address}: {pod.clause(vf.address)}")
        now = tenancy.of(Kind.VMI)
        mine = Holder(Kind.VMI, vmi.uid, str(vmi))
        ready = dataclasses.replace(mine, state=State.IN_USE)
        is_ready = owner is None and now == ready
        if not is_ready:
            self._vfs.check(vf, Act.HAND_OUT)
            self._tenancies.assign(vf.address, mine)
            self._vfs.reset(vf, depth=_VMI.before)
            LOG.info("vf=%s vmi=%s clean", vf.address, vmi)
        if settings is not None:
            (plan,) = self._vfs.plan_all({vf: settings}, required=False)
            if is_ready and not plan.steps:
                # A MAC is written even if unchanged, which resets some VFs.
                return
            self._vfs.apply(plan)
            LOG.info("vf=%s vmi=%s %s", vf.address, vmi, _brief(settings))
        self._tenancies.assign(vf.address, ready)

    def _stop(self, who: Identity) -> None:
        """Clean the VFs that a VMI had."""
        uid = who.uid
        mine = [
            each
            for each in self._tenancies.of_kind(Kind.VMI)
            if uid and each[1].id == uid
        ]
        owners = _owners(self._pods()) if mine else {}
        problems = []
        for address, holder in mine:
            pod = owners.get(address)
            if pod is not None and not _is_of(pod, holder):
                LOG.warning(
                    "vf=%s vmi=%s kubelet has given it to %s/%s meanwhile: it "
                    "was not cleaned",
                    address,
                    holder.name,
                    pod.namespace,
                    pod.name,
                )
                continue
            try:
                self._clean(address, holder, CLOSE_S)
            except exceptions.SriovRtError as error:
                problems.append(str(error))
        if problems:
            raise HookRefused("; ".join(problems))

    def _clean(self, address: str, holder: Holder, wait_s: float) -> None:
        """Reset a VF to the baseline and verify it; record a failure.

        :param wait_s: longest wait for its user to close it, seconds.
        """
        with self._tenancies.locked(address):
            vf = self._located(address)
            now = self._tenancies.get(address).of(Kind.VMI)
            if vf is None or now is None or now.id != holder.id:
                # Its PF's VFs were removed, or another VMI has it by now.
                return
            self._clean_alone(vf, holder, wait_s)

    def _clean_alone(self, vf: VfId, holder: Holder, wait_s: float) -> None:
        def attempt() -> bool | None:
            try:
                self._vfs.reset(vf, depth=_VMI.after)
            except VfBusy as error:
                busy.append(error)
                return None
            return True

        busy: list[VfBusy] = []
        try:
            if waiting.until(self._clock, wait_s, attempt) is None:
                raise busy[-1]
        except exceptions.SriovRtError as error:
            self._tenancies.assign(vf.address, holder.quarantined(str(error)))
            raise
        LOG.info("vf=%s vmi=%s clean", vf.address, holder.name)
        self._tenancies.release(vf.address, Kind.VMI)

    def _is_busy(self, address: str) -> bool:
        vf = self._located(address)
        return vf is not None and self._owner(vf) is not None

    def _owner(self, vf: VfId) -> str | None:
        """Return the user of a VF, as a clause; None if it is unused."""
        owner = self._owners().of(vf, self._vfs.observe(vf).device)
        if isinstance(owner, Unknown):
            return f"somebody perhaps ({owner.reason})"
        return owner


def _owners(pods: Sequence[Pod]) -> Mapping[str, Pod]:
    """Return each VF with the pod that kubelet has assigned it to."""
    return {vf: pod for pod in pods for vf in pod.devices}


def _is_of(pod: Pod, holder: Holder) -> bool:
    namespace, _, name = holder.name.partition("/")
    return pod.is_launcher(namespace, name)


def _is_launcher(holder: Holder, vmi: Vmi) -> bool:
    """Return whether a holder may be a VMI's pod; one without a name may."""
    namespace, _, name = holder.name.partition("/")
    pod = Pod(namespace, name, frozenset())
    return not holder.name or pod.is_launcher(vmi.namespace, vmi.name)


def _brief(settings: VfSettings) -> str:
    return f"mac={settings.mac} vlan={settings.vlan} as its network says"
