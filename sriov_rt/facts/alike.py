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

"""What hosts of one build have in common."""

import dataclasses

from sriov_rt.codec import Unknown
from sriov_rt.facts.host_facts import HostFacts
from sriov_rt.facts.network import Nic
from sriov_rt.facts.network import NicFacts
from sriov_rt.facts.network import VifFacts
from sriov_rt.facts.parts import IrqFacts
from sriov_rt.facts.parts import LabelFacts


def anonymous(facts: HostFacts) -> HostFacts:
    """Return the facts without what names one machine.

    Two hosts of one build are then equal, and one decision serves both:
    names, addresses, owners of VFs, interrupt numbers and the command line
    are blank, interrupts that fire on neither isolated nor dedicated CPUs
    are left out, and so are the sources of labels while none is stale. What
    instances it has is its own as well: workloads and accelerated endpoints
    are left out. All else that :mod:`sriov_rt.decide` reads is kept.
    """
    nics = facts.nics.nics
    if not isinstance(nics, Unknown):
        nics = tuple(_anonymous_nic(nic) for nic in nics)
    return dataclasses.replace(
        facts,
        host="",
        node="",
        observed_at=0.0,
        kernel=dataclasses.replace(facts.kernel, command_line=""),
        nics=NicFacts(nics),
        irqs=_anonymous_irqs(facts),
        labels=_anonymous_labels(facts.labels),
        onload=dataclasses.replace(facts.onload, workloads=()),
        vifs=_anonymous_vifs(facts.vifs),
    )


def _anonymous_vifs(vifs: VifFacts) -> VifFacts:
    if isinstance(vifs.endpoints, Unknown):
        return vifs
    return dataclasses.replace(vifs, endpoints=())


def _anonymous_labels(labels: LabelFacts) -> LabelFacts:
    if labels.stale:
        return labels
    return dataclasses.replace(labels, sources={})


def _anonymous_irqs(facts: HostFacts) -> IrqFacts:
    groups = facts.irqs.groups
    if isinstance(groups, Unknown):
        return facts.irqs
    # Where the others fire is chance: no two hosts would be alike.
    isolated, dedicated = facts.cpus.isolated, facts.compute.dedicated
    watched = set() if isinstance(isolated, Unknown) else set(isolated)
    if dedicated is not None and not isinstance(dedicated, Unknown):
        watched |= dedicated
    kept = {
        dataclasses.replace(group, irqs=())
        for group in groups
        if not watched.isdisjoint(group.effective)
    }
    ordered = sorted(
        kept, key=lambda each: (sorted(each.allowed), sorted(each.effective))
    )
    return dataclasses.replace(facts.irqs, groups=tuple(ordered))


def _anonymous_nic(nic: Nic) -> Nic:
    return dataclasses.replace(nic, name="", address="", mac="", vfs=())
