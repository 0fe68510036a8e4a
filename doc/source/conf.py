"""Sphinx configuration of the documentation."""

import pathlib
import sys

from docutils import nodes

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
pygments_style = "native"

man_pages = [
    (f"cli/{name}", name, description, "OpenStack", section)
    for name, section, description in (
        ("sriov-rt", 1, "realtime and low-latency networking for OpenStack"),
        ("sriov-rt-agent", 8, "report the facts of a host to OpenStack"),
        ("sriov-rt-neutron-agent", 8, "report plugged ports to Neutron"),
        ("sriov-rt-status", 1, "check a host before an upgrade"),
        ("sriov-rt-vf", 8, "CNI plug-in for VFs of pods"),
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
