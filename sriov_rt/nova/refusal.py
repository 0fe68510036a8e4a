# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""How Nova is told that a guest can't be what it is asked to be."""

from typing import Any

from nova import exception
from oslo_log import log as logging

from sriov_rt import exceptions
from sriov_rt import request as requests
from sriov_rt.reason import reason

LOG = logging.getLogger(__name__)


class GuestRefused(exception.BuildAbortException):  # type: ignore[misc]
    """The instance can't be what its flavor asks for.

    A BuildAbortException, so that Nova cleans up and tries no other host:
    the sentence would be lost, and speaks of the flavor or its image mostly.
    Its message is the sentence alone, for Nova cuts a fault to 255 bytes.
    """

    msg_fmt = "%(reason)s"


def refused(instance: Any, error: exceptions.SriovRtError) -> GuestRefused:
    """Return what Nova is told of an error, and log it."""
    sentence = str(error)
    if isinstance(error, requests.RequestError):
        sentence = reason("request_invalid", problems=sentence).message
    LOG.error("Guest refused by sriov-rt: %s", sentence, instance=instance)
    return GuestRefused(instance_uuid=instance.uuid, reason=sentence)
