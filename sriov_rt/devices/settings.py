# SPDX-License-Identifier: Apache-2.0

"""Configuration of ``sriov-rt device clean``, shared with the agent."""

import dataclasses
from collections.abc import Sequence

from keystoneauth1 import exceptions as ks_exceptions
from oslo_config import cfg

from sriov_rt import config
from sriov_rt import exceptions
from sriov_rt.agent import options as agent_options
from sriov_rt.devices import options
from sriov_rt.devices.providers import DeviceProviders
from sriov_rt.placement import resource_provider

#: The unit that cleans devices.
SERVICE = "sriov-rt-devices"


class PlacementUnusable(exceptions.SriovRtError):
    """Placement cannot be reached with the options of ``[placement]``.

    :param why: a clause.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"[placement] is not complete ({why}); copy the section from "
            "nova.conf to sriov-rt.conf"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the cleaning.

    :param node: the name of the node's resource provider.
    :param conf: configuration with ``[placement]``.
    """

    node: str
    clean: Sequence[str]
    conf: cfg.ConfigOpts

    def placement(self) -> DeviceProviders:
        """Return a client of Placement; it has sent no request yet.

        :raises PlacementUnusable: if ``[placement]`` is incomplete.
        """
        try:
            client = resource_provider.adapter(self.conf)
        except (ks_exceptions.ClientException, TypeError) as error:
            # keystoneauth raises TypeError for unknown interfaces.
            raise PlacementUnusable(str(error)) from error
        if client is None:
            raise PlacementUnusable("auth_type is not set")
        return DeviceProviders(client)


def configured(files: Sequence[str] | None) -> Settings:
    """Return the settings in configuration files.

    :param files: files to read; None for the default ones of sriov-rt.
    :raises ConfigurationUnreadable: if one cannot be read.
    :raises OptionRejected: for an option with a bad value.
    """
    with config.reading():
        conf = config.load(files)
    agent_options.register(conf)
    return check(conf, SERVICE)


def check(conf: cfg.ConfigOpts, service: str) -> Settings:
    """Register and read every option of ``[devices]``; return the settings.

    :param conf: configuration with the options of the agent.
    :raises OptionRejected: for the first option with a bad value.
    """
    conf.register_opts(options.DEVICE_OPTS, group=options.GROUP)
    groups = (
        (config.DEFAULT, agent_options.HOST_OPTS),
        (agent_options.GROUP, agent_options.AGENT_OPTS),
        (options.GROUP, options.DEVICE_OPTS),
    )
    config.check(conf, groups, service)
    node = agent_options.node_name(conf, service)
    return Settings(node, options.chosen(conf), conf)
