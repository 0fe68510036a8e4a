"""Sphinx configuration of the documentation."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "_exts"))

extensions = ["openstackdocstheme", "oslo_config.sphinxext", "vocabulary"]

project = "sriov-rt"
copyright = "OpenStack Foundation"
master_doc = "index"
exclude_patterns = []
html_static_path = ["_static"]
html_theme = "openstackdocs"
pygments_style = "native"

openstackdocs_repo_name = "openstack/sriov-rt"
openstackdocs_auto_name = False
openstackdocs_bug_project = "sriov-rt"
openstackdocs_bug_tag = ""
