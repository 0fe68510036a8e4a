# SPDX-License-Identifier: Apache-2.0

"""Errors that a hook returns: gRPC's status and one sentence."""

from sriov_rt import exceptions


class HookRefused(exceptions.SriovRtError):
    """The request of a guest cannot be met: FAILED_PRECONDITION."""


class CallRejected(exceptions.SriovRtError):
    """A call does not follow the contract: INVALID_ARGUMENT."""
