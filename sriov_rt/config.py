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

"""Configuration of a host: sriov-rt.conf, as every program reads it."""

import os
from collections.abc import Sequence

from oslo_config import cfg

PROJECT = "sriov_rt"
PROGRAM = "sriov-rt"


def load(
    files: Sequence[str | os.PathLike[str]] | None = None,
) -> cfg.ConfigOpts:
    """Return a configuration; who reads an option registers it there.

    :param files: to read, and no others; None for sriov-rt.conf and
        sriov-rt.conf.d, where oslo.config finds them.
    :raises oslo_config.cfg.Error: if one cannot be read.
    """
    conf = cfg.ConfigOpts()
    if files is None:
        conf([], project=PROJECT, prog=PROGRAM)
    else:
        conf(
            [],
            project=PROJECT,
            prog=PROGRAM,
            default_config_files=[os.fspath(each) for each in files],
            default_config_dirs=[],
        )
    return conf
