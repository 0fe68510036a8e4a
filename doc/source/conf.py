"""Sphinx configuration of the documentation."""

import pathlib
import sys
import warnings

from docutils import nodes

# oslo.privsep imports it where it is installed; we have no use for it.
warnings.filterwarnings("ignore", r"\s*Eventlet is deprecated")

sys.path.insert(0, str(pathlib.Path(__file__).parent / "_exts"))

extensions = [
    "openstackdocstheme",
    "oslo_config.sphinxext",
    "commands",
    "vocabulary",
]

project = "sriov-rt"
copyright = "OpenStack Foundation"
master_doc = "index"
exclude_patterns = []
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_theme = "openstackdocs"
# On each page; the theme has only that of all of OpenStack otherwise.
html_theme_options = {"sidebar_search": True}
pygments_style = "native"

#: Groups of commands, each with a manual page of its own.
_GROUPS = {
    "agent": "hosts of a cloud, as their agents report them",
    "device": "reset whole PCI devices between tenants",
    "explain": "why a host does or does not take a flavor",
    "guest": "domains of realtime guests",
    "host": "check and tune a realtime host, and hold it",
    "kubevirt": "hooks of KubeVirt",
    "onload": "Onload in containers and pods",
    "pod": "pods of a Kubernetes cluster and their nodes",
    "verify": "measure a host and certify its latency",
    "vf": "the VFs of a host",
    "vif": "ports on macvlan, ipvlan or VFs",
}

man_pages = [
    (f"cli/{source}", name, description, "OpenStack", section)
    for source, name, section, description in (
        (
            "sriov-rt",
            "sriov-rt",
            1,
            "realtime and low-latency networking for OpenStack",
        ),
        (
            "sriov-rt-agent",
            "sriov-rt-agent",
            8,
            "report the facts of a host to OpenStack",
        ),
        (
            "sriov-rt-neutron-agent",
            "sriov-rt-neutron-agent",
            8,
            "report plugged ports to Neutron",
        ),
        (
            "sriov-rt-status",
            "sriov-rt-status",
            1,
            "check a host before an upgrade",
        ),
        ("sriov-rt-vf", "sriov-rt-vf", 8, "CNI plug-in for VFs of pods"),
        *(
            (f"commands/{group}", f"sriov-rt-{group}", 1, description)
            for group, description in _GROUPS.items()
        ),
    )
]

openstackdocs_repo_name = "openstack/sriov-rt"
openstackdocs_auto_name = False
openstackdocs_bug_project = "sriov-rt"
openstackdocs_bug_tag = ""


def setup(app):
    """Have manuals cite the pages that they cannot link."""
    app.connect("doctree-resolved", _cite)


def _cite(app, doctree, docname):
    if app.builder.name != "man":
        return
    for each in list(doctree.findall(nodes.reference)):
        if each.get("internal"):
            title = each.astext()
            each.replace_self(nodes.Text(f"“{title}” in the documentation"))
