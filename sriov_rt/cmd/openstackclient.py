# SPDX-License-Identifier: Apache-2.0

"""The plugin of openstackclient: ``openstack realtime ...``.

Its commands are those of :mod:`sriov_rt.cmd.realtime`, named in the entry
points of ``openstack.realtime.v1``. They use the message queue and Nova, so
there is no service or client of their own. openstackclient imports this module
with each of its commands.
"""

import argparse

API_NAME = "realtime"
API_VERSION_OPTION = "os_realtime_api_version"
API_VERSIONS = {"1": "sriov_rt.cmd.openstackclient"}
DEFAULT_API_VERSION = "1"


def make_client(instance: object) -> None:
    """Return None: the plugin has no client."""


def build_option_parser(
    parser: argparse.ArgumentParser,
) -> argparse.ArgumentParser:
    """Return openstackclient's parser unchanged: there is only one version."""
    return parser
