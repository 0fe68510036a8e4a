# SPDX-License-Identifier: Apache-2.0

"""Domain documents for tests: real ones, and small ones made of parts."""

import pathlib
from collections.abc import Mapping
from typing import Any

from lxml import etree

from sriov_rt import request
from sriov_rt.facts import HostFacts
from sriov_rt.guest import engine

DIRECTORY = pathlib.Path(__file__).parent / "domains"

#: Those of Nova 34, of libvirt-LXC under it, of virt-manager and of oVirt.
NAMES = sorted(path.stem for path in DIRECTORY.glob("*.xml"))

LEAN = {"sriov_rt:guest": "lean"}
BARE = {"sriov_rt:guest": "bare"}
REALTIME = {"sriov_rt:realtime": "required", "hw:cpu_policy": "dedicated"}


def load(name: str) -> str:
    """Return a real domain document."""
    return (DIRECTORY / f"{name}.xml").read_text()


def domain(
    devices: str = "",
    *,
    kind: str = "kvm",
    arch: str = "x86_64",
    vcpus: int = 2,
    cputune: str = "",
    more: str = "",
) -> str:
    """Return a small domain document."""
    return (
        f'<domain type="{kind}"><name>d</name><memory>1024</memory>'
        f"<vcpu>{vcpus}</vcpu>{more}"
        f'<os><type arch="{arch}">hvm</type></os>'
        f"<cputune>{cputune}</cputune>"
        f"<devices>{devices}</devices></domain>"
    )


def pins(*pcpus: object) -> str:
    """Return the ``<vcpupin>`` of vCPUs 0, 1, … to these."""
    return "".join(
        f'<vcpupin vcpu="{vcpu}" cpuset="{cpuset}"/>'
        for vcpu, cpuset in enumerate(pcpus)
    )


def render(
    xml: str | bytes,
    specs: Mapping[str, str],
    facts: HostFacts | None = None,
    **more: Any,
) -> engine.Rendered:
    """Render a document for a flavor with these extra specs."""
    return engine.render(xml, request.parse(specs), facts, **more)


def tree(rendered: engine.Rendered) -> etree._Element:
    """Return the rendered document's root."""
    return etree.fromstring(rendered.xml)


def devices(rendered: engine.Rendered) -> list[str]:
    """Return the devices of a rendered document, ``tag`` or ``tag:type``."""
    found = []
    for each in tree(rendered).iterfind("devices/*"):
        kind = each.get("type") if each.tag == "controller" else None
        model = f"={each.get('model')}" if each.get("model") else ""
        found.append(f"{each.tag}{':' + kind if kind else ''}{model}")
    return found


def cputune(rendered: engine.Rendered) -> dict[str, list[dict[str, str]]]:
    """Return the children of ``<cputune>`` by tag: their attributes."""
    found: dict[str, list[dict[str, str]]] = {}
    for each in tree(rendered).iterfind("cputune/*"):
        found.setdefault(each.tag, []).append(dict(each.attrib))
    return found


def codes(refused: engine.Refused) -> list[str]:
    """Return the codes of a refusal's Reasons."""
    return [each.code for each in refused.reasons]
