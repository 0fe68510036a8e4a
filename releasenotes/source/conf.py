"""Sphinx configuration of the release notes."""

extensions = ["openstackdocstheme", "reno.sphinxext"]

project = "sriov-rt release notes"
copyright = "OpenStack Foundation"
master_doc = "index"
html_theme = "openstackdocs"
pygments_style = "native"

openstackdocs_repo_name = "openstack/sriov-rt"
openstackdocs_auto_name = False
openstackdocs_bug_project = "sriov-rt"
openstackdocs_bug_tag = ""
