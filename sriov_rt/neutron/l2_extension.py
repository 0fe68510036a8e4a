# SPDX-License-Identifier: Apache-2.0

"""The L2 extension of the stock SR-IOV agent, ``[agent] extensions``."""

import logging
from typing import Any

from neutron_lib.agent import l2_extension
from oslo_config import cfg

from sriov_rt import exceptions
from sriov_rt.neutron import claims
from sriov_rt.neutron import options
from sriov_rt.neutron.privileged import PrivilegedVfs
from sriov_rt.neutron.server import Bindings
from sriov_rt.neutron.vf_cleaning import VfCleaner
from sriov_rt.parse import errors
from sriov_rt.service.worker import Worker

LOG = logging.getLogger(__name__)

#: Driver type of the stock SR-IOV agent (sriov_nic_agent.py,
#: _create_agent_extension_manager).
DRIVER_TYPE = "sriov"


class WrongAgent(exceptions.SriovRtError):
    """The extension was loaded by an agent that has no VFs."""

    def __init__(self, driver_type: str) -> None:
        self.driver_type = driver_type
        super().__init__(
            f"the extension sriov_rt is for neutron-sriov-nic-agent, and this "
            f"is an agent of type {driver_type!r}: take it out of [agent] "
            "extensions here"
        )


class SriovRtExtension(
    l2_extension.L2AgentExtension  # type: ignore[misc]
):
    """Clean the VFs that Nova passes through itself."""

    def initialize(self, connection: Any, driver_type: str) -> None:
        """Load the recorded owners; the agent calls it once at the start.

        :raises WrongAgent: if the agent is not the stock SR-IOV agent.
        """
        if driver_type != DRIVER_TYPE:
            raise WrongAgent(driver_type)
        conf = cfg.CONF
        options.register_extension(conf)
        section = conf[options.EXTENSION_GROUP]
        self._vfs = PrivilegedVfs()
        self._started = False
        self._cleaner = VfCleaner(
            conf.host,
            self._vfs,
            Bindings(conf.host),
            section.retry_interval,
        )
        self._retries = Worker("slots", self._retry, _crashed)
        self._retries.start()

    def handle_port(self, context: Any, data: dict[str, Any]) -> None:
        """Correct the settings of a port's VF, before or while it is used.

        :param data: the port's details, from neutron-server.
        """
        try:
            claim = claims.read(data)
        except errors.ParseError as error:
            self._log_garbled(data, error)
            return
        if claim is not None and self._cleaner.claim(claim):
            self._wake()

    def delete_port(self, context: Any, data: dict[str, Any]) -> None:
        """Clean the VF that a port has left, unless another has it.

        :param data: port_id and profile.
        """
        try:
            claim = claims.read_unbound(data)
        except errors.ParseError as error:
            self._log_garbled(data, error)
            return
        if claim is not None and self._cleaner.leave(claim):
            self._wake()

    def _retry(self) -> float:
        if not self._started:
            self._started = True
            try:
                self._vfs.start()
            except exceptions.SriovRtError as error:
                # The first port tries it again.
                LOG.error("host=%s %s", cfg.CONF.host, error)
        return self._cleaner.retry()

    def _wake(self) -> None:
        interval = cfg.CONF[options.EXTENSION_GROUP].retry_interval
        self._retries.wake(interval)

    def _log_garbled(
        self, data: dict[str, Any], error: errors.ParseError
    ) -> None:
        LOG.error(
            "port=%.64s host=%s its VF is left as it is: %s",
            data.get("port_id"),
            cfg.CONF.host,
            error,
        )


def _crashed() -> None:
    # We must not end the stock agent's process.
    LOG.critical(
        "host=%s VFs that are in use when their ports leave are no longer "
        "cleaned; restart neutron-sriov-nic-agent",
        cfg.CONF.host,
    )
