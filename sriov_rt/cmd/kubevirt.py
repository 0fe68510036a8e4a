# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt kubevirt``: the programs of KubeVirt's hooks.

A guest waits for them, and their images contain only what they need.
"""

import argparse
import logging
import pathlib
import queue
from collections.abc import Callable
from typing import Any

from sriov_rt import exceptions
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd.command import Result
from sriov_rt.facts import HostFacts
from sriov_rt.kubevirt import contract
from sriov_rt.service import signals

#: Seconds between two searches for VFs for which no hook was called.
_SWEEP_S = 30.0


class ExtraMissing(exceptions.SriovRtError):
    """A package is missing that the servers need.

    :param name: name of the module that could not be imported.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no module {name}; install sriov-rt[kubevirt], which brings it"
        )


class OnDefineDomain(command.ShowOne):
    """Write a domain for KubeVirt's sidecar-shim.

    The shim calls it as onDefineDomain.
    """

    epilog = "Exit codes: 0 done, 2 the domain can't be what is requested."

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what the shim gives."""
        parser.add_argument(
            "--vmi", required=True, metavar="JSON", help="the VMI, JSON"
        )
        parser.add_argument(
            "--domain", required=True, metavar="XML", help="its domain, XML"
        )

    def run(self, args: argparse.Namespace) -> Result:
        """Return the domain, changed if its VMI requests it.

        :raises HookRefused: if the domain cannot be as its VMI requests.
        """
        from sriov_rt.kubevirt import domain

        vmi = domain.vmi_of(args.vmi)
        xml = args.domain
        if vmi is not None:
            xml = domain.render(args.domain, vmi, _node_facts).xml
        return command.one([("domain", xml)], {"domain": xml}, text=(xml,))


class DomainHook(command.Lister):
    """Serve the domain hook of KubeVirt in a virt-launcher pod."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the socket."""
        _add_socket(parser, contract.DOMAIN_SOCKET)

    def run(self, args: argparse.Namespace) -> Result:
        """Serve MutateDomain until it is stopped."""
        _log()
        try:
            from sriov_rt.kubevirt import domain_hook
            from sriov_rt.kubevirt import server
        except ModuleNotFoundError as error:
            raise ExtraMissing(error.name or "") from None

        hook = domain_hook.DomainHook(_node_facts)
        calls = server.domain_calls(hook.mutate_domain)
        # virt-launcher and its sidecars share a user, or at least a group.
        return _served(server.start(args.socket, calls, 0o660))


class NodeHook(command.Lister):
    """Serve the node hooks of KubeVirt: refuse VMIs, and clean their VFs."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the socket, and where kubelet and sriov-cni are."""
        _add_socket(parser, contract.NODE_SOCKET)
        parser.add_argument(
            "--pod-resources",
            default=contract.POD_RESOURCES_SOCKET,
            metavar="PATH",
            help="kubelet's socket (default: %(default)s)",
        )
        parser.add_argument(
            "--cni-directory",
            type=pathlib.Path,
            default=pathlib.Path(contract.SRIOV_CNI_DIRECTORY),
            metavar="PATH",
            help="sriov-cni's notes (default: %(default)s)",
        )

    def run(self, args: argparse.Namespace) -> Result:
        """Serve node hooks until it is stopped."""
        _log()
        try:
            from sriov_rt.kubevirt import server
            from sriov_rt.kubevirt import this_node
        except ModuleNotFoundError as error:
            raise ExtraMissing(error.name or "") from None

        hook = this_node.hook(args.pod_resources, args.cni_directory)
        calls = server.node_calls(hook.execute)
        return _served(server.start(args.socket, calls, 0o600), hook.sweep)


def _node_facts() -> HostFacts:
    from sriov_rt.host.root import Root
    from sriov_rt.kubevirt import domain

    return domain.node_facts(Root())


def _add_socket(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--socket",
        type=pathlib.Path,
        default=pathlib.Path(default),
        metavar="PATH",
        help="socket to listen on (default: %(default)s)",
    )


def _log() -> None:
    """Log each call: operators look for errors in a container's log."""
    logger = logging.getLogger("sriov_rt")
    logger.setLevel(logging.INFO)
    faults.log_warnings(logger, logging.INFO)


def _served(running: Any, sweep: Callable[[], None] | None = None) -> Result:
    """Serve until a signal arrives; return an empty result."""
    from sriov_rt.kubevirt import server

    received: queue.SimpleQueue[int] = queue.SimpleQueue()
    signals.handle(received)

    def is_stopped(seconds: float) -> bool:
        return signals.within(received, seconds) is not None

    server.run(running, is_stopped, sweep, _SWEEP_S)
    return command.lines(())
