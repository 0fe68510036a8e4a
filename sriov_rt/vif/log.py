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


"""Prefix of each log line about a port."""

import functools
import os


def about(port: str | None, vf: str | None = None) -> str:
    """Return what to search the logs of a cloud for.

    :param vf: PCI address of the VF that the port is or sits on.
    """
    return f"port={port or '-'} vf={vf or '-'} host={_host()}"


@functools.cache
def _host() -> str:
    return os.uname().nodename or "-"
